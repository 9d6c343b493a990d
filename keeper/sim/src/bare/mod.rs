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

/// A fault planted to see whether the oracle finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// The disk says that a file is synced before it is: whatever was built on that is acknowledged too early.
    SyncLies,
    /// Snapshots forget what the origins are owed next.
    SnapshotForgetsNext,
    /// The state machine applies an operation that it has applied before.
    AppliesTwice,
}
