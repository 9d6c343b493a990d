//! castellan-load: load, faults and processes for tests and comparisons. A tool, not a part of the server.
//!
//! Reading order: [`bench`] measures any ZooKeeper-speaking server; [`process`] and [`cluster`] run local
//! three-member clusters of our keeper or of ZooKeeper; [`failover`] and [`vanish`] end leaders and clients with a
//! stopwatch; [`fsync_floor`] and [`loopback`] say what the machine allows; [`kills`], [`faults`] and [`robustness`] are
//! unkind to them in other ways.
//! Errors are `anyhow`: whoever calls shows them to a person.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "runs outside the simulator: real processes, files and clocks"
)]

pub mod bench;
pub mod bystanders;
pub mod checked;
pub mod cluster;
pub mod cpu;
pub mod failover;
pub mod faults;
pub mod four_letter;
pub mod fsync_floor;
pub mod kills;
pub mod loopback;
pub mod process;
pub mod proxy;
pub mod random;
pub mod robustness;
pub mod vanish;
