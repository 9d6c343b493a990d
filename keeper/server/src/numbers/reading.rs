//! What the rows of the table are read from: one look at consensus, tree, watches, statistics and process.

use crate::limits::READY_LAG_ENTRIES_MAX;
use crate::shared::Shared;
use crate::stats::Summary;
use crate::watch::WatchSummary;
use keeper_consensus::{Consensus, Role, Status};
use keeper_log::WalStats;
use keeper_rt::{Instant, OpenFiles};
use keeper_tree::Counts;
use keeper_types::OpCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub struct Reading {
    pub shared: Arc<Shared>,
    pub status: Status,
    pub log: WalStats,
    pub snapshot_bytes: u64,
    pub zxid: i64,
    pub counts: Counts,
    pub watches: WatchSummary,
    pub connections: usize,
    /// Requests of this member's clients whose replies are not on their way yet.
    pub outstanding: u64,
    pub latency: Summary,
    pub reads: Summary,
    pub writes: Summary,
    pub uptime: Duration,
    /// `None` where the system does not say.
    pub open_files: Option<OpenFiles>,
}

impl Reading {
    pub async fn take(consensus: &Consensus, shared: &Arc<Shared>, started: Instant) -> Reading {
        let open_files = keeper_rt::blocking(keeper_rt::open_files).await.ok().flatten();
        let (zxid, counts) = {
            let tree = shared.read_tree();
            (tree.zxid().0, tree.counts())
        };
        let (connections, outstanding) = {
            let connections = shared.connections();
            let outstanding: u64 =
                connections.values().map(|info| info.outstanding.load(Ordering::Relaxed)).sum();
            (connections.len(), outstanding)
        };
        Reading {
            status: consensus.status(),
            log: consensus.log_stats(),
            snapshot_bytes: consensus.snapshot_bytes(),
            zxid,
            counts,
            watches: shared.watches.summary(),
            connections,
            outstanding,
            latency: shared.stats.latency(),
            reads: shared.stats.reads.read(),
            writes: shared.stats.writes.read(),
            uptime: started.elapsed(),
            open_files,
            shared: shared.clone(),
        }
    }

    pub fn leads(&self) -> bool {
        self.status.role == Role::Leader
    }

    /// `None` on all but the leader.
    pub fn on_leader(&self, number: impl FnOnce(&Status) -> usize) -> Option<u64> {
        self.leads().then(|| number(&self.status) as u64)
    }

    /// Other members that are as good as caught up, voters or learners. On the leader only.
    pub fn synced(&self, voters: bool) -> Option<u64> {
        self.on_leader(|status| {
            let close = status.progress.iter().filter(|peer| {
                peer.matched_index.is_some()
                    && peer.lag < READY_LAG_ENTRIES_MAX
                    && status.membership.voter(peer.id).is_some() == voters
            });
            close.count()
        })
    }

    /// Requests of these kinds since the start.
    pub fn operations(&self, ops: &[OpCode]) -> u64 {
        ops.iter().map(|op| self.shared.stats.operations(*op)).sum()
    }
}
