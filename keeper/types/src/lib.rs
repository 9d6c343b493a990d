//! The values of the protocol: ids, paths, Stat, ACLs, operations, requests, responses, error codes.
//! Depends on nothing; holds no I/O, clock or randomness. Bytes become these values in `keeper-wire`.
#![forbid(unsafe_code)]

mod acl;
mod error_code;
mod event;
mod feature;
mod id;
mod op;
mod path;
mod request;
mod response;
mod stat;

pub use acl::{Acl, AclId, Perms};
pub use error_code::ErrorCode;
pub use event::{EventKind, EventState, WatchEvent};
pub use feature::{Feature, Features};
pub use id::{ClusterId, Generation, Origin, Seq, ServerId, SessionId, Zxid};
pub use op::{OpClass, OpCode};
pub use path::{CONFIG_PATH, PathError, base_name, is_keeper_path, parent, validate};
pub use request::{
    AuthRequest, CheckRequest, CheckStatRequest, ConnectRequest, CreateMode, CreateRequest, DeleteRequest,
    ListRequest, MultiOp, ReadRequest, ReconfigRequest, RecursiveRequest, Request, SetAclRequest,
    SetDataRequest, SetWatchesRequest, WatchTypeRequest,
};
pub use response::{ConnectResponse, MultiResult, Response};
pub use stat::Stat;

#[cfg(test)]
mod tests;
