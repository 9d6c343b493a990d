//! One znode's record. A node knows its own name, not its path: the path is in the chain of parents.

use keeper_types::Stat;

use crate::acl_table::{AclRef, OPEN};
use crate::lifetime::Lifetime;

/// Place of a node in the slab. Local to this process: never in a snapshot, an answer or the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub u32);

pub(crate) const ROOT: NodeId = NodeId(0);

/// "No node": the root's parent, and the parent of a free slot.
pub(crate) const NOWHERE: NodeId = NodeId(u32::MAX);

/// Boxed so that the many nodes without children spend one word on them.
#[derive(Default)]
struct Children(Vec<NodeId>);

pub(crate) struct Node {
    /// The name, then the data: one allocation a node.
    blob: Box<[u8]>,
    /// `blob[..name_length]` is UTF-8.
    name_length: u32,
    data_is_null: bool,
    pub acl: AclRef,
    pub parent: NodeId,
    /// `parent.children()[position]` is this node.
    pub position: u32,
    /// Of the full path.
    pub path_hash: u64,
    /// `None` when there are none, or none yet.
    children: Option<Box<Children>>,
    pub czxid: i64,
    pub mzxid: i64,
    pub pzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    /// Children ever created, wrapping as ZooKeeper's does; the next sequence suffix.
    pub creates: i32,
    pub aversion: i32,
    /// See [`Lifetime`].
    pub owner: i64,
}

/// A node's data before a change, for undoing it.
pub(crate) struct OldData {
    blob: Box<[u8]>,
    data_is_null: bool,
}

impl Node {
    /// A node without a place: Stat of zeros, open ACL.
    pub fn new(name: &str, data: Option<&[u8]>) -> Node {
        Node {
            blob: join(name.as_bytes(), data.unwrap_or_default()),
            name_length: name.len() as u32,
            data_is_null: data.is_none(),
            acl: OPEN,
            parent: NOWHERE,
            position: 0,
            path_hash: 0,
            children: None,
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            ctime: 0,
            mtime: 0,
            version: 0,
            creates: 0,
            aversion: 0,
            owner: 0,
        }
    }

    pub fn lifetime(&self) -> Lifetime {
        Lifetime::of_owner(self.owner)
    }

    pub fn name(&self) -> &str {
        std::str::from_utf8(self.name_bytes()).expect("a node's name is UTF-8: it was made from a str")
    }

    pub fn name_bytes(&self) -> &[u8] {
        &self.blob[..self.name_length as usize]
    }

    pub fn data(&self) -> Option<&[u8]> {
        if self.data_is_null { None } else { Some(&self.blob[self.name_length as usize..]) }
    }

    pub fn data_length(&self) -> usize {
        self.blob.len() - self.name_length as usize
    }

    pub fn set_data(&mut self, data: Option<&[u8]>) -> OldData {
        let blob = join(self.name_bytes(), data.unwrap_or_default());
        let data_is_null = std::mem::replace(&mut self.data_is_null, data.is_none());
        OldData { blob: std::mem::replace(&mut self.blob, blob), data_is_null }
    }

    pub fn restore_data(&mut self, old: OldData) {
        self.blob = old.blob;
        self.data_is_null = old.data_is_null;
    }

    pub fn children(&self) -> &[NodeId] {
        self.children.as_ref().map_or(&[], |children| &children.0)
    }

    pub fn children_mut(&mut self) -> &mut Vec<NodeId> {
        &mut self.children.get_or_insert_default().0
    }

    /// What clients see; `cversion` counts creations and deletions of children.
    pub fn stat(&self) -> Stat {
        let num_children = self.children().len() as i32;
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: self.creates.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: self.lifetime().session().map_or(0, |session| session.0),
            data_length: self.data_length() as i32,
            num_children,
            pzxid: self.pzxid,
        }
    }
}

fn join(name: &[u8], data: &[u8]) -> Box<[u8]> {
    let mut blob = Vec::with_capacity(name.len() + data.len());
    blob.extend_from_slice(name);
    blob.extend_from_slice(data);
    blob.into_boxed_slice()
}
