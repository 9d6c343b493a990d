//! The kinds of objects that the operator writes, and how the API server calls them.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};

/// A kind of object. The order is that in which they are applied: what pods need comes before the StatefulSets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Secret,
    ConfigMap,
    Service,
    NetworkPolicy,
    PodDisruptionBudget,
    PersistentVolumeClaim,
    StatefulSet,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Secret => "Secret",
            Kind::ConfigMap => "ConfigMap",
            Kind::Service => "Service",
            Kind::NetworkPolicy => "NetworkPolicy",
            Kind::PodDisruptionBudget => "PodDisruptionBudget",
            Kind::PersistentVolumeClaim => "PersistentVolumeClaim",
            Kind::StatefulSet => "StatefulSet",
        }
    }

    pub fn resource(self) -> ApiResource {
        let (group, plural) = match self {
            Kind::Secret => ("", "secrets"),
            Kind::ConfigMap => ("", "configmaps"),
            Kind::Service => ("", "services"),
            Kind::PersistentVolumeClaim => ("", "persistentvolumeclaims"),
            Kind::NetworkPolicy => ("networking.k8s.io", "networkpolicies"),
            Kind::PodDisruptionBudget => ("policy", "poddisruptionbudgets"),
            Kind::StatefulSet => ("apps", "statefulsets"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", self.name()), plural)
    }

    pub fn api(self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.resource())
    }
}
