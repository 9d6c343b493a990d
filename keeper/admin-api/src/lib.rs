//! Messages and stubs of the admin protocol, generated from `proto/admin.proto`.
//! Both ends depend on this crate, so that they cannot drift apart. It must hold no logic.

#[allow(clippy::all, missing_docs)]
pub mod v1 {
    tonic::include_proto!("castellan.admin.v1");
}
