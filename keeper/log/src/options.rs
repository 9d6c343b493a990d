//! What the opener of a log may choose.

use crate::{LogError, limits};
use std::sync::Arc;

/// Told once when the log can no longer know what is on the disk. Must not return in production; in a simulation
/// and in tests it ends that node only, and the log then fails everything that is queued and does no more.
pub type FatalHook = Arc<dyn Fn(&str) + Send + Sync>;

/// Told how long each sync of a batch took. Called on the writer's thread: must be quick.
pub type SyncHook = Arc<dyn Fn(std::time::Duration) + Send + Sync>;

#[derive(Clone)]
pub struct Options {
    /// Size of a full-grown segment, a multiple of [`limits::BLOCK_BYTES`].
    pub segment_bytes: u64,
    /// Size of the first segment of a new log; sizes double from there.
    pub segment_bytes_first: u64,
    pub spare_segments_max: usize,
    pub batch_bytes_max: usize,
    pub reserve_bytes: u64,
    pub cache_bytes_max: usize,
    pub on_fatal: FatalHook,
    pub on_sync: Option<SyncHook>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: limits::SEGMENT_BYTES,
            segment_bytes_first: limits::SEGMENT_BYTES_FIRST,
            spare_segments_max: limits::SPARE_SEGMENTS_MAX,
            batch_bytes_max: limits::BATCH_BYTES_MAX,
            reserve_bytes: limits::RESERVE_BYTES,
            cache_bytes_max: limits::CACHE_BYTES_MAX,
            on_fatal: Arc::new(abort),
            on_sync: None,
        }
    }
}

impl Options {
    /// Small segments, batches and cache: every path is walked within a few hundred small entries. For tests and
    /// simulations.
    pub fn small() -> Options {
        let segment_bytes = 16 * limits::BLOCK_BYTES as u64;
        Options {
            segment_bytes,
            segment_bytes_first: segment_bytes,
            spare_segments_max: 2,
            batch_bytes_max: 2 * limits::BLOCK_BYTES,
            reserve_bytes: segment_bytes / 4,
            cache_bytes_max: 8 * 1024,
            on_fatal: Arc::new(abort),
            on_sync: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LogError> {
        let block = limits::BLOCK_BYTES as u64;
        for (name, bytes) in
            [("segment_bytes", self.segment_bytes), ("segment_bytes_first", self.segment_bytes_first)]
        {
            let range = limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES_MAX;
            if !range.contains(&bytes) || bytes % block != 0 {
                let (min, max) = range.into_inner();
                return Err(LogError::Options(format!(
                    "{name} is {bytes}; it must be a multiple of {block} from {min} to {max}"
                )));
            }
        }
        if self.segment_bytes_first > self.segment_bytes {
            return Err(LogError::Options(
                "segment_bytes_first must not be larger than segment_bytes".into(),
            ));
        }
        if self.batch_bytes_max == 0 {
            return Err(LogError::Options("batch_bytes_max must not be 0".into()));
        }
        Ok(())
    }
}

/// The disk's state is unknown: answering from memory would promise what may be lost, so the process ends. The
/// restarted one reads back what is there.
fn abort(message: &str) {
    tracing::error!(message, "the log stops this process");
    std::process::abort();
}
