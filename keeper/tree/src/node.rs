//! One znode: its record, which is small because most nodes never change after they were made, and what it is to the
//! rest of the crate. A node knows its own name, not its path: the path is in the chain of parents.

use std::ops::Deref;

use keeper_types::Stat;

use crate::acl_table::{AclRef, OPEN};
use crate::blobs::{Blob, BlobRef};
use crate::lifetime::Lifetime;

/// Place of a node in the slab. Local to this process: never in a snapshot, an answer or the digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(pub u32);

pub(crate) const ROOT: NodeId = NodeId(0);

/// "No node": the root's parent, and the parent of a free slot.
pub(crate) const NOWHERE: NodeId = NodeId(u32::MAX);

/// In place of a number in a slab: there is none.
pub(crate) const NONE: u32 = u32::MAX;

/// What is stored of a node beside its name, data, ACL and place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub czxid: i64,
    pub mzxid: i64,
    pub pzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    /// See [`Lifetime`].
    pub owner: i64,
    pub version: i32,
    /// Children ever created, wrapping as ZooKeeper's does; the next sequence suffix.
    pub creates: i32,
    pub aversion: i32,
}

impl Facts {
    /// Those of a node that was just made and lives for ever.
    #[inline]
    pub fn fresh(zxid: i64, time_ms: i64) -> Facts {
        Facts { czxid: zxid, mzxid: zxid, pzxid: zxid, ctime: time_ms, mtime: time_ms, ..Facts::default() }
    }

    pub fn lifetime(&self) -> Lifetime {
        Lifetime::of_owner(self.owner)
    }
}

/// A number of 48 bits: zxids and times, but for those of a far future.
#[derive(Clone, Copy, Default)]
pub(crate) struct Short([u8; 6]);

impl Short {
    pub fn new(value: i64) -> Option<Short> {
        match value.to_le_bytes() {
            [a, b, c, d, e, f, 0, 0] => Some(Short([a, b, c, d, e, f])),
            _ => None,
        }
    }

    #[inline]
    pub fn value(self) -> i64 {
        let [a, b, c, d, e, f] = self.0;
        i64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

/// As a node lies in memory.
pub(crate) struct Record {
    /// [`BlobRef::NONE`] in a free slot only.
    pub blob: BlobRef,
    pub parent: NodeId,
    /// The parent's child of this number is this node.
    pub position: u32,
    /// Half of the full path's.
    pub hash: u32,
    /// Its [`More`], or [`NONE`]: then its facts are [`Facts::fresh`] and it never had children.
    pub more: u32,
    pub acl: AclRef,
    pub czxid: Short,
    pub ctime: Short,
}

/// What a record has no room for. One line of the processor's cache: [`Facts`] with the list of children in its gap.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct More {
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
    ctime: i64,
    mtime: i64,
    owner: i64,
    version: i32,
    creates: i32,
    aversion: i32,
    /// The list of its children, or [`NONE`].
    pub children: u32,
}

impl More {
    pub fn new(facts: Facts, children: u32) -> More {
        let Facts { czxid, mzxid, pzxid, ctime, mtime, owner, version, creates, aversion } = facts;
        More { czxid, mzxid, pzxid, ctime, mtime, owner, version, creates, aversion, children }
    }

    #[inline]
    pub fn facts(&self) -> Facts {
        let More { czxid, mzxid, pzxid, ctime, mtime, owner, version, creates, aversion, children: _ } =
            *self;
        Facts { czxid, mzxid, pzxid, ctime, mtime, owner, version, creates, aversion }
    }
}

impl Record {
    #[inline]
    pub fn fresh_facts(&self) -> Facts {
        Facts::fresh(self.czxid.value(), self.ctime.value())
    }
}

impl Default for Record {
    fn default() -> Record {
        Record {
            blob: BlobRef::NONE,
            parent: NOWHERE,
            position: 0,
            hash: 0,
            more: NONE,
            acl: OPEN,
            czxid: Short::default(),
            ctime: Short::default(),
        }
    }
}

/// A node to be made.
pub(crate) struct NewNode<'a> {
    pub name: &'a str,
    pub data: Option<&'a [u8]>,
    pub parent: NodeId,
    /// One use of it is the node's.
    pub acl: AclRef,
    pub facts: Facts,
}

/// A node as it is read.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    pub acl: AclRef,
    pub parent: NodeId,
    pub(super) facts: Facts,
    pub(super) blob: Blob<'a>,
    pub(super) children: &'a [NodeId],
}

/// So that a fact reads as a field of the node.
impl Deref for Node<'_> {
    type Target = Facts;

    #[inline]
    fn deref(&self) -> &Facts {
        &self.facts
    }
}

impl<'a> Node<'a> {
    #[inline]
    pub fn name(&self) -> &'a str {
        std::str::from_utf8(self.name_bytes()).expect("a node's name is UTF-8: it was made from a str")
    }

    #[inline]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.blob.name()
    }

    #[inline]
    pub fn data(&self) -> Option<&'a [u8]> {
        self.blob.data()
    }

    #[inline]
    pub fn data_length(&self) -> usize {
        self.data().map_or(0, <[u8]>::len)
    }

    #[inline]
    pub fn children(&self) -> &'a [NodeId] {
        self.children
    }

    /// What clients see; `cversion` counts creations and deletions of children.
    #[inline]
    pub fn stat(&self) -> Stat {
        let num_children = self.children.len() as i32;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_small() {
        assert_eq!((size_of::<Record>(), size_of::<More>()), (36, 64));
    }

    #[test]
    fn a_short_number_is_exact_or_none() {
        for value in [0, 1, 1_700_000_000_000, (1 << 48) - 1] {
            assert_eq!(Short::new(value).map(Short::value), Some(value));
        }
        for value in [-1, 1 << 48, i64::MIN, i64::MAX] {
            assert!(Short::new(value).is_none());
        }
    }
}
