//! The end of containers and TTL nodes (ZooKeeper, class `ContainerManager`). The leader looks for nodes whose time
//! has come and proposes each by its path; whether it really goes is decided again when that is applied.

use std::ops::Bound;

use crate::apply::Change;
use crate::command::Sink;
use crate::lifetime::Lifetime;
use crate::multi::Journal;
use crate::node::{Node, NodeId};
use crate::tree::Tree;

/// Where a look at the perishable nodes stopped. Means nothing on another node or after a restart.
#[derive(Clone, Copy, Debug, Default)]
pub struct CleanupCursor(Option<NodeId>);

/// Which kind of node a look is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Perishable {
    Container,
    Ttl,
}

impl Tree {
    /// Paths of the nodes of one kind whose time has come by `now_ms`, among the next `look_max` after the cursor.
    /// The cursor moves on, and starts over behind the last one.
    pub fn due(
        &self,
        kind: Perishable,
        now_ms: i64,
        cursor: &mut CleanupCursor,
        look_max: usize,
    ) -> Vec<String> {
        let from = cursor.0.map_or(Bound::Unbounded, Bound::Excluded);
        let mut looked = 0;
        let mut due = Vec::new();
        cursor.0 = None;
        for id in self.perishable.range((from, Bound::Unbounded)) {
            let node = self.store.node(*id);
            let is_container = node.lifetime() == Lifetime::Container;
            if is_container == (kind == Perishable::Container) && is_due(&node, now_ms) {
                due.push(self.store.path_of(*id));
            }
            looked += 1;
            if looked == look_max {
                cursor.0 = Some(*id);
                break;
            }
        }
        due
    }

    /// Removes the node if its time has come.
    pub(crate) fn clean_up(&mut self, path: &str, sink: &mut dyn Sink) {
        let Some(id) = self.store.find(path) else { return };
        if is_due(&self.store.node(id), self.time_ms) {
            let readers = self.remove_node(id, path, &mut Journal::off());
            Change::Deleted { path: path.into(), readers }.tell(sink, self.zxid);
        }
    }
}

/// A container has had a child and has none, as ZooKeeper asks: one that was just made is left alone.
fn is_due(node: &Node<'_>, now_ms: i64) -> bool {
    let time_has_come = match node.lifetime() {
        Lifetime::Container => node.creates != 0,
        Lifetime::Ttl(ttl_ms) => now_ms.saturating_sub(node.mtime) > ttl_ms,
        Lifetime::Persistent | Lifetime::Ephemeral(_) => false,
    };
    time_has_come && node.children().is_empty()
}
