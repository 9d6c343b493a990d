//! `compare`: three of our members and a three-node ZooKeeper 3.9.5 on the same machine, in one run.
//!
//! Figures of this machine change from minute to minute, so only a ratio taken in one run counts: each row runs on
//! both in turn, for several rounds, and the best round of each stands.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use castellan_load::bench::{self, BenchOptions, Row, RowResult};
use castellan_load::cluster::{Cluster, MEMBERS};
use castellan_load::failover;
use castellan_load::fsync_floor::{self, FsyncFloor};
use clap::Args;
use serde::Serialize;

use crate::local::{self, Kind};
use crate::{paths, progress};

#[derive(Args)]
pub struct Arguments {
    /// Rows such as create-64x16, or failover; all of them when none is named
    rows: Vec<Measured>,
    /// One line of JSON a row on standard output
    #[arg(long)]
    json: bool,
    /// Measured seconds of a row and round
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of load before the measured ones
    #[arg(long, default_value_t = 2.0)]
    warm: f64,
    /// Rounds of each row on each side; the best one stands
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Leaders killed in the row failover
    #[arg(long, default_value_t = 20)]
    kills: usize,
    /// Use this keeper binary instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Measured {
    Load(Row),
    Failover,
}

impl FromStr for Measured {
    type Err = String;
    fn from_str(text: &str) -> Result<Measured, String> {
        match text {
            "failover" => Ok(Measured::Failover),
            _ => Ok(Measured::Load(text.parse::<Row>().map_err(|error| format!("{error}, or failover"))?)),
        }
    }
}

/// One side of one row.
#[derive(Clone, Copy, Serialize)]
pub struct Figures {
    /// Requests a second; of failover: outages a second that one after another would make (1 / p50).
    ops: f64,
    p50_us: u64,
    p99_us: u64,
}

#[derive(Serialize)]
pub struct Line {
    row: String,
    zookeeper: Figures,
    castellan: Figures,
    /// How many times better ours is: requests a second of ours by ZooKeeper's.
    ratio: f64,
}

/// Before the first row both sides run this, unmeasured: ZooKeeper's virtual machine compiles its code meanwhile.
const WARM_UP_ROW: &str = "mixed-64x16";
const WARM_UP: Duration = Duration::from_secs(6);
const FLOOR_TIME: Duration = Duration::from_secs(2);

impl Arguments {
    /// The shortest run that still shows that everything works.
    pub fn smoke(binary: Option<PathBuf>) -> Arguments {
        let row = |sessions, depth| Measured::Load(Row { op: bench::Op::Mixed, sessions, depth });
        Arguments {
            rows: vec![row(8, 4), Measured::Failover],
            json: true,
            seconds: 0.5,
            warm: 0.2,
            rounds: 1,
            kills: 1,
            binary,
        }
    }
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    measure(arguments).await.map(drop)
}

/// Runs the rows and shows each as it is done.
pub async fn measure(arguments: &Arguments) -> Result<Vec<Line>> {
    if arguments.rounds == 0 || arguments.kills == 0 {
        bail!("--rounds and --kills must be at least 1");
    }
    let mut rows = arguments.rows.clone();
    if rows.is_empty() {
        rows = Row::all().into_iter().map(Measured::Load).chain([Measured::Failover]).collect();
    }
    let folder = paths::fresh("compare")?;
    let mut ours = local::start(Kind::Keeper, arguments.binary.clone(), &folder).await?;
    let mut theirs = local::start(Kind::Zookeeper, None, &folder).await?;
    if !arguments.json {
        print_header();
    }
    warm_up(arguments, &ours, &theirs).await?;
    let floor_time = FLOOR_TIME.min(seconds(arguments.seconds)?);
    let floor = fsync_floor::measure(&folder, floor_time)?;
    // All members of both sides stand on this one disk.
    let together = fsync_floor::measure_together(&folder, floor_time, MEMBERS)?;
    let mut lines = Vec::new();
    for row in rows {
        let line = match row {
            Measured::Load(row) => compare_row(arguments, row, &mut ours, &mut theirs).await?,
            Measured::Failover => compare_failover(arguments, &mut ours, &mut theirs).await?,
        };
        match arguments.json {
            true => println!("{}", serde_json::to_string(&line)?),
            false => print_line(&line),
        }
        if line.row == "create-1x1" {
            let times = |floor: FsyncFloor| line.castellan.p50_us as f64 / floor.p50_us as f64;
            progress::step(format_args!(
                "fdatasync of a preallocated file: p50 {} us, p99 {} us; idle create is {:.2} times that",
                floor.p50_us,
                floor.p99_us,
                times(floor)
            ));
            progress::step(format_args!(
                "of {MEMBERS} files at once: p50 {} us, p99 {} us; idle create is {:.2} times that",
                together.p50_us,
                together.p99_us,
                times(together)
            ));
        }
        lines.push(line);
    }
    drop((ours, theirs));
    // Logs are worth keeping only after a failure, which never comes here.
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    Ok(lines)
}

fn seconds(value: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(value).with_context(|| format!("{value} is no number of seconds"))
}

async fn warm_up(arguments: &Arguments, ours: &Cluster, theirs: &Cluster) -> Result<()> {
    progress::step("warming both up");
    let row: Row = WARM_UP_ROW.parse().map_err(anyhow::Error::msg)?;
    for cluster in [theirs, ours] {
        let mut options = BenchOptions::new(cluster.hosts());
        options.warm = Duration::ZERO;
        options.measure = WARM_UP.min(seconds(arguments.seconds * 2.0)?);
        load(row, options).await?;
    }
    Ok(())
}

async fn load(row: Row, options: BenchOptions) -> Result<RowResult> {
    tokio::task::spawn_blocking(move || bench::run_row(row, &options)).await?
}

async fn compare_row(
    arguments: &Arguments,
    row: Row,
    ours: &mut Cluster,
    theirs: &mut Cluster,
) -> Result<Line> {
    let (mut castellan, mut zookeeper): (Vec<RowResult>, Vec<RowResult>) = Default::default();
    for round in 0..arguments.rounds {
        for (cluster, results) in [(&mut *theirs, &mut zookeeper), (&mut *ours, &mut castellan)] {
            let mut options = BenchOptions::new(cluster.hosts());
            options.warm = seconds(arguments.warm)?;
            options.measure = seconds(arguments.seconds)?;
            let result = load(row, options).await.with_context(|| format!("{row} on {}", cluster.name()));
            if result.is_err() {
                cluster.check_alive()?;
            }
            let result = result?;
            progress::step(format_args!(
                "{row} round {} of {}: {} {:.0} ops/s",
                round + 1,
                arguments.rounds,
                cluster.name(),
                result.ops_per_second
            ));
            results.push(result);
        }
    }
    let (zookeeper, castellan) = (best(&zookeeper)?, best(&castellan)?);
    let ratio = round_to(castellan.ops / zookeeper.ops, 3);
    Ok(Line { row: row.to_string(), zookeeper, castellan, ratio })
}

/// The round with the most requests a second.
fn best(results: &[RowResult]) -> Result<Figures> {
    let best = results.iter().max_by(|a, b| a.ops_per_second.total_cmp(&b.ops_per_second));
    let best = best.context("no round was run")?;
    Ok(Figures { ops: round_to(best.ops_per_second, 1), p50_us: best.p50_us, p99_us: best.p99_us })
}

fn round_to(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

async fn compare_failover(arguments: &Arguments, ours: &mut Cluster, theirs: &mut Cluster) -> Result<Line> {
    let zookeeper = failover_of(theirs, arguments.kills).await?;
    let castellan = failover_of(ours, arguments.kills).await?;
    let ratio = round_to(zookeeper.p50_us as f64 / castellan.p50_us.max(1) as f64, 3);
    Ok(Line { row: "failover".into(), zookeeper, castellan, ratio })
}

async fn failover_of(cluster: &mut Cluster, kills: usize) -> Result<Figures> {
    let name = cluster.name();
    let mut progress = |kill, us: u64| {
        progress::step(format_args!("failover {kill} of {kills}: {name} {:.1} ms", us as f64 / 1000.0));
    };
    let result = failover::run(cluster, kills, &mut progress).await?;
    let [p50_us, p99_us, worst_us] = [0.5, 0.99, 1.0].map(|q| failover::quantile(&result.first_us, q));
    let all_worst_us = failover::quantile(&result.last_us, 1.0);
    progress::step(format_args!(
        "failover of {name}: first write after p50 {:.1} ms, worst {:.1} ms; on every survivor after {:.1} ms at worst",
        p50_us as f64 / 1000.0,
        worst_us as f64 / 1000.0,
        all_worst_us as f64 / 1000.0
    ));
    Ok(Figures { ops: round_to(1e6 / p50_us.max(1) as f64, 3), p50_us, p99_us })
}

fn print_header() {
    println!(
        "{:14} {:>10} {:>9} {:>9}   {:>10} {:>9} {:>9}   {:>7}",
        "row", "zookeeper", "p50 us", "p99 us", "castellan", "p50 us", "p99 us", "ratio"
    );
}

fn print_line(line: &Line) {
    let Line { row, zookeeper: z, castellan: c, ratio } = line;
    println!(
        "{row:14} {:10.1} {:9} {:9}   {:10.1} {:9} {:9}   {ratio:6.2}x",
        z.ops, z.p50_us, z.p99_us, c.ops, c.p50_us, c.p99_us
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_documented_shape() {
        let figures = Figures { ops: 10.5, p50_us: 2, p99_us: 3 };
        let line = Line { row: "create-64x16".into(), zookeeper: figures, castellan: figures, ratio: 1.0 };
        assert_eq!(
            serde_json::to_string(&line).unwrap(),
            r#"{"row":"create-64x16","zookeeper":{"ops":10.5,"p50_us":2,"p99_us":3},"castellan":{"ops":10.5,"p50_us":2,"p99_us":3},"ratio":1.0}"#
        );
    }

    #[test]
    fn the_best_round_stands() {
        let round =
            |ops| RowResult { ops_per_second: ops, p50_us: ops as u64, p99_us: 1, max_us: 1, count: 1 };
        let best = best(&[round(1.0), round(3.04), round(2.0)]).unwrap();
        assert_eq!((best.ops, best.p50_us), (3.0, 3));
    }

    #[test]
    fn failover_is_a_row_and_a_typo_names_what_is_allowed() {
        assert!("failover".parse::<Measured>().is_ok_and(|row| row == Measured::Failover));
        assert!("fail".parse::<Measured>().is_err_and(|error| error.contains("failover")));
    }
}
