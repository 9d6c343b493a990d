//! The origin's batches between dispatch and apply, and who waits for each of their commands.

use crate::limits::{BATCH_BYTES_IN_FLIGHT_MAX, BATCHES_IN_FLIGHT_MAX};
use crate::outbox::{CloseReason, Outbox};
use bytes::Bytes;
use keeper_rt::Instant;
use keeper_tree::{Applied, BatchId};
use keeper_types::{OpCode, ServerId};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// Who gets the outcome of a command.
pub enum Target {
    /// A client's request; its place in the outbox's queue is fixed.
    Request {
        outbox: Arc<Outbox>,
        xid: i32,
        op: OpCode,
        received: Instant,
    },
    /// A session command of a handshake or of the expiry.
    Session(oneshot::Sender<Applied>),
    Nobody,
}

impl Target {
    /// A handshake that nobody waits for any more.
    pub fn has_given_up(&self) -> bool {
        matches!(self, Target::Session(done) if done.is_closed())
    }

    /// The outcome will never be known here.
    pub fn lose(self) {
        if let Target::Request { outbox, .. } = self {
            outbox.close(CloseReason::OutcomeUnknown);
        }
    }
}

pub struct Flight {
    pub seq: u64,
    pub bytes: Bytes,
    pub targets: Vec<Target>,
    pub dispatched: Instant,
}

#[derive(Default)]
pub struct Flights {
    /// This life of this member; `None` before it has an identity.
    pub origin: Option<(ServerId, u64)>,
    /// Invariant: seqs without gaps, the oldest unapplied first.
    pub batches: VecDeque<Flight>,
    pub bytes: usize,
    pub next_seq: u64,
    /// Apply has met a gap of ours: everything unapplied must be sent again.
    pub gap: bool,
    /// Counts applied batches, so that a stall can be told from progress.
    pub applied_total: u64,
}

impl Flights {
    /// Another batch may be packed.
    pub fn has_room(&self) -> bool {
        self.batches.len() < BATCHES_IN_FLIGHT_MAX && self.bytes < BATCH_BYTES_IN_FLIGHT_MAX
    }
}

#[derive(Default)]
pub struct InFlight {
    flights: Mutex<Flights>,
    /// Wakes the dispatcher: a slot is free, or a gap was met.
    pub changed: Notify,
}

impl InFlight {
    pub fn lock(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An own batch that is being applied: who waits for it, and since when it is under way. `None` for others'
    /// batches and repetitions.
    pub fn take(&self, id: BatchId) -> Option<(Vec<Target>, Instant)> {
        let mut flights = self.lock();
        if flights.origin != Some((id.origin, id.epoch)) {
            return None;
        }
        let front = flights.batches.front()?;
        if front.seq != id.seq {
            return None;
        }
        let flight = flights.batches.pop_front()?;
        flights.bytes -= flight.bytes.len();
        flights.applied_total += 1;
        drop(flights);
        self.changed.notify_one();
        Some((flight.targets, flight.dispatched))
    }

    /// An own batch came too early.
    pub fn note_gap(&self, id: BatchId) {
        let mut flights = self.lock();
        if flights.origin == Some((id.origin, id.epoch)) {
            flights.gap = true;
            drop(flights);
            self.changed.notify_one();
        }
    }

    /// A snapshot has replaced the tree: own batches below `next` were applied somewhere in it, their outcomes
    /// are lost.
    pub fn drop_below(&self, next: u64) {
        let mut flights = self.lock();
        let mut lost = Vec::new();
        while flights.batches.front().is_some_and(|flight| flight.seq < next) {
            if let Some(flight) = flights.batches.pop_front() {
                flights.bytes -= flight.bytes.len();
                flights.applied_total += 1;
                lost.extend(flight.targets);
            }
        }
        drop(flights);
        lost.into_iter().for_each(Target::lose);
        self.changed.notify_one();
    }
}
