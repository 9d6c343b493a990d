//! From what single rounds measured to the line of a row: medians over the rounds, and how far apart they were.

use castellan_load::bench::RowResult;
use castellan_load::bystanders::Tally;
use castellan_load::failover::quantile;
use castellan_load::fsync_floor::FsyncFloor;
use serde::Serialize;

use super::targets::{self, Verdict};
use crate::local::Kind;

/// What the machine itself allowed right before a row.
#[derive(Clone, Copy)]
pub struct Floor {
    pub fsync: FsyncFloor,
    /// The same of as many files at once as there are members.
    pub together: FsyncFloor,
    pub loopback_us: u64,
}

/// What one round of a row measured on one side.
#[derive(Clone)]
pub enum Sample {
    Load {
        result: RowResult,
        /// Only before rows that are stated as multiples of it.
        floor: Option<Floor>,
    },
    /// Single events, each timed.
    Events { times_us: Vec<u64>, tally: Tally },
}

/// Least and most.
pub type Spread<T> = Option<[T; 2]>;

/// One side of one row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Requests a second; of events: how many a second one after another would make (1 / p50).
    pub ops: f64,
    pub p50_us: u64,
    pub p99_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops_spread: Spread<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_us_spread: Spread<u64>,
    /// Processor time of all servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_request: Option<f64>,
    /// p50 as a multiple of one fdatasync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_by_fsync: Option<f64>,
    /// p50 as a multiple of one fdatasync and one round trip on loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_by_fsync_and_loopback: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<usize>,
    /// The shortest and the longest event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_us: Spread<u64>,
    /// Requests of bystanders that failed, and how many there were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_of: Option<[u64; 2]>,
}

#[derive(Serialize)]
pub struct Line {
    pub row: String,
    pub zookeeper: Figures,
    pub castellan: Figures,
    /// How many times better ours is: requests a second of ours by ZooKeeper's, the median of the rounds' ratios.
    pub ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_spread: Spread<f64>,
    pub rounds: usize,
    pub verdicts: Vec<Verdict>,
}

/// All rounds of one row.
pub struct Rounds {
    pub row: String,
    pub zookeeper: Vec<Sample>,
    pub castellan: Vec<Sample>,
}

impl Rounds {
    pub fn new(row: String) -> Rounds {
        Rounds { row, zookeeper: Vec::new(), castellan: Vec::new() }
    }

    pub fn push(&mut self, kind: Kind, sample: Sample) {
        match kind {
            Kind::Keeper => self.castellan.push(sample),
            Kind::Zookeeper => self.zookeeper.push(sample),
        }
    }

    pub fn line(&self) -> Line {
        let (zookeeper, castellan) = (Figures::of(&self.zookeeper), Figures::of(&self.castellan));
        let mut ratios = Vec::new();
        for pair in self.castellan.iter().zip(&self.zookeeper) {
            if let (Sample::Load { result: ours, .. }, Sample::Load { result: theirs, .. }) = pair {
                ratios.push(round_to(ours.ops_per_second / theirs.ops_per_second, 3));
            }
        }
        // Events of all rounds stand together.
        let of_events = || round_to(zookeeper.p50_us as f64 / castellan.p50_us.max(1) as f64, 3);
        let ratio = median(&ratios).unwrap_or_else(of_events);
        let mut line = Line {
            row: self.row.clone(),
            ratio,
            ratio_spread: spread(&ratios),
            rounds: self.castellan.len(),
            zookeeper,
            castellan,
            verdicts: Vec::new(),
        };
        line.verdicts = targets::judge(&line);
        line
    }

    /// Of all rounds on both sides.
    pub fn floors(&self) -> impl Iterator<Item = Floor> {
        let floor = |sample: &Sample| match sample {
            Sample::Load { floor, .. } => *floor,
            Sample::Events { .. } => None,
        };
        self.zookeeper.iter().chain(&self.castellan).filter_map(floor)
    }
}

impl Figures {
    fn of(samples: &[Sample]) -> Figures {
        let (mut loads, mut times, mut sum) = (Vec::new(), Vec::new(), Tally::default());
        for sample in samples {
            match sample {
                Sample::Load { result, floor } => loads.push((*result, *floor)),
                Sample::Events { times_us, tally } => {
                    times.extend_from_slice(times_us);
                    sum.add(*tally);
                }
            }
        }
        match times.is_empty() {
            true => Figures::of_load(&loads),
            false => Figures::of_events(&times, sum),
        }
    }

    fn of_load(samples: &[(RowResult, Option<Floor>)]) -> Figures {
        let all = |get: &dyn Fn(&RowResult) -> f64| -> Vec<f64> {
            samples.iter().map(|(result, _)| get(result)).collect()
        };
        let by_floor = |get: &dyn Fn(Floor) -> u64| -> Vec<f64> {
            let times = |(result, floor): &(RowResult, Option<Floor>)| {
                floor.map(|floor| round_to(result.p50_us as f64 / get(floor).max(1) as f64, 3))
            };
            samples.iter().filter_map(times).collect()
        };
        let ops = all(&|result| round_to(result.ops_per_second, 1));
        let p50 = all(&|result| result.p50_us as f64);
        let p99 = all(&|result| result.p99_us as f64);
        let cpu = all(&|result| round_to(result.server_cpu.as_secs_f64() * 1e6 / result.count as f64, 3));
        Figures {
            ops: median(&ops).unwrap_or_default(),
            p50_us: median(&p50).unwrap_or_default() as u64,
            p99_us: median(&p99).unwrap_or_default() as u64,
            ops_spread: spread(&ops),
            p50_us_spread: spread(&p50).map(|ends| ends.map(|end| end as u64)),
            cpu_us_per_request: median(&cpu),
            p50_by_fsync: median(&by_floor(&|floor| floor.fsync.p50_us)),
            p50_by_fsync_and_loopback: median(&by_floor(&|floor| floor.fsync.p50_us + floor.loopback_us)),
            ..Figures::default()
        }
    }

    fn of_events(times_us: &[u64], tally: Tally) -> Figures {
        let [p50_us, p99_us, least, most] = [0.5, 0.99, 0.0, 1.0].map(|q| quantile(times_us, q));
        Figures {
            ops: round_to(1e6 / p50_us.max(1) as f64, 3),
            p50_us,
            p99_us,
            events: Some(times_us.len()),
            event_us: Some([least, most]),
            failed_of: (tally.requests > 0).then_some([tally.failed, tally.requests]),
            ..Figures::default()
        }
    }
}

pub fn round_to(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// The middle one, or the mean of both in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(f64::midpoint(*low, *high))
}

fn spread(values: &[f64]) -> Spread<f64> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    let most = values.iter().copied().max_by(f64::total_cmp)?;
    Some([least, most])
}

#[cfg(test)]
mod tests;
