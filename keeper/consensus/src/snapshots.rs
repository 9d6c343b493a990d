//! When to make a snapshot and how much log to keep: both by bytes, since entries are batches of any size.
//!
//! A snapshot is made when enough log was applied since the last one: `snapshot_log_bytes`, and more where the
//! snapshot itself is larger, so that a big tree is not written over and over for a little log. The log before the *previous* snapshot is then
//! purged: a member that was away for a moment is fed from the log, and between one and two times
//! that much of it stay.

use crate::limits::{SNAPSHOT_CHECK, SNAPSHOT_LOG_FACTOR_MAX, SNAPSHOT_RETRY};
use crate::node::Node;
use openraft::async_runtime::watch::WatchReceiver;
use std::sync::Weak;

/// Runs until the node is dropped or stops.
pub async fn run(node: Weak<Node>) {
    let mut newest = node.upgrade().and_then(|node| node.snapshots.latest()).map(|info| info.meta.index);
    let mut previous: Option<u64> = None;
    let mut not_before = keeper_rt::now();
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
            not_before = keeper_rt::now();
            if let Some(upto) = previous {
                tracing::debug!(upto, "purging the log");
                if running.raft.trigger().purge_log(upto).await.is_err() {
                    return;
                }
            }
        }
        let bytes = node.snapshots.latest().map_or(0, |info| info.bytes);
        let due = running.machine.bytes_since_snapshot() >= threshold_bytes(node.snapshot_log_bytes, bytes);
        if due && not_before <= keeper_rt::now() {
            not_before = keeper_rt::now() + SNAPSHOT_RETRY;
            if running.raft.trigger().snapshot().await.is_err() {
                return;
            }
        }
    }
}

/// Log bytes after which the next snapshot is due, where the last one had `snapshot_bytes`.
fn threshold_bytes(snapshot_log_bytes: u64, snapshot_bytes: u64) -> u64 {
    let most = snapshot_log_bytes.saturating_mul(SNAPSHOT_LOG_FACTOR_MAX);
    snapshot_bytes.clamp(snapshot_log_bytes, most)
}

#[cfg(test)]
mod tests {
    use super::threshold_bytes;

    #[test]
    fn a_large_snapshot_is_not_written_for_a_little_log_nor_is_the_log_kept_forever() {
        assert_eq!([0, 100, 500, 9_000].map(|bytes| threshold_bytes(100, bytes)), [100, 100, 500, 800]);
    }
}
