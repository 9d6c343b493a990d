//! The znodes: a paged slab of records, one index from full path to record, the ACLs, and the running sums over
//! them. Keeps the links between nodes, the sums and the index in step; knows nothing of sessions, permissions
//! or requests.

use hashbrown::HashTable;

use crate::acl_table::{AclRef, AclTable};
use crate::digest;
use crate::limits::{NODES_MAX, PAGE_NODES};
use crate::node::{NOWHERE, Node, NodeId, OldData, ROOT};

pub(crate) struct Store {
    pages: Vec<Vec<Node>>,
    free: Vec<NodeId>,
    /// By `path_hash`; every live node but the root.
    index: HashTable<NodeId>,
    pub acls: AclTable,
    /// Of `digest::content` and `digest::stat` of every live node.
    pub digest: u64,
    /// Bytes of paths and data of every live node.
    pub bytes: u64,
    live: usize,
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

impl Store {
    /// Holds the given root only.
    pub fn new(mut root: Node) -> Store {
        root.path_hash = digest::path_hash("/");
        let mut store = Store {
            pages: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            acls: AclTable::new(),
            digest: 0,
            bytes: 1 + root.data_length() as u64,
            live: 0,
        };
        let root = store.place(root);
        assert_eq!(root, ROOT, "the first node of a slab is the root");
        store.digest = store.hash_of(root);
        store
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.pages[id.0 as usize / PAGE_NODES][id.0 as usize % PAGE_NODES]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.pages[id.0 as usize / PAGE_NODES][id.0 as usize % PAGE_NODES]
    }

    pub fn len(&self) -> usize {
        self.live
    }

    pub fn sums(&self) -> Sums {
        Sums { digest: self.digest, bytes: self.bytes }
    }

    pub fn restore_sums(&mut self, sums: Sums) {
        self.digest = sums.digest;
        self.bytes = sums.bytes;
    }

    pub fn find(&self, path: &str) -> Option<NodeId> {
        if path == "/" {
            return Some(ROOT);
        }
        self.find_hashed(path, digest::path_hash(path))
    }

    /// As [`Store::find`] for any path but the root's, its hash being known.
    pub fn find_hashed(&self, path: &str, hash: u64) -> Option<NodeId> {
        self.index.find(hash, |id| self.is_at(*id, path, hash)).copied()
    }

    /// Two paths may share a hash, so the names are compared from the end up to the root.
    fn is_at(&self, id: NodeId, path: &str, hash: u64) -> bool {
        let mut node = self.node(id);
        if node.path_hash != hash {
            return false;
        }
        let mut rest = path.as_bytes();
        loop {
            let Some(before) = rest.strip_suffix(node.name_bytes()) else { return false };
            let Some(before) = before.strip_suffix(b"/") else { return false };
            if node.parent == ROOT {
                return before.is_empty();
            }
            rest = before;
            node = self.node(node.parent);
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

    /// Links a new node under `node.parent` and counts the creation there. `path` is the node's, `node.acl`
    /// holds a use of its own. The caller has checked that there is no such path and that there is room.
    pub fn insert(&mut self, mut node: Node, path: &str) -> (NodeId, ParentBefore) {
        node.path_hash = digest::path_hash(path);
        self.bytes += (path.len() + node.data_length()) as u64;
        let (parent, czxid) = (node.parent, node.czxid);
        let id = self.attach(node);
        let parent_node = self.node(parent);
        let before = ParentBefore { creates: parent_node.creates, pzxid: parent_node.pzxid };
        self.set_parent(parent, ParentBefore { creates: before.creates.wrapping_add(1), pzxid: czxid });
        (id, before)
    }

    /// Links a node whose parent's Stat already counts it; its path's hash and the bytes are done.
    pub fn attach(&mut self, node: Node) -> NodeId {
        let (parent, path_hash) = (node.parent, node.path_hash);
        let id = self.place(node);
        let siblings = self.node_mut(parent).children_mut();
        siblings.push(id);
        let position = (siblings.len() - 1) as u32;
        self.node_mut(id).position = position;
        let (pages, index) = (&self.pages, &mut self.index);
        let hash_of =
            |other: &NodeId| pages[other.0 as usize / PAGE_NODES][other.0 as usize % PAGE_NODES].path_hash;
        index.insert_unique(path_hash, id, hash_of);
        self.digest = self.digest.wrapping_add(self.hash_of(id));
        id
    }

    /// Undoes [`Store::insert`], but for the sums. Returns the node.
    pub fn undo_insert(&mut self, id: NodeId, before: ParentBefore) -> Node {
        let node = self.unlink(id);
        self.set_parent(node.parent, before);
        node
    }

    /// Takes a node without children out and notes the deletion at its parent. The node keeps its use of its
    /// ACL: the caller releases it once the deletion is final.
    pub fn remove(&mut self, id: NodeId, path: &str, zxid: i64) -> (Node, ParentBefore) {
        self.digest = self.digest.wrapping_sub(self.hash_of(id));
        let node = self.unlink(id);
        self.bytes -= (path.len() + node.data_length()) as u64;
        let parent_node = self.node(node.parent);
        let before = ParentBefore { creates: parent_node.creates, pzxid: parent_node.pzxid };
        self.set_parent(node.parent, ParentBefore { creates: before.creates, pzxid: zxid });
        (node, before)
    }

    /// Undoes [`Store::remove`], but for the sums: the node is back at its old position among its siblings.
    pub fn undo_remove(&mut self, node: Node, before: ParentBefore) -> NodeId {
        let (parent, position) = (node.parent, node.position as usize);
        let id = self.attach(node);
        let siblings = self.node_mut(parent).children_mut();
        let last = siblings.len() - 1;
        siblings.swap(position, last);
        let moved = siblings[last];
        self.node_mut(moved).position = last as u32;
        self.node_mut(id).position = position as u32;
        self.set_parent(parent, before);
        id
    }

    pub fn set_data(
        &mut self,
        id: NodeId,
        data: Option<&[u8]>,
        version: i32,
        zxid: i64,
        time_ms: i64,
    ) -> OldData {
        let before = self.hash_of(id);
        let bytes_before = self.node(id).data_length() as u64;
        let node = self.node_mut(id);
        let old = node.set_data(data);
        node.version = version;
        node.mzxid = zxid;
        node.mtime = time_ms;
        self.bytes = self.bytes - bytes_before + data.map_or(0, |data| data.len() as u64);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(self.hash_of(id));
        old
    }

    /// Undoes [`Store::set_data`], but for the sums.
    pub fn undo_set_data(&mut self, id: NodeId, old: OldData, version: i32, mzxid: i64, mtime: i64) {
        let node = self.node_mut(id);
        node.restore_data(old);
        node.version = version;
        node.mzxid = mzxid;
        node.mtime = mtime;
    }

    /// Takes over one use of `acl` and gives the old one's back.
    pub fn set_acl(&mut self, id: NodeId, acl: AclRef, aversion: i32) {
        let before = self.hash_of(id);
        let node = self.node_mut(id);
        node.aversion = aversion;
        let old = std::mem::replace(&mut node.acl, acl);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(self.hash_of(id));
        self.acls.release(old);
    }

    /// True when another node can be made.
    pub fn has_room(&self) -> bool {
        self.live < NODES_MAX
    }

    fn hash_of(&self, id: NodeId) -> u64 {
        let node = self.node(id);
        digest::content(node, self.acls.hash(node.acl)).wrapping_add(digest::stat(node))
    }

    fn set_parent(&mut self, parent: NodeId, now: ParentBefore) {
        let node = self.node_mut(parent);
        let before = digest::stat(node);
        node.creates = now.creates;
        node.pzxid = now.pzxid;
        let after = digest::stat(node);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(after);
    }

    /// As if so many children had been made.
    #[cfg(test)]
    pub fn set_creates(&mut self, id: NodeId, creates: i32) {
        let pzxid = self.node(id).pzxid;
        self.set_parent(id, ParentBefore { creates, pzxid });
    }

    fn place(&mut self, node: Node) -> NodeId {
        self.live += 1;
        if let Some(id) = self.free.pop() {
            *self.node_mut(id) = node;
            return id;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE_NODES) {
            self.pages.push(Vec::with_capacity(PAGE_NODES));
        }
        let page_number = self.pages.len() - 1;
        let page = &mut self.pages[page_number];
        page.push(node);
        NodeId((page_number * PAGE_NODES + page.len() - 1) as u32)
    }

    /// Takes a node out of the index, its parent's children and the slab.
    fn unlink(&mut self, id: NodeId) -> Node {
        let mut vacant = Node::new("", None);
        vacant.parent = NOWHERE;
        let node = std::mem::replace(self.node_mut(id), vacant);
        let entry = self.index.find_entry(node.path_hash, |other| *other == id);
        entry.unwrap_or_else(|_| panic!("node {} is not in the index", id.0)).remove();
        let siblings = self.node_mut(node.parent).children_mut();
        siblings.swap_remove(node.position as usize);
        if let Some(moved) = siblings.get(node.position as usize).copied() {
            self.node_mut(moved).position = node.position;
        }
        self.free.push(id);
        self.live -= 1;
        node
    }
}
