//! The heart: from what is wanted and what is there to a plan. Pure.
//!
//! A plan has at most one membership step. What must never happen twice (the cluster's id, a server id, the founding)
//! is recorded in the status before it is used. Whatever is unknown stops the steps that would need it.

mod accept;

use std::collections::BTreeMap;

use castellan_api::{Accepted, KeeperCluster, KeeperClusterSpec, MemberRole};

use accept::{accept, effective_spec, name_taken, refusals, replicas};

use super::{
    names::{Names, ORDINALS_MAX},
    observe::{Credentials, Observed, PodView},
};
use crate::{
    limits::PROMOTE_LAG_ENTRIES_MAX,
    member::{Committed, MemberEntry, Precondition},
};

/// What the operator was started with, as far as plans depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// Image of members whose spec names none.
    pub image: String,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Facts to write to the status first, on the condition that nobody else wrote it meanwhile.
    pub record: Option<Record>,
    pub credentials: CredentialsAction,
    /// What to render and apply. None: objects are left alone.
    pub render: Option<Render>,
    /// The one step in the cluster's membership.
    pub step: Option<Step>,
    /// Why no step is taken although the cluster is not as wanted.
    pub hold: Option<Hold>,
    /// Fields of the spec that differ from the accepted one and are not changed in a running cluster.
    pub refused: Vec<Refusal>,
}

/// Facts that are remembered in the status.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub cluster_id: String,
    pub next_server_id: i64,
    pub bootstrapped: bool,
    pub accepted: Accepted,
    /// Server ids given out, by ordinal.
    pub server_ids: BTreeMap<u32, i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum CredentialsAction {
    #[default]
    Keep,
    /// Make new ones.
    Create,
    /// Write the remembered ones again.
    Restore,
}

/// Everything that `build` needs besides names.
#[derive(Clone, Debug, PartialEq)]
pub struct Render {
    pub cluster_id: String,
    pub image: String,
    /// The accepted spec, with those parts of the current one that may change at any time.
    pub spec: KeeperClusterSpec,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Found the cluster on this member. Only ever one, once.
    Bootstrap {
        ordinal: u32,
        cluster_id: String,
        member: MemberEntry,
    },
    AddLearner {
        leader: u32,
        member: MemberEntry,
        precondition: Precondition,
    },
    Promote {
        leader: u32,
        server_id: u64,
        name: String,
        precondition: Precondition,
    },
}

/// Why nothing more is done now.
#[derive(Clone, Debug, PartialEq)]
pub enum Hold {
    Deleting,
    Paused,
    /// Objects with our names that belong to somebody else.
    NameTaken(Vec<String>),
    /// Volumes of a former cluster are in the way; with the reason why they cannot be adopted, if that was asked.
    ExistingData {
        claims: Vec<String>,
        problem: Option<String>,
    },
    /// The credentials are gone while members run with them.
    CredentialsLost,
    CredentialsUnusable,
    /// A member holds another cluster's data.
    OtherCluster {
        member: String,
        theirs: String,
        ours: String,
    },
    /// A voter's disk is empty.
    DataLoss {
        member: String,
    },
    /// A member has data of this cluster and is not in its configuration.
    NotInConfiguration {
        member: String,
    },
    /// Pods do not run yet, or cannot.
    WaitingForMembers {
        members: Vec<String>,
        trouble: Option<String>,
    },
    NoLeader {
        detail: String,
    },
    CatchingUp {
        member: String,
    },
    MembershipChanging,
}

impl Hold {
    /// True when only a person can resolve it.
    pub fn needs_person(&self) -> bool {
        matches!(
            self,
            Hold::NameTaken(_)
                | Hold::ExistingData { .. }
                | Hold::CredentialsLost
                | Hold::CredentialsUnusable
                | Hold::OtherCluster { .. }
                | Hold::DataLoss { .. }
                | Hold::NotInConfiguration { .. }
        )
    }
}

/// A change of the spec that is not carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub field: &'static str,
    pub running: String,
    pub wanted: String,
}

/// Makes the plan. `fresh_cluster_id` is used only for a cluster that has no id yet.
pub fn decide(
    cluster: &KeeperCluster,
    observed: &Observed,
    defaults: &Defaults,
    fresh_cluster_id: &str,
) -> Plan {
    if cluster.metadata.deletion_timestamp.is_some() {
        return Plan { hold: Some(Hold::Deleting), ..Plan::default() };
    }
    let accepted = cluster.status.as_ref().and_then(|status| status.accepted.clone());
    let refused = accepted.as_ref().map_or_else(Vec::new, |accepted| refusals(&accepted.spec, &cluster.spec));
    if cluster.spec.paused == Some(true) {
        return Plan { hold: Some(Hold::Paused), refused, ..Plan::default() };
    }
    let (record, is_new) = match facts(cluster) {
        Some(record) => (record, false),
        None => match accept(cluster, observed, defaults, fresh_cluster_id) {
            Ok(record) => (record, true),
            Err(hold) => return Plan { hold: Some(hold), ..Plan::default() },
        },
    };
    let mut plan = Plan {
        render: Some(Render {
            cluster_id: record.cluster_id.clone(),
            image: record.accepted.image.clone(),
            spec: effective_spec(&record.accepted.spec, &cluster.spec),
        }),
        refused,
        ..Plan::default()
    };
    let mut draft = Draft { record, changed: is_new };
    decide_credentials(observed, &draft.record, &mut plan);
    if plan.hold.is_none() {
        decide_membership(cluster, observed, &mut draft, &mut plan);
    }
    if plan.hold.is_none() && !observed.foreign.is_empty() {
        plan.hold = Some(name_taken(observed));
    }
    plan.record = draft.changed.then_some(draft.record);
    plan
}

/// The record being made, and whether it differs from what the status holds.
struct Draft {
    record: Record,
    changed: bool,
}

/// What the status remembers, if the cluster was accepted.
fn facts(cluster: &KeeperCluster) -> Option<Record> {
    let status = cluster.status.as_ref()?;
    let names = Names::of(cluster);
    let server_ids = (0..ORDINALS_MAX)
        .filter_map(|ordinal| {
            let name = names.pod(ordinal);
            let member = status.members.iter().find(|member| member.name == name)?;
            Some((ordinal, member.server_id?))
        })
        .collect();
    Some(Record {
        cluster_id: status.cluster_id.clone()?,
        next_server_id: status.next_server_id?,
        bootstrapped: status.bootstrapped.unwrap_or(false),
        accepted: status.accepted.clone()?,
        server_ids,
    })
}

/// Credentials are made once. Members keep those they started with, so new ones beside running members would split them.
fn decide_credentials(observed: &Observed, record: &Record, plan: &mut Plan) {
    let any_running = observed.pods.values().any(|pod| pod.running);
    match observed.credentials {
        Credentials::Present { .. } => {}
        Credentials::Unusable => plan.hold = Some(Hold::CredentialsUnusable),
        Credentials::Remembered { .. } => plan.credentials = CredentialsAction::Restore,
        Credentials::Missing if any_running && record.bootstrapped => plan.hold = Some(Hold::CredentialsLost),
        Credentials::Missing => plan.credentials = CredentialsAction::Create,
    }
}

/// The one step that brings the membership nearer to what is wanted.
fn decide_membership(cluster: &KeeperCluster, observed: &Observed, draft: &mut Draft, plan: &mut Plan) {
    let names = Names::of(cluster);
    if let Some((ordinal, theirs)) = other_cluster(observed, &draft.record.cluster_id) {
        let ours = draft.record.cluster_id.clone();
        plan.hold = Some(Hold::OtherCluster { member: names.pod(ordinal), theirs, ours });
        return;
    }
    let anyone_initialized = observed.answers().any(|(_, view)| view.cluster_id.is_some());
    if anyone_initialized && !draft.record.bootstrapped {
        draft.record.bootstrapped = true;
        draft.changed = true;
    }
    if !draft.record.bootstrapped {
        found(&names, observed, draft, plan);
        return;
    }
    let (Some(leader), Some(committed)) = (observed.leader(), &observed.committed) else {
        plan.hold = Some(no_leader(&names, observed, replicas(&draft.record.accepted.spec)));
        return;
    };
    note_ids(&names, committed, draft);
    grow(&names, observed, leader, committed, draft, plan);
}

fn other_cluster(observed: &Observed, ours: &str) -> Option<(u32, String)> {
    observed.answers().find_map(|(ordinal, view)| {
        let theirs = view.cluster_id.as_deref()?;
        (theirs != ours).then(|| (ordinal, theirs.to_owned()))
    })
}

/// Founds the cluster on the first member, as soon as that one runs: the others are not waited for.
fn found(names: &Names, observed: &Observed, draft: &mut Draft, plan: &mut Plan) {
    const SEED: u32 = 0;
    let waits = |observed: &Observed| waiting(names, observed, &[SEED]);
    let is_terminating = observed.pods.get(&SEED).is_none_or(|pod| pod.terminating);
    match observed.answer(SEED) {
        Some(view) if view.role == MemberRole::Uninitialized && !is_terminating => {
            let server_id = id_for(SEED, 0, draft);
            plan.step = Some(Step::Bootstrap {
                ordinal: SEED,
                cluster_id: draft.record.cluster_id.clone(),
                member: entry(names, SEED, server_id),
            });
        }
        _ => plan.hold = Some(waits(observed)),
    }
}

/// Keeps the status in step with the ids that the configuration shows, above all the next free one.
fn note_ids(names: &Names, committed: &Committed, draft: &mut Draft) {
    for ordinal in 0..ORDINALS_MAX {
        let Some(member) = committed.member(&names.pod(ordinal)) else { continue };
        let server_id = signed(member.server_id);
        if draft.record.server_ids.insert(ordinal, server_id) != Some(server_id) {
            draft.changed = true;
        }
    }
    let floor = signed(committed.server_id_max) + 1;
    if draft.record.next_server_id < floor {
        draft.record.next_server_id = floor;
        draft.changed = true;
    }
}

/// Learner, then voter, one change at a time, the lowest ordinal that can go on first.
fn grow(
    names: &Names,
    observed: &Observed,
    leader: u32,
    committed: &Committed,
    draft: &mut Draft,
    plan: &mut Plan,
) {
    let wanted = 0..replicas(&draft.record.accepted.spec);
    for ordinal in wanted.clone() {
        let Some(view) = observed.answer(ordinal) else { continue };
        let name = names.pod(ordinal);
        let is_empty = view.cluster_id.is_none();
        if is_empty && committed.voter(&name).is_some() {
            plan.hold = Some(Hold::DataLoss { member: name });
            return;
        }
    }
    if committed.joint {
        plan.hold = Some(Hold::MembershipChanging);
        return;
    }
    let leader_id = observed.answer(leader).map_or(committed.leader_id, |view| view.server_id);
    let precondition = Precondition { leader_id, membership_index: committed.index };
    let mut catching_up = None;
    let mut absent = Vec::new();
    let mut stranger = None;
    let mut joining = None;
    for ordinal in wanted {
        let name = names.pod(ordinal);
        if committed.voter(&name).is_some() {
            continue;
        }
        let can_act = observed.pods.get(&ordinal).is_some_and(|pod| !pod.terminating);
        let Some(view) = observed.answer(ordinal).filter(|_| can_act) else {
            absent.push(ordinal);
            continue;
        };
        if let Some(learner) = committed.learner(&name) {
            if has_caught_up(observed, leader, learner.server_id) {
                plan.step = Some(Step::Promote { leader, server_id: learner.server_id, name, precondition });
                return;
            }
            catching_up.get_or_insert(name);
            continue;
        }
        let reserved = draft.record.server_ids.get(&ordinal).copied();
        let joined_halfway =
            reserved == Some(signed(view.server_id)) && committed.server_id_max < view.server_id;
        if view.cluster_id.is_some() && !joined_halfway {
            stranger.get_or_insert(name);
            continue;
        }
        joining.get_or_insert(ordinal);
    }
    if let Some(ordinal) = joining {
        let server_id = id_for(ordinal, committed.server_id_max, draft);
        plan.step = Some(Step::AddLearner { leader, member: entry(names, ordinal, server_id), precondition });
        return;
    }
    plan.hold = if let Some(member) = stranger {
        Some(Hold::NotInConfiguration { member })
    } else if let Some(member) = catching_up {
        Some(Hold::CatchingUp { member })
    } else if !absent.is_empty() {
        Some(waiting(names, observed, &absent))
    } else {
        None
    };
}

/// The id that is reserved for a member, or a new one when the reserved one can no longer be used.
fn id_for(ordinal: u32, server_id_max: u64, draft: &mut Draft) -> u64 {
    let floor = signed(server_id_max);
    if let Some(reserved) = draft.record.server_ids.get(&ordinal).copied().filter(|id| *id > floor) {
        return reserved.unsigned_abs();
    }
    let server_id = draft.record.next_server_id.max(floor + 1);
    draft.record.server_ids.insert(ordinal, server_id);
    draft.record.next_server_id = server_id + 1;
    draft.changed = true;
    server_id.unsigned_abs()
}

fn has_caught_up(observed: &Observed, leader: u32, server_id: u64) -> bool {
    let progress = observed.answer(leader).map(|view| view.lag.as_slice()).unwrap_or_default();
    progress.iter().any(|(id, lag)| *id == server_id && *lag <= PROMOTE_LAG_ENTRIES_MAX)
}

fn entry(names: &Names, ordinal: u32, server_id: u64) -> MemberEntry {
    MemberEntry {
        server_id,
        name: names.pod(ordinal),
        peer_address: names.peer_address(ordinal),
        client_address: names.client_address(ordinal),
    }
}

fn waiting(names: &Names, observed: &Observed, ordinals: &[u32]) -> Hold {
    let trouble = ordinals.iter().find_map(|ordinal| trouble(names, *ordinal, observed.pods.get(ordinal)?));
    Hold::WaitingForMembers { members: ordinals.iter().map(|ordinal| names.pod(*ordinal)).collect(), trouble }
}

fn trouble(names: &Names, ordinal: u32, pod: &PodView) -> Option<String> {
    Some(format!("{}: {}", names.pod(ordinal), pod.trouble.as_ref()?))
}

fn no_leader(names: &Names, observed: &Observed, replicas: u32) -> Hold {
    let silent: Vec<u32> = (0..replicas).filter(|ordinal| observed.answer(*ordinal).is_none()).collect();
    let detail = match (&observed.committed_error, silent.is_empty()) {
        (Some(error), _) => error.clone(),
        (None, true) => "no member leads".into(),
        (None, false) => {
            let silent: Vec<String> = silent.iter().map(|ordinal| names.pod(*ordinal)).collect();
            format!("no member leads, and {} cannot be asked", silent.join(", "))
        }
    };
    Hold::NoLeader { detail }
}

fn signed(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) mod world;
