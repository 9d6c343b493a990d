//! Reads one snapshot, chunk by chunk, and checks every byte of it on the way.

use super::format::{self, CHUNK_HEADER_BYTES, FOOTER_BYTES, Footer, HEADER_FIXED_BYTES, HeaderError};
use super::{SnapshotInfo, SnapshotMeta};
use crate::format::u32_at;
use crate::limits::SNAPSHOT_CHUNK_BYTES_MAX;
use crate::{DiskFile, LogError, SharedDisk};
use bytes::Bytes;
use std::io;

/// Reads a snapshot's chunks in order, each checked.
pub struct SnapshotReader {
    /// Folder and name, for messages.
    path: String,
    file: Box<dyn DiskFile>,
    info: SnapshotInfo,
    seed: u32,
    footer: Footer,
    /// Where the next chunk begins.
    offset: u64,
    /// Where the footer begins.
    end: u64,
    position: u64,
    overall_crc: u32,
}

/// Opens a snapshot and checks its header, footer and length.
pub(super) async fn open(disk: &SharedDisk, name: &str) -> Result<SnapshotReader, LogError> {
    let path = format!("{}/{name}", disk.location());
    let file = disk.open(name).await.map_err(|error| LogError::io("open", path.clone(), error))?;
    let file_bytes = file.len().await.map_err(|error| LogError::io("measure", path.clone(), error))?;
    let damaged =
        |offset: u64, what: &str| LogError::Damaged { file: path.clone(), offset, what: what.into() };
    let (meta, seed, header_bytes) = read_header(&*file, file_bytes, &path).await?;
    if format::parse_name(name) != Some((meta.index, meta.term)) {
        return Err(damaged(0, "its header belongs to another snapshot than its name"));
    }
    let Some(end) = file_bytes.checked_sub(FOOTER_BYTES as u64).filter(|end| header_bytes as u64 <= *end)
    else {
        return Err(damaged(file_bytes, "the file ends before its footer"));
    };
    let footer = file.read_at(end, FOOTER_BYTES).await;
    let footer = footer.map_err(|error| LogError::io("read", path.clone(), error))?;
    let footer =
        Footer::decode(&footer, seed).ok_or_else(|| damaged(end, "it does not end in a right footer"))?;
    if footer.file_bytes(header_bytes) != Some(file_bytes) {
        return Err(damaged(end, "its length is not what its footer says"));
    }
    let info = SnapshotInfo { meta, file: name.into(), bytes: footer.bytes, chunks: footer.chunks };
    let offset = header_bytes as u64;
    Ok(SnapshotReader { path, file, info, seed, footer, offset, end, position: 0, overall_crc: 0 })
}

async fn read_header(
    file: &dyn DiskFile,
    file_bytes: u64,
    path: &str,
) -> Result<(SnapshotMeta, u32, usize), LogError> {
    let wrong = |error: HeaderError| match error {
        HeaderError::Version(found) => LogError::Version { file: path.into(), found, known: format::VERSION },
        HeaderError::Wrong(what) => LogError::Damaged { file: path.into(), offset: 0, what: what.into() },
    };
    let failed = |error| LogError::io("read", path, error);
    let fixed_bytes = file_bytes.min(HEADER_FIXED_BYTES as u64) as usize;
    let fixed = file.read_at(0, fixed_bytes).await.map_err(failed)?;
    let header_bytes = format::header_bytes(&fixed).map_err(wrong)?;
    if file_bytes < header_bytes as u64 {
        return Err(wrong(HeaderError::Wrong("the file ends within its header")));
    }
    let header = file.read_at(0, header_bytes).await.map_err(failed)?;
    let (meta, seed) = format::decode_header(&header).map_err(wrong)?;
    Ok((meta, seed, header_bytes))
}

impl SnapshotReader {
    /// Opens a snapshot by its name, outside of a store; its header, footer and length are checked.
    pub async fn open(disk: &SharedDisk, name: &str) -> Result<SnapshotReader, LogError> {
        open(disk, name).await
    }

    pub fn info(&self) -> &SnapshotInfo {
        &self.info
    }

    pub(super) fn into_info(self) -> SnapshotInfo {
        self.info
    }

    /// The next chunk; `None` after the last, when the overall checksum has been found right. After an error
    /// nothing more can be read.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.offset == self.end {
            return self.check_end().map(|()| None);
        }
        let left = self.end - self.offset;
        if left < CHUNK_HEADER_BYTES as u64 {
            return Err(self.damaged("a chunk ends within its header"));
        }
        let header = self.file.read_at(self.offset, CHUNK_HEADER_BYTES).await?;
        let (len, crc) = (u32_at(&header, 0) as usize, u32_at(&header, 4));
        if len == 0 || SNAPSHOT_CHUNK_BYTES_MAX < len || left < (CHUNK_HEADER_BYTES + len) as u64 {
            return Err(self.damaged("a chunk has an impossible length"));
        }
        let chunk = self.file.read_at(self.offset + CHUNK_HEADER_BYTES as u64, len).await?;
        let is_right = format::chunk_crc(self.seed, self.position, &chunk) == crc;
        if !is_right && !keeper_rt::planted!("snapshot-checksum-unchecked") {
            return Err(self.damaged("a chunk has a wrong checksum"));
        }
        self.offset += (CHUNK_HEADER_BYTES + len) as u64;
        self.position += 1;
        self.overall_crc = format::overall_crc(self.overall_crc, crc);
        Ok(Some(chunk.into()))
    }

    fn check_end(&self) -> io::Result<()> {
        if self.position != self.footer.chunks || self.overall_crc != self.footer.overall_crc {
            return Err(self.damaged("its chunks are not those that its footer counts"));
        }
        Ok(())
    }

    fn damaged(&self, what: &str) -> io::Error {
        LogError::Damaged { file: self.path.clone(), offset: self.offset, what: what.into() }.into()
    }
}
