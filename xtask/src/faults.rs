//! `faults`: real misfortunes of a local three-member cluster, under the checked loader. Nothing may be lost.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use castellan_load::faults::{self, Ended, Length, Scenario};
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::{build, paths, progress};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Members are stopped for a while and go on
    Freeze,
    /// Members do not hear each other
    Partition,
    /// What members send arrives late
    Delay,
    /// Disks fill up (root alone can mount small ones)
    DiskFull,
    /// A byte of a file of a stopped member is another
    FlippedByte,
    /// A member's whole data folder is gone
    LostFolder,
}

impl Name {
    fn scenario(self) -> Scenario {
        match self {
            Name::Freeze => Scenario::Freeze,
            Name::Partition => Scenario::Partition,
            Name::Delay => Scenario::Delay,
            Name::DiskFull => Scenario::DiskFull,
            Name::FlippedByte => Scenario::FlippedByte,
            Name::LostFolder => Scenario::LostFolder,
        }
    }

    /// Rounds, or seconds, that fit CI's time.
    fn short(self) -> Length {
        match self {
            Name::Partition => Length::Rounds(2),
            Name::Delay => Length::Time(Duration::from_secs(10)),
            Name::Freeze | Name::DiskFull | Name::FlippedByte | Name::LostFolder => Length::Rounds(1),
        }
    }
}

#[derive(Args)]
pub struct Arguments {
    /// Which; all of them when none is named
    #[arg(value_enum)]
    names: Vec<Name>,
    /// How long each goes on
    #[arg(long, default_value_t = 120.0, conflicts_with_all = ["count", "short"])]
    seconds: f64,
    /// How many rounds each has; of those that walk through a list, how often
    #[arg(long, conflicts_with = "short")]
    count: Option<usize>,
    /// As in CI: a round or two of each
    #[arg(long)]
    short: bool,
    /// Sessions of the checked loader
    #[arg(long, default_value_t = 12)]
    sessions: usize,
    /// Chooses victims, times and operations; random when not given
    #[arg(long)]
    seed: Option<u64>,
    /// Use this keeper binary instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
}

impl Arguments {
    /// A round or two of each.
    pub fn short(binary: PathBuf) -> Arguments {
        let binary = Some(binary);
        Arguments {
            names: Vec::new(),
            seconds: 0.0,
            count: None,
            short: true,
            sessions: 12,
            seed: None,
            binary,
        }
    }

    fn length(&self, name: Name) -> Result<Length> {
        match self.count {
            _ if self.short => Ok(name.short()),
            Some(count) => Ok(Length::Rounds(count)),
            None => Ok(Length::Time(Duration::try_from_secs_f64(self.seconds).context("--seconds")?)),
        }
    }
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    measure(arguments).await.map(drop)
}

/// Runs the named ones, each on a cluster of its own; how many could run. One that finds something is an error.
pub async fn measure(arguments: &Arguments) -> Result<u64> {
    let named = &arguments.names[..];
    let names = if named.is_empty() { Name::value_variants() } else { named };
    let random_seed =
        || Ok::<_, anyhow::Error>(castellan_load::random::Random::new()?.next_u64() % 1_000_000);
    let seed = arguments.seed.map_or_else(random_seed, Ok)?;
    let binary = arguments.binary.clone().map_or_else(build::keeper, Ok)?;
    let folder = paths::fresh("faults")?;
    let mut run = 0;
    for name in names {
        let shown = name.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        let options = faults::Options {
            binary: binary.clone(),
            folder: folder.join(&shown),
            length: arguments.length(*name)?,
            sessions: arguments.sessions,
            seed,
        };
        progress::step(format_args!("=== {shown}, seed {seed} ==="));
        // Broken off like this, what it has mounted and started goes too.
        let one = tokio::select! {
            one = one(name.scenario(), &shown, &options, &folder) => one,
            stop = told_to_stop() => stop.and_then(|()| bail!("broken off")),
        };
        run += one.with_context(|| format!("{shown}, seed {seed}; files in {}", folder.display()))?;
    }
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(run)
}

async fn told_to_stop() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        stop = tokio::signal::ctrl_c() => Ok(stop?),
        _ = terminate.recv() => Ok(()),
    }
}

/// 1 if it could run.
async fn one(scenario: Scenario, shown: &str, options: &faults::Options, folder: &Path) -> Result<u64> {
    let begin = Instant::now();
    let mut say = |round: &str| progress::step(format_args!("{shown} {round}"));
    match faults::run(scenario, options, &mut say).await? {
        Ended::Skipped(why) => {
            println!("{shown}: skipped: {why}");
            Ok(0)
        }
        Ended::Done { rounds, verdict, level } => {
            let (seconds, seed) = (begin.elapsed().as_secs_f64(), options.seed);
            println!(
                "{shown}: {rounds} rounds in {seconds:.0} s, seed {seed}: {verdict}; all members at index {} with \
                 digest {:016x}",
                level.applied, level.digest
            );
            verdict.check(folder).map(|()| 1)
        }
    }
}
