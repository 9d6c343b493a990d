//! `compare`: three of our members and a three-node ZooKeeper 3.9.5 on the same machine, in one run.
//!
//! Figures of this machine change from minute to minute, so only a ratio taken in one run counts: the sides take turns,
//! for several rounds, and never run at the same time. Reading order: [`life`] runs one side's servers, [`figures`]
//! makes lines of what they measured, [`targets`] judges them, [`page`] writes them down.

mod figures;
mod life;
mod machine;
mod page;
mod plan;
mod targets;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use castellan_load::bench::Row;
use clap::Args;

use crate::local::Kind;
use crate::{build, paths, progress, zookeeper};
use figures::{Floor, Line, Rounds};
use life::{Life, Programs};
use machine::Machine;
use plan::{Event, Measured, Plan};

#[derive(Args, Default)]
pub struct Arguments {
    /// Rows such as create-64x16, or failover, freeze, vanish; all that have a target when none is named
    rows: Vec<Measured>,
    /// One line of JSON a row on standard output
    #[arg(long)]
    json: bool,
    /// Write docs/benchmarks.md: needs all rows
    #[arg(long, conflicts_with_all = ["rows", "short"])]
    write: bool,
    /// The shortest run that still shows that everything works; its figures say nothing
    #[arg(long)]
    short: bool,
    /// Measured seconds of a row and round [default: 5]
    #[arg(long)]
    seconds: Option<f64>,
    /// Seconds of load before the measured ones [default: 1]
    #[arg(long)]
    warm: Option<f64>,
    /// Rounds of each row on each side; the median stands [default: 5]
    #[arg(long)]
    rounds: Option<usize>,
    /// Leaders killed on each side in the row failover, in all rounds together [default: 100]
    #[arg(long)]
    kills: Option<usize>,
    /// Leaders frozen on each side in the row freeze, in all rounds together [default: 10]
    #[arg(long)]
    freezes: Option<usize>,
    /// Clients that vanish on each side in the row vanish, in all rounds together [default: 60]
    #[arg(long)]
    clients: Option<usize>,
    /// Use this keeper binary instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
}

impl Arguments {
    /// For CI: whether everything works.
    fn short(binary: PathBuf) -> Arguments {
        Arguments { json: true, short: true, binary: Some(binary), ..Arguments::default() }
    }
}

/// All that one run found out.
struct Report {
    lines: Vec<Line>,
    floors: Vec<Floor>,
    machine: Machine,
    load_average: String,
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    let plan = Plan::of(arguments)?;
    let report = measure(arguments, &plan).await?;
    for line in &report.lines {
        match arguments.json {
            true => println!("{}", serde_json::to_string(line)?),
            false => print_line(line),
        }
    }
    if arguments.write {
        let path = paths::root().join("docs/benchmarks.md");
        std::fs::write(&path, page::of(&report, &plan))
            .with_context(|| format!("cannot write {}", path.display()))?;
        progress::step(format_args!("written: {}", path.display()));
    }
    Ok(())
}

/// The short run of CI: how many rows were whole on both sides. Nothing is said about speed.
pub async fn check(binary: PathBuf) -> Result<u64> {
    let arguments = Arguments::short(binary);
    let report = measure(&arguments, &Plan::of(&arguments)?).await?;
    Ok(report.lines.len() as u64)
}

async fn measure(arguments: &Arguments, plan: &Plan) -> Result<Report> {
    let keeper = arguments.binary.clone().map_or_else(build::keeper, Ok)?;
    ensure!(keeper.is_file(), "no keeper binary at {}", keeper.display());
    let programs = Programs { keeper, jars: zookeeper::jars()? };
    let folder = paths::fresh("compare")?;
    let machine = Machine::of(&folder)?;
    let load_average = machine::load_average()?;
    progress::step(format_args!("load average before the run: {load_average}"));
    let mut all: Vec<Rounds> = plan.rows.iter().map(|row| Rounds::new(row.to_string())).collect();
    for round in 0..plan.rounds {
        // Who goes first changes, so that neither always meets the machine as the other left it.
        let order = match round % 2 {
            0 => [Kind::Zookeeper, Kind::Keeper],
            _ => [Kind::Keeper, Kind::Zookeeper],
        };
        for kind in order {
            progress::step(format_args!("=== round {} of {} ===", round + 1, plan.rounds));
            let one = one_round(kind, plan, round, &programs, &folder, &mut all).await;
            one.with_context(|| format!("files in {}", folder.display()))?;
        }
    }
    let lines = all.iter().map(Rounds::line).collect();
    let floors = all.iter().flat_map(Rounds::floors).collect();
    progress::step(format_args!("load average behind the run: {}", machine::load_average()?));
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(Report { lines, floors, machine, load_average })
}

/// Rows under load have servers of their own: hundreds of thousands of nodes would weigh on what comes after.
async fn one_round(
    kind: Kind,
    plan: &Plan,
    round: usize,
    programs: &Programs,
    folder: &std::path::Path,
    all: &mut [Rounds],
) -> Result<()> {
    let mut loads: Vec<(usize, Row)> = Vec::new();
    let mut events: Vec<(usize, Event, usize)> = Vec::new();
    for (index, row) in plan.rows.iter().enumerate() {
        match row {
            Measured::Load(row) => loads.push((index, *row)),
            Measured::Event(event) => events.push((index, *event, plan.share(*event, round))),
        }
    }
    events.retain(|(_, _, times)| *times > 0);
    if !loads.is_empty() {
        let mut life = Life::start(kind, programs, folder.join("load")).await?;
        let rows: Vec<Row> = loads.iter().map(|(_, row)| *row).collect();
        let samples = life.loads(plan, &rows).await?;
        for ((index, _), sample) in loads.iter().zip(samples) {
            all[*index].push(kind, sample);
        }
        life.end()?;
    }
    if !events.is_empty() {
        let mut life = Life::start(kind, programs, folder.join("events")).await?;
        for (index, event, times) in events {
            all[index].push(kind, life.events(event, times).await?);
        }
        life.end()?;
    }
    Ok(())
}

fn print_line(line: &Line) {
    let Line { row, zookeeper: z, castellan: c, ratio, .. } = line;
    println!(
        "{row:14} zookeeper {:10.1}/s p50 {:8} us p99 {:8} us   castellan {:10.1}/s p50 {:8} us p99 {:8} us   \
         {ratio:6.2}x",
        z.ops, z.p50_us, z.p99_us, c.ops, c.p50_us, c.p99_us
    );
    for verdict in &line.verdicts {
        println!("               {verdict}");
    }
}
