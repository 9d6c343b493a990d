//! `cargo xtask`: the one entry for people and CI. Each command is safe to repeat, shows its steps with seconds on
//! standard error, and keeps standard output for its result. It must never need a tool that it neither brings nor
//! names with the way to get it.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "drives real processes, files and clocks"
)]

mod build;
mod command;
mod compare;
mod compatibility;
mod conformance;
mod e2e;
mod faults;
mod fuzz;
mod generate;
mod images;
mod kills;
mod kube;
mod local;
mod paths;
mod progress;
mod robustness;
mod sim;
mod test;
mod up;
mod zookeeper;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Builds, runs, tests and measures Castellan")]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// A real Kubernetes, the operator and a three-member KeeperCluster, Ready; says how to reach it
    Up,
    /// All of that away again
    Down,
    /// Everything that CI runs, in stages
    Test(test::Arguments),
    /// Run scenarios on a real Kubernetes: create leader-kill all-kill pod-delete operator-kill
    E2e(e2e::Arguments),
    /// Run the whole server from seeds
    Sim(sim::Arguments),
    /// Measure three of our members beside a real ZooKeeper 3.9.5 ensemble in one run
    Compare(compare::Arguments),
    /// Build static binaries and the image, and put it on the nodes of our own Kubernetes when that is up
    Images,
    /// Write the generated files
    Generate(generate::Arguments),
    /// Run other people's test suites and clients against our server
    Conformance(conformance::Arguments),
    /// Kill -9 members of a local cluster under the checked loader
    Kills(kills::Arguments),
    /// Stop, cut off, slow down and starve members of a local cluster, damage and delete their files, under the checked loader
    Faults(faults::Arguments),
    /// Idle sessions by the ten thousand, a storm of returning clients, bad clients beside good ones
    Robustness(robustness::Arguments),
    /// Run fuzz targets: what decodes bytes from outside
    Fuzz(fuzz::Arguments),
    /// Run a local three-member cluster until Ctrl-C
    Local(local::LocalArguments),
    /// Measure rows on servers that run already
    Load(local::LoadArguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let run = || -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(run(arguments.command))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Up => up::up(),
        Task::Down => up::down(),
        Task::Test(arguments) => test::run(&arguments).await,
        Task::E2e(arguments) => e2e::run(&arguments),
        Task::Sim(arguments) => sim::run(&arguments),
        Task::Images => images::run(),
        Task::Generate(arguments) => generate::run(&arguments),
        Task::Compare(arguments) => compare::run(&arguments).await,
        Task::Conformance(arguments) => conformance::run(&arguments).await,
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Kills(arguments) => kills::run(&arguments).await,
        Task::Faults(arguments) => faults::run(&arguments).await,
        Task::Robustness(arguments) => robustness::run(&arguments).await,
        Task::Local(arguments) => local::run(&arguments).await,
        Task::Load(arguments) => local::load(arguments).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }
}
