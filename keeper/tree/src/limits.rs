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

/// Values on one page of a slab; a page never moves once it is allocated.
pub(crate) const PAGE_NODES: usize = 4096;

/// Highest number of nodes: ids are 32 bits wide, and so many blobs can be named whatever their sizes are.
pub(crate) const NODES_MAX: usize = (1 << 31) - 1;

/// Bytes of one page of small blobs.
pub(crate) const BLOB_PAGE_BYTES: usize = 64 * 1024;

/// Pages of small blobs: 32 GiB of them. Beyond that every blob is an allocation of its own.
pub(crate) const BLOB_PAGES_MAX: usize = 1 << 19;

/// The largest blob, with its head, that lies in a page.
pub(crate) const BLOB_SMALL_BYTES_MAX: usize = 1024;

/// Tables of the index: one that grows holds everybody up for its part only.
pub(crate) const INDEX_SHARDS: usize = 256;
