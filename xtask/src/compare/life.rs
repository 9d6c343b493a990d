//! One life of one side's three servers: started on an empty folder, warmed up, measured, ended. The other side does
//! not run meanwhile.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use castellan_load::bench::{self, BenchOptions, Row, RowResult};
use castellan_load::bystanders::Tally;
use castellan_load::cluster::{self, Cluster, MEMBERS};
use castellan_load::failover::{self, Fault, quantile};
use castellan_load::vanish::{self, SESSION_TIMEOUT_MS};
use castellan_load::{fsync_floor, loopback};

use super::figures::{Floor, Sample};
use super::plan::{Event, Plan};
use crate::local::Kind;
use crate::progress;

/// What both sides are started from.
pub struct Programs {
    pub keeper: PathBuf,
    pub jars: PathBuf,
}

pub struct Life {
    cluster: Cluster,
    folder: PathBuf,
}

/// Rows whose sessions wait for each answer are stated as multiples of what the disk allows.
const FLOOR_DEPTH_MAX: usize = 1;

impl Life {
    pub async fn start(kind: Kind, programs: &Programs, folder: PathBuf) -> Result<Life> {
        // Both would grant four seconds and more, and are asked for less.
        let cluster = match kind {
            Kind::Keeper => {
                let config = format!("\n[session]\ntimeout_ms_min = {SESSION_TIMEOUT_MS}\n");
                cluster::keeper::start(&programs.keeper, &folder, &config).await?
            }
            Kind::Zookeeper => {
                let config = format!("minSessionTimeout={SESSION_TIMEOUT_MS}\n");
                cluster::zookeeper::start(&programs.jars, &folder, &config).await?
            }
        };
        progress::step(format_args!("three members of {} run", cluster.name()));
        Ok(Life { cluster, folder })
    }

    /// Ends the servers. Their logs are worth keeping only after a failure, which never comes here.
    pub fn end(self) -> Result<()> {
        let Life { cluster, folder } = self;
        drop(cluster);
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
    }

    /// All of `rows` once unmeasured, in which ZooKeeper's virtual machine compiles its code, and once measured.
    pub async fn loads(&mut self, plan: &Plan, rows: &[Row]) -> Result<Vec<Sample>> {
        for row in rows {
            self.load(plan, *row).await?;
        }
        progress::step(format_args!("{} is warm", self.cluster.name()));
        let mut samples = Vec::new();
        for row in rows {
            let floor = match row.depth <= FLOOR_DEPTH_MAX {
                true => Some(floor(&self.folder, plan.floor)?),
                false => None,
            };
            let result = self.load(plan, *row).await?;
            progress::step(format_args!(
                "{row}: {} {:.0} ops/s, p50 {} us",
                self.cluster.name(),
                result.ops_per_second,
                result.p50_us
            ));
            samples.push(Sample::Load { result, floor });
        }
        Ok(samples)
    }

    async fn load(&mut self, plan: &Plan, row: Row) -> Result<RowResult> {
        let mut options = BenchOptions::new(self.hosts().await?);
        options.warm = plan.warm;
        options.measure = plan.measure;
        options.server_pids = self.cluster.pids();
        let result = tokio::task::spawn_blocking(move || bench::run_row(row, &options)).await?;
        let result = result.with_context(|| format!("{row} on {}", self.cluster.name()));
        if result.is_err() {
            self.cluster.check_alive()?;
        }
        result
    }

    /// The leader's first: where there is one session only, it is in the same place on both sides.
    async fn hosts(&mut self) -> Result<Vec<SocketAddr>> {
        let leader = self.cluster.wait_leader().await?;
        let mut hosts = self.cluster.hosts();
        hosts.rotate_left(leader);
        Ok(hosts)
    }

    /// So many `times` that `event`.
    pub async fn events(&mut self, event: Event, times: usize) -> Result<Sample> {
        let name = self.cluster.name();
        let sample = match event {
            Event::Failover => self.faults(Fault::Kill, times).await,
            Event::Freeze => self.faults(Fault::Freeze, times).await,
            Event::Vanish => {
                let gone = vanish::run(&mut self.cluster, times).await;
                gone.map(|times_us| Sample::Events { times_us, tally: Tally::default() })
            }
        };
        let sample = sample.with_context(|| format!("{} of {name}", event.name()))?;
        if let Sample::Events { times_us, tally } = &sample {
            let [p50_ms, most_ms] = [0.5, 1.0].map(|at| quantile(times_us, at) as f64 / 1e3);
            progress::step(format_args!(
                "{}: {name} {} times, p50 {p50_ms:.1} ms, longest {most_ms:.1} ms, {} of {} requests failed",
                event.name(),
                times_us.len(),
                tally.failed,
                tally.requests
            ));
        }
        Ok(sample)
    }

    async fn faults(&mut self, fault: Fault, times: usize) -> Result<Sample> {
        let name = self.cluster.name();
        let mut progress = |time, us: u64| {
            progress::step(format_args!("{fault:?} {time} of {times}: {name} {:.1} ms", us as f64 / 1e3));
        };
        let result = failover::run(&mut self.cluster, fault, times, &mut progress).await?;
        let all_ms = quantile(&result.last_us, 1.0) as f64 / 1e3;
        progress::step(format_args!("{name}: writes on every survivor after {all_ms:.1} ms at worst"));
        Ok(Sample::Events { times_us: result.first_us, tally: result.tally })
    }
}

/// While the servers are idle.
fn floor(folder: &Path, measure: Duration) -> Result<Floor> {
    Ok(Floor {
        fsync: fsync_floor::measure(folder, measure)?,
        // All members of a side stand on this one disk.
        together: fsync_floor::measure_together(folder, measure, MEMBERS)?,
        loopback_us: loopback::round_trip_us(measure)?,
    })
}
