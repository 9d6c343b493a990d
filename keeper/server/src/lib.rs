//! One member of a cluster as its clients see it. The modules stand in the order a write walks them
//! (ARCHITECTURE.md, "The walk of a write"); then what keeps sessions alive; then what tells people how it is.

/// Bounds of every queue, buffer and wait.
pub mod limits;
/// The stages of a write.
pub mod stage;

/// Applied: entries into the tree, events and replies into the outboxes.
mod apply;
/// Who a connection's client is.
pub mod auth;
/// The bytes of a batch.
pub mod batch;
/// Received, Replied: a client's socket.
pub mod connection;
/// The same in words.
pub mod describe;
/// Dispatched: writes into batches, batches to the leader.
mod dispatch;
/// Batches between dispatch and apply.
mod in_flight;
/// Large writes take turns.
mod large_writes;
/// Proposed: the leader's end of the dispatchers' connections.
mod leader;
/// Writes are refused before memory ends.
mod memory_limit;
/// What a connection still owes its client.
mod outbox;
/// Local reads.
mod read;
/// ZooKeeper's `reconfig`.
mod reconfig;
/// The server's side of SASL DIGEST-MD5.
pub mod sasl;
/// Admitted: order within a session.
pub mod session;

/// The end of containers and TTL nodes.
mod cleanup;
/// Whether the members hold the same tree.
pub mod digests;
/// Who lives, by the leader's clock.
mod expiry;
/// The node object.
pub mod node;
/// What the tasks of a node share.
pub mod shared;
/// The nodes under `/keeper`.
mod system;
/// Who is told of which change.
mod watch;

/// Membership and status for operators, by gRPC.
pub mod admin;
/// Numbers that are read at the scrape.
mod collector;
/// Plain-text questions on the client port.
pub mod four_letter;
/// Probes and metrics.
pub mod http;
/// TCP sockets of production.
pub mod listener;
/// Counters and histograms.
pub mod metrics;
/// Numbers under the names of ZooKeeper's and ClickHouse's tools.
mod numbers;
/// Connections of one client address.
pub mod per_address;
/// Latencies by share of requests, for `mntr`.
mod percentiles;
/// What clients asked and were answered.
mod stats;
/// The same of one connection.
mod tally;
/// Numbers of TLS: handshakes, refusals, certificates.
mod tls_collector;

pub use auth::AuthOptions;
pub use node::{Node, NodeOptions, Readiness};
pub use session::Rules;
pub use tls_collector::TlsCollector;
