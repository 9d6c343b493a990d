//! Counters of the log: plain atomics, written by the writer, read by anybody.

use crate::limits::SYNC_US_BUCKETS;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// A histogram as it stood at one moment. `counts[i]` counts what was at most `bounds_us[i]` and above the bound
/// before; the last count has no bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    pub bounds_us: &'static [u64],
    pub counts: Vec<u64>,
    pub count: u64,
    pub sum_us: u64,
}

/// The log as it stood at one moment. Counters run from `open`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalStats {
    pub entries_appended: u64,
    pub votes_saved: u64,
    pub truncations: u64,
    pub purges: u64,
    pub batches_written: u64,
    /// Bytes handed to the disk for batches, padding included.
    pub bytes_written: u64,
    /// Times a batch had to wait because the next segment was not ready.
    pub segment_waits: u64,
    /// Bytes of entries queued and not yet durable. Bounded by what consensus has in flight.
    pub queued_bytes: u64,
    /// No further segment can be prepared and the current one is nearly used up: refuse new writes.
    pub full: bool,
    /// Segments in use, the current one included, spares and the prepared one not.
    pub segments: u64,
    pub segment_bytes: u64,
    pub spare_segments: u64,
    pub cached_bytes: u64,
    /// Bytes of the entries from the first to the last: what a snapshot and a purge would free.
    pub live_bytes: u64,
    pub first_index: Option<u64>,
    pub last_index: Option<u64>,
    /// Last index known to be durable; never above `last_index`.
    pub durable_index: Option<u64>,
    pub purged_index: Option<u64>,
    /// Duration of each sync of a batch.
    pub sync: Histogram,
}

/// The live counters behind [`WalStats`].
#[derive(Default)]
pub(crate) struct Counters {
    pub entries_appended: AtomicU64,
    pub votes_saved: AtomicU64,
    pub truncations: AtomicU64,
    pub purges: AtomicU64,
    pub batches_written: AtomicU64,
    pub bytes_written: AtomicU64,
    pub segment_waits: AtomicU64,
    pub queued_bytes: AtomicU64,
    pub spare_segments: AtomicU64,
    /// The last attempt to prepare a segment found no space.
    pub prepare_fails: AtomicBool,
    /// Wakes a writer that waits for that segment.
    pub prepare_failed: Notify,
    /// The last attempt to write a batch found no space.
    pub write_fails: AtomicBool,
    /// The current segment has less than the reserve left.
    pub is_short: AtomicBool,
    sync_counts: [AtomicU64; SYNC_US_BUCKETS.len() + 1],
    sync_sum_us: AtomicU64,
}

impl Counters {
    pub fn add(counter: &AtomicU64, value: u64) {
        counter.fetch_add(value, Ordering::Relaxed);
    }

    pub fn is_full(&self) -> bool {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is_set(&self.write_fails) || is_set(&self.prepare_fails) && is_set(&self.is_short)
    }

    pub fn record_sync(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = SYNC_US_BUCKETS.partition_point(|bound| *bound < us);
        Self::add(&self.sync_counts[bucket], 1);
        Self::add(&self.sync_sum_us, us);
    }

    pub fn sync_histogram(&self) -> Histogram {
        let counts: Vec<u64> = self.sync_counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Histogram {
            bounds_us: &SYNC_US_BUCKETS,
            count: counts.iter().sum(),
            counts,
            sum_us: self.sync_sum_us.load(Ordering::Relaxed),
        }
    }
}
