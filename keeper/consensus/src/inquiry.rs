//! What operators ask of one member's log and disk. Nothing in here is on the path of a write.

use crate::api::{DiskUsage, LogEnds};
use crate::codec::head_log_id;
use crate::node::Node;
use crate::types::position;
use keeper_log::{SharedDisk, Wal};
use std::io;
use std::sync::Arc;

/// Reads the heads of the first and the last entry.
pub async fn log_ends(node: &Node) -> io::Result<LogEnds> {
    let stats = node.wal.stats();
    let first = stats.first_index;
    let last = stats.last_index;
    Ok(LogEnds { first: at(&node.wal, first).await?, last: at(&node.wal, last).await? })
}

async fn at(wal: &Wal, index: Option<u64>) -> io::Result<Option<crate::api::LogPosition>> {
    let Some(index) = index else { return Ok(None) };
    // A limit of one byte still yields one entry. It may have been purged or cut off since.
    let entries = wal.read(index..index + 1, 1).await?;
    let head = entries.first().map(|(index, head, _)| head_log_id(*index, head)).transpose()?;
    Ok(head.map(|id| position(&id)))
}

/// Adds up the sizes of the files in the data folder. Runs on a thread of its own.
pub async fn disk_usage(node: &Arc<Node>) -> io::Result<DiskUsage> {
    let disk = node.disk.clone();
    let counting = keeper_rt::thread("disk-usage", async move { count(&disk).await });
    counting.await.map_err(io::Error::other)?
}

async fn count(disk: &SharedDisk) -> io::Result<DiskUsage> {
    let mut usage = DiskUsage::default();
    for name in disk.list().await? {
        let len = match disk.open(&name).await {
            Ok(file) => file.len().await?,
            // Removed since the listing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if name.starts_with("snapshot-") {
            usage.snapshot_bytes += len;
        } else {
            usage.log_bytes += len;
        }
    }
    Ok(usage)
}
