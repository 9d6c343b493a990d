//! `keeper-sim`: runs seeds of the simulation and says which of them break a promise.
//!
//! One line for each failing seed, with the reason and the trace hash that tells whether it is the same run. The
//! exit code is not 0 if any seed failed. Must never decide anything itself: a seed and the switches do.

mod command;
mod tracing_time;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    tracing_time::install();
    command::Command::parse().execute()
}
