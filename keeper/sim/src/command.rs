//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use keeper_sim::bare::{self, Fault};
use keeper_sim::executor::{Options, run};
use keeper_sim::misfortune::Kind;
use keeper_sim::outcome::Report;
use keeper_sim::server;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Runs a whole cluster, its disks, its network and its misfortunes from one seed.
#[derive(Debug, Parser)]
#[command(name = "keeper-sim", version, arg_required_else_help = true)]
pub struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs seeds; prints one line for each that fails.
    Run {
        /// One seed, with its whole story.
        #[arg(long, conflicts_with_all = ["count", "start"])]
        seed: Option<u64>,
        /// So many seeds.
        #[arg(long, default_value_t = 100)]
        count: u64,
        /// The first seed.
        #[arg(long, default_value_t = 1)]
        start: u64,
        /// Seeds that run at the same time.
        #[arg(long, default_value_t = 1)]
        jobs: usize,
        /// Goes on after a seed that failed.
        #[arg(long)]
        keep_going: bool,
        #[command(flatten)]
        world: WorldArgs,
    },
    /// Runs one seed again and again: all runs must have the same trace.
    Same {
        #[arg(long)]
        seed: u64,
        #[arg(long, default_value_t = 2)]
        times: u64,
        #[command(flatten)]
        world: WorldArgs,
    },
    /// Kills the leader again and again and measures how long nothing is acknowledged, in the bare program.
    Failover {
        #[arg(long, default_value_t = 5)]
        count: u64,
        #[arg(long, default_value_t = 1)]
        start: u64,
        #[arg(long, default_value_t = 8)]
        rounds: u32,
        #[command(flatten)]
        world: WorldArgs,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProgramKind {
    /// The whole server, with real clients.
    Server,
    /// Consensus and log under a small state machine.
    Bare,
}

#[derive(Clone, Debug, Args)]
struct WorldArgs {
    #[arg(long, value_enum, default_value = "server")]
    program: ProgramKind,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    servers: u32,
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Simulated seconds of misfortunes.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Leaves a kind of misfortune out; to find the one that matters.
    #[arg(long, value_enum)]
    without: Vec<Kind>,
    /// Only these kinds of misfortune.
    #[arg(long, value_enum)]
    only: Vec<Kind>,
    /// Plants a fault, to see whether it is found; all but sync-lies in the bare program only.
    #[arg(long, value_enum)]
    fault: Option<Fault>,
}

impl WorldArgs {
    fn misfortunes(&self) -> BTreeSet<Kind> {
        let chosen: &[Kind] = if self.only.is_empty() { &Kind::ALL } else { &self.only };
        chosen.iter().filter(|kind| !self.without.contains(kind)).copied().collect()
    }

    fn bare(&self) -> bare::Parameters {
        bare::Parameters {
            servers: self.servers,
            clients: self.clients,
            chaos: Duration::from_secs(self.seconds),
            misfortunes: self.misfortunes(),
            fault: self.fault,
            ..bare::Parameters::default()
        }
    }

    fn server(&self) -> server::Parameters {
        server::Parameters {
            servers: self.servers,
            clients: self.clients,
            chaos: Duration::from_secs(self.seconds),
            misfortunes: self.misfortunes(),
            sync_lies: self.fault == Some(Fault::SyncLies),
            ..server::Parameters::default()
        }
    }

    fn run(&self, seed: u64) -> Report {
        let finished = match self.program {
            ProgramKind::Bare => {
                run(seed, Options::default(), |simulator| bare::scenario(simulator, self.bare()))
            }
            ProgramKind::Server => {
                run(seed, Options::default(), |simulator| server::scenario(simulator, self.server()))
            }
        };
        Report::new(seed, finished)
    }
}

impl Command {
    pub fn execute(self) -> ExitCode {
        let good = match self.what {
            What::Run { seed: Some(seed), world, .. } => {
                let report = world.run(seed);
                println!("{report}");
                report.outcome.findings.iter().for_each(|finding| println!("  {finding}"));
                report.is_good()
            }
            What::Run { seed: None, count, start, jobs, keep_going, world } => {
                run_many(start, count, jobs.max(1), keep_going, &world)
            }
            What::Same { seed, times, world } => same(seed, times.max(2), &world),
            What::Failover { count, start, rounds, world } => failover(start, count, rounds, &world),
        };
        if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[derive(Default)]
struct Sum {
    seeds: u64,
    failed: u64,
    simulated: Duration,
    polls: u64,
    acknowledged: u64,
    applied: u64,
    crashes: u64,
    snapshots_restored: u64,
    terms: u64,
}

impl Sum {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.failed += u64::from(!report.is_good());
        self.simulated += report.simulated;
        self.polls += report.polls;
        self.acknowledged += report.outcome.seen.acknowledged;
        self.applied += report.outcome.seen.applied;
        self.snapshots_restored += report.outcome.seen.snapshots_restored;
        self.terms += report.outcome.seen.terms;
        self.crashes += report.outcome.counts.crashes;
    }
}

// The simulator is what may look at the real clock: to say how long it took.
#[allow(clippy::disallowed_methods)]
fn run_many(start: u64, count: u64, jobs: usize, keep_going: bool, world: &WorldArgs) -> bool {
    let began = std::time::Instant::now();
    let next = AtomicU64::new(start);
    let sum = Mutex::new(Sum::default());
    let locked = || sum.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= start.saturating_add(count) || (!keep_going && locked().failed > 0) {
                        return;
                    }
                    let report = world.run(seed);
                    if !report.is_good() {
                        println!("{report}");
                    }
                    locked().add(&report);
                }
            });
        }
    });
    let sum = locked();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} seeds from {start}, {} failed | {seconds:.1} s, {:.0} simulated s, {:.2} M polls | {} acknowledged, \
         {} applied, {} crashes, {} terms, {} snapshots restored",
        sum.seeds,
        sum.failed,
        sum.simulated.as_secs_f64(),
        sum.polls as f64 / 1e6,
        sum.acknowledged,
        sum.applied,
        sum.crashes,
        sum.terms,
        sum.snapshots_restored
    );
    sum.failed == 0
}

fn same(seed: u64, times: u64, world: &WorldArgs) -> bool {
    let first = world.run(seed);
    for _ in 1..times {
        let again = world.run(seed);
        if again != first {
            println!("seed {seed} is not one run:\n  {first}\n  {again}");
            return false;
        }
    }
    println!("seed {seed}: one trace {:016x} in {times} runs", first.trace);
    first.is_good()
}

fn failover(start: u64, count: u64, rounds: u32, world: &WorldArgs) -> bool {
    let mut took_ms: Vec<u128> = Vec::new();
    let mut good = true;
    for seed in start..start.saturating_add(count) {
        let finished =
            run(seed, Options::default(), |simulator| bare::failover(simulator, world.bare(), rounds));
        let report = Report::new(seed, finished);
        if !report.is_good() {
            println!("{report}");
            good = false;
        }
        took_ms.extend(report.outcome.failovers.iter().map(Duration::as_millis));
    }
    took_ms.sort_unstable();
    let at = |share: usize| took_ms.get(took_ms.len().saturating_sub(1) * share / 100).copied().unwrap_or(0);
    println!(
        "{} kills of the leader, ms until the next acknowledged operation: min {} p50 {} p90 {} max {}",
        took_ms.len(),
        at(0),
        at(50),
        at(90),
        at(100)
    );
    good
}
