//! The znodes: records, names and data, lists of children, one index from full path to record, the ACLs, and the
//! running sums over them. Keeps the links between nodes, the sums and the index in step; knows nothing of sessions,
//! permissions or requests.

use crate::acl_table::{AclRef, AclTable};
use crate::blobs::{BlobRef, Blobs};
use crate::digest;
use crate::index::{Index, short};
use crate::limits::NODES_MAX;
use crate::node::{Facts, More, NONE, NOWHERE, NewNode, Node, NodeId, ROOT, Record, Short};
use crate::slab::Slab;

pub(crate) struct Store {
    records: Slab<Record>,
    more: Slab<More>,
    children: Slab<Vec<NodeId>>,
    /// Of the lists in `children`.
    children_bytes: usize,
    blobs: Blobs,
    /// By `Record::hash`; every live node but the root.
    index: Index,
    pub acls: AclTable,
    /// Of `digest::content` and `digest::stat` of every live node.
    pub digest: u64,
    /// Bytes of paths and data of every live node.
    pub bytes: u64,
}

/// The sums, to be put back when a multi fails.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    digest: u64,
    bytes: u64,
}

/// The two facts about a parent that a change of its children alters.
#[derive(Clone, Copy)]
pub(crate) struct ParentBefore {
    creates: i32,
    pzxid: i64,
}

/// A node's data before a change, for undoing it. Given back to [`Store::forget_data`] once the change is final.
#[must_use]
pub(crate) struct OldData(BlobRef);

/// A node that was taken out, for putting it back. Given to [`Store::forget`] once it is gone for good.
#[must_use]
pub(crate) struct Removed(Record);

impl Store {
    /// Holds the given root only.
    pub fn new(root: NewNode<'_>) -> Store {
        let mut store = Store {
            records: Slab::new(),
            more: Slab::new(),
            children: Slab::new(),
            children_bytes: 0,
            blobs: Blobs::new(),
            index: Index::new(),
            acls: AclTable::new(),
            digest: 0,
            bytes: 1 + root.data.map_or(0, <[u8]>::len) as u64,
        };
        let path_hash = digest::path_hash("/");
        let record = store.record(root, path_hash);
        let root = NodeId(store.records.insert(record));
        assert_eq!(root, ROOT, "the first node of a slab is the root");
        store.digest = store.hash_of(root, path_hash);
        store
    }

    #[inline]
    pub fn node(&self, id: NodeId) -> Node<'_> {
        let record = self.records.get(id.0);
        let blob = self.blobs.get(record.blob);
        let (facts, children) = if record.more == NONE {
            (record.fresh_facts(), &[][..])
        } else {
            let more = self.more.get(record.more);
            (more.facts(), self.list(more.children))
        };
        Node { acl: record.acl, parent: record.parent, facts, blob, children }
    }

    #[inline]
    fn facts(&self, id: NodeId) -> Facts {
        let record = self.records.get(id.0);
        if record.more == NONE { record.fresh_facts() } else { self.more.get(record.more).facts() }
    }

    #[inline]
    fn list(&self, at: u32) -> &[NodeId] {
        if at == NONE { &[] } else { self.children.get(at) }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn sums(&self) -> Sums {
        Sums { digest: self.digest, bytes: self.bytes }
    }

    pub fn restore_sums(&mut self, sums: Sums) {
        self.digest = sums.digest;
        self.bytes = sums.bytes;
    }

    #[inline]
    pub fn find(&self, path: &str) -> Option<NodeId> {
        if path == "/" {
            return Some(ROOT);
        }
        self.find_hashed(path, digest::path_hash(path))
    }

    /// As [`Store::find`] for any path but the root's, its hash being known.
    #[inline]
    pub fn find_hashed(&self, path: &str, path_hash: u64) -> Option<NodeId> {
        let hash = short(path_hash);
        self.index.find(hash, |id| self.is_at(id, path, hash))
    }

    /// Two paths may share a hash, so the names are compared from the end up to the root.
    #[inline]
    fn is_at(&self, id: NodeId, path: &str, hash: u32) -> bool {
        let mut record = self.records.get(id.0);
        if record.hash != hash {
            return false;
        }
        let mut rest = path.as_bytes();
        loop {
            let Some(before) = rest.strip_suffix(self.blobs.get(record.blob).name()) else { return false };
            let Some(before) = before.strip_suffix(b"/") else { return false };
            if record.parent == ROOT {
                return before.is_empty();
            }
            rest = before;
            record = self.records.get(record.parent.0);
        }
    }

    /// The path, built from the chain of parents.
    pub fn path_of(&self, id: NodeId) -> String {
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT {
            let node = self.node(at);
            names.push(node.name());
            at = node.parent;
        }
        if names.is_empty() {
            return "/".into();
        }
        let mut path = String::with_capacity(names.iter().map(|name| name.len() + 1).sum());
        for name in names.iter().rev() {
            path.push('/');
            path.push_str(name);
        }
        path
    }

    /// Makes a node under its parent and counts the creation there. The caller has checked that there is no such
    /// path and that there is room.
    pub fn insert(&mut self, node: NewNode<'_>, path: &str) -> (NodeId, ParentBefore) {
        let (parent, czxid) = (node.parent, node.facts.czxid);
        let id = self.attach(node, path, digest::path_hash(path));
        let before = self.parent_facts(parent);
        let now = ParentBefore { creates: before.creates.wrapping_add(1), pzxid: czxid };
        self.set_parent(parent, parent_hash(path), now);
        (id, before)
    }

    /// Makes a node that its parent's Stat already counts.
    pub fn attach(&mut self, node: NewNode<'_>, path: &str, path_hash: u64) -> NodeId {
        self.bytes += (path.len() + node.data.map_or(0, <[u8]>::len)) as u64;
        let record = self.record(node, path_hash);
        let id = self.link(record);
        self.digest = self.digest.wrapping_add(self.hash_of(id, path_hash));
        id
    }

    /// Undoes [`Store::insert`], but for the sums.
    pub fn undo_insert(&mut self, id: NodeId, before: ParentBefore) -> Removed {
        let record = self.unlink(id);
        self.restore_parent(record.parent, before);
        Removed(record)
    }

    /// Takes a node without children out and notes the deletion at its parent.
    pub fn remove(&mut self, id: NodeId, path: &str, zxid: i64) -> (Removed, ParentBefore) {
        self.digest = self.digest.wrapping_sub(self.hash_of(id, digest::path_hash(path)));
        self.bytes -= (path.len() + self.node(id).data_length()) as u64;
        let record = self.unlink(id);
        let before = self.parent_facts(record.parent);
        let now = ParentBefore { creates: before.creates, pzxid: zxid };
        self.set_parent(record.parent, parent_hash(path), now);
        (Removed(record), before)
    }

    /// Undoes [`Store::remove`], but for the sums: the node is back at its old position among its siblings.
    pub fn undo_remove(&mut self, removed: Removed, before: ParentBefore) -> NodeId {
        let (parent, position) = (removed.0.parent, removed.0.position as usize);
        let id = self.link(removed.0);
        let siblings = self.children_mut(parent);
        let last = siblings.len() - 1;
        siblings.swap(position, last);
        let moved = siblings[last];
        self.records.get_mut(moved.0).position = last as u32;
        self.records.get_mut(id.0).position = position as u32;
        self.restore_parent(parent, before);
        id
    }

    /// Frees what a node that is gone for good still holds.
    pub fn forget(&mut self, removed: Removed) {
        let Removed(record) = removed;
        self.acls.release(record.acl);
        self.blobs.remove(record.blob);
        if record.more != NONE {
            let more = self.more.remove(record.more);
            if more.children != NONE {
                let list = self.children.remove(more.children);
                self.children_bytes -= list_bytes(&list);
            }
        }
    }

    pub fn set_data(
        &mut self,
        id: NodeId,
        path: &str,
        data: Option<&[u8]>,
        (version, mzxid, mtime): (i32, i64, i64),
    ) -> OldData {
        let path_hash = digest::path_hash(path);
        let before = self.hash_of(id, path_hash);
        let (facts, bytes_before) = (self.facts(id), self.node(id).data_length() as u64);
        let blob = self.renamed_blob(id, data);
        let old = std::mem::replace(&mut self.records.get_mut(id.0).blob, blob);
        self.set_facts(id, Facts { version, mzxid, mtime, ..facts });
        self.bytes = self.bytes - bytes_before + data.map_or(0, |data| data.len() as u64);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(self.hash_of(id, path_hash));
        OldData(old)
    }

    /// Undoes [`Store::set_data`], but for the sums.
    pub fn undo_set_data(&mut self, id: NodeId, old: OldData, version: i32, mzxid: i64, mtime: i64) {
        let blob = std::mem::replace(&mut self.records.get_mut(id.0).blob, old.0);
        self.blobs.remove(blob);
        self.set_facts(id, Facts { version, mzxid, mtime, ..self.facts(id) });
    }

    pub fn forget_data(&mut self, old: OldData) {
        self.blobs.remove(old.0);
    }

    /// Takes over one use of `acl` and gives the old one's back.
    pub fn set_acl(&mut self, id: NodeId, path: &str, acl: AclRef, aversion: i32) {
        let path_hash = digest::path_hash(path);
        let before = self.hash_of(id, path_hash);
        let old = std::mem::replace(&mut self.records.get_mut(id.0).acl, acl);
        self.set_facts(id, Facts { aversion, ..self.facts(id) });
        self.digest = self.digest.wrapping_sub(before).wrapping_add(self.hash_of(id, path_hash));
        self.acls.release(old);
    }

    /// True when another node can be made.
    pub fn has_room(&self) -> bool {
        self.len() < NODES_MAX
    }

    /// As if so many children had been made.
    #[cfg(test)]
    pub fn set_creates(&mut self, id: NodeId, creates: i32) {
        let pzxid = self.node(id).pzxid;
        self.set_parent(id, digest::path_hash(&self.path_of(id)), ParentBefore { creates, pzxid });
    }

    /// Memory of all nodes and ACLs.
    pub fn memory(&self) -> usize {
        self.records.bytes()
            + self.more.bytes()
            + self.children.bytes()
            + self.children_bytes
            + self.blobs.bytes()
            + self.index.bytes()
            + self.acls.memory()
    }

    fn hash_of(&self, id: NodeId, path_hash: u64) -> u64 {
        let node = self.node(id);
        let content = digest::content(path_hash, node.data(), self.acls.hash(node.acl));
        content.wrapping_add(digest::stat(path_hash, &node))
    }

    fn parent_facts(&self, parent: NodeId) -> ParentBefore {
        let facts = self.facts(parent);
        ParentBefore { creates: facts.creates, pzxid: facts.pzxid }
    }

    fn set_parent(&mut self, parent: NodeId, path_hash: u64, now: ParentBefore) {
        let before = self.facts(parent);
        let after = Facts { creates: now.creates, pzxid: now.pzxid, ..before };
        self.set_facts(parent, after);
        let (before, after) = (digest::stat(path_hash, &before), digest::stat(path_hash, &after));
        self.digest = self.digest.wrapping_sub(before).wrapping_add(after);
    }

    fn restore_parent(&mut self, parent: NodeId, before: ParentBefore) {
        let ParentBefore { creates, pzxid } = before;
        self.set_facts(parent, Facts { creates, pzxid, ..self.facts(parent) });
    }

    #[inline]
    fn set_facts(&mut self, id: NodeId, facts: Facts) {
        if self.facts(id) != facts {
            let more = self.more_mut(id);
            *more = More::new(facts, more.children);
        }
    }

    /// What the record has no room for; made if there is none.
    #[inline]
    fn more_mut(&mut self, id: NodeId) -> &mut More {
        let record = self.records.get_mut(id.0);
        if record.more == NONE {
            record.more = self.more.insert(More::new(record.fresh_facts(), NONE));
        }
        self.more.get_mut(record.more)
    }

    #[inline]
    fn children_mut(&mut self, id: NodeId) -> &mut Vec<NodeId> {
        let mut at = self.more_mut(id).children;
        if at == NONE {
            at = self.children.insert(Vec::new());
            self.more_mut(id).children = at;
        }
        self.children.get_mut(at)
    }

    /// The record of a new node, not linked yet.
    fn record(&mut self, node: NewNode<'_>, path_hash: u64) -> Record {
        let NewNode { name, data, parent, acl, facts } = node;
        let blob = self.blobs.insert(name.as_bytes(), data);
        let short_times = Short::new(facts.czxid).zip(Short::new(facts.ctime));
        let is_fresh = facts == Facts::fresh(facts.czxid, facts.ctime) && short_times.is_some();
        let more = if is_fresh { NONE } else { self.more.insert(More::new(facts, NONE)) };
        let (czxid, ctime) = short_times.unwrap_or_default();
        Record { blob, parent, position: 0, hash: short(path_hash), more, acl, czxid, ctime }
    }

    /// The node's name with other data.
    fn renamed_blob(&mut self, id: NodeId, data: Option<&[u8]>) -> BlobRef {
        let record = self.records.get(id.0);
        let name = self.blobs.get(record.blob).name().to_vec();
        self.blobs.insert(&name, data)
    }

    /// Puts a record into the slab, its parent's children and the index.
    fn link(&mut self, record: Record) -> NodeId {
        let (parent, hash) = (record.parent, record.hash);
        let id = NodeId(self.records.insert(record));
        let siblings = self.children_mut(parent);
        let before = list_bytes(siblings);
        siblings.push(id);
        let (position, after) = ((siblings.len() - 1) as u32, list_bytes(siblings));
        self.children_bytes = self.children_bytes - before + after;
        self.records.get_mut(id.0).position = position;
        let records = &self.records;
        self.index.insert(hash, id, |other| records.get(other.0).hash);
        id
    }

    /// Takes a record out of the index, its parent's children and the slab.
    fn unlink(&mut self, id: NodeId) -> Record {
        let record = self.records.remove(id.0);
        assert_ne!(record.parent, NOWHERE, "the root and free slots are never taken out");
        self.index.remove(record.hash, id);
        let siblings = self.children_mut(record.parent);
        let before = list_bytes(siblings);
        siblings.swap_remove(record.position as usize);
        let moved = siblings.get(record.position as usize).copied();
        // A directory that was once large does not hold on to the memory.
        if siblings.len() * 4 < siblings.capacity() {
            siblings.shrink_to(siblings.len() * 2);
        }
        let after = list_bytes(siblings);
        self.children_bytes = self.children_bytes - before + after;
        if let Some(moved) = moved {
            self.records.get_mut(moved.0).position = record.position;
        }
        record
    }
}

fn list_bytes(list: &Vec<NodeId>) -> usize {
    list.capacity() * size_of::<NodeId>()
}

fn parent_hash(path: &str) -> u64 {
    digest::path_hash(keeper_types::parent(path).unwrap_or("/"))
}
