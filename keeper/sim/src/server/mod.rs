//! The whole server in the simulation: real nodes with their dispatcher, sessions, watches and tree, and real
//! clients that reach them over simulated pipes.

mod client;
mod connector;
mod history;
mod operations;
mod program;
mod record;
mod scenario;
mod stories;

#[cfg(test)]
mod tests;

pub use scenario::{Parameters, scenario};
pub use stories::leader_crash_keeps_sessions;
