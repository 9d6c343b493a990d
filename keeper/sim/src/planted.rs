//! Faults planted to see whether the checks find them: a simulation that finds nothing is worth as much as the proof
//! that it would.
//!
//! Each stands as `keeper_rt::planted!("name")` where the mistake could be made. Must never be planted in any other run.

use crate::executor::{Options, run};
use crate::outcome::Report;
use crate::{bare, server};

#[cfg(test)]
mod tests;

/// Seeds within which every fault must be found.
pub const SEEDS_MAX: u64 = 300;

/// The program that shows a fault soonest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// The whole server, with real clients.
    Server,
    /// Consensus and log under a small state machine.
    Bare,
}

#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub name: &'static str,
    pub program: Program,
    pub what: &'static str,
}

const fn bare(name: &'static str, what: &'static str) -> Fault {
    Fault { name, program: Program::Bare, what }
}

const fn server(name: &'static str, what: &'static str) -> Fault {
    Fault { name, program: Program::Server, what }
}

pub const ALL: &[Fault] = &[
    bare("disk-lies-about-syncs", "the disk says that a file is synced before it is"),
    bare("append-not-synced", "the log acknowledges entries before it has synced them"),
    bare("vote-not-awaited", "a vote is given before it is durable"),
    bare("truncation-not-written", "what was cut off the log is back after a restart"),
    bare(
        "snapshot-not-synced",
        "a snapshot is published, and the log behind it purged, before it is durable",
    ),
    bare("leader-restored", "a restarted leader leads on in its old term"),
    bare("minority-commits", "followers acknowledge what they have not written yet"),
    bare("machine-applies-twice", "an operation that was proposed again takes effect again"),
    bare("snapshot-forgets-next-seq", "a snapshot leaves out what each origin is owed next"),
    bare("log-checksum-unchecked", "damaged batches of the log are taken for whole"),
    bare("snapshot-checksum-unchecked", "damaged snapshots are taken for whole"),
    bare("damage-cut-off", "a damaged batch ends the log, as if a loss of power had torn it"),
    bare("server-id-reused", "a server id is given out again"),
    bare("highest-id-forgotten", "the highest server id ever used is not taken from a snapshot"),
    bare("removal-not-committed", "a member is said to be removed, but is not"),
    server("boot-not-counted", "two lives of a member number their batches alike"),
    server("resent-applied-again", "a batch that was sent again is applied again"),
    server("generation-unchecked", "a connection that its session has left goes on writing"),
    server("flights-outlive-snapshot", "batches that a snapshot holds are waited for"),
    server("watches-outlive-snapshot", "clients keep watches over changes that a snapshot brought"),
    server("read-before-own-write", "a read does not wait for the write before it"),
    server("sync-not-awaited", "sync answers at once"),
    server("missed-changes-untold", "setWatches does not tell what changed meanwhile"),
    server("sessions-never-expire", "the leader never ends a session"),
    server("resend-forgotten", "a new leader is not sent what the last one did not commit"),
];

/// Runs one seed of a program as it is run by default.
pub fn report(program: Program, seed: u64, planted: Option<&'static str>) -> Report {
    let options = Options { planted, ..Options::default() };
    let finished = match program {
        Program::Bare => {
            run(seed, options, |simulator| bare::scenario(simulator, bare::Parameters::default()))
        }
        Program::Server => {
            run(seed, options, |simulator| server::scenario(simulator, server::Parameters::default()))
        }
    };
    Report::new(seed, finished)
}

impl Fault {
    /// The first seed that shows it, counted from 1.
    pub fn search(&self, seeds_max: u64) -> Option<Report> {
        (1..=seeds_max)
            .map(|seed| report(self.program, seed, Some(self.name)))
            .find(|report| !report.is_good())
    }
}
