//! Raft for the rest of the server: the only crate that names openraft.
mod net;
pub use net::{Conn, DialError, NetFuture, Network};
