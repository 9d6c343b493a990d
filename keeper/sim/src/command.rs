//! The command line.

use clap::{Args, Parser, Subcommand};
use keeper_sim::bare;
use keeper_sim::executor::{Options, run};
use keeper_sim::misfortune::Kind;
use keeper_sim::outcome::Report;
use keeper_sim::planted::{self, Program};
use keeper_sim::server;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
    /// Plants faults one by one: says after how many seeds each is found, and by what.
    Planted {
        /// Only this one.
        #[arg(long, value_parser = fault)]
        fault: Option<planted::Fault>,
        /// Seeds within which it must be found.
        #[arg(long, default_value_t = planted::SEEDS_MAX)]
        seeds: u64,
        /// Faults that are looked for at the same time.
        #[arg(long, default_value_t = 1)]
        jobs: usize,
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

fn fault(name: &str) -> Result<planted::Fault, String> {
    let known = planted::ALL.iter().chain(planted::UNFOUND).find(|fault| fault.name == name);
    known.copied().ok_or_else(|| {
        let names: Vec<&str> = planted::ALL.iter().map(|fault| fault.name).collect();
        format!("there are {}", names.join(", "))
    })
}

#[derive(Clone, Debug, Args)]
struct WorldArgs {
    #[arg(long, value_enum, default_value = "server")]
    program: Program,
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
    /// More than the usual kinds of misfortune.
    #[arg(long, value_enum)]
    with: Vec<Kind>,
    /// Only these kinds of misfortune.
    #[arg(long, value_enum)]
    only: Vec<Kind>,
    /// Plants a fault, to look at what it does; `keeper-sim planted` names them.
    #[arg(long, value_parser = fault)]
    fault: Option<planted::Fault>,
}

impl WorldArgs {
    fn misfortunes(&self) -> BTreeSet<Kind> {
        let chosen: &[Kind] = if self.only.is_empty() { &Kind::STANDARD } else { &self.only };
        chosen.iter().chain(&self.with).filter(|kind| !self.without.contains(kind)).copied().collect()
    }

    fn bare(&self) -> bare::Parameters {
        bare::Parameters {
            servers: self.servers,
            clients: self.clients,
            chaos: Duration::from_secs(self.seconds),
            misfortunes: self.misfortunes(),
            ..bare::Parameters::default()
        }
    }

    fn server(&self) -> server::Parameters {
        server::Parameters {
            servers: self.servers,
            clients: self.clients,
            chaos: Duration::from_secs(self.seconds),
            misfortunes: self.misfortunes(),
            ..server::Parameters::default()
        }
    }

    fn run(&self, seed: u64) -> Report {
        let options = Options { planted: self.fault.map(|fault| fault.name), ..Options::default() };
        let finished = match self.program {
            Program::Bare => run(seed, options, |simulator| bare::scenario(simulator, self.bare())),
            Program::Server => run(seed, options, |simulator| server::scenario(simulator, self.server())),
        };
        Report::new(seed, finished)
    }
}

impl WorldArgs {
    /// Runs the seed again, and says whether that is the same run.
    fn replay(&self, report: &Report) -> String {
        let seed = report.seed;
        match self.run(seed) == *report {
            true => format!("  seed {seed} replays bit by bit: --seed {seed} with the same switches"),
            false => format!("  seed {seed} is another run the second time: the simulation itself is broken"),
        }
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
            What::Planted { fault, seeds, jobs } => {
                let faults = fault.map_or_else(|| planted::ALL.to_vec(), |fault| vec![fault]);
                plant(&faults, seeds, jobs.max(1))
            }
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
    refusals: u64,
    changes: u64,
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
        self.refusals += report.outcome.counts.refusals;
        self.changes += report.outcome.counts.changes;
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
                        println!("{}", world.replay(&report));
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
         {} applied, {} crashes, {} terms, {} snapshots restored, {} changes of members, {} starts refused",
        sum.seeds,
        sum.failed,
        sum.simulated.as_secs_f64(),
        sum.polls as f64 / 1e6,
        sum.acknowledged,
        sum.applied,
        sum.crashes,
        sum.terms,
        sum.snapshots_restored,
        sum.changes,
        sum.refusals
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

/// One line a fault. False if one is not found.
fn plant(faults: &[planted::Fault], seeds: u64, jobs: usize) -> bool {
    if !cfg!(debug_assertions) {
        println!("this build has no planted faults: they need debug assertions");
        return false;
    }
    let (next, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = fault.search(seeds);
                    missed.fetch_add(usize::from(found.is_none()), Ordering::Relaxed);
                    let name = fault.name;
                    match found {
                        Some(report) => println!("{name}: {} seeds: {}", report.seed, report.first_finding()),
                        None => println!("{name}: NOT FOUND in {seeds} seeds ({})", fault.what),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner();
    println!("{} faults, {missed} not found", faults.len());
    missed == 0
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
