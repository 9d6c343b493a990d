//! The order in which a short list of children is shown: that of the `java.util.HashSet` in which ZooKeeper holds a
//! node's children. ZooKeeper promises none, but it is always the same one, and people's tests have it written down.
//!
//! ZooKeeper's set never gets smaller, so a list that was once longer may stand in another order there, and so may
//! names of one bucket, which it keeps by age. Longer lists are not put in order: that would cost time for nothing.

use std::borrow::Cow;

use crate::limits::ORDERED_CHILDREN_MAX;
use crate::node::NodeId;
use crate::store::Store;

/// Buckets of the set before its first entry; doubled when more than three quarters would be in use.
const BUCKETS_MIN: u32 = 8;

/// `children` as ZooKeeper would list them, if they are few.
pub fn shown<'a>(store: &Store, children: &'a [NodeId]) -> Cow<'a, [NodeId]> {
    if children.len() < 2 || children.len() > ORDERED_CHILDREN_MAX {
        return Cow::Borrowed(children);
    }
    let of = |id: &NodeId| (bucket(store.node(*id).name(), children.len()), *id);
    let mut placed: Vec<(u32, NodeId)> = children.iter().map(of).collect();
    // Stable: those of one bucket stay in the order of the tree, mostly that of their creation.
    placed.sort_by_key(|(bucket, _)| *bucket);
    Cow::Owned(placed.into_iter().map(|(_, id)| id).collect())
}

/// Where a name stands in a set of so many that was never larger.
fn bucket(name: &str, count: usize) -> u32 {
    let mut buckets = BUCKETS_MIN;
    while count * 4 > buckets as usize * 3 {
        buckets *= 2;
    }
    // `String.hashCode`, its high half mixed into the low one as `HashMap` does.
    let hash = name.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    (hash ^ (hash >> 16)) & (buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by Java 17 for a `HashSet` made with room for 8, as ZooKeeper's `DataNode` makes its own.
    #[test]
    fn names_stand_as_in_a_java_hash_set() {
        for (created, shown) in [
            ("one two", "two one"),
            ("zookeeper a b c aa bb", "aa bb a b c zookeeper"),
            (
                "n-0000000000 n-0000000001 n-0000000002 n-0000000003 n-0000000004 n-0000000005 n-0000000006",
                "n-0000000000 n-0000000002 n-0000000001 n-0000000004 n-0000000003 n-0000000006 n-0000000005",
            ),
            ("Aa BB C# é 日本 𝄞", "Aa BB C# é 𝄞 日本"),
        ] {
            let mut names: Vec<&str> = created.split(' ').collect();
            let count = names.len();
            names.sort_by_key(|name| bucket(name, count));
            assert_eq!(names.join(" "), shown);
        }
    }
}
