//! The whole state as bytes and back; the format is `docs/formats/tree-snapshot.md`. A decoded tree has the
//! encoded one's digest and lists children in the same order. Bytes that are not exactly what an encoder
//! wrote give a `SnapshotError`, never a panic and never a large allocation on the word of a length.

mod decode;
mod encode;
mod gradual;
mod output;

use std::fmt;

pub(crate) use gradual::Running;
pub use gradual::{SnapshotAbandoned, SnapshotWalk};

pub(crate) const MAGIC: [u8; 8] = *b"KEEPTREE";
pub(crate) const VERSION: u32 = 1;

/// In place of a parent's number: the root's record.
pub(crate) const NO_PARENT: u32 = u32::MAX;

/// In place of the length of data: null data.
pub(crate) const NULL_DATA: u32 = u32::MAX;

/// A snapshot that cannot be read: where it stopped making sense, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotError {
    /// Bytes from the start, over all chunks.
    pub offset: u64,
    pub reason: String,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tree snapshot, byte {}: {}", self.offset, self.reason)
    }
}

impl std::error::Error for SnapshotError {}
