//! Every bound of the protocol. A length from outside is compared with one of these and with the bytes at hand
//! before memory is set aside for it.

/// Largest frame by default: the same as ZooKeeper's `jute.maxbuffer`.
pub const FRAME_BYTES_MAX: usize = 0x000f_ffff;

/// Largest frame that may be configured, and so the largest string or buffer inside one.
pub const FRAME_BYTES_CEILING: usize = 64 << 20;

/// A handshake without password and read-only byte: 4 + 8 + 4 + 8 + 4.
pub const HANDSHAKE_BYTES_MIN: usize = 28;

/// Real handshakes have 44 or 45 bytes; a stranger may not make us buffer much more before it is known.
pub const HANDSHAKE_BYTES_MAX: usize = 1024;

/// Session passwords have 16 bytes.
pub const PASSWORD_BYTES_MAX: usize = 512;

/// One of ClickHouse's compressed blocks, as it comes and as it is decompressed. Its clients' buffers hold 1 MiB, and
/// what does not compress grows a little.
pub const COMPRESSED_BLOCK_BYTES_MAX: usize = 2 << 20;

/// The `tracestate` of a trace context: W3C asks for 512 at least.
pub const TRACE_STATE_BYTES_MAX: usize = 4096;

/// Smallest encodings of the elements of vectors: a count is refused when its elements cannot be there.
pub(crate) const STRING_BYTES_MIN: usize = 4;
pub(crate) const ACL_BYTES_MIN: usize = 12;
pub(crate) const ACL_ID_BYTES_MIN: usize = 8;

pub(crate) const STAT_BYTES: usize = 68;

const _: () = assert!(FRAME_BYTES_MAX <= FRAME_BYTES_CEILING);
// Four lowercase ASCII letters read as a length lie far above every frame, so the two cannot be confused.
const _: () = assert!(FRAME_BYTES_CEILING < 0x6161_6161);
