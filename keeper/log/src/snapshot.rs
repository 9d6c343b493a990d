//! Snapshot files: written under a temporary name, checksummed, renamed, the last two kept.

use crate::{LogError, SharedDisk};
use bytes::Bytes;
use std::io;

/// What a snapshot covers. It is named by term and index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMeta {
    pub term: u64,
    /// The last applied index.
    pub index: u64,
    /// Consensus' own encoding of what it must know of the snapshot (log id, membership).
    pub head: Bytes,
}

/// A finished snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    pub meta: SnapshotMeta,
    pub file: String,
    /// Bytes of all chunks.
    pub bytes: u64,
    pub chunks: u64,
}

/// The snapshots of one folder. Clones are the same store. Its futures block on a real disk: drive them with
/// `keeper_rt::thread`, never on a runtime's thread, except `open` before the server serves.
#[derive(Clone)]
pub struct SnapshotStore {
    disk: SharedDisk,
}

impl SnapshotStore {
    /// Removes leftovers of unfinished snapshots and finds the newest finished one, whose header and footer are
    /// checked; its chunks are when they are read.
    pub async fn open(disk: SharedDisk) -> Result<SnapshotStore, LogError> {
        Ok(SnapshotStore { disk })
    }

    /// The finished snapshot with the highest index.
    pub fn latest(&self) -> Option<SnapshotInfo> {
        None
    }

    /// Begins a new one. Several may be written at a time.
    pub async fn begin(&self, meta: SnapshotMeta) -> io::Result<SnapshotWriter> {
        let _ = (meta, &self.disk);
        Err(io::Error::other("not there yet"))
    }

    pub async fn reader(&self, info: &SnapshotInfo) -> io::Result<SnapshotReader> {
        let _ = info;
        Err(io::Error::other("not there yet"))
    }
}

/// A snapshot being written. Dropped unfinished it leaves a temporary file, which the next `begin` or `open` removes.
pub struct SnapshotWriter {}

impl SnapshotWriter {
    pub async fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        let _ = chunk;
        Err(io::Error::other("not there yet"))
    }

    /// Durable and the store's latest on return (unless a newer one was finished meanwhile).
    pub async fn finish(self) -> io::Result<SnapshotInfo> {
        Err(io::Error::other("not there yet"))
    }

    /// Gives up and removes the temporary file.
    pub async fn abandon(self) {}
}

/// Reads a snapshot's chunks in order, each checked.
pub struct SnapshotReader {}

impl SnapshotReader {
    /// The next chunk; `None` after the last, when the overall checksum has been found right.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        Err(io::Error::other("not there yet"))
    }
}
