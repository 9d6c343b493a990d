//! Carries a plan out: the record first, then credentials and objects, last the one membership step.
//!
//! Writes only what differs. Never takes an object that belongs to somebody else, never deletes a volume claim.

use std::collections::BTreeMap;

use castellan_api::{KeeperCluster, KeeperClusterStatus, MemberStatus, RetentionPolicy};
use futures_util::future::join_all;
use k8s_openapi::{ByteString, api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use super::{
    build::{self, Desired, Surroundings},
    decide::{CredentialsAction, Plan, Record, Render, Step},
    difference::is_as_wanted,
    names::{ADMIN_TOKEN_KEY, CLUSTER_SECRET_KEY, FIELD_MANAGER, Names},
    observe::{
        Claim, CredentialValues, Observed, admin_address, as_listed, in_words, is_conflict, is_invalid,
    },
};
use crate::{
    kind::Kind,
    limits::CREDENTIAL_BYTES,
    member::{Admin, AdminError, Committed},
};

/// What was done.
#[derive(Default)]
pub struct Applied {
    /// Objects that were written or removed, as "Kind name".
    pub written: Vec<String>,
    /// The step that was taken, with the configuration that the leader committed.
    pub stepped: Option<Committed>,
    /// Credentials that this pass created.
    pub credentials: Option<CredentialValues>,
    /// The first thing that could not be done. What does not depend on it was done all the same.
    pub error: Option<ApplyError>,
}

impl Applied {
    fn note(&mut self, result: Result<(), ApplyError>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }
}

/// What could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("cannot {verb} {subject}: {}", in_words(cause))]
    Kubernetes { verb: &'static str, subject: String, cause: kube::Error },
    #[error("cannot {verb} {member}: {cause}")]
    Member { verb: &'static str, member: String, cause: AdminError },
    #[error("the leader said that {member} was {verb}, and the committed configuration does not show it")]
    NotCommitted { verb: &'static str, member: String },
    #[error("{0} was founded meanwhile")]
    FoundedMeanwhile(String),
    #[error("no randomness from the system: {0}")]
    Randomness(String),
}

impl ApplyError {
    /// The object changed meanwhile: nothing is wrong, the pass starts again.
    pub fn is_conflict(&self) -> bool {
        match self {
            ApplyError::Kubernetes { cause, .. } => is_conflict(cause),
            ApplyError::FoundedMeanwhile(_) => true,
            _ => false,
        }
    }
}

/// What writing needs.
pub struct Writer<'a> {
    pub client: &'a Client,
    pub admin: &'a dyn Admin,
    pub surroundings: &'a Surroundings,
}

impl Writer<'_> {
    /// Writes the record, if there is one, and returns the cluster as it is then.
    pub async fn record(&self, cluster: KeeperCluster, plan: &Plan) -> Result<KeeperCluster, ApplyError> {
        let Some(record) = &plan.record else { return Ok(cluster) };
        let status = with_record(cluster.status.clone().unwrap_or_default(), &Names::of(&cluster), record);
        self.write_status(&cluster, status).await
    }

    /// Writes the status on the condition that nobody wrote the object since it was read.
    pub async fn write_status(
        &self,
        cluster: &KeeperCluster,
        status: KeeperClusterStatus,
    ) -> Result<KeeperCluster, ApplyError> {
        let api: Api<KeeperCluster> =
            Api::namespaced(self.client.clone(), &cluster.namespace().unwrap_or_default());
        let mut wanted = cluster.clone();
        wanted.status = Some(status);
        wanted.metadata.managed_fields = None;
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        api.replace_status(&cluster.name_any(), &parameters, &wanted).await.map_err(|cause| {
            ApplyError::Kubernetes {
                verb: "write the status of",
                subject: format!("KeeperCluster {}", cluster.name_any()),
                cause,
            }
        })
    }

    /// Everything after the record.
    pub async fn apply(
        &self,
        cluster: &KeeperCluster,
        plan: &Plan,
        observed: &Observed,
        remembered: Option<&CredentialValues>,
    ) -> Applied {
        let mut applied = Applied::default();
        match self.apply_credentials(cluster, plan, remembered).await {
            Ok(Some(created)) => {
                applied.written.push(format!("Secret {}", Names::of(cluster).credentials()));
                applied.credentials = Some(created);
            }
            Ok(None) => {}
            Err(error) => applied.note(Err(error)),
        }
        if let Some(render) = &plan.render {
            self.apply_objects(cluster, render, observed, &mut applied).await;
            let result = self.apply_claims(cluster, render, observed, &mut applied).await;
            applied.note(result);
        }
        if let Some(step) = &plan.step {
            match self.take(cluster, step, observed).await {
                Ok(committed) => applied.stepped = Some(committed),
                Err(error) => applied.note(Err(error)),
            }
        }
        applied
    }

    /// Created, never applied over: a Secret that is there already wins.
    async fn apply_credentials(
        &self,
        cluster: &KeeperCluster,
        plan: &Plan,
        remembered: Option<&CredentialValues>,
    ) -> Result<Option<CredentialValues>, ApplyError> {
        let values = match (plan.credentials, remembered) {
            (CredentialsAction::Keep, _) => return Ok(None),
            (CredentialsAction::Restore, Some(values)) => values.clone(),
            (CredentialsAction::Restore | CredentialsAction::Create, _) => fresh_credentials()?,
        };
        let names = Names::of(cluster);
        let secret = secret(cluster, &names, &values);
        let api: Api<Secret> = Api::namespaced(self.client.clone(), &names.namespace);
        let parameters = PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() };
        api.create(&parameters, &secret).await.map_err(|cause| ApplyError::Kubernetes {
            verb: "create",
            subject: format!("Secret {}", names.credentials()),
            cause,
        })?;
        Ok(Some(values))
    }

    async fn apply_objects(
        &self,
        cluster: &KeeperCluster,
        render: &Render,
        observed: &Observed,
        applied: &mut Applied,
    ) {
        let wanted = build::build(cluster, render, self.surroundings);
        let namespace = cluster.namespace().unwrap_or_default();
        let changed = changed(&wanted, observed);
        // What pods need comes first; all StatefulSets at once.
        let (before, stateful_sets): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|object| object.kind != Kind::StatefulSet);
        for group in [before, stateful_sets] {
            let results = join_all(group.iter().map(|object| self.write(&namespace, object))).await;
            for (object, result) in group.iter().zip(results) {
                if result.is_ok() {
                    applied.written.push(format!("{} {}", object.kind.name(), object.name));
                }
                applied.note(result);
            }
        }
        for (kind, name) in unwanted(&wanted, observed) {
            let result = self.remove(&namespace, kind, &name, &observed.objects[&(kind, name.clone())]).await;
            if result.is_ok() {
                applied.written.push(format!("{} {name} (removed)", kind.name()));
            }
            applied.note(result);
        }
    }

    /// Server-side apply. Only ever of an object that is missing or has this cluster as its controller, so force takes
    /// nothing from others.
    async fn write(&self, namespace: &str, object: &Desired) -> Result<(), ApplyError> {
        let api = object.kind.api(self.client, namespace);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let result = api.patch(&object.name, &parameters, &Patch::Apply(&object.value)).await;
        let needs_more = match &result {
            Ok(written) => !is_as_wanted(&object.value, &as_listed(object.kind, written.clone())),
            Err(error) => is_invalid(error),
        };
        // Entries that somebody put into a list stay under server-side apply, or make it invalid; a merge replaces the
        // whole list.
        let result = if needs_more {
            let parameters =
                PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
            api.patch(&object.name, &parameters, &Patch::Merge(&object.value)).await
        } else {
            result
        };
        result.map(drop).map_err(|cause| ApplyError::Kubernetes {
            verb: "apply",
            subject: format!("{} {}", object.kind.name(), object.name),
            cause,
        })
    }

    async fn remove(
        &self,
        namespace: &str,
        kind: Kind,
        name: &str,
        object: &Value,
    ) -> Result<(), ApplyError> {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
        let parameters = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version: None }),
            ..DeleteParams::background()
        };
        match kind.api(self.client, namespace).delete(name, &parameters).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(response)) if response.code == 404 => Ok(()),
            Err(cause) => Err(ApplyError::Kubernetes {
                verb: "remove",
                subject: format!("{} {name}", kind.name()),
                cause,
            }),
        }
    }

    /// Makes the cluster the owner of its volume claims, or takes that away again, as the retention says.
    async fn apply_claims(
        &self,
        cluster: &KeeperCluster,
        render: &Render,
        observed: &Observed,
        applied: &mut Applied,
    ) -> Result<(), ApplyError> {
        let retention = render.spec.storage.retention.clone().unwrap_or_default().when_deleted;
        for claim in observed.claims.values() {
            if claim.deleting || claim.cluster_id.as_ref() != Some(&render.cluster_id) {
                continue;
            }
            let Some(patch) = claim_patch(cluster, retention, claim) else { continue };
            let api: Api<DynamicObject> =
                Kind::PersistentVolumeClaim.api(self.client, &cluster.namespace().unwrap_or_default());
            let parameters =
                PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
            api.patch(&claim.name, &parameters, &Patch::Merge(&patch)).await.map_err(|cause| {
                ApplyError::Kubernetes {
                    verb: "set the owner of",
                    subject: format!("PersistentVolumeClaim {}", claim.name),
                    cause,
                }
            })?;
            applied.written.push(format!("PersistentVolumeClaim {}", claim.name));
        }
        Ok(())
    }

    async fn take(
        &self,
        cluster: &KeeperCluster,
        step: &Step,
        observed: &Observed,
    ) -> Result<Committed, ApplyError> {
        let Some(token) = observed.credentials.admin_token() else {
            unreachable!("a membership step is decided only after members were asked with the token");
        };
        let names = Names::of(cluster);
        let address = |ordinal: u32, verb: &'static str| {
            let ip = observed.pods.get(&ordinal).and_then(|pod| pod.ip.as_deref());
            ip.map(admin_address).ok_or_else(|| ApplyError::Member {
                verb,
                member: names.pod(ordinal),
                cause: AdminError::Call("its pod has no address".into()),
            })
        };
        let failed = |verb, member: &str| {
            let member = member.to_owned();
            move |cause| ApplyError::Member { verb, member, cause }
        };
        match step {
            Step::Bootstrap { ordinal, cluster_id, member } => {
                self.check_unfounded(cluster, cluster_id).await?;
                let address = address(*ordinal, "bootstrap")?;
                let call = self.admin.bootstrap(&address, token, cluster_id, member.clone());
                let committed = call.await.map_err(failed("bootstrap", &member.name))?;
                verify(committed, "bootstrapped", &member.name, |committed, name| {
                    committed.voter(name).is_some()
                })
            }
            Step::AddLearner { leader, member, precondition } => {
                let address = address(*leader, "add")?;
                let call = self.admin.add_learner(&address, token, member.clone(), *precondition);
                call.await.map_err(failed("add", &member.name))?;
                let committed =
                    self.admin.committed(&address, token).await.map_err(failed("add", &member.name))?;
                verify(committed, "added", &member.name, |committed, name| committed.member(name).is_some())
            }
            Step::Promote { leader, server_id, name, precondition } => {
                let address = address(*leader, "promote")?;
                let call = self.admin.promote(&address, token, *server_id, *precondition);
                call.await.map_err(failed("promote", name))?;
                let committed =
                    self.admin.committed(&address, token).await.map_err(failed("promote", name))?;
                verify(committed, "promoted", name, |committed, name| committed.voter(name).is_some())
            }
        }
    }
}

impl Writer<'_> {
    /// Looks once more right before the one step that may happen only once: another replica may have been faster.
    /// Whoever adds a second member records the founding first, so that a founder is never founded again beside others.
    async fn check_unfounded(&self, cluster: &KeeperCluster, cluster_id: &str) -> Result<(), ApplyError> {
        let name = cluster.name_any();
        let api: Api<KeeperCluster> =
            Api::namespaced(self.client.clone(), &cluster.namespace().unwrap_or_default());
        let current = api.get(&name).await.map_err(|cause| ApplyError::Kubernetes {
            verb: "read",
            subject: format!("KeeperCluster {name}"),
            cause,
        })?;
        let status = current.status.unwrap_or_default();
        if may_found(&status, cluster_id) { Ok(()) } else { Err(ApplyError::FoundedMeanwhile(name)) }
    }
}

/// True while nobody recorded that the cluster was founded.
pub fn may_found(status: &KeeperClusterStatus, cluster_id: &str) -> bool {
    status.bootstrapped != Some(true) && status.cluster_id.as_deref() == Some(cluster_id)
}

/// A step counts only when the committed configuration shows it.
fn verify(
    committed: Committed,
    verb: &'static str,
    member: &str,
    shows: impl Fn(&Committed, &str) -> bool,
) -> Result<Committed, ApplyError> {
    if shows(&committed, member) {
        Ok(committed)
    } else {
        Err(ApplyError::NotCommitted { verb, member: member.to_owned() })
    }
}

/// Objects to write: those that are missing or differ, without those of others.
pub fn changed<'a>(wanted: &'a [Desired], observed: &Observed) -> Vec<&'a Desired> {
    wanted
        .iter()
        .filter(|object| {
            let key = (object.kind, object.name.clone());
            if observed.foreign.contains(&key) {
                return false;
            }
            observed.objects.get(&key).is_none_or(|present| !is_as_wanted(&object.value, present))
        })
        .collect()
}

/// Objects that were switched off. StatefulSets are never among them: a member leaves only through the log.
pub fn unwanted(wanted: &[Desired], observed: &Observed) -> Vec<(Kind, String)> {
    observed
        .objects
        .keys()
        .filter(|(kind, _)| matches!(kind, Kind::PodDisruptionBudget | Kind::NetworkPolicy))
        .filter(|(kind, name)| !wanted.iter().any(|object| object.kind == *kind && object.name == *name))
        .cloned()
        .collect()
}

/// The owner references that a claim should have, if they differ from those it has.
pub fn claim_patch(cluster: &KeeperCluster, retention: RetentionPolicy, claim: &Claim) -> Option<Value> {
    let mut owner = build::owner(cluster);
    owner.controller = None;
    owner.block_owner_deletion = None;
    let has_owner = claim.owners.iter().any(|present| present.uid == owner.uid);
    let owners: Vec<_> = match (retention, has_owner) {
        (RetentionPolicy::Delete, true) | (RetentionPolicy::Retain, false) => return None,
        (RetentionPolicy::Delete, false) => claim.owners.iter().cloned().chain([owner]).collect(),
        (RetentionPolicy::Retain, true) => {
            claim.owners.iter().filter(|present| present.uid != owner.uid).cloned().collect()
        }
    };
    Some(json!({"metadata": {"resourceVersion": claim.resource_version, "ownerReferences": owners}}))
}

/// The status with the facts of a record in it, and nothing else changed.
pub fn with_record(mut status: KeeperClusterStatus, names: &Names, record: &Record) -> KeeperClusterStatus {
    status.cluster_id = Some(record.cluster_id.clone());
    status.next_server_id = Some(record.next_server_id);
    status.bootstrapped = Some(record.bootstrapped);
    status.accepted = Some(record.accepted.clone());
    for (ordinal, server_id) in &record.server_ids {
        let name = names.pod(*ordinal);
        match status.members.iter_mut().find(|member| member.name == name) {
            Some(member) => member.server_id = Some(*server_id),
            None => status.members.push(MemberStatus {
                name,
                server_id: Some(*server_id),
                ..MemberStatus::default()
            }),
        }
    }
    status
}

/// Random credentials, in letters that can stand in a file and in a header.
fn fresh_credentials() -> Result<CredentialValues, ApplyError> {
    Ok(CredentialValues {
        cluster_secret: random_hex(CREDENTIAL_BYTES)?.into_bytes(),
        admin_token: random_hex(CREDENTIAL_BYTES)?.into_bytes(),
    })
}

/// Random bytes as hexadecimal digits.
pub fn random_hex(bytes_len: usize) -> Result<String, ApplyError> {
    let mut bytes = vec![0_u8; bytes_len];
    getrandom::fill(&mut bytes).map_err(|error| ApplyError::Randomness(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn secret(cluster: &KeeperCluster, names: &Names, values: &CredentialValues) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(names.credentials()),
            namespace: Some(names.namespace.clone()),
            labels: Some(names.labels()),
            owner_references: Some(vec![build::owner(cluster)]),
            ..ObjectMeta::default()
        },
        immutable: Some(true),
        data: Some(BTreeMap::from([
            (CLUSTER_SECRET_KEY.into(), ByteString(values.cluster_secret.clone())),
            (ADMIN_TOKEN_KEY.into(), ByteString(values.admin_token.clone())),
        ])),
        ..Secret::default()
    }
}
