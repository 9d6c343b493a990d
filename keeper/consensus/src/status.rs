//! Publishes [`Status`] from Raft's metrics: changes of role, leader or configuration at once, indexes coalesced.

use crate::api::{Membership, PeerProgress, Role, Status};
use crate::limits::{QUORUM_LOOK, QUORUM_LOST_AFTER, STATUS_INTERVAL};
use crate::node::{Node, Running};
use crate::types::{StoredMembership, TC, position};
use keeper_types::ServerId;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::{RaftMetrics, ServerState};
use std::sync::Weak;
use std::sync::atomic::Ordering;

/// Runs until Raft stops or the node is dropped.
pub async fn run(node: Weak<Node>) {
    let Some((mut metrics, mut server)) = node.upgrade().and_then(|node| {
        let running = node.running()?;
        Some((running.raft.metrics(), running.raft.server_metrics()))
    }) else {
        return;
    };
    let mut quiet_until = keeper_rt::now();
    let mut leading: Option<Leading> = None;
    loop {
        let open = tokio::select! {
            biased;
            changed = server.changed() => changed.is_ok(),
            changed = async {
                keeper_rt::sleep_until(quiet_until).await;
                metrics.changed().await
            } => changed.is_ok(),
            // The loss of a quorum is no change of any metric.
            () = keeper_rt::sleep(QUORUM_LOOK), if leading.is_some() => true,
        };
        let Some(node) = node.upgrade() else { return };
        leading = Leading::follow(leading, &metrics.borrow_watched());
        node.quorum_lost.store(leading.as_ref().is_some_and(Leading::has_lost_quorum), Ordering::Relaxed);
        publish(&node);
        if !open {
            return;
        }
        quiet_until = keeper_rt::now() + STATUS_INTERVAL;
    }
}

/// A leadership of this member, and when a quorum last answered it.
///
/// openraft's leader stays one when nobody answers it any more. Nothing it takes would be committed, so its clients are
/// better off with another member: as in ZooKeeper it counts as having no leader then.
struct Leading {
    term: u64,
    answered: keeper_rt::Instant,
}

impl Leading {
    fn follow(before: Option<Leading>, metrics: &RaftMetrics<TC>) -> Option<Leading> {
        if metrics.state != ServerState::Leader {
            return None;
        }
        let term = metrics.current_term;
        // A new leader has just been elected by a quorum.
        let since =
            before.filter(|before| before.term == term).map_or_else(keeper_rt::now, |before| before.answered);
        let acked = metrics.last_quorum_acked.map(|acked| acked.into_inner().into_inner());
        let alone = metrics.membership_config.membership().voter_ids().count() == 1;
        let answered = if alone { keeper_rt::now() } else { acked.map_or(since, |acked| acked.max(since)) };
        Some(Leading { term, answered })
    }

    fn has_lost_quorum(&self) -> bool {
        self.answered.elapsed() >= QUORUM_LOST_AFTER
    }
}

/// Publishes the present state.
pub fn publish(node: &Node) {
    let Some(running) = node.running() else { return };
    if *node.stopping.borrow() {
        // A stop that was asked for is no failure.
        return;
    }
    let metrics = running.raft.metrics().borrow_watched().clone();
    let mut status = of(running, &metrics);
    status.refusals = node.refusals.read();
    status.log_full = node.wal.is_full();
    let server = running.raft.server_metrics();
    let server = server.borrow_watched();
    // The two are updated one after the other; roles are taken from where they change first.
    status.term = server.vote.leader_id.term;
    status.leader = server.current_leader.map(ServerId);
    if status.failure.is_none() {
        status.role = role(server.state);
    }
    if status.role == Role::Leader && node.quorum_lost.load(Ordering::Relaxed) {
        status.role = Role::Candidate;
        status.leader = None;
    }
    node.status.send_if_modified(|old| {
        let modified = *old != status;
        if modified {
            *old = status;
        }
        modified
    });
}

fn role(state: ServerState) -> Role {
    match state {
        ServerState::Learner => Role::Learner,
        ServerState::Follower => Role::Follower,
        ServerState::Candidate => Role::Candidate,
        ServerState::Leader => Role::Leader,
        ServerState::Shutdown => Role::Failed,
    }
}

fn of(running: &Running, metrics: &RaftMetrics<TC>) -> Status {
    let index = |id: &Option<crate::types::LogId>| id.as_ref().map_or(0, |id| id.index);
    let failure = metrics.running_state.as_ref().err().map(|fatal| fatal.to_string());
    let last_log_index = metrics.last_log_index.unwrap_or(0);
    let me = running.identity.server_id;
    let progress = metrics.replication.iter().flatten().filter(|(id, _)| **id != me.0);
    let progress = progress.map(|(id, matched)| {
        let matched_index = matched.as_ref().map(|id| id.index);
        let lag = last_log_index.saturating_sub(matched_index.unwrap_or(0));
        PeerProgress { id: ServerId(*id), matched_index, lag }
    });
    Status {
        identity: Some(running.identity),
        role: if failure.is_some() { Role::Failed } else { role(metrics.state) },
        term: metrics.current_term,
        leader: metrics.current_leader.map(ServerId),
        last_log_index,
        committed_index: index(&metrics.cluster_committed.max(metrics.local_committed)),
        applied_index: index(&metrics.last_applied),
        snapshot_index: index(&metrics.snapshot),
        purged_index: index(&metrics.purged),
        membership: membership(&metrics.membership_config, running.machine.server_id_max()),
        progress: progress.collect(),
        failure,
        ..Status::default()
    }
}

pub fn membership(stored: &StoredMembership, server_id_max: u64) -> Membership {
    let raft = stored.membership();
    let members = |ids: Vec<u64>| ids.iter().filter_map(|id| raft.get_node(id).cloned()).collect();
    let ids_max = raft.nodes().map(|(id, _)| *id).max().unwrap_or(0);
    Membership {
        log_id: stored.log_id().as_ref().map(position),
        voters: members(raft.voter_ids().collect()),
        learners: members(raft.learner_ids().collect()),
        joint: raft.get_joint_config().len() > 1,
        server_id_max: ServerId(server_id_max.max(ids_max)),
    }
}
