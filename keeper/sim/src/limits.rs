//! The bounds of everything that queues in the simulation, and the measures of its world.

/// Messages under way in one direction of a connection; then the sender waits.
pub const FRAMES_UNDER_WAY_MAX: usize = 256;
/// Frames between an end of a connection and the network.
pub const CONN_CHANNEL_FRAMES: usize = 64;
/// Connections that wait to be accepted; then dials are refused.
pub const ACCEPT_BACKLOG: usize = 64;
/// Bytes between a client and the network, in one direction.
pub const CLIENT_PIPE_BYTES: usize = 64 * 1024;
/// A page of the simulated page cache: what reaches the disk, or does not, on its own.
pub const PAGE_BYTES: usize = 4096;
/// What a disk writes in one piece: a torn page consists of whole sectors.
pub const SECTOR_BYTES: usize = 512;
/// Broken promises that one run keeps the words of.
pub const FINDINGS_MAX: usize = 20;
