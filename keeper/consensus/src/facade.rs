//! [`Consensus`]: one member, as the rest of the server holds it.

use crate::api::{
    AdminError, ConsensusOptions, DiskUsage, DispatchConn, Identity, LogEnds, Member, Membership, NotLeader,
    OpenError, Precondition, Status,
};
use crate::inquiry;
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::membership::{self, Change};
use crate::net::{Conn, DialError, NetFuture};
use crate::node::Node;
use crate::peer::handshake::Class;
use crate::start;
use crate::types::{Payload, TC};
use bytes::Bytes;
use keeper_types::{ClusterId, ServerId};
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::ClientWriteError;
use openraft::impls::ProgressResponder;
use openraft::raft::ClientWriteResult;
use openraft::type_config::alias::OneshotReceiverOf;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, watch};

/// A handle to this member; clones share it.
///
/// Its calls return boxed futures: the body of an `async fn` is compiled in whichever crate awaits it, and all of
/// openraft with it.
#[derive(Clone)]
pub struct Consensus {
    node: Arc<Node>,
}

/// Waits until the proposal is committed and applied here; yields its index. An error leaves the outcome unknown.
/// Dropping it does not withdraw the proposal.
pub struct Proposed {
    done: OneshotReceiverOf<TC, ClientWriteResult<TC>>,
}

impl Future for Proposed {
    type Output = Result<u64, NotLeader>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.done).poll(cx).map(|result| match result {
            Ok(Ok(written)) => Ok(written.log_id.index),
            Ok(Err(error)) => Err(not_leader(&error)),
            // Raft has stopped; the status says why.
            Err(_) => Err(NotLeader { leader: None }),
        })
    }
}

/// A leader that lost its quorum's trust (an expired lease) names nobody: it may be replaced at any moment.
fn not_leader(error: &ClientWriteError<TC>) -> NotLeader {
    let leader = match error {
        ClientWriteError::ForwardToLeader(forward) | ClientWriteError::LogEntryDiscarded(forward) => {
            use openraft::errors::ForwardReason;
            match forward.reason {
                ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => forward.leader_id,
                ForwardReason::LeaseExpired => None,
            }
        }
        // Never answers to a payload.
        ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_) => None,
    };
    NotLeader { leader: leader.map(ServerId) }
}

impl Consensus {
    /// Opens the disk and starts. With an empty disk the member is `Uninitialized`: it waits for
    /// [`bootstrap`](Self::bootstrap) or for an authenticated leader that names it. The receiver yields the
    /// connections that other members' dispatchers open.
    pub fn open(
        options: ConsensusOptions,
    ) -> NetFuture<'static, Result<(Consensus, mpsc::Receiver<DispatchConn>), OpenError>> {
        Box::pin(async move {
            let pool = options.pool.clone();
            let opening = pool.spawn("consensus-open", start::open(options)).await;
            let (node, dispatched) = opening.map_err(|error| OpenError::Raft(error.to_string()))??;
            Ok((Consensus { node }, dispatched))
        })
    }

    /// `None` while uninitialized.
    pub fn identity(&self) -> Option<Identity> {
        self.node.identity()
    }

    /// Appends `payload` to the log if this member leads. Proposals of one task keep the order of their calls. The
    /// call itself waits only for room in the queue; the commit is awaited through [`Proposed`].
    ///
    /// # Panics
    /// If the payload is larger than [`PAYLOAD_BYTES_MAX`].
    pub fn propose(&self, payload: Bytes) -> NetFuture<'_, Result<Proposed, NotLeader>> {
        Box::pin(async move {
            assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a payload of {} bytes", payload.len());
            let running = self.node.running().ok_or(NotLeader { leader: None })?;
            {
                // Spares the core what it would refuse. It decides itself about what is passed on.
                let metrics = running.raft.server_metrics();
                let metrics = metrics.borrow_watched();
                if metrics.state != ServerState::Leader {
                    return Err(NotLeader { leader: metrics.current_leader.map(ServerId) });
                }
            }
            let (responder, done) = ProgressResponder::complete_only();
            let queued = running.raft.client_write_ff(Payload(payload), Some(responder)).await;
            queued.map_err(|_| NotLeader { leader: None })?;
            Ok(Proposed { done })
        })
    }

    /// True when the log's disk is full: writes are to be refused until it is not. See also [`Status::log_full`].
    pub fn log_is_full(&self) -> bool {
        self.node.wal.is_full()
    }

    /// What the log has done: counters and the histogram of its syncs.
    pub fn log_stats(&self) -> keeper_log::WalStats {
        self.node.wal.stats()
    }

    /// Where the log begins and ends, with terms. Reads two entries.
    pub fn log_ends(&self) -> NetFuture<'_, io::Result<LogEnds>> {
        Box::pin(async move { inquiry::log_ends(&self.node).await })
    }

    /// What log and snapshots take on the disk. Opens every file once: for operators, not for a loop.
    pub fn disk_usage(&self) -> NetFuture<'_, io::Result<DiskUsage>> {
        Box::pin(async move { inquiry::disk_usage(&self.node).await })
    }

    /// Bytes of the newest snapshot; 0 when there is none.
    pub fn snapshot_bytes(&self) -> u64 {
        self.node.snapshots.latest().map_or(0, |info| info.bytes)
    }

    /// Begins a snapshot of what is applied now, and returns the last index it covers at least. While one is being made
    /// already that one has to do, and it may end a little before.
    ///
    /// # Errors
    /// `Uninitialized` before the member has a cluster, `Stopped` when Raft has ended.
    pub fn snapshot_now(&self) -> NetFuture<'_, Result<u64, AdminError>> {
        Box::pin(async move {
            let running = self.node.running().ok_or(AdminError::Uninitialized)?;
            // Not the status, which may lag a moment behind.
            let Some(applied) = running.machine.applied().last.map(|id| id.index) else {
                // A snapshot of nothing serves nobody, and Raft stops where it cannot be written.
                return Ok(0);
            };
            let asked = running.raft.trigger().snapshot().await;
            asked.map_err(|fatal| AdminError::Stopped(fatal.to_string()))?;
            Ok(applied)
        })
    }

    /// Opens an authenticated connection to another member's dispatcher.
    pub fn dial_dispatch(&self, to: ServerId) -> NetFuture<'_, Result<Conn, DialError>> {
        Box::pin(async move {
            let address =
                self.node.status.borrow().membership.member(to).map(|member| member.peer_address.clone());
            let address =
                address.ok_or_else(|| DialError::Unreachable(format!("server {to} is not a member")))?;
            self.node.dial(to, &address, Class::Dispatch).await
        })
    }

    pub fn status(&self) -> Status {
        self.node.status.borrow().clone()
    }

    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.node.status.subscribe()
    }

    /// Founds `cluster` with this one member. OK when that has already happened.
    pub fn bootstrap(&self, cluster: ClusterId, me: Member) -> NetFuture<'_, Result<Membership, AdminError>> {
        Box::pin(async move {
            membership::check_member(&me)?;
            let node = self.node.clone();
            // A task of its own: a caller that goes away must not leave it half done.
            self.run("bootstrap", async move {
                start::bootstrap(node.clone(), cluster, me).await?;
                start::first_membership(&node).await;
                let status = node.status.borrow().membership.clone();
                Ok(status)
            })
            .await
        })
    }

    /// Adds a member without a vote. OK when it already is a member with the same addresses.
    pub fn add_learner(
        &self,
        member: Member,
        pre: Precondition,
    ) -> NetFuture<'_, Result<Membership, AdminError>> {
        Box::pin(async move { self.change(Change::AddLearner(member), pre).await })
    }

    /// Gives a learner its vote once it has caught up. OK when it is a voter.
    pub fn promote(&self, id: ServerId, pre: Precondition) -> NetFuture<'_, Result<Membership, AdminError>> {
        Box::pin(async move { self.change(Change::Promote(id), pre).await })
    }

    /// Takes a member out. OK when it is none. The leader itself is refused: transfer first.
    pub fn remove(&self, id: ServerId, pre: Precondition) -> NetFuture<'_, Result<Membership, AdminError>> {
        Box::pin(async move { self.change(Change::Remove(id), pre).await })
    }

    /// Hands leadership to a voter; returns when it leads. OK when it does already.
    pub fn transfer_leadership(
        &self,
        id: ServerId,
        pre: Precondition,
    ) -> NetFuture<'_, Result<Membership, AdminError>> {
        Box::pin(async move { self.change(Change::Transfer(id), pre).await })
    }

    /// The committed configuration, confirmed by a quorum. Answered by the leader only.
    pub fn committed_membership(&self) -> NetFuture<'_, Result<Membership, AdminError>> {
        Box::pin(async move {
            let node = self.node.clone();
            self.run("committed-membership", async move { membership::committed(&node).await }).await
        })
    }

    async fn change(&self, change: Change, pre: Precondition) -> Result<Membership, AdminError> {
        self.run("membership-change", membership::change(self.node.clone(), change, pre)).await
    }

    async fn run<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = Result<T, AdminError>> + Send + 'static,
    ) -> Result<T, AdminError> {
        self.node.pool.spawn(name, work).await.map_err(|error| AdminError::Stopped(error.to_string()))?
    }

    /// Stops Raft, the peers' connections and the log. The caller has handed leadership over before.
    pub fn shutdown(&self) -> NetFuture<'_, ()> {
        Box::pin(async move {
            self.node.stopping.send_replace(true);
            if let Some(running) = self.node.running()
                && let Err(error) = running.raft.shutdown().await
            {
                tracing::warn!(%error, "Raft did not stop cleanly");
            }
            self.node.wal.close().await;
        })
    }
}
