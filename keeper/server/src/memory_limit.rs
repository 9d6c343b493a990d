//! The soft limit of memory: writes that grow the tree are refused before the kernel would kill the process. Reads and
//! deletions go on, and writes are taken again when enough is gone.

use crate::limits::{MEMORY_BACK_SHARE, MEMORY_PERIOD};
use crate::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What counts against the limit: everything resident, but for what the tree once took and its allocator will use again.
/// Memory that was given up seldom goes back to the system, so resident memory alone would never fall.
#[derive(Default)]
struct InUse {
    tree_peak: u64,
}

impl InUse {
    fn bytes(&mut self, resident: u64, tree: u64) -> u64 {
        self.tree_peak = self.tree_peak.max(tree);
        let reusable = self.tree_peak - tree;
        // Where some of it did go back, the tree itself is the least there is.
        resident.saturating_sub(reusable).max(tree)
    }
}

/// Looks at memory from time to time. `limit`: bytes.
pub async fn run(shared: Arc<Shared>, limit: u64) {
    let mut ticks = keeper_rt::interval(MEMORY_PERIOD);
    let mut in_use = InUse::default();
    loop {
        ticks.tick().await;
        // A simulation has no resident memory.
        let Some(resident) = keeper_rt::resident_bytes() else { return };
        let tree = shared.read_tree().memory() as u64;
        let bytes = in_use.bytes(resident, tree);
        let was_full = shared.memory_full.load(Ordering::Relaxed);
        let full = bytes >= if was_full { limit / 100 * MEMORY_BACK_SHARE } else { limit };
        if shared.memory_full.swap(full, Ordering::Relaxed) != full {
            let state = if full { "refused, reads and deletions go on" } else { "taken again" };
            tracing::warn!(bytes, limit, resident, tree, "memory: writes that need more are {state}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tree_gave_up_counts_no_more_though_it_stays_resident() {
        let mut in_use = InUse::default();
        assert_eq!(in_use.bytes(500, 300), 500);
        assert_eq!(in_use.bytes(1_000, 800), 1_000);
        assert_eq!(in_use.bytes(1_000, 100), 300, "buffers and the rest of the process, and the tree of now");
        assert_eq!(in_use.bytes(1_000, 800), 1_000);
        assert_eq!(in_use.bytes(150, 100), 100, "it went back to the system");
    }
}
