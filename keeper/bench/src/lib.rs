//! keeper-bench: a load generator for any server that speaks ZooKeeper's protocol.
//!
//! Reading order: [`config`] is what a run is told (ClickHouse keeper-bench's YAML), [`workloads`] the built-in ones;
//! `generate` draws requests from it; `schedule` and `lanes` decide when they go; `session` sends them; [`run`] puts it
//! all together; [`report`] says what came of it. [`replay`] sends what a request log recorded instead.
//!
//! It must never leave out of a latency what a request waited before it was sent: see `lanes`.
#![forbid(unsafe_code)]

/// Every bound of the load generator.
pub mod limits;

/// What a run is told.
pub mod config;
/// Configurations that come with the program.
pub mod workloads;

/// Requests as values.
mod request;

/// Requests drawn from a configuration.
mod generate;

/// When requests are due.
mod schedule;

/// A finer timer than the runtime's.
mod clock;

/// The closed and the open loop.
mod lanes;

/// One session: sends, and says how it ended.
mod session;

/// All sessions.
mod sessions;

/// The tree of a run.
mod setup;

/// From a write to its watch events.
mod events;

/// Latencies, bytes and errors.
mod record;

/// What it tells meanwhile.
mod progress;

/// A run from beginning to end.
pub mod run;

/// A recorded run.
pub mod replay;

/// What a run came to.
pub mod report;

pub use config::{Config, ConfigError};
pub use progress::{News, Watcher};
pub use report::Report;
pub use run::{Load, Options, RunError, run};
pub use schedule::Arrivals;
