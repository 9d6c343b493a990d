//! Writes one snapshot, chunk by chunk.

use super::format::{self, Footer};
use super::{SnapshotInfo, SnapshotMeta, SnapshotStore};
use crate::DiskFile;
use crate::limits::{SNAPSHOT_CHUNK_BYTES_MAX, SNAPSHOT_HEAD_BYTES_MAX, SNAPSHOT_SYNC_STEP_BYTES};
use crate::stop::crash_point;
use std::io::{self, ErrorKind};

/// A snapshot being written. Dropped unfinished it leaves a temporary file, which the next `begin` or `open` removes.
pub struct SnapshotWriter {
    store: SnapshotStore,
    temporary: String,
    file: Box<dyn DiskFile>,
    meta: SnapshotMeta,
    seed: u32,
    footer: Footer,
    /// Where the next chunk goes. Invariant: at least `synced`.
    offset: u64,
    synced: u64,
    buffer: Vec<u8>,
    /// The footer is there and everything is durable. Invariant: nothing is written after it.
    is_sealed: bool,
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        self.store.state().open.remove(&self.temporary);
    }
}

impl SnapshotWriter {
    pub(super) async fn create(
        store: SnapshotStore,
        temporary: String,
        meta: SnapshotMeta,
    ) -> io::Result<SnapshotWriter> {
        check_len("the head of a snapshot", meta.head.len(), SNAPSHOT_HEAD_BYTES_MAX)?;
        let (header, seed) = format::encode_header(&meta);
        let mut file = store.disk.create(&temporary).await?;
        file.write_at(0, &header).await?;
        Ok(SnapshotWriter {
            store,
            temporary,
            file,
            meta,
            seed,
            footer: Footer { chunks: 0, bytes: 0, overall_crc: 0 },
            offset: header.len() as u64,
            synced: 0,
            buffer: Vec::new(),
            is_sealed: false,
        })
    }

    /// Adds a chunk of at most [`SNAPSHOT_CHUNK_BYTES_MAX`]. It is read back as one; an empty one is not kept.
    pub async fn write(&mut self, chunk: &[u8]) -> io::Result<()> {
        assert!(!self.is_sealed, "a chunk after the footer of {}", self.temporary);
        check_len("a chunk of a snapshot", chunk.len(), SNAPSHOT_CHUNK_BYTES_MAX)?;
        if chunk.is_empty() {
            return Ok(());
        }
        let crc = format::chunk_crc(self.seed, self.footer.chunks, chunk);
        self.buffer.clear();
        self.buffer.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(&crc.to_le_bytes());
        self.buffer.extend_from_slice(chunk);
        self.file.write_at(self.offset, &self.buffer).await?;
        self.offset += self.buffer.len() as u64;
        self.footer.chunks += 1;
        self.footer.bytes += chunk.len() as u64;
        self.footer.overall_crc = format::overall_crc(self.footer.overall_crc, crc);
        if SNAPSHOT_SYNC_STEP_BYTES <= self.offset - self.synced {
            self.file.sync().await?;
            self.synced = self.offset;
        }
        Ok(())
    }

    /// Makes everything durable under the temporary name: after this `finish` needs no more space. For a snapshot
    /// that may be published only later, when a full disk could no longer be answered.
    pub async fn seal(&mut self) -> io::Result<()> {
        if !self.is_sealed {
            self.file.write_at(self.offset, &self.footer.encode(self.seed)).await?;
            if !keeper_rt::planted!("snapshot-not-synced") {
                self.file.sync().await?;
            }
            self.is_sealed = true;
        }
        Ok(())
    }

    /// Durable and the store's latest on return (unless a newer one was finished meanwhile).
    pub async fn finish(mut self) -> io::Result<SnapshotInfo> {
        self.seal().await?;
        crash_point("snapshot-written").await;
        let info = SnapshotInfo {
            file: format::name(self.meta.index, self.meta.term),
            meta: self.meta.clone(),
            bytes: self.footer.bytes,
            chunks: self.footer.chunks,
        };
        self.store.publish(&self.temporary, &info).await?;
        Ok(info)
    }

    /// Gives up and removes the temporary file.
    pub async fn abandon(self) {
        // What cannot be removed now is at the next `begin`.
        let _ = self.store.disk.remove(&self.temporary).await;
    }
}

fn check_len(what: &str, len: usize, max: usize) -> io::Result<()> {
    if len <= max {
        return Ok(());
    }
    Err(io::Error::new(ErrorKind::InvalidInput, format!("{what} has {len} bytes; {max} are allowed")))
}
