//! Faults planted to see whether the checks find them: a simulation that finds nothing is worth as much as the proof
//! that it would.
//!
//! Each stands as `keeper_rt::planted!("name")` where the mistake could be made. Must never be planted in any other run.

use crate::executor::{Options, run};
use crate::misfortune::Kind;
use crate::outcome::Report;
use crate::{bare, server};
use std::collections::BTreeSet;

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
    /// What it takes beside the usual misfortunes.
    pub with: &'static [Kind],
}

const fn bare(name: &'static str, what: &'static str) -> Fault {
    Fault { name, program: Program::Bare, what, with: &[] }
}

/// One that only damaged disks show.
const fn damage(name: &'static str, what: &'static str) -> Fault {
    Fault { name, program: Program::Bare, what, with: &[Kind::BitRot, Kind::Misdirected] }
}

/// One that only changes of members show.
const fn members(name: &'static str, what: &'static str) -> Fault {
    Fault { name, program: Program::Bare, what, with: &[Kind::Membership] }
}

const fn server(name: &'static str, what: &'static str) -> Fault {
    Fault { name, program: Program::Server, what, with: &[] }
}

pub const ALL: &[Fault] = &[
    bare("disk-lies-about-syncs", "the disk says that a file is synced before it is"),
    bare("append-not-synced", "the log acknowledges entries before it has synced them"),
    bare("truncation-not-written", "what was cut off the log is back after a restart"),
    bare(
        "snapshot-not-synced",
        "a snapshot is published, and the log behind it purged, before it is durable",
    ),
    bare("leader-restored", "a restarted leader leads on in its old term"),
    bare("minority-commits", "followers acknowledge what they have not written yet"),
    bare("machine-applies-twice", "an operation that was proposed again takes effect again"),
    bare("snapshot-forgets-next-seq", "a snapshot leaves out what each origin is owed next"),
    damage("log-checksum-unchecked", "damaged batches of the log are taken for whole"),
    damage("damage-cut-off", "a damaged batch ends the log, as if a loss of power had torn it"),
    members("server-id-reused", "a server id is given out again"),
    members("removal-not-committed", "a member is said to be removed, but is not"),
    server("boot-not-counted", "two lives of a member number their batches alike"),
    server("resent-applied-again", "a batch that was sent again is applied again"),
    server("read-before-own-write", "a read does not wait for the write before it"),
    server("sync-not-awaited", "sync answers at once"),
    server("missed-changes-untold", "setWatches does not tell what changed meanwhile"),
    server("sessions-never-expire", "the leader never ends a session"),
    server("resend-forgotten", "a new leader is not sent what the last one did not commit"),
];

/// Planted, and not found yet within [`SEEDS_MAX`] by the check that should: what the simulation still owes.
pub const UNFOUND: &[Fault] = &[
    bare("vote-not-awaited", "a vote is given before it is durable"),
    damage("snapshot-checksum-unchecked", "damaged snapshots are taken for whole"),
    members("highest-id-forgotten", "the highest server id ever used is not taken from a snapshot"),
    server("generation-unchecked", "a connection that its session has left goes on writing"),
    server("flights-outlive-snapshot", "batches that a snapshot holds are waited for"),
    server("watches-outlive-snapshot", "clients keep watches over changes that a snapshot brought"),
];

/// Runs one seed of a program as it is run by default.
pub fn report(program: Program, seed: u64, planted: Option<&'static str>, with: &[Kind]) -> Report {
    let options = Options { planted, ..Options::default() };
    let misfortunes: BTreeSet<Kind> = Kind::STANDARD.iter().chain(with).copied().collect();
    let finished = match program {
        Program::Bare => run(seed, options, |simulator| {
            bare::scenario(simulator, bare::Parameters { misfortunes, ..bare::Parameters::default() })
        }),
        Program::Server => run(seed, options, |simulator| {
            server::scenario(simulator, server::Parameters { misfortunes, ..server::Parameters::default() })
        }),
    };
    Report::new(seed, finished)
}

impl Fault {
    /// The first seed that shows it, counted from 1.
    pub fn search(&self, seeds_max: u64) -> Option<Report> {
        (1..=seeds_max)
            .map(|seed| report(self.program, seed, Some(self.name), self.with))
            .find(|report| !report.is_good())
    }
}
