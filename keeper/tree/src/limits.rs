//! Every bound of this crate, in one place.

/// Size of the pieces in which a snapshot is handed out.
pub const SNAPSHOT_CHUNK_BYTES_MAX: usize = 256 * 1024;

/// Longest name or data accepted from a snapshot: the largest frame a server can be configured to take.
pub(crate) const FIELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a decoder reserves on the word of a length alone, before the bytes have been seen.
pub(crate) const RESERVE_BYTES_MAX: usize = 64 * 1024;

/// Entries of one node's ACL, after `auth` was replaced by the client's identities. ZooKeeper has no such bound;
/// without one a single frame could make every check of a node slow, and one ACL larger than the frame.
pub(crate) const ACL_ENTRIES_MAX: usize = 4096;

/// Children of a node that are listed in ZooKeeper's order; more stand in the tree's own.
pub(crate) const ORDERED_CHILDREN_MAX: usize = 64;

/// Nodes on one page of the slab; a page never moves once it is allocated.
pub(crate) const PAGE_NODES: usize = 4096;

/// Highest number of nodes: ids are 32 bits wide and the highest one means "none".
pub(crate) const NODES_MAX: usize = u32::MAX as usize - 1;
