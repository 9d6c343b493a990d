//! How much memory the state takes. An estimate for operators: never part of the state, and not equal on two nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Tree;

/// Paths with quotas are few and their lengths not counted.
const QUOTA_BYTES: usize = 200;

/// What an entry of a B-tree takes. Ids mostly grow, which leaves each leaf half full; the nodes above the leaves and the
/// allocator add a tenth.
const fn in_b_tree(bytes: usize) -> usize {
    bytes * 2 * 11 / 10
}

impl Tree {
    /// Resident bytes of the whole state: nodes, index, ACLs, sessions and what belongs to them. Costs the same
    /// whatever the tree holds.
    pub fn memory(&self) -> usize {
        self.store.memory()
            + map_bytes(&self.sessions)
            + map_bytes(&self.origins)
            + set_bytes(&self.ephemerals)
            + set_bytes(&self.perishable)
            + self.quotas.len() * QUOTA_BYTES
    }
}

fn map_bytes<K, V>(map: &BTreeMap<K, V>) -> usize {
    map.len() * in_b_tree(size_of::<K>() + size_of::<V>())
}

fn set_bytes<K>(set: &BTreeSet<K>) -> usize {
    set.len() * in_b_tree(size_of::<K>())
}
