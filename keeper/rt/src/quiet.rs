//! Log lines that strangers can cause: so many in a period and no more, or they fill the disk.

use crate::{Instant, now};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Admits a bounded number of log lines in each period and counts the others.
pub struct Quiet {
    lines_max: u32,
    length: Duration,
    period: Mutex<Period>,
}

#[derive(Default)]
struct Period {
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Quiet {
    /// At most `lines_max` lines in each `length` of time.
    pub fn new(lines_max: u32, length: Duration) -> Quiet {
        Quiet { lines_max, length, period: Mutex::default() }
    }

    /// `Some` when a line may be written: with the number of those left out since the last one.
    pub fn admit(&self) -> Option<u64> {
        let now = now();
        let mut period = self.period.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = period.began.is_none_or(|began| now.saturating_duration_since(began) >= self.length);
        if is_over {
            *period = Period { began: Some(now), lines: 0, left_out: period.left_out };
        }
        if period.lines >= self.lines_max {
            period.left_out += 1;
            return None;
        }
        period.lines += 1;
        Some(std::mem::take(&mut period.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_leaves_few_lines_and_the_number_of_the_others() {
        let quiet = Quiet::new(10, Duration::from_secs(3_600));
        let admitted: Vec<u64> = (0..1_000).filter_map(|_| quiet.admit()).collect();
        assert_eq!(admitted, [0; 10]);
        quiet.period.lock().unwrap().began = None;
        assert_eq!(quiet.admit(), Some(990), "a new period has begun");
        assert_eq!(quiet.admit(), Some(0));
    }
}
