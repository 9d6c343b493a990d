//! Every bound of the client, so that a slow or silent server costs a known amount of memory.

use std::time::Duration;

/// Calls that wait for the session's task to take them. Beyond it callers wait for a place.
pub const QUEUE_LEN_MAX: usize = 1_024;

/// Requests written and not yet answered: what ZooKeeper lets one connection have outstanding.
pub const IN_FLIGHT_MAX: usize = 1_000;

/// Bytes of requests kept until they are answered. One request may go over it, or a large one could never go.
pub const IN_FLIGHT_BYTES_MAX: usize = 32 << 20;

/// Calls taken from the queue at once, and so written with one system call.
pub const BATCH_LEN_MAX: usize = 128;

/// Identities a session can have.
pub const IDENTITIES_MAX: usize = 64;

/// Watches a session can hold.
pub const WATCHES_MAX: usize = 100_000;

/// Paths of one setWatches frame together; a server refuses frames of 1 MiB.
pub const SET_WATCHES_BYTES_MAX: usize = 128 << 10;

/// Room for one read of the socket, and how little of it may be left before there is more.
pub const READ_BYTES: usize = 64 << 10;
pub const READ_BYTES_MIN: usize = 4 << 10;

/// Pause before the hosts are tried for another round. It doubles from the first to the second.
pub const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(50);
pub const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(1);

/// A connection that lived this long was a good one even if it answered nothing: the next is tried at once.
pub const CONNECTION_SETTLED: Duration = Duration::from_secs(1);

/// Answer to a four-letter word.
pub const FOUR_LETTER_BYTES_MAX: u64 = 4 << 20;

/// Time for one admin call unless told otherwise.
pub const ADMIN_CALL_TIMEOUT: Duration = Duration::from_secs(5);

const _: () = assert!(READ_BYTES_MIN <= READ_BYTES);
const _: () = assert!(BATCH_LEN_MAX <= QUEUE_LEN_MAX);
