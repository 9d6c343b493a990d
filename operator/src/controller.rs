//! Drives the reconciles: watches, pauses between passes, events and metrics.
//!
//! Holds nothing that a restart may not lose, except the credentials it has seen: with them a deleted Secret is
//! written again as it was.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use castellan_api::{KeeperCluster, KeeperClusterStatus};
use futures_util::StreamExt;
use k8s_openapi::{
    api::{
        apps::v1::StatefulSet,
        core::v1::{ConfigMap, Pod, Service},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{
        Controller,
        controller::Action,
        events::{Event, EventType, Recorder, Reporter},
        reflector::ObjectRef,
        watcher,
    },
};

use crate::{
    cluster::{
        apply::{Applied, ApplyError, Writer, random_hex},
        build::Surroundings,
        decide::{Defaults, Hold, Plan, Step, decide},
        names::{CLUSTER_LABEL, FIELD_MANAGER, Names, ORDINALS_MAX},
        observe::{CredentialValues, Observed, in_words, is_conflict, observe},
        report::report,
    },
    limits::{
        CONCURRENCY, FAILURES_TOLD_MIN, NOTE_CHARS_MAX, REQUEUE_BLOCKED, REQUEUE_BUSY, REQUEUE_FAILED_FIRST,
        REQUEUE_FAILED_LAST, REQUEUE_STEADY, REQUEUE_STEPPED,
    },
    member::Admin,
    metrics::{Metrics, Outcome},
};

type Guarded = DeserializeGuard<KeeperCluster>;

/// What all passes share.
pub struct Shared {
    pub client: Client,
    pub admin: Box<dyn Admin>,
    pub defaults: Defaults,
    pub surroundings: Surroundings,
    pub metrics: Metrics,
    recorder: Recorder,
    /// By the cluster's uid. Small: only what is needed between two passes.
    memory: Mutex<BTreeMap<String, Memory>>,
}

/// What is kept between two passes over one cluster.
#[derive(Default)]
struct Memory {
    credentials: Option<CredentialValues>,
    /// Failed passes in a row.
    failures: u32,
}

/// Why a pass did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error("cannot read what is there: {}", in_words(.0))]
    Observe(#[source] kube::Error),
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("the KeeperCluster cannot be understood: {0}")]
    Invalid(String),
}

impl ReconcileError {
    fn is_conflict(&self) -> bool {
        match self {
            ReconcileError::Observe(error) => is_conflict(error),
            ReconcileError::Apply(error) => error.is_conflict(),
            ReconcileError::Invalid(_) => false,
        }
    }
}

impl Shared {
    pub fn new(
        client: Client,
        admin: Box<dyn Admin>,
        defaults: Defaults,
        surroundings: Surroundings,
        metrics: Metrics,
        identity: &str,
    ) -> Shared {
        let reporter = Reporter { controller: FIELD_MANAGER.into(), instance: Some(identity.into()) };
        let recorder = Recorder::new(client.clone(), reporter);
        Shared { client, admin, defaults, surroundings, metrics, recorder, memory: Mutex::default() }
    }

    fn with_memory<T>(&self, uid: &str, use_it: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        use_it(memory.entry(uid.to_owned()).or_default())
    }

    fn forget(&self, uid: &str) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

/// Reconciles until `stop`; ends when the passes under way have ended.
pub async fn run(
    shared: Arc<Shared>,
    watch_namespace: Option<&str>,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let client = shared.client.clone();
    let ours = watcher::Config::default().labels(CLUSTER_LABEL);
    Controller::new(api::<Guarded>(&client, watch_namespace), watcher::Config::default())
        .with_config(kube::runtime::controller::Config::default().concurrency(CONCURRENCY))
        .owns(api::<StatefulSet>(&client, watch_namespace), ours.clone())
        .owns(api::<Service>(&client, watch_namespace), ours.clone())
        .owns(api::<ConfigMap>(&client, watch_namespace), ours.clone())
        .owns(api::<PodDisruptionBudget>(&client, watch_namespace), ours.clone())
        .owns(api::<NetworkPolicy>(&client, watch_namespace), ours.clone())
        .watches(api::<Pod>(&client, watch_namespace), ours, cluster_of_pod)
        .graceful_shutdown_on(stop)
        .run(reconcile, failed, shared)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(%error, "a pass ended with an error");
            }
        })
        .await;
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

fn cluster_of_pod(pod: Pod) -> Option<ObjectRef<Guarded>> {
    let cluster = pod.labels().get(CLUSTER_LABEL)?;
    Some(ObjectRef::new(cluster).within(&pod.namespace()?))
}

async fn reconcile(guarded: Arc<Guarded>, shared: Arc<Shared>) -> Result<Action, ReconcileError> {
    let cached = match &guarded.0 {
        Ok(cluster) => cluster,
        Err(invalid) => return Err(ReconcileError::Invalid(invalid.error.clone())),
    };
    let started = tokio::time::Instant::now();
    let result = pass(cached, &shared).await;
    let outcome = match &result {
        Ok(_) => Outcome::Done,
        Err(error) if error.is_conflict() => Outcome::Conflict,
        Err(_) => Outcome::Failed,
    };
    shared.metrics.pass(outcome, started.elapsed());
    if result.is_ok() {
        shared.with_memory(&cached.uid().unwrap_or_default(), |memory| memory.failures = 0);
    }
    result
}

/// One pass: observe, decide, build and apply, report.
async fn pass(cached: &KeeperCluster, shared: &Shared) -> Result<Action, ReconcileError> {
    let (name, namespace) = (cached.name_any(), cached.namespace().unwrap_or_default());
    let api: Api<KeeperCluster> = Api::namespaced(shared.client.clone(), &namespace);
    // Read anew: what must happen only once may not depend on how old a cache is.
    let current = api.get_opt(&name).await.map_err(ReconcileError::Observe)?;
    let Some(cluster) = current.filter(|cluster| cluster.metadata.deletion_timestamp.is_none()) else {
        shared.forget(&cached.uid().unwrap_or_default());
        shared.metrics.forget(&namespace, &name);
        return Ok(Action::await_change());
    };
    let uid = cluster.uid().unwrap_or_default();
    let remembered = shared.with_memory(&uid, |memory| memory.credentials.clone());
    let (observed, credentials) =
        observe(&shared.client, shared.admin.as_ref(), &cluster, remembered.as_ref())
            .await
            .map_err(ReconcileError::Observe)?;
    let fresh_cluster_id = random_hex(16)?;
    let plan = decide(&cluster, &observed, &shared.defaults, &fresh_cluster_id);

    let writer =
        Writer { client: &shared.client, admin: shared.admin.as_ref(), surroundings: &shared.surroundings };
    let before = cluster.status.clone();
    let cluster = writer.record(cluster, &plan).await?;
    let applied = writer.apply(&cluster, &plan, &observed, remembered.as_ref()).await;
    let created = applied.credentials.clone();
    shared.with_memory(&uid, |memory| memory.credentials = created.or(credentials));

    let failures = shared.with_memory(&uid, |memory| memory.failures + 1);
    let is_told = |error: &&ApplyError| !error.is_conflict() && failures >= FAILURES_TOLD_MIN;
    let error = applied.error.as_ref().filter(is_told).map(ToString::to_string);
    let status = report(&cluster, &plan, &observed, error.as_deref(), Timestamp::now());
    shared.metrics.cluster(&namespace, &name, &status);
    tell(shared, &cluster, before.as_ref(), &status, &plan, &applied).await;
    if cluster.status.as_ref() != Some(&status) {
        writer.write_status(&cluster, status).await?;
    }
    let pause = next_pass(&cluster, &plan, &applied, &observed);
    match applied.error {
        Some(error) => Err(error.into()),
        None => Ok(Action::requeue(pause)),
    }
}

/// When to look again if no watch comes first.
fn next_pass(cluster: &KeeperCluster, plan: &Plan, applied: &Applied, observed: &Observed) -> Duration {
    if applied.stepped.is_some() {
        return REQUEUE_STEPPED;
    }
    match &plan.hold {
        Some(Hold::Paused) => REQUEUE_STEADY,
        Some(hold) if hold.needs_person() => REQUEUE_BLOCKED,
        Some(_) => REQUEUE_BUSY,
        None if plan.record.is_some() || !applied.written.is_empty() => REQUEUE_BUSY,
        None => {
            let names = Names::of(cluster);
            let all_ready = (0..ORDINALS_MAX)
                .filter(|ordinal| {
                    observed.committed.as_ref().is_some_and(|c| c.voter(&names.pod(*ordinal)).is_some())
                })
                .all(|ordinal| observed.answer(ordinal).is_some_and(|view| view.ready));
            if all_ready { REQUEUE_STEADY } else { REQUEUE_BUSY }
        }
    }
}

fn failed(guarded: Arc<Guarded>, error: &ReconcileError, shared: Arc<Shared>) -> Action {
    let meta = guarded.meta();
    let name = meta.name.clone().unwrap_or_default();
    if error.is_conflict() {
        tracing::debug!(cluster = name, %error, "changed by somebody else meanwhile; looking again");
        return Action::requeue(REQUEUE_STEPPED);
    }
    let uid = meta.uid.clone().unwrap_or_default();
    let failures = shared.with_memory(&uid, |memory| {
        memory.failures = memory.failures.saturating_add(1);
        memory.failures
    });
    tracing::warn!(cluster = name, namespace = meta.namespace, %error, failures, "the pass failed");
    Action::requeue(pause_after(failures))
}

/// Doubles from the first pause to the last.
fn pause_after(failures: u32) -> Duration {
    let factor = 1_u32 << failures.saturating_sub(1).min(10);
    (REQUEUE_FAILED_FIRST * factor).min(REQUEUE_FAILED_LAST)
}

/// Tells people what was decided and what changed: one event each, with the same words as the conditions.
async fn tell(
    shared: &Shared,
    cluster: &KeeperCluster,
    before: Option<&KeeperClusterStatus>,
    after: &KeeperClusterStatus,
    plan: &Plan,
    applied: &Applied,
) {
    let mut events = Vec::new();
    if !applied.written.is_empty() {
        tracing::info!(cluster = cluster.name_any(), objects = applied.written.join(", "), "written");
    }
    if applied.stepped.is_some()
        && let Some(step) = &plan.step
    {
        events.push(event(EventType::Normal, "Membership", step_reason(step), step_text(step)));
    }
    for kind in ["Ready", "Stalled", "ReconcileSucceeded"] {
        let find = |status: &KeeperClusterStatus| {
            status.conditions.iter().find(|condition| condition.type_ == kind).cloned()
        };
        let Some(now) = find(after) else { continue };
        let was = before.and_then(find);
        let is_same = was.as_ref().is_some_and(|was| was.status == now.status && was.reason == now.reason);
        let good = (kind == "Stalled") != (now.status == "True");
        // A fresh cluster has nothing good to tell before it is ready.
        if is_same || (was.is_none() && good && kind != "Ready") {
            continue;
        }
        let is_young = matches!(now.reason.as_str(), "Creating" | "NotBootstrapped");
        let type_ = if good || is_young { EventType::Normal } else { EventType::Warning };
        events.push(event(type_, kind, &now.reason, now.message));
    }
    let reference = cluster.object_ref(&());
    for event in events {
        tracing::info!(cluster = cluster.name_any(), reason = event.reason, note = event.note, "event");
        if let Err(error) = shared.recorder.publish(&event, &reference).await {
            tracing::warn!(%error, reason = event.reason, "cannot publish an event");
        }
    }
}

fn event(type_: EventType, action: &str, reason: &str, note: String) -> Event {
    let note = Some(note.chars().take(NOTE_CHARS_MAX).collect());
    Event { type_, reason: reason.into(), note, action: action.into(), secondary: None }
}

fn step_reason(step: &Step) -> &'static str {
    match step {
        Step::Bootstrap { .. } => "Bootstrapped",
        Step::AddLearner { .. } => "LearnerAdded",
        Step::Promote { .. } => "VoterAdded",
    }
}

fn step_text(step: &Step) -> String {
    match step {
        Step::Bootstrap { cluster_id, member, .. } => {
            format!("founded cluster {cluster_id} on {} with server id {}", member.name, member.server_id)
        }
        Step::AddLearner { member, .. } => {
            format!("added {} as learner with server id {}", member.name, member.server_id)
        }
        Step::Promote { name, server_id, .. } => format!("made {name} with server id {server_id} a voter"),
    }
}
