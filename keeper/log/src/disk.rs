//! What the log and the snapshots need of a disk: one flat folder of named files.
//!
//! The real one's futures are ready when they return (its callers run on threads of their own); the simulated one
//! delays, tears and loses. A file written but not synced may be lost or torn by a crash; a rename, creation or
//! removal not followed by [`Disk::sync_folder`] likewise.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

pub type DiskFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// One folder.
pub trait Disk: Send + Sync + 'static {
    /// Names of all files, sorted.
    fn list(&self) -> DiskFuture<'_, Vec<String>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>>;
    /// Creates an empty file; fails if it exists.
    fn create(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>>;
    /// Replaces `to` if it exists.
    fn rename(&self, from: &str, to: &str) -> DiskFuture<'_, ()>;
    fn remove(&self, name: &str) -> DiskFuture<'_, ()>;
    /// Makes creations, renames and removals durable.
    fn sync_folder(&self) -> DiskFuture<'_, ()>;
    /// Bytes free for this process; `None` where unknown.
    fn free_bytes(&self) -> DiskFuture<'_, Option<u64>>;
    /// Where this folder is, for messages.
    fn location(&self) -> String;
}

/// One open file. It goes on naming that file after a rename or removal.
#[allow(clippy::len_without_is_empty, reason = "nobody asks whether a file is empty")]
pub trait DiskFile: Send + Sync {
    fn len(&self) -> DiskFuture<'_, u64>;
    /// Reads exactly `len` bytes, or fails with `UnexpectedEof`.
    fn read_at(&self, offset: u64, len: usize) -> DiskFuture<'_, Vec<u8>>;
    fn write_at<'a>(&'a mut self, offset: u64, bytes: &'a [u8]) -> DiskFuture<'a, ()>;
    /// Makes the data, and what is needed to read it back, durable (fdatasync).
    fn sync(&mut self) -> DiskFuture<'_, ()>;
}

pub type SharedDisk = Arc<dyn Disk>;
