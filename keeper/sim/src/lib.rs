//! The deterministic simulation of a whole server cluster: one thread, one seed, every message, disk and crash.
//!
//! It offers what the server asks of the world (`keeper_rt`'s hook, `keeper_log::Disk`,
//! `keeper_consensus::Network`, byte pipes for clients), causes misfortunes, and watches from outside that nothing
//! promised is broken. It must never read a real clock, use randomness that is not the seed's, or reach into the
//! server's code for more than it tells every caller.

pub mod bare;
mod boot;
pub mod disk;
pub mod executor;
pub mod limits;
pub mod membership;
pub mod misfortune;
pub mod net;
pub mod oracle;
pub mod outcome;
pub mod pipe;
pub mod planted;
pub mod random;
pub mod server;
pub mod world;
