//! What this member's clients have asked and been answered, since the start or since the word `srst`. Atomics only: the
//! connections' tasks write, words and `/metrics` read.

use crate::percentiles::Buckets;
use keeper_types::OpCode;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// The bit of ZooKeeper's trace mask for client requests (`ZooTrace.CLIENT_REQUEST_TRACE_MASK`).
pub const TRACE_REQUESTS: i64 = 1 << 1;
/// ZooKeeper's mask after a start: client requests, server packets, sessions, warnings.
pub const TRACE_MASK_DEFAULT: i64 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8;

pub struct Stats {
    pub packets_received: AtomicU64,
    pub packets_sent: AtomicU64,
    /// From a request's arrival until its reply is on its way to the socket. Pings count as reads, as in ZooKeeper.
    pub reads: Spread,
    pub writes: Spread,
    /// The same latencies, for percentiles.
    pub read_buckets: Buckets,
    pub write_buckets: Buckets,
    /// Bytes of each reply, its frame length included.
    pub reply_bytes: Spread,
    /// Bytes of each batch that this member proposed as the leader.
    pub proposal_bytes: Spread,
    operations: [AtomicU64; OPERATION_SLOTS],
    /// Write each request to the log (`lgrq`).
    pub log_requests: AtomicBool,
    /// ZooKeeper's trace mask (`gtmk`, `stmk`).
    pub trace_mask: AtomicI64,
}

/// One for each code in the ranges of [`slot`].
const OPERATION_SLOTS: usize = 34 + 16 + 16 + 1;

/// Codes come in three ranges; a table lookup by arithmetic.
fn slot(op: OpCode) -> usize {
    match op.as_i32() {
        code @ -11..=22 => (code + 11) as usize,
        code @ 100..=115 => (code - 100) as usize + 34,
        code @ 500..=515 => (code - 500) as usize + 50,
        _ => OPERATION_SLOTS - 1,
    }
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            packets_received: AtomicU64::new(0),
            packets_sent: AtomicU64::new(0),
            reads: Spread::default(),
            writes: Spread::default(),
            read_buckets: Buckets::default(),
            write_buckets: Buckets::default(),
            reply_bytes: Spread::default(),
            proposal_bytes: Spread::default(),
            operations: std::array::from_fn(|_| AtomicU64::new(0)),
            log_requests: AtomicBool::new(false),
            trace_mask: AtomicI64::new(TRACE_MASK_DEFAULT),
        }
    }
}

impl Stats {
    pub fn count_operations(&self, op: OpCode, count: u64) {
        self.operations[slot(op)].fetch_add(count, Ordering::Relaxed);
    }

    /// Requests of this kind since the start; `srst` leaves them.
    pub fn operations(&self, op: OpCode) -> u64 {
        self.operations[slot(op)].load(Ordering::Relaxed)
    }

    /// The word `srst`.
    pub fn reset(&self) {
        self.packets_received.store(0, Ordering::Relaxed);
        self.packets_sent.store(0, Ordering::Relaxed);
        for spread in [&self.reads, &self.writes, &self.reply_bytes, &self.proposal_bytes] {
            spread.reset();
        }
        self.read_buckets.reset();
        self.write_buckets.reset();
    }

    /// `count` requests of one kind were answered, each after this time.
    pub fn answered(&self, writes: bool, took: Duration, count: u64) {
        let (spread, buckets) =
            if writes { (&self.writes, &self.write_buckets) } else { (&self.reads, &self.read_buckets) };
        spread.add_duration(took, count);
        buckets.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), count);
    }

    /// Of reads and writes together, microseconds.
    pub fn latency(&self) -> Summary {
        self.reads.read().with(self.writes.read())
    }
}

/// Least, greatest, last, sum and number of some values. Each is exact; taken together while others write, they may be
/// of neighbouring moments.
pub struct Spread {
    count: AtomicU64,
    sum: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    last: AtomicU64,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread {
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }
}

/// A [`Spread`] as it stood; all zero while nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub count: u64,
    pub sum: u64,
    pub min: u64,
    pub max: u64,
    pub last: u64,
}

impl Spread {
    /// `count` times the same value.
    pub fn add(&self, value: u64, count: u64) {
        self.merge(Summary { count, sum: value.saturating_mul(count), min: value, max: value, last: value });
    }

    /// Values that were gathered elsewhere, so that many connections do not meet here for each of theirs. The two bounds are
    /// rarely moved, so they are looked at before.
    pub fn merge(&self, more: Summary) {
        if more.count == 0 {
            return;
        }
        self.count.fetch_add(more.count, Ordering::Relaxed);
        self.sum.fetch_add(more.sum, Ordering::Relaxed);
        self.last.store(more.last, Ordering::Relaxed);
        if more.min < self.min.load(Ordering::Relaxed) {
            self.min.fetch_min(more.min, Ordering::Relaxed);
        }
        if self.max.load(Ordering::Relaxed) < more.max {
            self.max.fetch_max(more.max, Ordering::Relaxed);
        }
    }

    pub fn add_duration(&self, took: Duration, count: u64) {
        self.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), count);
    }

    pub fn read(&self) -> Summary {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let count = load(&self.count);
        if count == 0 {
            return Summary::default();
        }
        let (min, max) = (load(&self.min), load(&self.max));
        Summary { count, sum: load(&self.sum), min: min.min(max), max, last: load(&self.last) }
    }

    pub fn reset(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.sum.store(0, Ordering::Relaxed);
        self.min.store(u64::MAX, Ordering::Relaxed);
        self.max.store(0, Ordering::Relaxed);
        self.last.store(0, Ordering::Relaxed);
    }
}

impl Summary {
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// One value more.
    pub fn note(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.last = value;
        self.sum += value;
        self.count += 1;
    }

    fn with(self, other: Summary) -> Summary {
        match (self.count, other.count) {
            (_, 0) => self,
            (0, _) => other,
            _ => Summary {
                count: self.count + other.count,
                sum: self.sum + other.sum,
                min: self.min.min(other.min),
                max: self.max.max(other.max),
                last: other.last,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_has_a_counter_of_its_own() {
        let slots: BTreeSet<usize> = OpCode::ALL.iter().map(|op| slot(*op)).collect();
        assert_eq!(slots.len(), OpCode::ALL.len());
        assert!(!slots.contains(&(OPERATION_SLOTS - 1)), "an operation has left the ranges of `slot`");
    }

    #[test]
    fn a_spread_knows_its_bounds_and_forgets_them() {
        let spread = Spread::default();
        assert_eq!(spread.read(), Summary::default());
        spread.add(30, 2);
        spread.add(6, 1);
        assert_eq!(spread.read(), Summary { count: 3, sum: 66, min: 6, max: 30, last: 6 });
        assert_eq!(spread.read().average(), 22.0);
        spread.reset();
        assert_eq!(spread.read(), Summary::default());
    }
}
