//! Running digest of the whole state.
//!
//! It is a sum (wrapping, so independent of order) of one hash per fact: a node's Stat, a node's content, a
//! session. A change subtracts the old fact's hash and adds the new one's, at a cost that does not depend on
//! the size of the tree. The sum can be made again from the contents alone, and a decoded snapshot is checked
//! that way. The few scalars (zxid, time, counters, positions of origins) are mixed in when it is read.
//!
//! A node has two hashes, because its parent's Stat changes with every child: hashing that must not touch the
//! parent's data, which may be a megabyte.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::node::Facts;
use crate::session::Session;

const CONTENT_SEED: u64 = 0x6e6f_6465_2064_6174;
const STAT_SEED: u64 = 0x6e6f_6465_2073_7461;
const SESSION_SEED: u64 = 0x7365_7373_696f_6e20;
const TOTAL_SEED: u64 = 0x746f_7461_6c20_2020;

/// Hash of a full path; the index goes by a half of it.
#[inline]
pub(crate) fn path_hash(path: &str) -> u64 {
    xxh3_64(path.as_bytes())
}

/// A node's path, data and ACL.
pub(crate) fn content(path_hash: u64, data: Option<&[u8]>, acl_hash: u64) -> u64 {
    let seed = words(CONTENT_SEED, [path_hash, acl_hash, u64::from(data.is_none())]);
    xxh3_64_with_seed(data.unwrap_or_default(), seed)
}

/// A node's path and Stat, without what follows from other facts (length of data, number of children).
pub(crate) fn stat(path_hash: u64, node: &Facts) -> u64 {
    let versions = u64::from(node.version as u32) << 32 | u64::from(node.creates as u32);
    words(
        STAT_SEED,
        [
            path_hash,
            node.czxid as u64,
            node.mzxid as u64,
            node.pzxid as u64,
            node.ctime as u64,
            node.mtime as u64,
            versions,
            u64::from(node.aversion as u32),
            node.owner as u64,
        ],
    )
}

pub(crate) fn session(id: i64, session: &Session) -> u64 {
    let [low, high] = halves(session.password);
    let numbers = u64::from(session.timeout_ms as u32) << 32 | u64::from(session.generation.0);
    words(SESSION_SEED, [id as u64, numbers, low, high])
}

/// The sum and the scalars, as one number.
pub(crate) fn total(scalars: impl Iterator<Item = u64>) -> u64 {
    scalars.fold(TOTAL_SEED, |seed, word| xxh3_64_with_seed(&word.to_le_bytes(), seed))
}

fn halves(bytes: [u8; 16]) -> [u64; 2] {
    let number = u128::from_le_bytes(bytes);
    [number as u64, (number >> 64) as u64]
}

fn words<const N: usize>(seed: u64, words: [u64; N]) -> u64 {
    let mut bytes = [[0; 8]; N];
    for (slot, word) in bytes.iter_mut().zip(words) {
        *slot = word.to_le_bytes();
    }
    xxh3_64_with_seed(bytes.as_flattened(), seed)
}
