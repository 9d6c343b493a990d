//! Reads that show more than one node.

use keeper_types::{AclId, ErrorCode, Perms, SessionId, Stat};

use crate::node::{Node, NodeId};
use crate::order;
use crate::tree::Tree;

/// Which children a list shows (ClickHouse Keeper, operation 500).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildFilter {
    All,
    Persistent,
    Ephemeral,
}

impl ChildFilter {
    pub fn from_u8(value: u8) -> Option<ChildFilter> {
        use ChildFilter::*;
        [All, Persistent, Ephemeral].get(usize::from(value)).copied()
    }

    fn shows(self, node: &Node<'_>) -> bool {
        let ephemeral = node.lifetime().session().is_some();
        match self {
            ChildFilter::All => true,
            ChildFilter::Persistent => !ephemeral,
            ChildFilter::Ephemeral => ephemeral,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChildView<'a> {
    pub name: &'a str,
    pub stat: Stat,
    pub data: Option<&'a [u8]>,
}

impl Tree {
    /// Children that `filter` shows, in the order of [`Tree::children`]. With `read_each` every one shown needs the
    /// Read permission too, or the whole is `NoAuth`.
    pub fn list<'a>(
        &'a self,
        path: &str,
        identities: &[AclId],
        filter: ChildFilter,
        read_each: bool,
    ) -> Result<(Vec<ChildView<'a>>, Stat), ErrorCode> {
        let parent = self.readable(path, identities)?;
        let ids = order::shown(&self.store, parent.children());
        let children = ids.iter().map(|id| self.store.node(*id));
        let shown: Vec<Node<'_>> = children.filter(|node| filter.shows(node)).collect();
        if read_each && !shown.iter().all(|node| self.may_read(node, identities)) {
            return Err(ErrorCode::NoAuth);
        }
        let view = |node: &Node<'a>| ChildView { name: node.name(), stat: node.stat(), data: node.data() };
        Ok((shown.iter().map(view).collect(), parent.stat()))
    }

    /// Paths of the ephemeral nodes of a session that begin with `prefix`, in order.
    pub fn ephemerals_of(&self, session: SessionId, prefix: &str) -> Vec<String> {
        let owned = self.ephemerals.range((session, NodeId(0))..=(session, NodeId(u32::MAX)));
        let mut paths: Vec<String> = owned.map(|(_, id)| self.store.path_of(*id)).collect();
        paths.retain(|path| path.starts_with(prefix));
        paths.sort_unstable();
        paths
    }

    /// How many nodes are below a node.
    pub fn count_below(&self, path: &str, identities: &[AclId]) -> Result<usize, ErrorCode> {
        let mut open: Vec<NodeId> = self.readable(path, identities)?.children().to_vec();
        let mut count = 0;
        while let Some(id) = open.pop() {
            count += 1;
            open.extend(self.store.node(id).children());
        }
        Ok(count)
    }

    /// Paths of up to `max` nodes below a node, breadth first. What may not be read is left out with all below it.
    pub fn list_below(&self, path: &str, identities: &[AclId], max: usize) -> Result<Vec<String>, ErrorCode> {
        let top = self.readable(path, identities)?;
        let prefix = if path == "/" { "" } else { path };
        let of = |prefix: &str, id: NodeId| (id, format!("{prefix}/{}", self.store.node(id).name()));
        let mut found: Vec<(NodeId, String)> = Vec::new();
        let add = |found: &mut Vec<(NodeId, String)>, prefix: &str, node: Node<'_>| {
            let readable =
                node.children().iter().filter(|id| self.may_read(&self.store.node(**id), identities));
            let room = max.saturating_sub(found.len());
            found.extend(readable.take(room).map(|id| of(prefix, *id)));
        };
        add(&mut found, prefix, top);
        let mut at = 0;
        while found.len() < max
            && let Some((id, path)) = found.get(at).cloned()
        {
            add(&mut found, &path, self.store.node(id));
            at += 1;
        }
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    fn may_read(&self, node: &Node<'_>, identities: &[AclId]) -> bool {
        self.store.acls.allows(node.acl, Perms::READ, identities)
    }
}
