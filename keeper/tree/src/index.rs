//! From a path's hash to the nodes that have it. In shards, since a table that grows moves all it holds, and every
//! write waits meanwhile.

use hashbrown::HashTable;

use crate::limits::INDEX_SHARDS;
use crate::node::NodeId;

pub(crate) struct Index(Vec<HashTable<NodeId>>);

/// Bits of a short hash that choose the shard.
const SHARD_BITS: u32 = INDEX_SHARDS.ilog2();
const _: () = assert!(INDEX_SHARDS.is_power_of_two());

/// The half of a path's hash that records and index go by.
#[inline]
pub(crate) fn short(path_hash: u64) -> u32 {
    (path_hash >> 32) as u32
}

/// The upper bits tell entries of one bucket apart, the lower ones choose the bucket: not those that chose the shard.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash) << (32 + SHARD_BITS) | u64::from(hash)
}

#[inline]
fn shard(hash: u32) -> usize {
    (hash >> (u32::BITS - SHARD_BITS)) as usize
}

impl Index {
    pub fn new() -> Index {
        Index((0..INDEX_SHARDS).map(|_| HashTable::new()).collect())
    }

    #[inline]
    pub fn find(&self, hash: u32, is_it: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        self.0[shard(hash)].find(spread(hash), |id| is_it(*id)).copied()
    }

    /// `hash_of` gives the hash of any node in the index.
    pub fn insert(&mut self, hash: u32, id: NodeId, hash_of: impl Fn(NodeId) -> u32) {
        self.0[shard(hash)].insert_unique(spread(hash), id, |other| spread(hash_of(*other)));
    }

    pub fn remove(&mut self, hash: u32, id: NodeId) {
        let entry = self.0[shard(hash)].find_entry(spread(hash), |other| *other == id);
        entry.unwrap_or_else(|_| panic!("node {} is not in the index", id.0)).remove();
    }

    pub fn bytes(&self) -> usize {
        let tables: usize = self.0.iter().map(HashTable::allocation_size).sum();
        tables + self.0.capacity() * size_of::<HashTable<NodeId>>()
    }
}
