//! Renders the objects of one cluster. Pure: the same input gives the same bytes, so nothing is ever written twice.
//!
//! May not depend on anything that changes by itself (time, randomness, the operator's version): a restarted or newer
//! operator must render what is there already.

mod config;
mod pod;
mod policy;
mod service;
mod stateful_set;

use castellan_api::KeeperCluster;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde_json::Value;

use super::{
    decide::Render,
    names::{CHECKSUM_ANNOTATION, Names, ORDINALS_MAX},
};
use crate::kind::Kind;

/// An object as it is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub kind: Kind,
    pub name: String,
    pub value: Value,
}

/// What `build` needs to know of the operator's own surroundings.
#[derive(Clone, Debug, PartialEq)]
pub struct Surroundings {
    /// Namespace that the operator's pods run in, which may reach the members' admin port.
    pub operator_namespace: String,
}

/// All objects of a cluster but its Secret, in the order in which they are applied.
pub fn build(cluster: &KeeperCluster, render: &Render, surroundings: &Surroundings) -> Vec<Desired> {
    let context = Context { names: Names::of(cluster), owner: owner(cluster), render, surroundings };
    let mut objects = vec![
        desired(Kind::ConfigMap, &config::config_map(&context)),
        desired(Kind::Service, &service::headless(&context)),
        desired(Kind::Service, &service::client(&context)),
    ];
    if context.has_network_policy() {
        objects.push(desired(Kind::NetworkPolicy, &policy::network_policy(&context)));
    }
    if context.has_disruption_budget() {
        objects.push(desired(Kind::PodDisruptionBudget, &policy::disruption_budget(&context)));
    }
    for ordinal in 0..context.replicas() {
        objects.push(desired(Kind::StatefulSet, &stateful_set::stateful_set(&context, ordinal)));
    }
    objects
}

/// Everything the renderers look at.
struct Context<'a> {
    names: Names,
    owner: OwnerReference,
    render: &'a Render,
    surroundings: &'a Surroundings,
}

impl Context<'_> {
    fn replicas(&self) -> u32 {
        u32::try_from(self.render.spec.replicas).unwrap_or(0).min(ORDINALS_MAX)
    }

    fn has_network_policy(&self) -> bool {
        self.render.spec.network_policy.as_ref().and_then(|policy| policy.enabled).unwrap_or(true)
    }

    /// A budget over one member would block every drain of its node.
    fn has_disruption_budget(&self) -> bool {
        let enabled = self.render.spec.pod_disruption_budget.as_ref().and_then(|budget| budget.enabled);
        enabled.unwrap_or(true) && self.replicas() > 1
    }

    fn metadata(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.names.namespace.clone()),
            labels: Some(self.names.labels()),
            owner_references: Some(vec![self.owner.clone()]),
            ..ObjectMeta::default()
        }
    }
}

/// The cluster as the controlling owner of an object.
pub fn owner(cluster: &KeeperCluster) -> OwnerReference {
    OwnerReference {
        api_version: KeeperCluster::api_version(&()).into_owned(),
        kind: KeeperCluster::kind(&()).into_owned(),
        name: cluster.metadata.name.clone().unwrap_or_default(),
        uid: cluster.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn desired<K: serde::Serialize + Resource>(kind: Kind, object: &K) -> Desired {
    let name = object.meta().name.clone().unwrap_or_default();
    let mut value = serde_json::to_value(object).expect("Kubernetes types serialize to JSON");
    let checksum = checksum(&value);
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations =
            metadata.entry("annotations").or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(CHECKSUM_ANNOTATION.into(), Value::String(checksum));
        }
    }
    Desired { kind, name, value }
}

/// A checksum of an object's JSON, whose keys are in order.
fn checksum(value: &Value) -> String {
    let text = value.to_string();
    // FNV-1a: it only has to notice changes, and its text must never change between versions.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
