//! One member's shared core: what the facade, the peers' tasks and Raft's own network client all hold.

use crate::api::{DispatchConn, Identity, StateMachine, Status};
use crate::limits::DIAL;
use crate::machine::MachineView;
use crate::net::{Conn, DialError, Network};
use crate::peer::handshake::{self, Class, HandshakeError, Refusal, Wanted};
use crate::peer::refusals::Refusals;
use crate::types::Raft;
use keeper_log::{Recovered, SharedDisk, SnapshotStore, Wal};
use keeper_types::{ClusterId, ServerId};
use openraft::async_runtime::watch::WatchReceiver;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Semaphore, mpsc, watch};

/// What Raft is started from; taken once.
pub struct Dormant {
    pub recovered: Recovered,
    pub machine: Box<dyn StateMachine>,
}

/// Set once, when this process knows who it is and its Raft runs.
pub struct Running {
    pub identity: Identity,
    pub raft: Raft,
    pub machine: Arc<MachineView>,
    /// Leaders whose append connection broke.
    pub lost_leaders: mpsc::Sender<ServerId>,
}

pub struct Node {
    pub disk: SharedDisk,
    pub network: Arc<dyn Network>,
    pub pool: keeper_rt::Pool,
    pub secret: Vec<u8>,
    pub expected_cluster: Option<ClusterId>,
    pub raft_config: Arc<openraft::Config>,
    pub snapshot_log_bytes: u64,
    pub wal: Wal,
    pub snapshots: SnapshotStore,
    pub status: watch::Sender<Status>,
    pub dispatch: mpsc::Sender<DispatchConn>,
    pub refusals: Refusals,
    /// One membership call at a time.
    pub changing: Semaphore,
    /// True once this member is being shut down.
    pub stopping: watch::Sender<bool>,
    /// The leader is one by name only: no quorum answers it, or it is silent.
    pub leader_lost: AtomicBool,
    /// Who appended here last, and when.
    pub heard: Mutex<Option<(ServerId, keeper_rt::Instant)>>,
    pub dormant: Mutex<Option<Dormant>>,
    pub running: OnceLock<Running>,
}

impl Node {
    /// A peer appended: it leads, or believes so.
    pub fn note_append(&self, from: ServerId) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some((from, keeper_rt::now()));
    }

    /// When `leader` last appended here, unless another one did since.
    pub fn heard_from(&self, leader: ServerId) -> Option<keeper_rt::Instant> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.filter(|(from, _)| *from == leader).map(|(_, at)| at)
    }

    pub fn running(&self) -> Option<&Running> {
        self.running.get()
    }

    pub fn identity(&self) -> Option<Identity> {
        self.running().map(|running| running.identity)
    }

    pub fn dormant(&self) -> MutexGuard<'_, Option<Dormant>> {
        // Nothing panics while holding it.
        self.dormant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `target` may be an empty disk: a learner that has not acknowledged anything to this leader. A voter
    /// never may: it would come back without its promises.
    fn may_be_empty(&self, target: ServerId) -> bool {
        let Some(running) = self.running() else { return false };
        let metrics = running.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = metrics.membership_config.membership();
        let learner = membership.learner_ids().any(|id| id == target.0);
        let progress = metrics.replication.as_ref();
        let matched = progress.and_then(|progress| progress.get(&target.0).cloned().flatten());
        learner && progress.is_some() && matched.is_none()
    }

    /// Opens an authenticated connection to another member.
    pub async fn dial(&self, to: ServerId, address: &str, class: Class) -> Result<Conn, DialError> {
        let unreachable = |why: String| DialError::Unreachable(why);
        let identity =
            self.identity().ok_or_else(|| unreachable("this member belongs to no cluster".into()))?;
        let dialing = keeper_rt::timeout(DIAL, self.network.dial(address)).await;
        let mut conn = dialing.map_err(|_| unreachable(format!("{address}: timed out")))??;
        let cluster = identity.cluster_id;
        let joining = class == Class::Log && self.may_be_empty(to);
        let wanted = Wanted { class, joining, cluster, from: identity.server_id, to };
        match handshake::dial(&mut conn, &self.secret, wanted).await {
            Ok(()) => Ok(conn),
            Err(error) => {
                self.note_failed_handshake(&error, &conn.remote);
                Err(unreachable(format!("server {to} at {address}: {error}")))
            }
        }
    }

    /// Counts and logs a refusal, by whichever side.
    pub fn note_failed_handshake(&self, error: &HandshakeError, remote: &str) {
        let (by_us, reason, cluster, server) = match error {
            HandshakeError::Lost => return,
            HandshakeError::RefusedBy { reason, cluster, server } => (false, *reason, *cluster, *server),
            HandshakeError::Refusing { reason, cluster, server } => (true, *reason, *cluster, *server),
        };
        if reason == Refusal::Busy {
            tracing::debug!(remote, by_us, "peer connection put off");
            return;
        }
        self.refusals.count(reason);
        let refusals = self.refusals.read();
        self.status.send_if_modified(|status| std::mem::replace(&mut status.refusals, refusals) != refusals);
        let mine = self.identity();
        let my_cluster = mine.map(|mine| mine.cluster_id).or(self.expected_cluster).unwrap_or_default();
        let my_server = mine.map_or(ServerId(0), |mine| mine.server_id);
        if !self.refusals.is_news(by_us, reason) {
            tracing::debug!(remote, by_us, %reason, "peer connection refused again");
            return;
        }
        tracing::warn!(
            remote, by_us, %reason, peer_cluster = %cluster, peer_server = %server, %my_cluster, %my_server,
            "peer connection refused"
        );
    }
}
