//! Watches of this member's clients: wchs, wchc, wchp. Shapes as ZooKeeper's `WatchManager`, with the empty line that
//! ends both lists.

use super::text::{Text, put};
use crate::outbox::ConnectionId;
use crate::shared::Shared;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

pub fn wchs(shared: &Shared) -> Text {
    let summary = shared.watches.summary();
    let mut text = Text::default();
    put!(text, "{} connections watching {} paths", summary.connections, summary.paths);
    put!(text, "Total watches:{}", summary.watches);
    text
}

/// A session, then its paths, each once whatever kinds of watch there are on it.
pub fn wchc(shared: &Shared) -> Text {
    let sessions = sessions(shared);
    let mut text = Text::default();
    let mut current = None;
    shared.watches.list(&mut |connection, path| {
        let begun = current.replace(connection) == Some(connection)
            || put!(text, "{:#x}", sessions.get(&connection).copied().unwrap_or_default());
        begun && put!(text, "\t{path}")
    });
    put!(text, "");
    text
}

/// A path, then the sessions that watch it.
pub fn wchp(shared: &Shared) -> Text {
    let sessions = sessions(shared);
    let mut text = Text::default();
    shared.watches.list_by_path(&mut |path, connections| {
        put!(text, "{path}")
            && connections.iter().all(|connection| {
                put!(text, "\t{:#x}", sessions.get(connection).copied().unwrap_or_default())
            })
    });
    put!(text, "");
    text
}

/// Taken before the watches, so that the two locks never meet.
fn sessions(shared: &Shared) -> BTreeMap<ConnectionId, i64> {
    let connections = shared.connections();
    connections.iter().map(|(id, info)| (*id, info.session.load(Ordering::Relaxed))).collect()
}
