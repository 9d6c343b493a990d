//! Log lines that strangers can cause: so many a second and no more, or they fill the disk.

use crate::limits::{STRANGERS_LINES_MAX, STRANGERS_LINES_PERIOD};
use keeper_rt::Instant;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub struct Quiet(Mutex<Period>);

#[derive(Default)]
struct Period {
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Quiet {
    /// `Some` when a line may be written: with the number of those left out since the last one.
    pub fn admit(&self) -> Option<u64> {
        let now = keeper_rt::now();
        let mut period = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over =
            period.began.is_none_or(|began| now.saturating_duration_since(began) >= STRANGERS_LINES_PERIOD);
        if is_over {
            *period = Period { began: Some(now), lines: 0, left_out: period.left_out };
        }
        if period.lines >= STRANGERS_LINES_MAX {
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
        let quiet = Quiet::default();
        let mut admitted: Vec<u64> = (0..1000).filter_map(|_| quiet.admit()).collect();
        // The machine may be slow enough for a second period to begin meanwhile; all are accounted for in any case.
        assert!(admitted.len() < 1000);
        quiet.0.lock().unwrap().began = None;
        admitted.push(quiet.admit().expect("a new period has begun"));
        let lines = admitted.len() as u64;
        assert_eq!(admitted.iter().sum::<u64>() + lines, 1001);
    }
}
