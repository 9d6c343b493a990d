//! What is there: the objects of one cluster in Kubernetes, and what each member says of itself.
//!
//! Reads only. A member that cannot be asked is unreachable, which is not the same as bad.

use std::collections::BTreeMap;

use castellan_api::KeeperCluster;
use futures_util::future::{join, join_all};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, TypeMeta},
};
use serde_json::Value;

use super::names::{ADMIN_PORT, ADMIN_TOKEN_KEY, CLUSTER_ID_LABEL, CLUSTER_SECRET_KEY, Names, ORDINALS_MAX};
use crate::{
    kind::Kind,
    limits::MEMBERS_ASKED_MAX,
    member::{Admin, AdminError, Committed, MemberView},
};

/// Everything that `decide` may look at besides the KeeperCluster itself.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Objects of the cluster by kind and name, as the API server returned them, with the cluster as their controller.
    pub objects: BTreeMap<(Kind, String), Value>,
    /// Objects that bear a name of ours and belong to somebody else.
    pub foreign: Vec<(Kind, String)>,
    /// Volume claims that bear a name of ours, by ordinal.
    pub claims: BTreeMap<u32, Claim>,
    pub pods: BTreeMap<u32, PodView>,
    pub credentials: Credentials,
    /// What each member with a running container said.
    pub members: BTreeMap<u32, Result<MemberView, AdminError>>,
    /// The committed configuration, read through the leader with a quorum; or why it could not be read.
    pub committed: Option<Committed>,
    pub committed_error: Option<String>,
}

/// A volume claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    pub name: String,
    pub resource_version: String,
    /// The cluster whose data it holds, as its label says.
    pub cluster_id: Option<String>,
    pub deleting: bool,
    /// Its owner references as they are, so that ours can be added or taken away.
    pub owners: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>,
}

/// A member's pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    pub uid: String,
    pub ip: Option<String>,
    pub node: Option<String>,
    pub terminating: bool,
    /// The server's container runs.
    pub running: bool,
    /// Why it does not run and will not by itself: image, configuration or crash.
    pub trouble: Option<String>,
}

/// The Secret with the cluster's credentials.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Credentials {
    #[default]
    Missing,
    /// It is gone, and this process remembers what it held.
    Remembered {
        admin_token: String,
    },
    /// It is there and lacks one of its keys.
    Unusable,
    Present {
        admin_token: String,
    },
}

impl Credentials {
    /// The token that the members know, as far as it is known here.
    pub fn admin_token(&self) -> Option<&str> {
        match self {
            Credentials::Present { admin_token } | Credentials::Remembered { admin_token } => {
                Some(admin_token)
            }
            Credentials::Missing | Credentials::Unusable => None,
        }
    }
}

/// What the Secret holds. Never logged, so it has no Debug.
#[derive(Clone, PartialEq, Eq)]
pub struct CredentialValues {
    pub cluster_secret: Vec<u8>,
    pub admin_token: Vec<u8>,
}

/// Reads all of it.
pub async fn observe(
    client: &Client,
    admin: &dyn Admin,
    cluster: &KeeperCluster,
    remembered: Option<&CredentialValues>,
) -> Result<(Observed, Option<CredentialValues>), kube::Error> {
    let names = Names::of(cluster);
    let ordinals = ordinals_of_interest(cluster);
    let mut observed = Observed::default();

    let kinds =
        [Kind::ConfigMap, Kind::Service, Kind::StatefulSet, Kind::PodDisruptionBudget, Kind::NetworkPolicy];
    let lists = join_all(kinds.map(|kind| list(client, &names, kind)));
    let wanted = wanted_names(&names, ordinals);
    let (lists, (claims, (pods, secret))) = join(
        lists,
        join(
            list(client, &names, Kind::PersistentVolumeClaim),
            join(pods(client, &names), get(client, &names, Kind::Secret, names.credentials())),
        ),
    )
    .await;

    let mut found = BTreeMap::new();
    for (kind, objects) in kinds.into_iter().zip(lists) {
        for object in objects? {
            found.insert((kind, object.name_any()), object);
        }
    }
    for claim in claims? {
        found.insert((Kind::PersistentVolumeClaim, claim.name_any()), claim);
    }
    // A list by label does not show what others created under our names.
    let missing: Vec<_> = wanted.into_iter().filter(|key| !found.contains_key(key)).collect();
    let gets = missing.iter().map(|(kind, name)| get(client, &names, *kind, name.clone()));
    for (key, object) in missing.iter().zip(join_all(gets).await) {
        if let Some(object) = object? {
            found.insert(key.clone(), object);
        }
    }

    sort_objects(cluster, &names, found, &mut observed);
    observed.pods = pods?;
    let values = read_credentials(secret?, remembered, &mut observed);
    if let Some(token) = observed.credentials.admin_token().map(str::to_owned) {
        ask_members(admin, &token, &mut observed).await;
    }
    Ok((observed, values))
}

/// Members that exist or should.
fn ordinals_of_interest(cluster: &KeeperCluster) -> u32 {
    let accepted = cluster.status.as_ref().and_then(|status| status.accepted.as_ref());
    let replicas = accepted.map_or(cluster.spec.replicas, |accepted| accepted.spec.replicas);
    u32::try_from(replicas).unwrap_or(0).min(ORDINALS_MAX)
}

fn wanted_names(names: &Names, ordinals: u32) -> Vec<(Kind, String)> {
    let mut wanted = vec![
        (Kind::ConfigMap, names.config()),
        (Kind::Service, names.headless_service()),
        (Kind::Service, names.client_service()),
        (Kind::PodDisruptionBudget, names.policy()),
        (Kind::NetworkPolicy, names.policy()),
    ];
    for ordinal in 0..ordinals {
        wanted.push((Kind::StatefulSet, names.stateful_set(ordinal)));
        wanted.push((Kind::PersistentVolumeClaim, names.claim(ordinal)));
    }
    wanted
}

async fn list(client: &Client, names: &Names, kind: Kind) -> Result<Vec<DynamicObject>, kube::Error> {
    let api = kind.api(client, &names.namespace);
    Ok(api.list(&ListParams::default().labels(&names.selector_text())).await?.items)
}

async fn get(
    client: &Client,
    names: &Names,
    kind: Kind,
    name: String,
) -> Result<Option<DynamicObject>, kube::Error> {
    kind.api(client, &names.namespace).get_opt(&name).await
}

async fn pods(client: &Client, names: &Names) -> Result<BTreeMap<u32, PodView>, kube::Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &names.namespace);
    let pods = api.list(&ListParams::default().labels(&names.selector_text())).await?;
    Ok(pods
        .iter()
        .filter_map(|pod| Some((names.ordinal_of_pod(&pod.name_any())?, view_of_pod(pod))))
        .collect())
}

/// Takes the objects apart: ours, claims, and those of others.
fn sort_objects(
    cluster: &KeeperCluster,
    names: &Names,
    found: BTreeMap<(Kind, String), DynamicObject>,
    observed: &mut Observed,
) {
    let uid = cluster.uid().unwrap_or_default();
    for ((kind, name), object) in found {
        if kind == Kind::PersistentVolumeClaim {
            let Some(ordinal) = (0..ORDINALS_MAX).find(|ordinal| names.claim(*ordinal) == name) else {
                continue;
            };
            observed.claims.insert(ordinal, view_of_claim(name, &object));
            continue;
        }
        let ours =
            object.owner_references().iter().any(|owner| owner.controller == Some(true) && owner.uid == uid);
        if !ours {
            observed.foreign.push((kind, name));
            continue;
        }
        observed.objects.insert((kind, name), as_listed(kind, object));
    }
}

/// An object as JSON. Items of a list do not say what they are, so that is added.
pub fn as_listed(kind: Kind, mut object: DynamicObject) -> Value {
    let resource = kind.resource();
    object.types = Some(TypeMeta { api_version: resource.api_version, kind: resource.kind });
    serde_json::to_value(object).expect("what was read as JSON can be written as JSON")
}

fn view_of_claim(name: String, claim: &DynamicObject) -> Claim {
    Claim {
        name,
        resource_version: claim.resource_version().unwrap_or_default(),
        cluster_id: claim.labels().get(CLUSTER_ID_LABEL).cloned(),
        deleting: claim.metadata.deletion_timestamp.is_some(),
        owners: claim.owner_references().to_vec(),
    }
}

/// The part of a pod that matters.
pub fn view_of_pod(pod: &Pod) -> PodView {
    let status = pod.status.clone().unwrap_or_default();
    let container = status.container_statuses.unwrap_or_default().into_iter().next();
    let unschedulable = status
        .conditions
        .unwrap_or_default()
        .into_iter()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .map(|condition| format!("Unschedulable: {}", condition.message.unwrap_or_default()));
    PodView {
        uid: pod.uid().unwrap_or_default(),
        ip: status.pod_ip.filter(|ip| !ip.is_empty()),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        running: container
            .as_ref()
            .is_some_and(|container| container.state.as_ref().is_some_and(|state| state.running.is_some())),
        trouble: container.as_ref().and_then(trouble_of_container).or(unschedulable),
    }
}

/// Reasons that Kubernetes itself gives, with the last words of a container that ended.
fn trouble_of_container(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.clone().unwrap_or_default();
    if matches!(reason.as_str(), "" | "ContainerCreating" | "PodInitializing") {
        return None;
    }
    let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let last_words = last.map(|last| {
        let message = last.message.as_deref().unwrap_or_default().trim();
        format!("exit code {} {} {message}", last.exit_code, last.reason.as_deref().unwrap_or_default())
    });
    let detail = last_words.or_else(|| waiting.message.clone()).unwrap_or_default();
    Some(format!("{reason}: {}", detail.trim()))
}

fn read_credentials(
    secret: Option<DynamicObject>,
    remembered: Option<&CredentialValues>,
    observed: &mut Observed,
) -> Option<CredentialValues> {
    let Some(secret) = secret else {
        observed.credentials = match remembered {
            Some(values) => Credentials::Remembered {
                admin_token: String::from_utf8_lossy(&values.admin_token).into_owned(),
            },
            None => Credentials::Missing,
        };
        return remembered.cloned();
    };
    let secret: Result<k8s_openapi::api::core::v1::Secret, _> = secret.try_parse();
    let data = secret.ok().and_then(|secret| secret.data).unwrap_or_default();
    let part = |key: &str| data.get(key).map(|bytes| bytes.0.clone()).filter(|bytes| !bytes.is_empty());
    let (Some(cluster_secret), Some(admin_token)) = (part(CLUSTER_SECRET_KEY), part(ADMIN_TOKEN_KEY)) else {
        observed.credentials = Credentials::Unusable;
        return remembered.cloned();
    };
    let Ok(token) = String::from_utf8(admin_token.clone()) else {
        observed.credentials = Credentials::Unusable;
        return remembered.cloned();
    };
    observed.credentials = Credentials::Present { admin_token: token };
    Some(CredentialValues { cluster_secret, admin_token })
}

/// Asks all members at once, then the leader for the committed configuration.
async fn ask_members(admin: &dyn Admin, token: &str, observed: &mut Observed) {
    let addresses: Vec<(u32, String)> = observed
        .pods
        .iter()
        .filter(|(_, pod)| pod.running)
        .filter_map(|(ordinal, pod)| Some((*ordinal, admin_address(pod.ip.as_deref()?))))
        .take(MEMBERS_ASKED_MAX)
        .collect();
    let answers = join_all(addresses.iter().map(|(_, address)| admin.status(address, token))).await;
    for ((ordinal, _), answer) in addresses.iter().zip(answers) {
        observed.members.insert(*ordinal, answer);
    }
    let Some(leader) = observed.leader() else { return };
    let Some((_, address)) = addresses.iter().find(|(ordinal, _)| *ordinal == leader) else { return };
    match admin.committed(address, token).await {
        Ok(committed) => observed.committed = Some(committed),
        Err(error) => observed.committed_error = Some(error.to_string()),
    }
}

/// Address of a pod's admin port.
pub fn admin_address(ip: &str) -> String {
    if ip.contains(':') { format!("[{ip}]:{ADMIN_PORT}") } else { format!("{ip}:{ADMIN_PORT}") }
}

impl Observed {
    /// What the members that answered said.
    pub fn answers(&self) -> impl Iterator<Item = (u32, &MemberView)> {
        self.members.iter().filter_map(|(ordinal, answer)| Some((*ordinal, answer.as_ref().ok()?)))
    }

    pub fn answer(&self, ordinal: u32) -> Option<&MemberView> {
        self.members.get(&ordinal)?.as_ref().ok()
    }

    /// The member that says it leads; of two (one of them not knowing yet that it was replaced) that of the later term.
    pub fn leader(&self) -> Option<u32> {
        self.answers()
            .filter(|(_, view)| view.role == castellan_api::MemberRole::Leader)
            .max_by_key(|(_, view)| view.term)
            .map(|(ordinal, _)| ordinal)
    }
}

/// True for an answer of the API server that says that the object changed since it was read, or exists already.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(response) if response.code == 409)
}

/// True for an answer of the API server that says that the object would break its kind's rules.
pub fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(response) if response.code == 422)
}

/// An error for people: the API server's own sentence, without the rest of its answer.
pub fn in_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(response) if !response.message.is_empty() => response.message.clone(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(status: Value) -> PodView {
        let pod = json!({
            "metadata": {"name": "main-0-0", "uid": "u"}, "spec": {"containers": [], "nodeName": "node1"},
            "status": status
        });
        view_of_pod(&serde_json::from_value(pod).unwrap())
    }

    fn container(state: Value, last: Value) -> Value {
        json!({"podIP": "10.0.0.1", "containerStatuses": [{
            "name": "keeper", "image": "", "imageID": "", "ready": false, "restartCount": 1,
            "state": state, "lastState": last
        }]})
    }

    #[test]
    fn a_container_that_is_being_made_is_no_trouble() {
        let view = pod(container(json!({"waiting": {"reason": "ContainerCreating"}}), json!({})));
        assert_eq!((view.running, view.trouble), (false, None));
    }

    #[test]
    fn a_crash_shows_its_last_words() {
        let last = json!({"terminated": {"exitCode": 2, "reason": "Error", "message": "another cluster's volume\n"}});
        let view = pod(container(json!({"waiting": {"reason": "CrashLoopBackOff"}}), last));
        assert_eq!(view.trouble.unwrap(), "CrashLoopBackOff: exit code 2 Error another cluster's volume");
    }

    #[test]
    fn a_pod_without_a_node_says_why() {
        let view = pod(json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
        ]}));
        assert_eq!(view.trouble.unwrap(), "Unschedulable: 0/3 nodes are available");
    }

    #[test]
    fn a_running_container_runs() {
        let view = pod(container(json!({"running": {}}), json!({})));
        assert!(view.running && view.trouble.is_none());
        assert_eq!((view.ip.as_deref(), view.node.as_deref()), (Some("10.0.0.1"), Some("node1")));
    }

    #[test]
    fn addresses_of_both_families_can_be_dialled() {
        assert_eq!(admin_address("10.0.0.1"), "10.0.0.1:9235");
        assert_eq!(admin_address("fd00::1"), "[fd00::1]:9235");
    }
}
