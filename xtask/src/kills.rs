//! `kills`: kill -9 of members of a local three-member cluster, under the checked loader. Nothing may be lost.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use castellan_load::kills;
use clap::Args;

use crate::local::{self, Kind};
use crate::{paths, progress};

#[derive(Args)]
pub struct Arguments {
    /// How many times
    #[arg(long, default_value_t = 300)]
    pub count: usize,
    /// Sessions of the checked loader
    #[arg(long, default_value_t = 12)]
    pub sessions: usize,
    /// Chooses victims and operations; random when not given
    #[arg(long)]
    pub seed: Option<u64>,
    /// Whose members
    #[arg(long, value_enum, default_value = "keeper")]
    pub kind: Kind,
    /// Use this keeper binary instead of building one
    #[arg(long)]
    pub binary: Option<PathBuf>,
}

impl Arguments {
    /// `count` kills, everything else as by default.
    pub fn of(count: usize) -> Arguments {
        Arguments { count, sessions: 12, seed: None, kind: Kind::Keeper, binary: None }
    }
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    let folder = paths::fresh("kills")?;
    let mut cluster = local::start(arguments.kind, arguments.binary.clone(), &folder).await?;
    let random_seed =
        || Ok::<_, anyhow::Error>(castellan_load::random::Random::new()?.next_u64() % 1_000_000);
    let seed = arguments.seed.map_or_else(random_seed, Ok)?;
    progress::step("a node deleted behind the checker's back must be found");
    kills::prove_checker(&cluster).await.context("the checker is blind")?;
    progress::step(format_args!("{} kills, seed {seed}", arguments.count));
    let options = kills::Options { kills: arguments.count, sessions: arguments.sessions, seed };
    let begin = Instant::now();
    let count = arguments.count;
    let mut say = |kill: usize, who: &str| progress::step(format_args!("kill {kill} of {count}: {who}"));
    let verdict = kills::run(&mut cluster, &options, &mut say).await;
    let verdict = verdict.with_context(|| format!("seed {seed}; files in {}", folder.display()))?;
    println!("{count} kills in {:.0} s, seed {seed}: {verdict}", begin.elapsed().as_secs_f64());
    verdict.check(&folder).with_context(|| format!("seed {seed}; files in {}", folder.display()))?;
    drop(cluster);
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
}
