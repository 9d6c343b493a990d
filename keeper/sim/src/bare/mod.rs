//! A cluster of consensus and log alone: the real Raft and the real files under a small state machine that applies
//! each operation of an origin exactly once, in order. Quick, and nothing hides what these layers do wrong.

mod client;
mod machine;
mod program;
mod scenario;
mod stories;

#[cfg(test)]
mod tests;

pub(crate) use program::log_options;
pub use scenario::{Parameters, scenario};
pub use stories::{failover, restored_leader};
