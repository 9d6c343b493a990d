//! `local`: a cluster on this machine for hand work. `load`: the load generator on any servers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use castellan_load::bench::{self, BenchOptions, Row};
use castellan_load::cluster::{self, Cluster};
use clap::{Args, ValueEnum};

use crate::{build, paths, progress, zookeeper};

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    #[default]
    Keeper,
    Zookeeper,
}

#[derive(Args)]
pub struct LocalArguments {
    #[arg(value_enum, default_value = "keeper")]
    kind: Kind,
    /// Use this keeper binary instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[derive(Args)]
pub struct LoadArguments {
    /// Client addresses, such as 127.0.0.1:2181,127.0.0.1:2182
    #[arg(long, value_delimiter = ',', required = true)]
    hosts: Vec<SocketAddr>,
    /// Rows such as create-64x16; all of them when none is named
    rows: Vec<Row>,
    /// Measured seconds of a row
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
}

/// Starts a cluster of either kind under `folder`.
pub async fn start(kind: Kind, binary: Option<PathBuf>, folder: &std::path::Path) -> Result<Cluster> {
    match kind {
        Kind::Keeper => {
            let binary = binary.map_or_else(build::keeper, Ok)?;
            progress::step("starting three keepers");
            cluster::keeper::start(&binary, folder, "").await
        }
        Kind::Zookeeper => {
            let jars = zookeeper::jars()?;
            progress::step("starting three ZooKeepers");
            cluster::zookeeper::start(&jars, folder, "").await
        }
    }
}

pub async fn run(arguments: &LocalArguments) -> Result<()> {
    let folder = paths::fresh("local")?;
    let cluster = start(arguments.kind, arguments.binary.clone(), &folder).await?;
    let hosts: Vec<String> = cluster.hosts().iter().map(ToString::to_string).collect();
    progress::step(format_args!("ready; files in {}; Ctrl-C ends it", folder.display()));
    println!("{}", hosts.join(","));
    tokio::signal::ctrl_c().await?;
    Ok(())
}

pub async fn load(arguments: LoadArguments) -> Result<()> {
    let rows = if arguments.rows.is_empty() { Row::all() } else { arguments.rows };
    let mut options = BenchOptions::new(arguments.hosts);
    options.measure = Duration::try_from_secs_f64(arguments.seconds)?;
    for row in rows {
        let options = options.clone();
        let result = tokio::task::spawn_blocking(move || bench::run_row(row, &options)).await??;
        println!(
            "{:14} {:9.0} ops/s  p50 {:7} us  p99 {:7} us  max {:7} us",
            row.to_string(),
            result.ops_per_second,
            result.p50_us,
            result.p99_us,
            result.max_us
        );
    }
    Ok(())
}
