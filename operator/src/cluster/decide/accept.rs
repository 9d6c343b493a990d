//! What a cluster is to run: the spec as it is accepted once, and what of a later one is let through. Pure.
//!
//! Nothing is accepted over data or names of others; nothing that touches running members is let through later.

use std::collections::BTreeMap;

use castellan_api::{Accepted, KeeperCluster, KeeperClusterSpec};

use super::{Defaults, Hold, Record, Refusal};
use crate::{
    cluster::{names::ORDINALS_MAX, observe::Observed},
    kind::Kind,
};

/// Accepts a spec for the first time: no name of ours is taken and no data is in the way.
pub fn accept(
    cluster: &KeeperCluster,
    observed: &Observed,
    defaults: &Defaults,
    fresh_cluster_id: &str,
) -> Result<Record, Hold> {
    if !observed.foreign.is_empty() {
        return Err(name_taken(observed));
    }
    let accepted = Accepted {
        generation: cluster.metadata.generation.unwrap_or(0),
        image: resolve_image(&cluster.spec, &defaults.image),
        spec: cluster.spec.clone(),
    };
    let replicas = replicas(&cluster.spec);
    let ids_in_order = || (0..replicas).map(|ordinal| (ordinal, i64::from(ordinal) + 1)).collect();
    if observed.claims.is_empty() {
        return Ok(Record {
            cluster_id: fresh_cluster_id.into(),
            next_server_id: i64::from(replicas) + 1,
            bootstrapped: false,
            accepted,
            server_ids: ids_in_order(),
        });
    }
    // Our own StatefulSets over these volumes: the status was lost, not the cluster.
    let status_lost = observed.objects.keys().any(|(kind, _)| *kind == Kind::StatefulSet);
    let adopt =
        cluster.spec.bootstrap.as_ref().and_then(|bootstrap| bootstrap.adopt_existing).unwrap_or(false);
    let claims = observed.claims.values().map(|claim| claim.name.clone()).collect();
    if !adopt && !status_lost {
        return Err(Hold::ExistingData { claims, problem: None });
    }
    let cluster_id = adoptable(observed, replicas)
        .map_err(|problem| Hold::ExistingData { claims, problem: Some(problem) })?;
    // The members know their ids; the configuration that they hold has the highest one.
    Ok(Record { cluster_id, next_server_id: 1, bootstrapped: true, accepted, server_ids: BTreeMap::new() })
}

/// The cluster whose data all volumes hold, or why they cannot be taken over together.
fn adoptable(observed: &Observed, replicas: u32) -> Result<String, String> {
    let mut cluster_id: Option<&str> = None;
    for (ordinal, claim) in &observed.claims {
        if claim.deleting {
            return Err(format!("{} is being deleted", claim.name));
        }
        if *ordinal >= replicas {
            return Err(format!(
                "{} belongs to a larger cluster: write at least {} replicas",
                claim.name,
                ordinal + 1
            ));
        }
        let Some(theirs) = claim.cluster_id.as_deref() else {
            return Err(format!("{} does not say whose data it holds", claim.name));
        };
        if cluster_id.is_some_and(|known| known != theirs) {
            return Err("the volumes hold the data of different clusters".into());
        }
        cluster_id = Some(theirs);
    }
    cluster_id.map(str::to_owned).ok_or_else(|| "there are no volumes".into())
}

pub fn name_taken(observed: &Observed) -> Hold {
    Hold::NameTaken(observed.foreign.iter().map(|(kind, name)| format!("{} {name}", kind.name())).collect())
}

/// The full image name of the members.
pub fn resolve_image(spec: &KeeperClusterSpec, default: &str) -> String {
    let Some(image) = &spec.image else { return default.into() };
    let default_repository = match default.split_once('@') {
        Some((repository, _)) => repository,
        None => match default.rsplit_once(':') {
            // A colon before a slash is a registry's port.
            Some((repository, tag)) if !tag.contains('/') => repository,
            _ => default,
        },
    };
    let repository = image.repository.as_deref().unwrap_or(default_repository);
    let default_version = &default[default_repository.len()..];
    match (&image.digest, &image.tag) {
        (Some(digest), _) => format!("{repository}@{digest}"),
        (None, Some(tag)) => format!("{repository}:{tag}"),
        // The version that belongs to this operator.
        (None, None) => format!("{repository}{default_version}"),
    }
}

/// The accepted spec, with the parts that touch no pod taken from the current one.
pub fn effective_spec(accepted: &KeeperClusterSpec, current: &KeeperClusterSpec) -> KeeperClusterSpec {
    let mut spec = accepted.clone();
    spec.service = current.service.clone();
    spec.pod_disruption_budget = current.pod_disruption_budget.clone();
    spec.network_policy = current.network_policy.clone();
    spec.storage.retention = current.storage.retention.clone();
    spec
}

/// What was changed after the spec was accepted and would touch running members.
pub fn refusals(accepted: &KeeperClusterSpec, current: &KeeperClusterSpec) -> Vec<Refusal> {
    fn text(value: &impl serde::Serialize) -> String {
        match serde_json::to_value(value) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(serde_json::Value::Null) | Err(_) => "nothing".into(),
            Ok(value) => value.to_string(),
        }
    }
    let mut refused = Vec::new();
    let mut compare = |field: &'static str, running: String, wanted: String| {
        if running != wanted {
            refused.push(Refusal { field, running, wanted });
        }
    };
    compare("replicas", text(&accepted.replicas), text(&current.replicas));
    compare("image", text(&accepted.image), text(&current.image));
    compare("storage.size", text(&accepted.storage.size), text(&current.storage.size));
    compare(
        "storage.storageClassName",
        text(&accepted.storage.storage_class_name),
        text(&current.storage.storage_class_name),
    );
    compare("resources", text(&accepted.resources), text(&current.resources));
    compare("config", text(&accepted.config), text(&current.config));
    compare("pod", text(&accepted.pod), text(&current.pod));
    compare("clusterDomain", text(&accepted.cluster_domain), text(&current.cluster_domain));
    refused
}

pub fn replicas(spec: &KeeperClusterSpec) -> u32 {
    u32::try_from(spec.replicas).unwrap_or(0).min(ORDINALS_MAX)
}
