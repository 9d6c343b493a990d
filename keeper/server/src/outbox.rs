//! What one connection still owes its client: unanswered requests in order, and bytes ready for its socket.
//!
//! Two sides meet here: the connection's task and the apply task. Lock order, never otherwise: tree, outbox,
//! watches. The apply task never holds the watches while it takes an outbox.

use crate::large_writes::Permit;
use crate::limits::OUTBOX_BYTES_MAX;
use bytes::{Bytes, BytesMut};
use keeper_rt::Instant;
use keeper_types::{AclId, Generation, OpCode, SessionId};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Names one connection for the life of the process.
pub type ConnectionId = u64;

/// Why a connection ends; named in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    ClosedByClient,
    SessionEnded,
    SessionMoved,
    SlowReader,
    NoLeader,
    OutcomeUnknown,
    TreeDiffers,
    AuthFailed,
    Malformed,
    ShuttingDown,
}

/// A request that could not be answered at once.
pub enum Pending {
    /// A write under way; its answer comes from apply.
    Write { xid: i32, op: OpCode, bytes: usize, permit: Option<Permit> },
    /// A read behind an unfinished write of its own session: runs right after that write is applied.
    Read { xid: i32, op: OpCode, body: Bytes, identities: Arc<[AclId]> },
    /// The answer stands, only its turn has not come (auth).
    Ready(Bytes),
}

#[derive(Default)]
pub struct OutboxState {
    pub out: BytesMut,
    /// When the oldest write's reply in `out` was put there.
    pub ready_since: Option<Instant>,
    /// In the order of the requests. Invariant: the front is a `Write`, else it would have been answered.
    pub queue: VecDeque<Pending>,
    /// Bytes of the writes in `queue`.
    pub queued_bytes: usize,
    /// No further request is read: one is under way that its connection waits for.
    pub held: bool,
    /// Who the client is, for the events that it may hear of.
    pub identities: Arc<[AclId]>,
    /// The connection's large write may go on.
    pub permit: Option<Permit>,
    /// Set once: what is in `out` is flushed, then the socket is closed.
    pub closing: Option<CloseReason>,
}

pub struct Outbox {
    pub id: ConnectionId,
    state: Mutex<OutboxState>,
    /// Wakes the connection's task: bytes to write, room to read, or the end.
    pub wake: Notify,
    opened: Instant,
    /// When the client last showed a sign of life that no touch has told of, in ms after `opened`, plus 1; 0: none.
    active: AtomicU64,
    session: AtomicI64,
    generation: AtomicU32,
    /// getACL shows this client hashes of digests although it may not change the ACL (`auth.redact_acl = false`).
    shows_digests: AtomicBool,
    /// A client of ClickHouse: it has read below `/keeper`, which is the first thing that one does.
    clickhouse: AtomicBool,
}

impl Outbox {
    pub fn new(id: ConnectionId) -> Arc<Outbox> {
        Arc::new(Outbox {
            id,
            state: Mutex::default(),
            wake: Notify::new(),
            opened: keeper_rt::now(),
            active: AtomicU64::new(1),
            session: AtomicI64::new(0),
            generation: AtomicU32::new(0),
            shows_digests: AtomicBool::new(false),
            clickhouse: AtomicBool::new(false),
        })
    }

    pub fn lock(&self) -> MutexGuard<'_, OutboxState> {
        // A panic while holding it ends the process (release) or the test; the state itself stays usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Set once, when the session is known.
    pub fn set_session(&self, session: SessionId, generation: Generation) {
        self.session.store(session.0, Ordering::Relaxed);
        self.generation.store(generation.0, Ordering::Relaxed);
    }

    pub fn session(&self) -> (SessionId, Generation) {
        (SessionId(self.session.load(Ordering::Relaxed)), Generation(self.generation.load(Ordering::Relaxed)))
    }

    /// Set once, with the session.
    pub fn show_digests(&self, show: bool) {
        self.shows_digests.store(show, Ordering::Relaxed);
    }

    /// The client has asked what ClickHouse's clients ask first.
    pub fn note_clickhouse(&self) {
        self.clickhouse.store(true, Ordering::Relaxed);
    }

    pub fn is_clickhouse(&self) -> bool {
        self.clickhouse.load(Ordering::Relaxed)
    }

    pub fn shows_digests(&self) -> bool {
        self.shows_digests.load(Ordering::Relaxed)
    }

    pub fn mark_active(&self) {
        self.active.store(self.opened.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
    }

    /// How long ago the client showed a sign of life, if it did since the last call.
    pub fn take_active(&self) -> Option<Duration> {
        let at = self.active.swap(0, Ordering::Relaxed).checked_sub(1)?;
        Some(self.opened.elapsed().saturating_sub(Duration::from_millis(at)))
    }

    /// The request that the connection was held for has its reply.
    pub fn release(&self, reply: &[u8]) {
        let mut state = self.lock();
        state.held = false;
        if state.accepts_bytes() {
            state.out.extend_from_slice(reply);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// The large write that waits here may go on.
    pub fn permit(&self, permit: Permit) {
        self.lock().permit = Some(permit);
        self.wake.notify_one();
    }

    /// Ends the connection after what is ready has been written. The first reason stays.
    pub fn close(&self, reason: CloseReason) {
        let mut state = self.lock();
        state.closing.get_or_insert(reason);
        drop(state);
        self.wake.notify_one();
    }
}

impl OutboxState {
    /// A closing connection answers no more; the outcomes of its later writes still come, each to the front.
    pub fn drop_until_next_write(&mut self) {
        while let Some(Pending::Read { .. } | Pending::Ready(_)) = self.queue.front() {
            self.queue.pop_front();
        }
    }

    /// Bytes may be appended: the connection is open and its client keeps up. A client that does not is closed.
    pub fn accepts_bytes(&mut self) -> bool {
        if self.closing.is_some() {
            return false;
        }
        if self.out.len() > OUTBOX_BYTES_MAX {
            self.closing = Some(CloseReason::SlowReader);
            return false;
        }
        true
    }
}
