//! The bytes and names of `docs/formats/snapshot.md`. Pure; never panics on bytes.

use super::SnapshotMeta;
use crate::format::{u32_at, u64_at};
use crate::limits::SNAPSHOT_HEAD_BYTES_MAX;
use bytes::Bytes;

pub const MAGIC: &[u8; 8] = b"KEEPSNAP";
pub const VERSION: u32 = 1;
pub const HEADER_FIXED_BYTES: usize = 32;
pub const CRC_BYTES: usize = 4;
pub const CHUNK_HEADER_BYTES: usize = 8;
pub const FOOTER_BYTES: usize = 32;
const FOOTER_MAGIC: &[u8; 4] = b"DONE";

/// Header bytes and the seed of the file's other CRCs.
pub fn encode_header(meta: &SnapshotMeta) -> (Vec<u8>, u32) {
    let mut bytes = Vec::with_capacity(HEADER_FIXED_BYTES + meta.head.len() + CRC_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    // Checked against SNAPSHOT_HEAD_BYTES_MAX when the snapshot was begun.
    bytes.extend_from_slice(&(meta.head.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&meta.term.to_le_bytes());
    bytes.extend_from_slice(&meta.index.to_le_bytes());
    bytes.extend_from_slice(&meta.head);
    let seed = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&seed.to_le_bytes());
    (bytes, seed)
}

pub enum HeaderError {
    Version(u32),
    Wrong(&'static str),
}

/// Bytes of the whole header, from its fixed part.
pub fn header_bytes(fixed: &[u8]) -> Result<usize, HeaderError> {
    if fixed.len() < HEADER_FIXED_BYTES {
        return Err(HeaderError::Wrong("the file is too short for a header"));
    }
    if &fixed[..8] != MAGIC {
        return Err(HeaderError::Wrong("the header has no magic"));
    }
    let version = u32_at(fixed, 8);
    if version > VERSION {
        return Err(HeaderError::Version(version));
    }
    let head_len = u32_at(fixed, 12) as usize;
    if head_len > SNAPSHOT_HEAD_BYTES_MAX {
        return Err(HeaderError::Wrong("the header has an impossible length"));
    }
    Ok(HEADER_FIXED_BYTES + head_len + CRC_BYTES)
}

/// Decodes as many bytes as [`header_bytes`] said.
pub fn decode_header(header: &[u8]) -> Result<(SnapshotMeta, u32), HeaderError> {
    let crc_at = header_bytes(header)? - CRC_BYTES;
    let seed = crc32c::crc32c(&header[..crc_at]);
    if u32_at(header, crc_at) != seed {
        return Err(HeaderError::Wrong("the header has a wrong checksum"));
    }
    let head = Bytes::copy_from_slice(&header[HEADER_FIXED_BYTES..crc_at]);
    Ok((SnapshotMeta { term: u64_at(header, 16), index: u64_at(header, 24), head }, seed))
}

/// CRC of a chunk at this position among the chunks.
pub fn chunk_crc(seed: u32, position: u64, chunk: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(seed, &(chunk.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &position.to_le_bytes());
    crc32c::crc32c_append(crc, chunk)
}

/// The overall checksum, one chunk further.
pub fn overall_crc(before: u32, chunk_crc: u32) -> u32 {
    crc32c::crc32c_append(before, &chunk_crc.to_le_bytes())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    pub chunks: u64,
    pub bytes: u64,
    pub overall_crc: u32,
}

impl Footer {
    pub fn encode(&self, seed: u32) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&self.chunks.to_le_bytes());
        bytes.extend_from_slice(&self.bytes.to_le_bytes());
        bytes.extend_from_slice(&self.overall_crc.to_le_bytes());
        bytes.extend_from_slice(FOOTER_MAGIC);
        let crc = crc32c::crc32c_append(seed, &bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8], seed: u32) -> Option<Footer> {
        let is_right = bytes.len() == FOOTER_BYTES
            && bytes[..4] == [0; 4]
            && &bytes[28..] == FOOTER_MAGIC
            && u32_at(bytes, 4) == crc32c::crc32c_append(seed, &bytes[8..]);
        is_right.then(|| Footer {
            chunks: u64_at(bytes, 8),
            bytes: u64_at(bytes, 16),
            overall_crc: u32_at(bytes, 24),
        })
    }

    /// Length of a file with this footer, if it can have one.
    pub fn file_bytes(&self, header_bytes: usize) -> Option<u64> {
        let headers = self.chunks.checked_mul(CHUNK_HEADER_BYTES as u64)?;
        headers.checked_add(self.bytes)?.checked_add((header_bytes + FOOTER_BYTES) as u64)
    }
}

pub fn name(index: u64, term: u64) -> String {
    format!("snapshot-{index:016x}-{term:016x}.snap")
}

pub fn temporary_name(index: u64, term: u64, number: u64) -> String {
    format!("{}.{number}.tmp", name(index, term))
}

pub fn is_temporary(name: &str) -> bool {
    name.starts_with("snapshot-") && name.ends_with(".tmp")
}

/// Index and term in the name of a finished snapshot.
pub fn parse_name(file: &str) -> Option<(u64, u64)> {
    let (index, term) = file.strip_prefix("snapshot-")?.strip_suffix(".snap")?.split_once('-')?;
    let (index, term) = (u64::from_str_radix(index, 16).ok()?, u64::from_str_radix(term, 16).ok()?);
    (name(index, term) == file).then_some((index, term))
}
