//! When to make a snapshot and how much log to keep: both by bytes, since entries are batches of any size.
//!
//! A snapshot is made when enough log was applied since the last one. The log before the *previous* snapshot is then
//! purged: a member that was away for a moment is fed from the log, and between one and two times
//! `snapshot_log_bytes` of it stay.

use crate::limits::SNAPSHOT_CHECK;
use crate::node::Node;
use openraft::async_runtime::watch::WatchReceiver;
use std::sync::Weak;

/// Runs until the node is dropped or stops.
pub async fn run(node: Weak<Node>) {
    let mut newest = node.upgrade().and_then(|node| node.snapshots.latest()).map(|info| info.meta.index);
    let mut previous: Option<u64> = None;
    loop {
        keeper_rt::sleep(SNAPSHOT_CHECK).await;
        let Some(node) = node.upgrade() else { return };
        let Some(running) = node.running() else { return };
        if *node.stopping.borrow() {
            return;
        }
        // A disk may fill or empty while Raft's own numbers stand still.
        crate::status::publish(&node);
        let latest = running.raft.metrics().borrow_watched().snapshot.map(|id| id.index);
        if latest > newest {
            previous = newest.or(previous);
            newest = latest;
            if let Some(upto) = previous {
                tracing::debug!(upto, "purging the log");
                if running.raft.trigger().purge_log(upto).await.is_err() {
                    return;
                }
            }
        }
        if running.machine.bytes_since_snapshot() >= node.snapshot_log_bytes
            && running.raft.trigger().snapshot().await.is_err()
        {
            return;
        }
    }
}
