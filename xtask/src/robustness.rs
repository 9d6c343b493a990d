//! `robustness`: what must not wear a local three-member cluster down, with figures and what each may be at most.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use castellan_load::cluster::{self, Cluster};
use castellan_load::robustness::attack::Attack;
use castellan_load::robustness::figures::Figure;
use castellan_load::robustness::{bad_input, idle, open_files, storm};
use clap::{Args, ValueEnum};

use crate::local::{self, Kind};
use crate::{build, paths, progress};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// What an idle session costs, and its pings
    IdleSessions,
    /// Thousands of clients come back after the leader's death
    ReconnectStorm,
    /// Well-behaved clients beside bad ones
    BadInput,
}

#[derive(Args)]
pub struct Arguments {
    /// Which; all of them when none is named
    #[arg(value_enum)]
    names: Vec<Name>,
    /// Idle sessions on one member
    #[arg(long, default_value_t = 20_000)]
    sessions: usize,
    /// Clients in the storm
    #[arg(long, default_value_t = 5_000)]
    clients: usize,
    /// Seconds measured before and during each attack
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Only these attacks, such as random-bytes
    #[arg(long, value_delimiter = ',')]
    attacks: Vec<String>,
    /// Whose members
    #[arg(long, value_enum, default_value = "keeper")]
    kind: Kind,
    /// Use this keeper binary instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Counts alone decide, not times: for a machine that does other things too
    #[arg(long)]
    short: bool,
}

impl Arguments {
    /// For CI: fewer of everything, and no verdict on times.
    pub fn short(binary: PathBuf) -> Arguments {
        Arguments {
            names: Vec::new(),
            sessions: 4_000,
            clients: 500,
            seconds: 1.0,
            attacks: Vec::new(),
            kind: Kind::Keeper,
            binary: Some(binary),
            short: true,
        }
    }

    fn attacks(&self) -> Result<Vec<Attack>> {
        let known = || Attack::ALL.map(Attack::name).join(", ");
        let find = |name: &String| {
            let found = Attack::ALL.into_iter().find(|attack| attack.name() == name);
            found.with_context(|| format!("`{name}` is no attack; there are {}", known()))
        };
        let named: Vec<Attack> = self.attacks.iter().map(find).collect::<Result<_>>()?;
        Ok(if named.is_empty() { Attack::ALL.to_vec() } else { named })
    }
}

/// More clients than members take by default, from one address.
const CONFIG: &str = "\n[limits]\nconnections_max = 100000\n";
const PING_ROUNDS: usize = 10;
/// More than any attack opens at a time, with those that the kernel has not let go of yet.
const ATTACK_SOCKETS: usize = 4_000;

pub async fn run(arguments: &Arguments) -> Result<()> {
    measure(arguments).await.map(drop)
}

/// Runs the named ones, each on a cluster of its own; how many figures had a bound and held it. One that does not is an
/// error.
pub async fn measure(arguments: &Arguments) -> Result<u64> {
    let named = &arguments.names[..];
    let names = if named.is_empty() { Name::value_variants() } else { named };
    let attacks = arguments.attacks()?;
    let folder = paths::fresh("robustness")?;
    let mut figures = Vec::new();
    for name in names {
        let shown = name.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let found = one(*name, &shown, arguments, &attacks, &folder.join(&shown)).await;
        let found = found.with_context(|| format!("{shown}; files in {}", folder.display()))?;
        for figure in &found {
            println!("{figure}");
        }
        figures.extend(found);
    }
    let judged = figures.iter().filter(|figure| figure.max.is_some());
    let broken: Vec<&str> =
        judged.clone().filter(|figure| !figure.holds()).map(|figure| figure.name.as_str()).collect();
    ensure!(broken.is_empty(), "too much: {}; files in {}", broken.join("; "), folder.display());
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(judged.count() as u64)
}

async fn one(
    name: Name,
    shown: &str,
    arguments: &Arguments,
    attacks: &[Attack],
    folder: &std::path::Path,
) -> Result<Vec<Figure>> {
    progress::step(format_args!("=== {shown} ==="));
    // Before the members start: they inherit the limit.
    let sockets = match name {
        Name::IdleSessions => arguments.sessions,
        Name::ReconnectStorm => arguments.clients,
        Name::BadInput => ATTACK_SOCKETS,
    };
    let fit = open_files::make_room(sockets)?;
    if fit < sockets {
        progress::step(format_args!("only {fit} connections fit the limit of open files (`ulimit -Hn`)"));
    }
    let mut cluster = start(arguments, folder).await?;
    match name {
        Name::IdleSessions => {
            let options = idle::Options { sessions: arguments.sessions.min(fit), ping_rounds: PING_ROUNDS };
            progress::step(format_args!("{} sessions on one member", options.sessions));
            idle::run(&mut cluster, &options).await
        }
        Name::ReconnectStorm => {
            let options = storm::Options { clients: arguments.clients.min(fit) };
            progress::step(format_args!("{} clients", options.clients));
            storm::run(&mut cluster, &options).await
        }
        Name::BadInput => {
            let window = Duration::try_from_secs_f64(arguments.seconds).context("--seconds")?;
            let judge_times = !arguments.short;
            let options = bad_input::Options { attacks: attacks.to_vec(), window, judge_times };
            bad_input::run(&mut cluster, &options, &mut |line| println!("{line}")).await
        }
    }
}

async fn start(arguments: &Arguments, folder: &std::path::Path) -> Result<Cluster> {
    match arguments.kind {
        Kind::Keeper => {
            let binary = arguments.binary.clone().map_or_else(build::keeper, Ok)?;
            progress::step("starting three keepers");
            cluster::keeper::start(&binary, folder, CONFIG).await
        }
        Kind::Zookeeper => local::start(Kind::Zookeeper, None, folder).await,
    }
}
