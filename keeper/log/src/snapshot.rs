//! Snapshot files: written under a temporary name, checksummed, renamed, the last two kept. The format and every
//! crash case are in `docs/formats/snapshot.md`. Must never skip a finished snapshot that is damaged: the log may
//! have been purged behind it.

mod format;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::SnapshotReader;
pub use writer::SnapshotWriter;

use crate::limits::SNAPSHOTS_KEPT;
use crate::stop::crash_point;
use crate::{LogError, SharedDisk};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a snapshot covers. It is named by index and term.
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
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// (index, term) of the finished files. Invariant: the highest is `latest`.
    finished: BTreeSet<(u64, u64)>,
    latest: Option<SnapshotInfo>,
    /// Temporary files that are being written.
    open: BTreeSet<String>,
    next_number: u64,
}

impl SnapshotStore {
    /// Removes leftovers of unfinished snapshots and finds the newest finished one, whose header and footer are
    /// checked; its chunks are when they are read.
    pub async fn open(disk: SharedDisk) -> Result<SnapshotStore, LogError> {
        let names = disk.list().await.map_err(|error| LogError::io("list", disk.location(), error))?;
        let finished: BTreeSet<_> = names.iter().filter_map(|name| format::parse_name(name)).collect();
        let latest = match finished.last() {
            Some((index, term)) => Some(reader::open(&disk, &format::name(*index, *term)).await?.into_info()),
            None => None,
        };
        let state = State { finished, latest, ..State::default() };
        let store = SnapshotStore { disk, state: Arc::new(Mutex::new(state)) };
        let removed = store.remove_leftovers().await;
        removed
            .map_err(|error| LogError::io("remove unfinished snapshots in", store.disk.location(), error))?;
        Ok(store)
    }

    /// Names of the finished snapshots in a folder, lowest index first. Changes nothing.
    pub async fn names(disk: &SharedDisk) -> io::Result<Vec<String>> {
        let names = disk.list().await?;
        let finished: BTreeSet<_> = names.iter().filter_map(|name| format::parse_name(name)).collect();
        Ok(finished.iter().map(|(index, term)| format::name(*index, *term)).collect())
    }

    /// The finished snapshot with the highest index.
    pub fn latest(&self) -> Option<SnapshotInfo> {
        self.state().latest.clone()
    }

    /// Begins a new one. Several may be written at a time.
    pub async fn begin(&self, meta: SnapshotMeta) -> io::Result<SnapshotWriter> {
        self.remove_leftovers().await?;
        let temporary = {
            let state = &mut *self.state();
            state.next_number += 1;
            let name = format::temporary_name(meta.index, meta.term, state.next_number);
            state.open.insert(name.clone());
            name
        };
        SnapshotWriter::create(self.clone(), temporary, meta).await
    }

    /// Opens a finished snapshot. It can be read to its end even if it is removed meanwhile.
    pub async fn reader(&self, info: &SnapshotInfo) -> io::Result<SnapshotReader> {
        Ok(reader::open(&self.disk, &info.file).await?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn remove_leftovers(&self) -> io::Result<()> {
        for name in self.disk.list().await? {
            if !format::is_temporary(&name) || self.state().open.contains(&name) {
                continue;
            }
            match self.disk.remove(&name).await {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Gives a snapshot whose bytes are durable its lasting name.
    async fn publish(&self, temporary: &str, info: &SnapshotInfo) -> io::Result<()> {
        self.disk.rename(temporary, &info.file).await?;
        self.disk.sync_folder().await?;
        crash_point("snapshot-renamed").await;
        let surplus: Vec<(u64, u64)> = {
            let state = &mut *self.state();
            state.finished.insert((info.meta.index, info.meta.term));
            if state.finished.last() == Some(&(info.meta.index, info.meta.term)) {
                state.latest = Some(info.clone());
            }
            let surplus = state.finished.len().saturating_sub(SNAPSHOTS_KEPT);
            state.finished.iter().copied().take(surplus).collect()
        };
        for (index, term) in surplus {
            self.disk.remove(&format::name(index, term)).await?;
            self.state().finished.remove(&(index, term));
        }
        self.disk.sync_folder().await
    }
}
