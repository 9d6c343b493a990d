//! Publishes [`Status`] from Raft's metrics: changes of role, leader or configuration at once, indexes coalesced.

use crate::api::{Membership, PeerProgress, Role, Status};
use crate::limits::{LEADER_LOOK, LEADER_LOST_AFTER, STATUS_INTERVAL};
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
    let mut leadership: Option<Leadership> = None;
    loop {
        let open = tokio::select! {
            biased;
            changed = server.changed() => changed.is_ok(),
            changed = async {
                keeper_rt::sleep_until(quiet_until).await;
                metrics.changed().await
            } => changed.is_ok(),
            // Silence is no change of any metric.
            () = keeper_rt::sleep(LEADER_LOOK), if leadership.is_some() => true,
        };
        let Some(node) = node.upgrade() else { return };
        leadership = Leadership::follow(leadership, &node, &metrics.borrow_watched());
        node.leader_lost.store(leadership.as_ref().is_some_and(Leadership::is_silent), Ordering::Relaxed);
        publish(&node);
        if !open {
            return;
        }
        quiet_until = keeper_rt::now() + STATUS_INTERVAL;
    }
}

/// A leadership, and the last sign that it is one: of this member's, that a quorum answered it; of another's, that it
/// sent something.
///
/// openraft's leader stays one when nobody answers it any more, and its followers keep the name of a dead leader while
/// no quorum elects another. Nothing is committed then, so clients are better off with another member: as in ZooKeeper
/// such a member counts as having no leader.
struct Leadership {
    term: u64,
    leader: u64,
    sign: keeper_rt::Instant,
}

impl Leadership {
    fn follow(before: Option<Leadership>, node: &Node, metrics: &RaftMetrics<TC>) -> Option<Leadership> {
        let (leader, term) = (metrics.current_leader?, metrics.current_term);
        // A new leader has just been elected by a quorum.
        let same = before.filter(|before| (before.term, before.leader) == (term, leader));
        let since = same.map_or_else(keeper_rt::now, |before| before.sign);
        let sign = if metrics.state == ServerState::Leader {
            let alone = metrics.membership_config.membership().voter_ids().count() == 1;
            let acked = metrics.last_quorum_acked.map(|acked| acked.into_inner().into_inner());
            if alone { Some(keeper_rt::now()) } else { acked }
        } else {
            node.heard_from(ServerId(leader))
        };
        Some(Leadership { term, leader, sign: sign.map_or(since, |sign| sign.max(since)) })
    }

    fn is_silent(&self) -> bool {
        self.sign.elapsed() >= LEADER_LOST_AFTER
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
    if node.leader_lost.load(Ordering::Relaxed) {
        status.leader = None;
        status.silence = LEADER_LOST_AFTER;
        if matches!(status.role, Role::Leader | Role::Follower) {
            status.role = Role::Candidate;
        }
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
