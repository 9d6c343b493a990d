//! The types of the Kubernetes API group `castellan.rs`, and the YAML files that are made from them.
//!
//! Everything that reads or writes a `KeeperCluster` (operator, xtask, scenarios) uses these types.
//! This crate holds no behaviour: only shapes, defaults that never change, and the rules that the API server checks.
//! Fields are only ever added; a field that is not implemented by the operator may not stand here.

pub mod install;
mod spec;
mod status;

pub use spec::{
    BootstrapSpec, ConfigSpec, FourLetterWord, ImageSpec, KeeperCluster, KeeperClusterSpec, LimitsSpec,
    LogSpec, NetworkPolicySpec, PodDisruptionBudgetSpec, PodSpec, PullPolicy, RetentionPolicy, RetentionSpec,
    ServiceSpec, ServiceType, SessionSpec, StorageSpec,
};
pub use status::{Accepted, EndpointsStatus, KeeperClusterStatus, MemberEndpoint, MemberRole, MemberStatus};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The API group of all our kinds.
pub const GROUP: &str = "castellan.rs";

/// The definitions of all our kinds, with the file name each has in `crds/`.
pub fn crds() -> Vec<(&'static str, CustomResourceDefinition)> {
    vec![("castellan.rs_keeperclusters.yaml", KeeperCluster::crd())]
}

/// The definitions as files for `crds/`: (file name, YAML).
pub fn crd_files() -> Vec<(&'static str, String)> {
    crds().into_iter().map(|(name, crd)| (name, to_yaml(&crd))).collect()
}

/// Every committed file that is made from this crate: (path from the repository's root, text).
pub fn generated_files() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (name, text) in crd_files() {
        files.push((format!("crds/{name}"), text.clone()));
        files.push((format!("charts/castellan-crds/files/{name}"), text));
    }
    files.push((
        "manifests/install.yaml".into(),
        install::manifest(install::DEFAULT_NAMESPACE, install::DEFAULT_IMAGE),
    ));
    files
}

/// All definitions in one YAML stream, as `kubectl apply -f -` takes it.
pub fn crds_yaml() -> String {
    let mut out = String::new();
    for (_, crd) in crds() {
        out.push_str("---\n");
        out.push_str(&to_yaml(&crd));
    }
    out
}

/// YAML of one object, ending with a newline.
pub fn to_yaml(object: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(object).expect("API types serialize to JSON");
    let mut text = serde_saphyr::to_string(&value).expect("JSON serializes to YAML");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
