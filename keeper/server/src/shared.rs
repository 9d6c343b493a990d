//! What the tasks of one member share. Belongs to a node object: two nodes of one process share nothing.

use crate::digests::{DigestState, Reports};
use crate::expiry::{Expiry, Touch};
use crate::in_flight::InFlight;
use crate::large_writes::LargeWrites;
use crate::limits::{INGRESS_BYTES_MAX, SESSIONS_LEFT_MAX, STRANGERS_LINES_MAX, STRANGERS_LINES_PERIOD};
use crate::metrics::Metrics;
use crate::outbox::{CloseReason, ConnectionId, Outbox};
use crate::stats::Stats;
use crate::tally::Info;
use crate::watch::Watches;
use crossbeam_utils::sync::ShardedLock;
use keeper_rt::{Instant, Quiet};
use keeper_tree::Tree;
use keeper_types::{Features, Generation, SessionId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

pub struct Shared {
    /// What ClickHouse's clients are offered.
    pub features: Features,
    /// Many readers, one writer: the apply task. A reader takes one shard only.
    tree: ShardedLock<Tree>,
    pub watches: Watches,
    pub sessions: LocalSessions,
    /// Clients that read without a quorum.
    pub read_only_clients: LocalSessions,
    /// There is no quorum, and clients that ask for it may read.
    pub read_only: AtomicBool,
    /// No leader is known for longer than an election takes: clients are sent to the next member at once.
    pub leaderless: AtomicBool,
    pub in_flight: InFlight,
    pub ingress: Ingress,
    pub large_writes: LargeWrites,
    pub expiry: Expiry,
    pub metrics: Metrics,
    pub stats: Stats,
    /// Of log lines about clients that break the protocol, and about clients that are one too many.
    pub quiet: Quiet,
    pub applied_index: AtomicU64,
    pub digests: DigestState,
    /// No new connections, no new requests: the member is stopping.
    pub stopping: AtomicBool,
    /// The log has no room: writes are refused until it has.
    pub disk_full: AtomicBool,
    /// The soft limit of memory is reached: writes that grow the tree are refused.
    pub memory_full: AtomicBool,
    /// Writes that were.
    pub memory_refusals: AtomicU64,
    /// Where new clients are passed on to by a server that is a guest of its cluster.
    clients_go_to: Mutex<Option<String>>,
    /// All open connections, for four-letter words and the orderly stop.
    pub connections: Mutex<BTreeMap<ConnectionId, Arc<Info>>>,
}

impl Shared {
    /// And what this member has to report of its tree.
    pub fn new(metrics: Metrics, features: Features) -> (Arc<Shared>, Reports) {
        let (digests, reports) = DigestState::new();
        let shared = Arc::new(Shared {
            features,
            tree: ShardedLock::new(Tree::new()),
            watches: Watches::default(),
            sessions: LocalSessions::default(),
            read_only_clients: LocalSessions::default(),
            read_only: AtomicBool::new(false),
            leaderless: AtomicBool::new(false),
            in_flight: InFlight::default(),
            ingress: Ingress::default(),
            large_writes: LargeWrites::default(),
            expiry: Expiry::default(),
            metrics,
            stats: Stats::default(),
            quiet: Quiet::new(STRANGERS_LINES_MAX, STRANGERS_LINES_PERIOD),
            applied_index: AtomicU64::new(0),
            digests,
            stopping: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            memory_full: AtomicBool::new(false),
            memory_refusals: AtomicU64::new(0),
            clients_go_to: Mutex::default(),
            connections: Mutex::default(),
        });
        (shared, reports)
    }

    /// Never held across an await.
    pub fn read_tree(&self) -> crossbeam_utils::sync::ShardedLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the apply task alone.
    pub fn write_tree(&self) -> crossbeam_utils::sync::ShardedLockWriteGuard<'_, Tree> {
        self.tree.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_disk_full(&self) -> bool {
        self.disk_full.load(Ordering::Relaxed)
    }

    /// From now on new clients are passed on to this address, or served here. Returns whether that changes anything.
    pub fn pass_clients_to(&self, address: Option<String>) -> bool {
        let mut place = self.clients_go_to.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = *place != address;
        *place = address;
        changes
    }

    pub fn clients_go_to(&self) -> Option<String> {
        self.clients_go_to.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn connections(&self) -> MutexGuard<'_, BTreeMap<ConnectionId, Arc<Info>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sessions whose clients are connected here, and on which connection.
#[derive(Default)]
pub struct LocalSessions {
    here: Mutex<BTreeMap<SessionId, Arc<Outbox>>>,
    /// Sessions whose connections broke since the last touch, and when.
    left: Mutex<Vec<(SessionId, Instant)>>,
}

impl LocalSessions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Arc<Outbox>>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_left(&self) -> MutexGuard<'_, Vec<(SessionId, Instant)>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session lives on this connection from now on; an older connection of it is closed.
    pub fn attach(&self, session: SessionId, outbox: &Arc<Outbox>) {
        if let Some(old) = self.lock().insert(session, outbox.clone())
            && old.id != outbox.id
        {
            old.close(CloseReason::SessionMoved);
        }
    }

    /// The connection is gone; a newer one of the same session stays. A session's timeout runs from here on: as long as
    /// there was a connection, there was a client.
    pub fn detach(&self, session: SessionId, connection: ConnectionId) {
        let mut sessions = self.lock();
        if sessions.get(&session).is_none_or(|outbox| outbox.id != connection) {
            return;
        }
        sessions.remove(&session);
        drop(sessions);
        let mut left = self.lock_left();
        // Beyond the limit the last touch counts.
        if left.len() < SESSIONS_LEFT_MAX {
            left.push((session, keeper_rt::now()));
        }
    }

    /// The session has ended: closes its connection, if it is here.
    pub fn end(&self, session: SessionId) {
        let outbox = self.lock().remove(&session);
        if let Some(outbox) = outbox {
            outbox.close(CloseReason::SessionEnded);
        }
    }

    /// The session has attached elsewhere, or again here: a connection of an older generation is stale.
    pub fn moved(&self, session: SessionId, generation: Generation) {
        let mut sessions = self.lock();
        if sessions.get(&session).is_some_and(|outbox| outbox.session().1 < generation) {
            let outbox = sessions.remove(&session);
            drop(sessions);
            if let Some(outbox) = outbox {
                outbox.close(CloseReason::SessionMoved);
            }
        }
    }

    /// Sessions whose clients have shown a sign of life since the last call, and how long ago.
    pub fn take_active(&self) -> Vec<Touch> {
        let touch = |(id, outbox): (&SessionId, &Arc<Outbox>)| {
            Some(Touch { session: *id, age: outbox.take_active()? })
        };
        let mut touches: Vec<Touch> = self.lock().iter().filter_map(touch).collect();
        let left = std::mem::take(&mut *self.lock_left());
        touches.extend(left.into_iter().map(|(session, at)| Touch { session, age: at.elapsed() }));
        touches
    }

    pub fn close_all(&self, reason: CloseReason) {
        for outbox in self.lock().values() {
            outbox.close(reason);
        }
    }

    pub fn count(&self) -> usize {
        self.lock().len()
    }
}

/// Bytes of writes between the connections and the dispatcher.
#[derive(Default)]
pub struct Ingress {
    bytes: AtomicUsize,
    room: Notify,
}

impl Ingress {
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before >= INGRESS_BYTES_MAX && before - bytes < INGRESS_BYTES_MAX {
            self.room.notify_waiters();
        }
    }

    /// Waits until writes may be taken in again.
    pub async fn wait_for_room(&self) {
        loop {
            let room = self.room.notified();
            if self.bytes.load(Ordering::Relaxed) < INGRESS_BYTES_MAX {
                return;
            }
            room.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// ClickHouse#102586, ZOOKEEPER-3503: large requests are not taken in faster than they are worked off.
    #[tokio::test]
    async fn beyond_the_bound_nothing_is_taken_in_until_there_is_room() {
        let ingress = Ingress::default();
        ingress.add(INGRESS_BYTES_MAX - 1);
        ingress.wait_for_room().await;
        ingress.add(10);
        let moment = Duration::from_millis(20);
        assert!(keeper_rt::timeout(moment, ingress.wait_for_room()).await.is_err());
        let (waited, ()) =
            tokio::join!(keeper_rt::timeout(Duration::from_secs(10), ingress.wait_for_room()), async {
                tokio::task::yield_now().await;
                ingress.remove(5);
                tokio::task::yield_now().await;
                ingress.remove(5);
            });
        assert!(waited.is_ok());
    }
}
