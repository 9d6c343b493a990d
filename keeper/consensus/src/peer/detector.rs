//! Notices a dead leader in milliseconds instead of seconds. Without it a follower waits for its lease on the leader
//! and then for its election timeout.
//!
//! A broken append connection of the current leader is only a hint. The proof is that nobody listens at the leader's
//! address any more: the operating system itself answers "refused" for a dead process on a living machine. Then this
//! member gives up its own lease on that leader, by a transfer request addressed to the dead leader, and asks for
//! pre-votes. That is safe: nothing but the lease is touched; a pre-vote needs a quorum of members that each saw the
//! death themselves (or whose lease ran out), and the vote itself is saved and checked as always. A false alarm at
//! one member changes nothing. Since a lease that was given up stays so for the term, leases must not serve reads.

use crate::limits::{
    DIAL, PRE_VOTE_BASE_MS, PRE_VOTE_RANDOM_MS, PRE_VOTE_RANK_MS, PRE_VOTE_REPEAT_MS, PRE_VOTES_MAX,
    REDIAL_WAITS_MS,
};
use crate::net::{DialError, Network};
use crate::types::{Raft, TransferRequest, Vote};
use keeper_types::ServerId;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

pub struct Detector {
    pub me: ServerId,
    pub network: Arc<dyn Network>,
    pub raft: Raft,
    /// Members whose connection to us broke and had carried appends.
    pub lost_leaders: mpsc::Receiver<ServerId>,
}

impl Detector {
    /// Runs until the last sender is gone.
    pub async fn run(mut self) {
        while let Some(peer) = self.lost_leaders.recv().await {
            self.examine(peer).await;
        }
    }

    async fn examine(&self, peer: ServerId) {
        let Some((vote, address, rank)) = self.suspect(peer) else { return };
        if !self.is_dead(&address).await || self.vote() != vote {
            return;
        }
        tracing::info!(leader = %peer, rank, "the leader's process is gone; asking for votes");
        // Addressed to the dead leader, so it only drops this member's lease, and only if `vote` is still current.
        let drop_lease = TransferRequest::new(vote, peer.0, None);
        if self.raft.handle_transfer_leader(drop_lease).await.is_err() {
            return;
        }
        self.ask_for_votes(peer, vote, rank).await;
    }

    /// If `peer` is the leader this voter follows: the leader's vote and address, and this voter's rank after it.
    fn suspect(&self, peer: ServerId) -> Option<(Vote, String, u64)> {
        let metrics = self.raft.server_metrics();
        let metrics = metrics.borrow_watched();
        if metrics.current_leader != Some(peer.0) || metrics.state == ServerState::Leader {
            return None;
        }
        let membership = metrics.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let rank = rank(&voters, self.me.0, peer.0)?;
        Some((metrics.vote, membership.get_node(&peer.0)?.peer_address.clone(), rank))
    }

    fn vote(&self) -> Vote {
        self.raft.server_metrics().borrow_watched().vote
    }

    /// Only a refused connection proves a death. A listener can outlive its process's connections for a moment, so
    /// an accepted one is asked again; a timeout or an unreachable host proves nothing and is left to the timers.
    async fn is_dead(&self, address: &str) -> bool {
        for wait_ms in REDIAL_WAITS_MS {
            keeper_rt::sleep(Duration::from_millis(wait_ms)).await;
            match keeper_rt::timeout(DIAL, self.network.dial(address)).await {
                Ok(Ok(_accepted)) => {}
                Ok(Err(DialError::Refused)) => return true,
                Ok(Err(DialError::Unreachable(_))) | Err(_) => return false,
            }
        }
        false
    }

    /// Repeats pre-votes until a leader is known. Stopping at the first change of the vote would be wrong: after a
    /// split vote the slow timers would decide.
    async fn ask_for_votes(&self, dead: ServerId, vote: Vote, rank: u64) {
        let mut wait_ms = PRE_VOTE_BASE_MS + PRE_VOTE_RANK_MS * rank;
        for _ in 0..PRE_VOTES_MAX {
            keeper_rt::sleep(Duration::from_millis(wait_ms)).await;
            let led = {
                let metrics = self.raft.server_metrics();
                let metrics = metrics.borrow_watched();
                metrics.current_leader.is_some_and(|leader| leader != dead.0 || metrics.vote != vote)
            };
            if led || self.raft.trigger().elect(true).await.is_err() {
                return;
            }
            wait_ms = PRE_VOTE_REPEAT_MS + keeper_rt::random_u64() % PRE_VOTE_RANDOM_MS;
        }
    }
}

/// Distance of `me` behind `dead` among the sorted voters, from 0; `None` for one without a vote.
fn rank(voters: &[u64], me: u64, dead: u64) -> Option<u64> {
    let my_place = voters.iter().position(|id| *id == me)?;
    let dead_place = voters.iter().position(|id| *id == dead)?;
    let distance = (my_place + voters.len() - dead_place) % voters.len();
    (distance as u64).checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn ranks_follow_the_places_among_the_sorted_voters() {
        let voters = [1, 4, 9];
        assert_eq!([rank(&voters, 4, 1), rank(&voters, 9, 1)], [Some(0), Some(1)]);
        assert_eq!([rank(&voters, 9, 4), rank(&voters, 1, 4)], [Some(0), Some(1)]);
        assert_eq!([rank(&voters, 1, 9), rank(&voters, 4, 9)], [Some(0), Some(1)]);
    }

    #[test]
    fn who_has_no_vote_has_no_rank() {
        assert_eq!([rank(&[1, 2], 3, 1), rank(&[1, 2], 1, 3), rank(&[1, 2], 1, 1)], [None; 3]);
    }
}
