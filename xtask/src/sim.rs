//! `sim`: the whole server in one thread from one seed, many seeds, each in its own simulated world.

use anyhow::Result;
use clap::Args;

use crate::{command, progress};

const SEEDS: u64 = 100;

#[derive(Args)]
pub struct Arguments {
    /// How many seeds; 100 if nothing is said
    #[arg(long)]
    pub seeds: Option<u64>,
    /// The first seed; without `--seeds` the only one, with its whole story
    #[arg(long)]
    pub seed: Option<u64>,
    /// More arguments for `keeper-sim run`, behind `--`
    #[arg(last = true)]
    pub more: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let mut words: Vec<String> =
        ["run", "--quiet", "--package", "keeper-sim", "--", "run"].map(String::from).to_vec();
    match (arguments.seeds, arguments.seed) {
        (None, Some(seed)) => words.extend(["--seed".into(), seed.to_string()]),
        (seeds, seed) => {
            let (count, start) = (seeds.unwrap_or(SEEDS).to_string(), seed.unwrap_or(1).to_string());
            progress::step(format_args!("simulating {count} seeds from {start}"));
            words.extend(["--count".into(), count, "--start".into(), start, "--jobs".into(), jobs]);
        }
    }
    words.extend(arguments.more.iter().cloned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    command::run_quiet(&mut command::cargo(&words))
}
