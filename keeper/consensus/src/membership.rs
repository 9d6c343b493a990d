//! Changes of the configuration. Each call states what it expects, is safe to repeat, and asks for one entry: one
//! voter more or less at a time needs no joint configuration.
//!
//! Every call first confirms with a quorum that this member still leads and waits until everything committed before
//! is applied, so that it judges by the newest configuration and the true highest server id.

use crate::api::{AdminError, Member, Membership, NotLeader, Precondition, Role};
use crate::limits::{
    ADMIN_WAIT, MEMBER_TEXT_BYTES_MAX, MEMBERS_MAX, PROMOTE_LAG_MAX, PROMOTE_WAIT, TRANSFER_WAIT,
};
use crate::machine::Applied;
use crate::node::{Node, Running};
use crate::status;
use crate::types::{EntryPayload, LogId, RaftMembership, TC};
use keeper_types::ServerId;
use openraft::ReadPolicy;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::entry::RaftPayload;
use openraft::errors::{ChangeMembershipError, ClientWriteError, LinearizableReadError, RaftError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What is asked for.
#[derive(Clone, Debug)]
pub enum Change {
    AddLearner(Member),
    Promote(ServerId),
    Remove(ServerId),
    Transfer(ServerId),
}

/// Carries out one change; returns the configuration in force afterwards.
pub async fn change(node: Arc<Node>, change: Change, pre: Precondition) -> Result<Membership, AdminError> {
    let _one = node.changing.acquire().await.map_err(|_| AdminError::Stopped("stopping".into()))?;
    if let Change::AddLearner(member) = &change {
        check_member(member)?;
    }
    let settled = settle(&node).await?;
    if already_so(&node, &settled, &change)? {
        return Ok(settled.membership());
    }
    check_precondition(&settled, pre)?;
    let membership = match change {
        Change::AddLearner(member) => add_learner(&settled, member).await,
        Change::Promote(id) => promote(&node, &settled, id).await,
        Change::Remove(id) => remove(&settled, id).await,
        Change::Transfer(id) => transfer(&node, &settled, id).await,
    }?;
    shown(&node, &membership).await;
    Ok(membership)
}

/// Whoever asks for the status after the answer sees the change in it. Raft publishes a configuration a moment after
/// the entry is answered; a member that fails meanwhile says so in its status.
async fn shown(node: &Node, membership: &Membership) {
    let mut status = node.status.subscribe();
    let shown = status.wait_for(|status| status.membership.log_id >= membership.log_id);
    let _ = keeper_rt::timeout(ADMIN_WAIT, shown).await;
}

/// The committed configuration, confirmed by a quorum.
pub async fn committed(node: &Node) -> Result<Membership, AdminError> {
    Ok(settle(node).await?.membership())
}

/// This member leads, and this is what is applied and in force.
struct Settled<'a> {
    running: &'a Running,
    applied: Applied,
}

impl Settled<'_> {
    fn membership(&self) -> Membership {
        status::membership(&self.applied.membership, self.applied.server_id_max)
    }

    fn me(&self) -> ServerId {
        self.running.identity.server_id
    }

    fn raft(&self) -> &RaftMembership {
        self.applied.membership.membership()
    }

    fn voters(&self) -> BTreeSet<u64> {
        self.raft().voter_ids().collect()
    }

    fn members(&self) -> BTreeMap<u64, Member> {
        self.raft().nodes().map(|(id, member)| (*id, member.clone())).collect()
    }
}

async fn settle(node: &Node) -> Result<Settled<'_>, AdminError> {
    let running = node.running().ok_or(AdminError::Uninitialized)?;
    let reading = running.raft.ensure_linearizable(ReadPolicy::ReadIndex);
    match limited(ADMIN_WAIT, reading).await? {
        Ok(_) => {}
        Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
            let leader = forward.leader_id.map(ServerId);
            return Err(NotLeader { leader }.into());
        }
        Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
            return Err(NotLeader { leader: None }.into());
        }
        Err(RaftError::Fatal(fatal)) => return Err(AdminError::Stopped(fatal.to_string())),
    }
    let applied = running.machine.applied();
    let effective = *running.raft.server_metrics().borrow_watched().membership_config.log_id();
    if effective > *applied.membership.log_id()
        || applied.membership.membership().get_joint_config().len() > 1
    {
        return Err(AdminError::InProgress);
    }
    Ok(Settled { running, applied })
}

async fn limited<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, AdminError> {
    let limit_ms = limit.as_millis() as u64;
    keeper_rt::timeout(limit, future).await.map_err(|_| AdminError::TimedOut { limit_ms })
}

pub fn check_member(member: &Member) -> Result<(), AdminError> {
    if member.id == ServerId(0) {
        return Err(AdminError::Invalid { field: "server_id", why: "must not be 0" });
    }
    if member.peer_address.is_empty() {
        return Err(AdminError::Invalid { field: "peer_address", why: "must not be empty" });
    }
    let texts = [
        ("peer_address", &member.peer_address),
        ("client_address", &member.client_address),
        ("name", &member.name),
    ];
    for (field, text) in texts {
        if text.len() > MEMBER_TEXT_BYTES_MAX {
            return Err(AdminError::Invalid { field, why: "is longer than 512 bytes" });
        }
    }
    Ok(())
}

/// Whether the effect of `change` is there already. Errors that no repetition would cure come from here too.
fn already_so(node: &Node, settled: &Settled<'_>, change: &Change) -> Result<bool, AdminError> {
    let membership = settled.membership();
    match change {
        Change::AddLearner(member) => {
            let Some(known) = membership.member(member.id) else {
                let max = membership.server_id_max;
                if member.id <= max && !keeper_rt::planted!("server-id-reused") {
                    return Err(AdminError::IdReused { id: member.id, max });
                }
                return Ok(false);
            };
            let pairs = [
                ("peer_address", &known.peer_address, &member.peer_address),
                ("client_address", &known.client_address, &member.client_address),
                ("name", &known.name, &member.name),
            ];
            match pairs.into_iter().find(|(_, known, asked)| known != asked) {
                None => Ok(true),
                Some((field, known, asked)) => Err(AdminError::MemberDiffers {
                    id: member.id,
                    field,
                    known: known.clone(),
                    asked: asked.clone(),
                }),
            }
        }
        Change::Promote(id) => match membership.member(*id) {
            Some(_) => Ok(membership.voter(*id).is_some()),
            None => Err(AdminError::NotMember { id: *id }),
        },
        Change::Remove(id) if *id == settled.me() => Err(AdminError::RemovesLeader { id: *id }),
        Change::Remove(id) => Ok(membership.member(*id).is_none()),
        Change::Transfer(id) if membership.voter(*id).is_some() => {
            Ok(*id == settled.me() && node.status.borrow().role == Role::Leader)
        }
        Change::Transfer(id) if membership.learner(*id).is_some() => Err(AdminError::NotVoter { id: *id }),
        Change::Transfer(id) => Err(AdminError::NotMember { id: *id }),
    }
}

fn check_precondition(settled: &Settled<'_>, pre: Precondition) -> Result<(), AdminError> {
    let leader = settled.me();
    if let Some(expected) = pre.expected_leader.filter(|expected| *expected != leader) {
        let (what, expected, actual) = ("the leader", expected.0, leader.0);
        return Err(AdminError::PreconditionFailed { what, expected, actual });
    }
    let index = settled.applied.membership.log_id().map_or(0, |id| id.index);
    if let Some(expected) = pre.expected_membership_index.filter(|expected| *expected != index) {
        let what = "the index of the configuration";
        return Err(AdminError::PreconditionFailed { what, expected, actual: index });
    }
    Ok(())
}

/// Appends one configuration, provided that the one it was made from is still the newest.
async fn append(
    settled: &Settled<'_>,
    voters: BTreeSet<u64>,
    members: BTreeMap<u64, Member>,
) -> Result<Membership, AdminError> {
    let membership = RaftMembership::new(vec![voters], members)
        .map_err(|error| AdminError::Stopped(format!("an impossible configuration: {error}")))?;
    let base: Option<LogId> = *settled.applied.membership.log_id();
    let unchanged = openraft::raft::Precondition::<TC>::LastMembershipLogId { last_membership_log_id: base };
    let appending = settled.running.raft.append_membership(membership, EntryPayload::blank(), [unchanged]);
    match limited(ADMIN_WAIT, appending).await? {
        Ok(_) => {
            let applied = settled.running.machine.applied();
            Ok(status::membership(&applied.membership, applied.server_id_max))
        }
        Err(RaftError::APIError(error)) => Err(refused(error)),
        Err(RaftError::Fatal(fatal)) => Err(AdminError::Stopped(fatal.to_string())),
    }
}

fn refused(error: ClientWriteError<TC>) -> AdminError {
    match error {
        ClientWriteError::ForwardToLeader(forward) | ClientWriteError::LogEntryDiscarded(forward) => {
            NotLeader { leader: forward.leader_id.map(ServerId) }.into()
        }
        // Another leader's change came between; the caller looks again.
        ClientWriteError::PreconditionFailed(_)
        | ClientWriteError::ChangeMembershipError(
            ChangeMembershipError::InProgress(_) | ChangeMembershipError::UncommittedLeaderLog(_),
        ) => AdminError::InProgress,
        ClientWriteError::ChangeMembershipError(error) => {
            AdminError::Stopped(format!("an impossible configuration: {error}"))
        }
    }
}

async fn add_learner(settled: &Settled<'_>, member: Member) -> Result<Membership, AdminError> {
    let mut members = settled.members();
    if members.len() >= MEMBERS_MAX {
        return Err(AdminError::Invalid { field: "server_id", why: "would be the 65th member" });
    }
    tracing::info!(id = %member.id, peer = member.peer_address, "adding a learner");
    members.insert(member.id.0, member);
    append(settled, settled.voters(), members).await
}

async fn promote(node: &Node, settled: &Settled<'_>, id: ServerId) -> Result<Membership, AdminError> {
    wait_caught_up(node, settled, id).await?;
    tracing::info!(%id, "giving a learner its vote");
    let mut voters = settled.voters();
    voters.insert(id.0);
    append(settled, voters, settled.members()).await
}

/// Waits a bounded time until the learner has nearly everything: a voter that lags could block commits.
async fn wait_caught_up(node: &Node, settled: &Settled<'_>, id: ServerId) -> Result<(), AdminError> {
    let lag = || {
        let metrics = settled.running.raft.metrics();
        let metrics = metrics.borrow_watched();
        let matched = metrics.replication.as_ref()?.get(&id.0)?.as_ref()?.index;
        Some(metrics.last_log_index.unwrap_or(0).saturating_sub(matched))
    };
    let near = || lag().is_some_and(|lag| lag <= PROMOTE_LAG_MAX);
    let mut status = node.status.subscribe();
    let waiting = async {
        while !near() {
            if status.changed().await.is_err() {
                return;
            }
        }
    };
    // Whether time ran out is seen from the lag itself.
    let _ = keeper_rt::timeout(PROMOTE_WAIT, waiting).await;
    if near() {
        return Ok(());
    }
    let behind = lag().unwrap_or_else(|| node.status.borrow().last_log_index);
    Err(AdminError::NotCaughtUp { id, lag: behind })
}

async fn remove(settled: &Settled<'_>, id: ServerId) -> Result<Membership, AdminError> {
    if keeper_rt::planted!("removal-not-committed") {
        return Ok(settled.membership());
    }
    let (mut voters, mut members) = (settled.voters(), settled.members());
    voters.remove(&id.0);
    members.remove(&id.0);
    if voters.is_empty() {
        return Err(AdminError::RemovesLastVoter { id });
    }
    tracing::info!(%id, "removing a member");
    append(settled, voters, members).await
}

async fn transfer(node: &Node, settled: &Settled<'_>, id: ServerId) -> Result<Membership, AdminError> {
    tracing::info!(%id, "handing leadership over");
    let triggered = settled.running.raft.trigger().transfer_leader(id.0).await;
    triggered.map_err(|fatal| AdminError::Stopped(fatal.to_string()))?;
    let mut status = node.status.subscribe();
    let led = status.wait_for(|status| status.leader == Some(id));
    match limited(TRANSFER_WAIT, led).await? {
        Ok(_) => Ok(settled.membership()),
        Err(_) => Err(AdminError::Stopped("stopping".into())),
    }
}
