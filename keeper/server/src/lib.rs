//! One member of a cluster as its clients see it. The modules stand in the order a write walks them
//! (ARCHITECTURE.md, "The walk of a write"); then what keeps sessions alive; then what tells people how it is.

/// Bounds of every queue, buffer and wait.
pub mod limits;
/// The stages of a write.
pub mod stage;

/// Received, Replied: a client's socket.
pub mod connection;
/// Admitted: order within a session.
pub mod session;
/// Local reads.
mod read;
/// What a connection still owes its client.
mod outbox;
/// Dispatched: writes into batches, batches to the leader.
pub mod dispatch;
/// The bytes of a batch.
pub mod batch;
/// Batches between dispatch and apply.
mod in_flight;
/// Proposed: the leader's end of the dispatchers' connections.
mod leader;
/// Applied: entries into the tree, events and replies into the outboxes.
mod apply;

/// One-shot watches.
mod watch;
/// Who lives, by the leader's clock.
mod expiry;
/// What the tasks of a node share.
pub mod shared;
/// The node object.
pub mod node;

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

pub use node::{Node, NodeOptions, Readiness};
pub use session::AuthOptions;
