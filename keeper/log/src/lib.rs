//! Write-ahead log and snapshot files over a [`Disk`].
//!
//! Order to read in: the formats (`docs/formats/log.md`, `snapshot.md`), [`Wal`], the writer behind it, recovery.
//! This crate knows nothing of Raft, terms or the tree: votes, heads and payloads are bytes to it. It must never
//! touch a file but through [`Disk`] (only [`RealDisk`] may), and never report as durable what is not.
#![forbid(unsafe_code)]

mod disk;
mod error;
pub mod limits;
mod options;
mod stats;

mod format;
mod view;

mod wal;

mod index;
mod writer;

mod reader;
mod segments;

mod recovery;
mod replay;

mod inspect;
mod stop;
mod timer;

mod small_file;
mod snapshot;

pub mod faulty;
mod real;

#[cfg(test)]
mod tests;

pub use disk::{Disk, DiskFile, DiskFuture, SharedDisk};
pub use error::LogError;
pub use inspect::{Found, inspect};
pub use options::{FatalHook, Options, SyncHook};
pub use real::RealDisk;
pub use recovery::{Verified, verify};
pub use small_file::{read_small_file, replace_file};
pub use snapshot::{SnapshotInfo, SnapshotMeta, SnapshotReader, SnapshotStore, SnapshotWriter};
pub use stats::{Histogram, WalStats};
pub use wal::{Cut, Done, Recovered, Wal, open};
