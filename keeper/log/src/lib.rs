//! Write-ahead log and snapshot files over a [`Disk`].
mod disk;
pub use disk::{Disk, DiskFile, DiskFuture, SharedDisk};
