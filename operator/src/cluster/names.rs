//! Names, labels and ports of everything that belongs to one cluster.
//!
//! Frozen: changing one of them would leave running clusters behind. None may collide with what the other
//! ZooKeeper and ClickHouse operators create, and none of their labels may stand here.

use std::collections::BTreeMap;

use castellan_api::KeeperCluster;
use kube::ResourceExt;

pub const CLIENT_PORT: u16 = 2181;
pub const PEER_PORT: u16 = 9234;
pub const ADMIN_PORT: u16 = 9235;
pub const HTTP_PORT: u16 = 8080;

/// Field manager of everything that the operator applies.
pub const FIELD_MANAGER: &str = "castellan-operator";

pub const CLUSTER_LABEL: &str = "castellan.rs/cluster";
/// Ordinal of the member, on its StatefulSet, pod and volume claim.
pub const MEMBER_LABEL: &str = "castellan.rs/member";
/// Cluster id on the volume claim: says whose data a volume that was left behind holds.
pub const CLUSTER_ID_LABEL: &str = "castellan.rs/cluster-id";
/// Checksum of an object as it was applied. Computed from the rendered object alone, so it changes only with the spec.
pub const CHECKSUM_ANNOTATION: &str = "castellan.rs/checksum";

/// Ordinals that a cluster may ever use: the most replicas that the definition allows.
pub const ORDINALS_MAX: u32 = 9;

/// Keys of the Secret with the cluster's credentials.
pub const CLUSTER_SECRET_KEY: &str = "cluster-secret";
pub const ADMIN_TOKEN_KEY: &str = "admin-token";

/// Names of one cluster's objects.
#[derive(Clone, Debug)]
pub struct Names {
    pub cluster: String,
    pub namespace: String,
    pub domain: String,
}

impl Names {
    pub fn of(cluster: &KeeperCluster) -> Names {
        let accepted = cluster.status.as_ref().and_then(|status| status.accepted.as_ref());
        let spec = accepted.map_or(&cluster.spec, |accepted| &accepted.spec);
        Names {
            cluster: cluster.name_any(),
            namespace: cluster.namespace().unwrap_or_default(),
            domain: spec.cluster_domain.clone(),
        }
    }

    pub fn stateful_set(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}", self.cluster)
    }

    /// Name of the member, which is the name of its pod.
    pub fn pod(&self, ordinal: u32) -> String {
        format!("{}-{ordinal}-0", self.cluster)
    }

    pub fn claim(&self, ordinal: u32) -> String {
        format!("data-{}-{ordinal}-0", self.cluster)
    }

    pub fn headless_service(&self) -> String {
        format!("{}-headless", self.cluster)
    }

    pub fn client_service(&self) -> String {
        format!("{}-client", self.cluster)
    }

    pub fn config(&self) -> String {
        format!("{}-config", self.cluster)
    }

    pub fn credentials(&self) -> String {
        format!("{}-credentials", self.cluster)
    }

    /// Name of the PodDisruptionBudget and of the NetworkPolicy.
    pub fn policy(&self) -> String {
        self.cluster.clone()
    }

    /// Stable DNS name of a member, whatever node it runs on.
    pub fn host(&self, ordinal: u32) -> String {
        format!("{}.{}.{}.svc.{}", self.pod(ordinal), self.headless_service(), self.namespace, self.domain)
    }

    pub fn peer_address(&self, ordinal: u32) -> String {
        format!("{}:{PEER_PORT}", self.host(ordinal))
    }

    pub fn client_address(&self, ordinal: u32) -> String {
        format!("{}:{CLIENT_PORT}", self.host(ordinal))
    }

    pub fn client_endpoint(&self) -> String {
        format!("{}.{}.svc.{}:{CLIENT_PORT}", self.client_service(), self.namespace, self.domain)
    }

    /// The ordinal that a pod's name stands for.
    pub fn ordinal_of_pod(&self, pod: &str) -> Option<u32> {
        (0..ORDINALS_MAX).find(|ordinal| self.pod(*ordinal) == pod)
    }

    /// Labels that select the pods of the cluster. Immutable in the StatefulSets.
    pub fn selector(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(CLUSTER_LABEL.into(), self.cluster.clone())])
    }

    /// The same as text, as `kubectl get -l` takes it.
    pub fn selector_text(&self) -> String {
        format!("{CLUSTER_LABEL}={}", self.cluster)
    }

    pub fn member_selector(&self, ordinal: u32) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.insert(MEMBER_LABEL.into(), ordinal.to_string());
        labels
    }

    /// Labels of every object. `app.kubernetes.io/instance` is left out on purpose: Argo CD tracks by it, and would
    /// prune a volume claim that it did not create.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.selector();
        labels.insert("app.kubernetes.io/name".into(), "keeper".into());
        labels.insert("app.kubernetes.io/managed-by".into(), FIELD_MANAGER.into());
        labels
    }

    pub fn member_labels(&self, ordinal: u32) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.insert(MEMBER_LABEL.into(), ordinal.to_string());
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_frozen() {
        let names =
            Names { cluster: "main".into(), namespace: "prod".into(), domain: "cluster.local".into() };
        assert_eq!(names.stateful_set(2), "main-2");
        assert_eq!(names.pod(2), "main-2-0");
        assert_eq!(names.claim(2), "data-main-2-0");
        assert_eq!(names.peer_address(0), "main-0-0.main-headless.prod.svc.cluster.local:9234");
        assert_eq!(names.client_endpoint(), "main-client.prod.svc.cluster.local:2181");
        assert_eq!(names.credentials(), "main-credentials");
        assert_eq!(names.ordinal_of_pod("main-2-0"), Some(2));
        assert_eq!(names.ordinal_of_pod("main-2-1"), None);
        assert_eq!(names.ordinal_of_pod("other-2-0"), None);
    }
}
