//! What came of the requests: latencies by kind in HDR histograms, bytes, errors. Memory does not grow with time.

use crate::limits::{
    ERROR_EXAMPLE_CHARS_MAX, ERROR_KINDS_MAX, LATENCY_DIGITS, LATENCY_US_MAX, RECORDER_SHARDS_MAX,
};
use crate::request::Kind;
use hdrhistogram::Histogram;
use keeper_rt::Instant;
use keeper_types::ErrorCode;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How one request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of paths, names and values, both ways.
    pub bytes: usize,
    pub failure: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the server answered, if it did.
    pub code: Option<ErrorCode>,
    /// The protocol's name of the error, or what else went wrong.
    pub label: &'static str,
    /// In full, for a person.
    pub text: String,
}

/// Takes what happened from all lanes.
pub struct Recorder {
    shards: Vec<Mutex<Totals>>,
    /// Nanoseconds of the clock before which events belong to the warm-up.
    measured_from: AtomicU64,
}

#[derive(Clone, Default)]
pub struct Totals {
    pub kinds: BTreeMap<Kind, Series>,
    pub errors: BTreeMap<(Kind, &'static str), Errors>,
    /// From a write's start to the arrival of the event it caused.
    pub events: Option<Histogram<u64>>,
    pub events_received: u64,
}

#[derive(Clone)]
pub struct Series {
    /// Microseconds of every request that was due, failed ones too.
    pub latency: Histogram<u64>,
    pub bytes: u64,
    /// How many of them failed.
    pub failed: u64,
}

#[derive(Clone, Debug, Default)]
pub struct Errors {
    pub count: u64,
    pub example: String,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, LATENCY_DIGITS).expect("the bounds are constants")
}

fn microseconds(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX).max(1)
}

impl Series {
    fn new() -> Series {
        Series { latency: histogram(), bytes: 0, failed: 0 }
    }

    pub fn requests(&self) -> u64 {
        self.latency.len()
    }

    pub fn done(&self) -> u64 {
        self.latency.len() - self.failed
    }

    fn add(&mut self, other: &Series) {
        self.latency.add(&other.latency).expect("all have the same bounds");
        self.bytes += other.bytes;
        self.failed += other.failed;
    }
}

impl Default for Recorder {
    fn default() -> Recorder {
        let shards = (0..RECORDER_SHARDS_MAX).map(|_| Mutex::default()).collect();
        Recorder { shards, measured_from: AtomicU64::new(0) }
    }
}

impl Recorder {
    fn shard(&self, lane: usize) -> MutexGuard<'_, Totals> {
        self.shards[lane % self.shards.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn request(&self, lane: usize, kind: Kind, latency: Duration, outcome: &Outcome) {
        let mut totals = self.shard(lane);
        let series = totals.kinds.entry(kind).or_insert_with(Series::new);
        series.latency.saturating_record(microseconds(latency));
        series.bytes += outcome.bytes as u64;
        let Some(failure) = &outcome.failure else { return };
        series.failed += 1;
        if totals.errors.len() < ERROR_KINDS_MAX || totals.errors.contains_key(&(kind, failure.label)) {
            let errors = totals.errors.entry((kind, failure.label)).or_default();
            errors.count += 1;
            if errors.example.is_empty() {
                errors.example = failure.text.chars().take(ERROR_EXAMPLE_CHARS_MAX).collect();
            }
        }
    }

    /// `latency` is `None` where the server does not say which write an event belongs to.
    pub fn event(&self, lane: usize, arrived: Instant, latency: Option<Duration>) {
        if arrived.as_nanos() < self.measured_from.load(Ordering::Relaxed) {
            return;
        }
        let mut totals = self.shard(lane);
        totals.events_received += 1;
        if let Some(latency) = latency {
            totals.events.get_or_insert_with(histogram).saturating_record(microseconds(latency));
        }
    }

    /// Forgets what was, and events until the measurement begins. Of requests the lanes know when they began.
    pub fn measure_from(&self, begin: Instant) {
        self.measured_from.store(begin.as_nanos(), Ordering::Relaxed);
        for shard in 0..self.shards.len() {
            *self.shard(shard) = Totals::default();
        }
    }

    /// All shards together.
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for shard in 0..self.shards.len() {
            sum.add(&self.shard(shard));
        }
        sum
    }

    /// Requests answered well and not, without their latencies.
    pub fn counts(&self) -> (u64, u64) {
        let mut counts = (0, 0);
        for shard in 0..self.shards.len() {
            for series in self.shard(shard).kinds.values() {
                counts.0 += series.done();
                counts.1 += series.failed;
            }
        }
        counts
    }
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        for (kind, series) in &other.kinds {
            self.kinds.entry(*kind).or_insert_with(Series::new).add(series);
        }
        for (key, errors) in &other.errors {
            let sum = self.errors.entry(*key).or_default();
            sum.count += errors.count;
            if sum.example.is_empty() {
                sum.example.clone_from(&errors.example);
            }
        }
        if let Some(events) = &other.events {
            let sum = self.events.get_or_insert_with(histogram);
            sum.add(events).expect("all have the same bounds");
        }
        self.events_received += other.events_received;
    }

    /// The kinds that `pick` takes, as one.
    pub fn together(&self, pick: impl Fn(Kind) -> bool) -> Series {
        let mut sum = Series::new();
        self.kinds.iter().filter(|(kind, _)| pick(**kind)).for_each(|(_, series)| sum.add(series));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Outcome = Outcome { bytes: 10, failure: None };

    #[test]
    fn lanes_of_all_shards_add_up_and_failures_stay_in_the_latencies() {
        let recorder = Recorder::default();
        for lane in 0..100 {
            recorder.request(lane, Kind::Get, Duration::from_micros(100), &GOOD);
        }
        let failure = Some(Failure { code: None, label: "NoNode", text: "no such node".to_owned() });
        recorder.request(3, Kind::Set, Duration::from_secs(2), &Outcome { bytes: 0, failure });
        let totals = recorder.totals();
        assert_eq!(recorder.counts(), (100, 1));
        assert_eq!((totals.kinds[&Kind::Get].done(), totals.kinds[&Kind::Get].bytes), (100, 1_000));
        assert_eq!(totals.errors[&(Kind::Set, "NoNode")].count, 1);
        assert_eq!(totals.errors[&(Kind::Set, "NoNode")].example, "no such node");
        let all = totals.together(|_| true);
        assert_eq!((all.requests(), all.failed), (101, 1));
        assert!(1_999_000 < all.latency.max(), "{}", all.latency.max());
    }

    #[test]
    fn a_latency_beyond_the_histogram_is_its_longest() {
        let recorder = Recorder::default();
        recorder.request(0, Kind::Get, Duration::from_secs(1_000_000), &GOOD);
        assert!(LATENCY_US_MAX <= recorder.totals().kinds[&Kind::Get].latency.max());
    }
}
