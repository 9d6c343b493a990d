//! One member of a cluster as its clients see it. The modules stand in the order a write walks them
//! (ARCHITECTURE.md, "The walk of a write"); then what keeps sessions alive; then what tells people how it is.

/// Bounds of every queue, buffer and wait.
pub mod limits;
/// The stages of a write.
pub mod stage;

/// Applied: entries into the tree, events and replies into the outboxes.
mod apply;
/// The bytes of a batch.
pub mod batch;
/// Received, Replied: a client's socket.
pub mod connection;
/// Dispatched: writes into batches, batches to the leader.
pub mod dispatch;
/// Batches between dispatch and apply.
mod in_flight;
/// Proposed: the leader's end of the dispatchers' connections.
mod leader;
/// What a connection still owes its client.
mod outbox;
/// Local reads.
mod read;
/// Admitted: order within a session.
pub mod session;

/// Who lives, by the leader's clock.
mod expiry;
/// The node object.
pub mod node;
/// What the tasks of a node share.
pub mod shared;
/// One-shot watches.
mod watch;

/// Membership and status for operators, by gRPC.
pub mod admin;
/// Numbers that are read at the scrape.
mod collector;
/// ZooKeeper's plain-text questions.
pub mod four_letter;
/// Probes and metrics.
pub mod http;
/// TCP sockets of production.
pub mod listener;
/// Counters and histograms.
pub mod metrics;
/// Numbers of TLS: handshakes, refusals, certificates.
mod tls_collector;

pub use node::{Node, NodeOptions, Readiness};
pub use session::AuthOptions;
pub use tls_collector::TlsCollector;
