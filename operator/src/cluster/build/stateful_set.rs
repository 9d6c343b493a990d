//! One StatefulSet a member, so that a broken member never keeps the others from being repaired.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy},
        core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements},
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
    },
};

use super::{Context, pod};
use crate::cluster::names::CLUSTER_ID_LABEL;

pub fn stateful_set(context: &Context<'_>, ordinal: u32) -> StatefulSet {
    let names = &context.names;
    let mut metadata = context.metadata(names.stateful_set(ordinal));
    metadata.labels = Some(names.member_labels(ordinal));
    StatefulSet {
        metadata,
        spec: StatefulSetSpec {
            replicas: Some(1),
            service_name: Some(names.headless_service()),
            pod_management_policy: Some("Parallel".into()),
            // Kubernetes never restarts a member by itself: only the operator knows whose turn it is.
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".into()),
                ..StatefulSetUpdateStrategy::default()
            }),
            selector: LabelSelector {
                match_labels: Some(names.member_selector(ordinal)),
                ..LabelSelector::default()
            },
            template: pod::template(context, ordinal),
            volume_claim_templates: Some(vec![claim(context, ordinal)]),
            ..StatefulSetSpec::default()
        },
        ..StatefulSet::default()
    }
}

/// The claim says whose data it holds, so that a volume that was left behind is never taken for an empty one.
fn claim(context: &Context<'_>, ordinal: u32) -> PersistentVolumeClaim {
    let storage = &context.render.spec.storage;
    let mut labels = context.names.member_labels(ordinal);
    labels.insert(CLUSTER_ID_LABEL.into(), context.render.cluster_id.clone());
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(pod::DATA_VOLUME.into()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteOnce".into()]),
            storage_class_name: storage.storage_class_name.clone(),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".into(), Quantity(storage.size.clone()))])),
                ..VolumeResourceRequirements::default()
            }),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}
