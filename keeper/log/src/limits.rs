//! Every bound of this crate, by name. Sizes that a caller may choose are defaults of [`crate::Options`].

/// Batches, and so all writes, start and end on this boundary: a write then never touches a block that holds what
/// was acknowledged before, and never makes the operating system read a block in order to change part of it.
pub const BLOCK_BYTES: usize = 4096;

/// Size of a segment once the log has grown.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Size of a new log's first segment; each next one is twice its predecessor's, up to [`SEGMENT_BYTES`]. A new
/// member is ready before it has written 64 MiB of zeros, and a quiet one never takes that much.
pub const SEGMENT_BYTES_FIRST: u64 = 8 << 20;
/// Smallest and largest segment that may be asked for. Offsets within a segment are 32 bits wide.
pub const SEGMENT_BYTES_MIN: u64 = 8 * BLOCK_BYTES as u64;
pub const SEGMENT_BYTES_MAX: u64 = 1 << 31;
/// A new segment takes at most this share of the volume's free space, as long as the smallest size allows.
pub const SEGMENT_FREE_SHARE: u64 = 8;

/// Segments kept for reuse after a purge; more are removed.
pub const SPARE_SEGMENTS_MAX: usize = 2;

/// Bytes of records gathered into one write and one sync. A single larger record makes a larger batch.
pub const BATCH_BYTES_MAX: usize = 4 << 20;

/// Largest head and payload of one entry together: four times the largest request frame that may be configured.
pub const ENTRY_BYTES_MAX: usize = 256 << 20;
/// Largest vote, committed position or head of a purge: these are written anew at the start of each segment.
pub const SMALL_VALUE_BYTES_MAX: usize = 1 << 16;

/// When no further segment can be prepared and the current one has less than this left, the log calls itself full.
/// What is in flight then still fits.
pub const RESERVE_BYTES: u64 = 16 << 20;
/// The reserve is never more than this share of the current segment.
pub const RESERVE_SHARE: u64 = 4;

/// Recent entries kept in memory. Entries not yet written are kept beyond it: consensus bounds those.
pub const CACHE_BYTES_MAX: usize = 64 << 20;
/// Memory that an entry in the cache takes besides its bytes.
pub const CACHE_ENTRY_OVERHEAD_BYTES: usize = 96;

/// Zeros are written to a new segment in steps of this size, each synced, so that no commit waits behind 64 MiB.
pub const ZERO_STEP_BYTES: usize = 1 << 20;
/// Recovery reads in steps of this size.
pub const SCAN_STEP_BYTES: usize = 1 << 20;

/// First and longest pause between two attempts to find space on a full disk.
pub const SPACE_RETRY_MS_MIN: u64 = 100;
pub const SPACE_RETRY_MS_MAX: u64 = 5_000;

/// Open segment files that the reader keeps.
pub const READER_FILES_MAX: usize = 8;
/// Reads waiting for the reader.
pub const READER_QUEUE_MAX: usize = 256;

/// Upper bounds, in microseconds, of the fsync histogram's buckets; one more bucket holds what is slower.
pub const SYNC_US_BUCKETS: [u64; 14] =
    [50, 100, 200, 400, 800, 1_500, 3_000, 6_000, 12_000, 25_000, 50_000, 100_000, 500_000, 2_000_000];

/// Largest chunk of a snapshot.
pub const SNAPSHOT_CHUNK_BYTES_MAX: usize = 4 << 20;
/// Largest head of a snapshot.
pub const SNAPSHOT_HEAD_BYTES_MAX: usize = 1 << 20;
/// A snapshot being written is synced in steps of this size, so that no commit waits behind all of it.
pub const SNAPSHOT_SYNC_STEP_BYTES: u64 = 8 << 20;
/// Finished snapshots kept.
pub const SNAPSHOTS_KEPT: usize = 2;

/// Largest file that [`crate::replace_file`] writes.
pub const SMALL_FILE_BYTES_MAX: usize = 1 << 20;

const _: () = assert!(BATCH_BYTES_MAX as u64 <= SEGMENT_BYTES_FIRST / 2);
const _: () = assert!(SEGMENT_BYTES_FIRST <= SEGMENT_BYTES && SEGMENT_BYTES <= SEGMENT_BYTES_MAX);
const _: () = assert!((ENTRY_BYTES_MAX as u64) < SEGMENT_BYTES_MAX / 2);
const _: () = assert!(4 * SMALL_VALUE_BYTES_MAX < ENTRY_BYTES_MAX);
