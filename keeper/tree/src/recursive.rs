//! ClickHouse's own writes: a node with all below it, and the ones that forgive or compare more
//! (ClickHouse Keeper, operations 501 and 503 to 505).

use keeper_types::{CheckRequest, CheckStatRequest, DeleteRequest, ErrorCode, Perms, RecursiveRequest, Stat};

use crate::apply::Writer;
use crate::multi::Journal;
use crate::node::{NodeId, ROOT};
use crate::path;
use crate::readers::FamilyReaders;
use crate::tree::Tree;

impl Tree {
    /// Removes a node and all below it, and returns their paths in descending order, so leaves first. More than `nodes_max` of them are
    /// `NotEmpty`; a node that is not there is fine.
    pub(crate) fn remove_recursive(
        &mut self,
        writer: Writer<'_>,
        request: &RecursiveRequest<'_>,
        journal: &mut Journal,
    ) -> Result<Vec<(String, FamilyReaders)>, ErrorCode> {
        let parent_path = path::parent_of_deleted(request.path)?;
        let parent = if parent_path.is_empty() { Some(ROOT) } else { self.store.find(parent_path) };
        let Some(parent) = parent else { return Ok(Vec::new()) };
        self.allow(self.store.node(parent).acl, Perms::DELETE, writer)?;
        let Some(top) = self.store.find(request.path) else { return Ok(Vec::new()) };
        let mut found = self.subtree(writer, top, request)?;
        found.sort_unstable_by(|(_, one), (_, other)| other.cmp(one));
        let mut remove = |(id, path): (NodeId, String)| {
            let readers = self.remove_node(id, &path, journal);
            (path, readers)
        };
        Ok(found.into_iter().map(&mut remove).collect())
    }

    /// The nodes to remove, each after its parent; checked one by one.
    fn subtree(
        &self,
        writer: Writer<'_>,
        top: NodeId,
        request: &RecursiveRequest<'_>,
    ) -> Result<Vec<(NodeId, String)>, ErrorCode> {
        let mut found = vec![(top, request.path.to_owned())];
        let mut at = 0;
        while let Some((id, path)) = found.get(at) {
            if path::is_special(path) {
                return Err(ErrorCode::BadArguments);
            }
            let node = self.store.node(*id);
            let children = node.children();
            if found.len() + children.len() > request.nodes_max as usize {
                return Err(ErrorCode::NotEmpty);
            }
            if !children.is_empty() {
                self.allow(node.acl, Perms::DELETE, writer)?;
            }
            let below =
                children.iter().map(|child| (*child, format!("{path}/{}", self.store.node(*child).name())));
            let below: Vec<_> = below.collect();
            found.extend(below);
            at += 1;
        }
        Ok(found)
    }

    /// Removes a node if it is there, has that version and no children. `None` when it did not.
    pub(crate) fn try_remove(
        &mut self,
        writer: Writer<'_>,
        request: &DeleteRequest<'_>,
        journal: &mut Journal,
    ) -> Result<Option<FamilyReaders>, ErrorCode> {
        match self.delete(writer, request, journal) {
            Ok(readers) => Ok(Some(readers)),
            Err(ErrorCode::NoNode | ErrorCode::BadVersion | ErrorCode::NotEmpty) => Ok(None),
            Err(code) => Err(code),
        }
    }

    /// `NodeExists` when there is such a node with that version, -1 standing for any.
    pub(crate) fn check_not_exists(
        &self,
        writer: Writer<'_>,
        request: &CheckRequest<'_>,
    ) -> Result<(), ErrorCode> {
        path::check_writable(request.path)?;
        let Some(id) = self.store.find(request.path) else { return Ok(()) };
        let node = self.store.node(id);
        self.allow(node.acl, Perms::READ, writer)?;
        if request.version == -1 || request.version == node.version {
            return Err(ErrorCode::NodeExists);
        }
        Ok(())
    }

    /// `BadVersion` when the Stat differs in a field that is asked for.
    pub(crate) fn check_stat(
        &self,
        writer: Writer<'_>,
        request: &CheckStatRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let CheckStatRequest { path, version, stat } = request;
        self.check(writer, &CheckRequest { path, version: *version })?;
        let found = self.lookup(path).map(|id| self.store.node(id).stat())?;
        if is_as_asked(stat, &found) { Ok(()) } else { Err(ErrorCode::BadVersion) }
    }
}

/// A field of -1 is not compared.
fn is_as_asked(asked: &Stat, found: &Stat) -> bool {
    let long = |asked: i64, found: i64| asked == -1 || asked == found;
    let int = |asked: i32, found: i32| asked == -1 || asked == found;
    long(asked.czxid, found.czxid)
        && long(asked.mzxid, found.mzxid)
        && long(asked.ctime, found.ctime)
        && long(asked.mtime, found.mtime)
        && int(asked.version, found.version)
        && int(asked.cversion, found.cversion)
        && int(asked.aversion, found.aversion)
        && long(asked.ephemeral_owner, found.ephemeral_owner)
        && int(asked.data_length, found.data_length)
        && int(asked.num_children, found.num_children)
        && long(asked.pzxid, found.pzxid)
}
