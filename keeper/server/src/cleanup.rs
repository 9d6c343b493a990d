//! The end of containers and TTL nodes. The leader looks at a bounded number of them at a time and proposes the ones
//! whose time has come; the tree decides again when that is applied.

use crate::batch::Kind;
use crate::dispatch::{Dispatch, Submission};
use crate::in_flight::Target;
use crate::limits::CLEANUP_LOOKS_MAX;
use crate::shared::Shared;
use bytes::Bytes;
use keeper_consensus::{Consensus, Role};
use keeper_tree::{CleanupCursor, Perishable};
use keeper_types::{Generation, SessionId};
use std::sync::Arc;
use std::time::Duration;

/// Runs until the member stops: a look each `period`, at all nodes of one kind in turn.
pub async fn run(
    shared: Arc<Shared>,
    consensus: Consensus,
    dispatch: Dispatch,
    kind: Perishable,
    period: Duration,
) {
    let mut ticks = keeper_rt::interval(period);
    let mut cursor = CleanupCursor::default();
    loop {
        ticks.tick().await;
        if consensus.status().role != Role::Leader {
            cursor = CleanupCursor::default();
            continue;
        }
        let due = shared.read_tree().due(kind, keeper_rt::wall_ms(), &mut cursor, CLEANUP_LOOKS_MAX);
        for path in due {
            tracing::debug!(path, ?kind, "the node's time has come");
            let nobody = (SessionId(0), Generation(0));
            dispatch.submit(Submission::command(Kind::CleanUp, nobody, Bytes::from(path), Target::Nobody));
        }
    }
}
