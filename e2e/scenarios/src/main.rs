//! castellan-e2e: what must hold on a real Kubernetes, shown under the checked loader. `cargo xtask e2e` runs it.
//!
//! It works on the cluster that `KUBECONFIG` names, which must have the operator, and whose pods this machine must
//! reach. Each scenario has a namespace and a KeeperCluster of its own, removed when it passed. It must never use a
//! mock, and never kill by name: only pods through the API, and processes by the ids that the launcher tells.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "drives a real Kubernetes, with real clocks"
)]

mod cluster;
mod create;
mod diagnose;
mod kill;
mod load;
mod operator_kill;
mod pod_delete;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};

use cluster::TestCluster;

#[derive(Parser)]
#[command(name = "castellan-e2e", about = "Scenarios on the Kubernetes that KUBECONFIG names")]
struct Arguments {
    /// What to run; everything when nothing is named
    names: Vec<Scenario>,
    /// Fewer rounds, as in CI
    #[arg(long)]
    short: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// A cluster comes up Ready; wrong manifests are refused; deletion keeps the volumes
    Create,
    /// The leader dies again and again
    LeaderKill,
    /// All members die at once
    AllKill,
    /// Pods and objects are deleted and come back
    PodDelete,
    /// The operator dies while there is work for it
    OperatorKill,
}

impl Scenario {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    async fn run(self, cluster: &TestCluster, short: bool) -> Result<String> {
        match self {
            Scenario::Create => create::run(cluster).await,
            Scenario::LeaderKill => kill::leader(cluster, if short { 3 } else { 10 }).await,
            Scenario::AllKill => kill::all(cluster, if short { 1 } else { 3 }).await,
            Scenario::PodDelete => pod_delete::run(cluster).await,
            Scenario::OperatorKill => operator_kill::run(cluster).await,
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let run = || {
        // One of two providers is linked in by others; say which, so that the choice is not left to chance.
        if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
            bail!("a TLS provider was installed before ours");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(run_all(&arguments))
    };
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_failed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns how many failed.
async fn run_all(arguments: &Arguments) -> Result<usize> {
    let client = kube::Client::try_default().await.context("cannot use the cluster that KUBECONFIG names")?;
    let names = match arguments.names.is_empty() {
        true => Scenario::value_variants(),
        false => arguments.names.as_slice(),
    };
    let mut failed = 0;
    for scenario in names {
        let begin = Instant::now();
        let name = scenario.name();
        println!("running {name}");
        let cluster = TestCluster::new(client.clone(), &name).await?;
        let result = scenario.run(&cluster, arguments.short).await;
        let seconds = begin.elapsed().as_secs_f64();
        match result {
            Ok(shown) => {
                println!("PASSED {name} ({seconds:.1} s): {shown}");
                cluster.remove().await?;
            }
            Err(error) => {
                failed += 1;
                println!("FAILED {name} ({seconds:.1} s): {error:#}");
                diagnose::write(&cluster, &name).await;
            }
        }
    }
    Ok(failed)
}
