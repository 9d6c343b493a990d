//! The one binary: `keeper serve`, `keeper dev`, and the client commands. Wiring only, no logic of its own.
#![allow(clippy::disallowed_methods)] // outside the simulator: sockets, files and signals of a real process

mod cli;
mod config;
mod dev;
mod runtimes;
mod serve;
mod telemetry;
mod users;
mod zoo_cfg;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let command = cli::Cli::parse();
    match command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // A closed pipe (`keeper ls / | head`) is no failure to speak of.
            eprintln!("keeper: {:#}", failure.error);
            ExitCode::from(failure.code)
        }
    }
}
