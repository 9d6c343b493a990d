//! Percentiles of latencies: counts in buckets whose width grows with the value, so that each is known to an eighth of
//! itself. Every value since the start (or `srst`) is in; ZooKeeper draws a sample instead.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets for each power of two.
const STEPS: usize = 8;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Values from here on, more than an hour in microseconds, share the last bucket.
const VALUE_BITS: u32 = 32;
const BUCKETS: usize = STEPS * (VALUE_BITS - STEP_BITS + 1) as usize;

pub struct Buckets([AtomicU64; BUCKETS]);

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Values below twice [`STEPS`] have a bucket each.
fn bucket(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    (shift as usize) * STEPS + (value >> shift) as usize
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let shift = (bucket / STEPS).saturating_sub(1);
    (((bucket - shift * STEPS + 1) as u64) << shift) - 1
}

impl Buckets {
    /// `count` times the same value.
    pub fn add(&self, value: u64, count: u64) {
        if let Some(bucket) = self.0.get(bucket(value)) {
            bucket.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// What this share of the values, in thousandths, does not exceed, rounded up to its bucket's end. `None` while
    /// there is no value.
    pub fn percentile(&self, thousandths: u64) -> Option<u64> {
        let counts = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        let all: u64 = counts.iter().sum();
        let wanted = all.saturating_mul(thousandths).div_ceil(1_000).max(1);
        let mut below = 0;
        let found = counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        found.map(upper)
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub fn reset(&self) {
        for count in &self.0 {
            count.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_are_narrow() {
        for at in 0..BUCKETS {
            assert_eq!(bucket(upper(at)), at);
            if at + 1 < BUCKETS {
                assert_eq!(bucket(upper(at) + 1), at + 1);
                assert!(upper(at + 1) - upper(at) <= 1 + upper(at) / STEPS as u64, "{at}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_of_what_was_added() {
        let buckets = Buckets::default();
        assert_eq!(buckets.percentile(500), None);
        (1..=1_000).for_each(|value| buckets.add(value, 1));
        for (thousandths, exact) in [(500, 500), (950, 950), (990, 990), (999, 999)] {
            let read = buckets.percentile(thousandths).expect("some");
            assert!((exact..=exact + exact / 8).contains(&read), "{thousandths}: {read}");
        }
        assert_eq!(buckets.count(), 1_000);
        buckets.add(7, 100_000);
        assert_eq!(buckets.percentile(950), Some(7));
        buckets.reset();
        assert_eq!(buckets.percentile(999), None);
    }
}
