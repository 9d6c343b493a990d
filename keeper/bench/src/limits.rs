//! Every bound of the load generator, so that neither a slow server nor a large configuration costs unbounded memory.

use std::time::Duration;

/// Sessions of one run.
pub const SESSIONS_MAX: usize = 20_000;

/// Workers of one run, and requests that each keeps in flight in a closed loop.
pub const CONCURRENCY_MAX: usize = 20_000;
pub const PIPELINE_DEPTH_MAX: usize = 1_000;

/// Lanes: workers times their depth.
pub const LANES_MAX: usize = 100_000;

/// Requests of one lane in flight in an open loop. Beyond it the next ones wait, and their waiting counts.
pub const OPEN_IN_FLIGHT_MAX: usize = 256;

/// Highest rate of an open loop, requests a second.
pub const RATE_MAX: f64 = 10_000_000.0;

/// Bytes of a configuration file.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Depth of a configuration: nested nodes and sections.
pub const CONFIG_DEPTH_MAX: usize = 32;

/// Nodes that a set-up makes, with all its repeats.
pub const SETUP_NODES_MAX: usize = 1_000_000;

/// Requests in flight while the tree is made and removed.
pub const SETUP_IN_FLIGHT: usize = 64;

/// Nodes that are found below one root when it is removed.
pub const REMOVE_NODES_MAX: usize = 10_000_000;

/// Nodes that the server may remove in one request of its own; larger trees go node by node.
pub const REMOVE_RECURSIVE_NODES_MAX: u32 = 10_000;

/// Nodes a lane remembers for its removals. Those made beyond it stay until the run's tree is removed.
pub const CREATED_KEPT_MAX: usize = 65_536;

/// Candidate paths of one request.
pub const PATHS_MAX: usize = 1_000_000;

/// Operations of one multi or multiRead.
pub const MULTI_OPS_MAX: usize = 10_000;

/// Bytes of one generated value: what a server takes in a frame by default.
pub const VALUE_BYTES_MAX: usize = 1_000_000;

/// Watches that one session holds. Reads beyond it set none.
pub const WATCHES_ARMED_MAX: usize = 10_000;

/// Writes whose events may still come. The oldest is forgotten when there are more.
pub const WATCHED_WRITES_MAX: usize = 65_536;

/// Events of one write that arrived before its reply.
pub const EARLY_EVENTS_MAX: usize = 100_000;

/// Latencies are recorded in microseconds up to this, with so many significant digits.
pub const LATENCY_US_MAX: u64 = 600_000_000;
pub const LATENCY_DIGITS: u8 = 3;

/// Histograms are kept once for each of so many groups of lanes, so that threads seldom wait for each other.
pub const RECORDER_SHARDS_MAX: usize = 8;

/// Different errors that are counted apart, and the length of the example kept of each.
pub const ERROR_KINDS_MAX: usize = 64;
pub const ERROR_EXAMPLE_CHARS_MAX: usize = 200;

/// Sessions that are opened at once.
pub const CONNECTS_IN_FLIGHT: usize = 64;

/// A replayed log: its longest record, the sessions it may have, and requests read ahead for each of them.
pub const LOG_RECORD_BYTES_MAX: usize = 16 << 20;
pub const LOG_SESSIONS_MAX: usize = 20_000;
pub const LOG_READ_AHEAD: usize = 64;

/// Time for an operation, a session and a connection where the configuration names none.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(30);
pub const SESSION_TIMEOUT_MS: i32 = 30_000;
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time of a run where neither the configuration nor the caller names one.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Without a rate, the closed loop runs so long at least to find one, and the open loop then offers this share of it.
pub const CALIBRATION_MIN: Duration = Duration::from_secs(3);
pub const CALIBRATED_SHARE: f64 = 0.7;

const _: () = assert!(OPEN_IN_FLIGHT_MAX <= keeper_client::limits::IN_FLIGHT_MAX);
const _: () = assert!(WATCHES_ARMED_MAX <= keeper_client::limits::WATCHES_MAX);
