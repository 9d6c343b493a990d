//! The handle of the write-ahead log: what consensus calls.

use crate::{LogError, Options, SharedDisk, WalStats};
use bytes::Bytes;
use std::io;
use std::ops::Range;

/// Called once, in the order of the calls, when what it belongs to is durable. An error means that the log has
/// stopped; a full disk is not an error but a wait.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// What the log held when it was opened. All of it is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// There was no log in the folder before.
    pub created: bool,
    pub vote: Option<Bytes>,
    /// The last committed position that was noted; may be older than the truth.
    pub committed: Option<Bytes>,
    /// The last purged index and the head given with it.
    pub purged: Option<(u64, Bytes)>,
    /// Index of the first entry that is there.
    pub first_index: Option<u64>,
    /// Index and head of the last entry; `None` when there is no entry (then `purged` is where the log stands).
    pub last: Option<(u64, Bytes)>,
    /// A torn tail that was cut: never acknowledged, so nothing is lost.
    pub cut: Option<Cut>,
}

/// A batch that a crash had left incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: String,
    pub offset: u64,
}

/// Handle of an open log. Clones are the same log. When the last one is dropped, what is queued is still written.
#[derive(Clone)]
pub struct Wal {}

/// Opens the log in `disk`'s folder, or creates one. Must be called on a runtime (or in a simulation): a log on a
/// full disk needs a timer.
pub async fn open(disk: SharedDisk, options: Options) -> Result<(Wal, Recovered), LogError> {
    options.check()?;
    let _ = disk;
    Err(LogError::Options("not there yet".into()))
}

impl Wal {
    /// Queues entries `(index, head, payload)`; readable at once, `done` when durable. Never blocks: the queue is
    /// bounded by the caller's limit of what it has in flight, and counted in [`WalStats::queued_bytes`].
    /// Indexes must go on from the last one without a gap; anything else is a bug and panics.
    pub fn append(&self, entries: Vec<(u64, Bytes, Bytes)>, done: Done) {
        let _ = (entries, done);
    }

    /// Durable on return, and everything queued before it too.
    pub async fn save_vote(&self, vote: Bytes) -> io::Result<()> {
        let _ = vote;
        Err(io::Error::other("not there yet"))
    }

    /// Removes all entries above `index` (`None`: all entries). Durable on return.
    pub async fn truncate_after(&self, index: Option<u64>) -> io::Result<()> {
        let _ = index;
        Err(io::Error::other("not there yet"))
    }

    /// Forgets entries up to `index`, which may lie beyond the last entry (a snapshot was installed): the log then
    /// goes on at `index + 1`. Returns once queued; segments are released later. Only call it when a durable
    /// snapshot covers `index`.
    pub async fn purge_upto(&self, index: u64, head: Bytes) -> io::Result<()> {
        let _ = (index, head);
        Err(io::Error::other("not there yet"))
    }

    /// Remembers a committed position in memory; it goes to the disk with the next batch.
    pub fn note_committed(&self, committed: Bytes) {
        let _ = committed;
    }

    /// The entries of `range` that are there, in order and without a gap, until `bytes_max` of heads and payloads
    /// is passed; at least one if there is any.
    pub async fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<(u64, Bytes, Bytes)>> {
        let _ = (range, bytes_max);
        Err(io::Error::other("not there yet"))
    }

    pub fn stats(&self) -> WalStats {
        unreachable!()
    }

    /// Whether new writes should be refused; see [`WalStats::full`]. Cheap.
    pub fn is_full(&self) -> bool {
        false
    }

    /// Writes what is queued, then ends the log's threads and lets go of the disk. Later calls fail.
    pub async fn close(&self) {}
}
