//! keeper-tree: the replicated state — znodes, sessions, ACLs, positions of batches — as a pure state machine.
//!
//! One command in, one [`Applied`] out, the events through a [`Sink`]. Two trees that were given the same
//! batches in the same order are equal in everything that can be read from them, which [`Tree::digest`] shows.
//! So nothing in here may read a clock, a random source, a file or a socket, or let the order of a hash table
//! reach an answer. Nothing in here may panic on what a client or a snapshot file holds.
//!
//! The crate's interface hides the layout: paths and borrowed bytes go in and out, never ids of nodes.
#![forbid(unsafe_code)]

mod acl;
mod acl_table;
mod apply;
mod blobs;
mod cleanup;
mod command;
mod digest;
mod index;
mod lifetime;
mod limits;
mod list;
mod memory;
mod multi;
mod node;
mod order;
mod path;
mod quota;
mod readers;
mod recursive;
mod session;
mod slab;
mod snapshot;
mod store;
mod tree;

pub use acl::{digest_identity, ip_identity};
pub use cleanup::{CleanupCursor, Perishable};
pub use command::{Admission, Applied, BatchId, Command, CommandOp, Counts, Outcome, SessionView, Sink};
pub use limits::SNAPSHOT_CHUNK_BYTES_MAX;
pub use list::{ChildFilter, ChildView};
pub use readers::Readers;
pub use snapshot::SnapshotError;
pub use tree::Tree;

#[cfg(test)]
mod tests;
