//! [`Consensus`]: one member, as the rest of the server holds it.

use crate::api::{
    AdminError, ConsensusOptions, DispatchConn, Identity, Member, Membership, NotLeader, OpenError,
    Precondition, Status,
};
use crate::net::{Conn, DialError};
use bytes::Bytes;
use keeper_types::{ClusterId, ServerId};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot, watch};

/// A handle to this member; clones share it.
#[derive(Clone)]
pub struct Consensus {
    shared: Arc<Shared>,
}

struct Shared {
    status: watch::Sender<Status>,
}

/// Waits until the proposal is committed and applied here; yields its index. An error leaves the outcome unknown.
/// Dropping it does not withdraw the proposal.
pub struct Proposed {
    done: oneshot::Receiver<Result<u64, NotLeader>>,
}

impl Future for Proposed {
    type Output = Result<u64, NotLeader>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.done).poll(cx).map(|result| result.unwrap_or(Err(NotLeader { leader: None })))
    }
}

fn stopped() -> AdminError {
    AdminError::Stopped("not started".into())
}

impl Consensus {
    /// Opens the disk and starts. With an empty disk the member is `Uninitialized`: it waits for
    /// [`bootstrap`](Self::bootstrap) or for an authenticated leader that names it. The receiver yields the
    /// connections that other members' dispatchers open.
    pub async fn open(
        _options: ConsensusOptions,
    ) -> Result<(Consensus, mpsc::Receiver<DispatchConn>), OpenError> {
        Err(OpenError::Raft("not started".into()))
    }

    /// `None` while uninitialized.
    pub fn identity(&self) -> Option<Identity> {
        self.shared.status.borrow().identity
    }

    /// Appends `payload` to the log if this member leads. Proposals of one task keep the order of their calls. The
    /// call itself waits only for room in the queue; the commit is awaited through [`Proposed`].
    pub async fn propose(&self, _payload: Bytes) -> Result<Proposed, NotLeader> {
        Err(NotLeader { leader: None })
    }

    /// Opens an authenticated connection to another member's dispatcher.
    pub async fn dial_dispatch(&self, _to: ServerId) -> Result<Conn, DialError> {
        Err(DialError::Unreachable("not started".into()))
    }

    pub fn status(&self) -> Status {
        self.shared.status.borrow().clone()
    }

    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// Founds `cluster` with this one member. OK when that has already happened.
    pub async fn bootstrap(&self, _cluster: ClusterId, _me: Member) -> Result<Membership, AdminError> {
        Err(stopped())
    }

    /// Adds a member without a vote. OK when it already is a member with the same addresses.
    pub async fn add_learner(&self, _member: Member, _pre: Precondition) -> Result<Membership, AdminError> {
        Err(stopped())
    }

    /// Gives a learner its vote once it has caught up. OK when it is a voter.
    pub async fn promote(&self, _id: ServerId, _pre: Precondition) -> Result<Membership, AdminError> {
        Err(stopped())
    }

    /// Takes a member out. OK when it is none. The leader itself is refused: transfer first.
    pub async fn remove(&self, _id: ServerId, _pre: Precondition) -> Result<Membership, AdminError> {
        Err(stopped())
    }

    /// Hands leadership to a voter; returns when it leads. OK when it does already.
    pub async fn transfer_leadership(
        &self,
        _id: ServerId,
        _pre: Precondition,
    ) -> Result<Membership, AdminError> {
        Err(stopped())
    }

    /// The committed configuration, confirmed by a quorum.
    pub async fn committed_membership(&self) -> Result<Membership, AdminError> {
        Err(stopped())
    }

    /// Stops Raft, the peers' connections and the log. The caller has handed leadership over before.
    pub async fn shutdown(&self) {}
}
