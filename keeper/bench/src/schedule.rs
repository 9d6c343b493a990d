//! When requests are due in an open loop. The times come from the rate alone: no answer, however late, moves them.

use crate::generate::random::Random;
use keeper_rt::Instant;
use std::time::Duration;

/// How the time between two arrivals is distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// As independent clients make them.
    Poisson,
    /// Evenly, one lane after the other.
    Constant,
}

impl Arrivals {
    pub fn name(self) -> &'static str {
        match self {
            Arrivals::Poisson => "poisson",
            Arrivals::Constant => "constant",
        }
    }
}

/// The due times of one lane, which has its share of the whole rate.
pub struct Schedule {
    begin: Instant,
    arrivals: Arrivals,
    /// Between two arrivals of this lane, seconds.
    period: f64,
    /// Since `begin`, seconds.
    at: f64,
    random: Random,
}

impl Schedule {
    /// `rate` is that of all `lanes` together and above 0.
    pub fn new(
        begin: Instant,
        arrivals: Arrivals,
        rate: f64,
        lane: usize,
        lanes: usize,
        seed: u64,
    ) -> Schedule {
        let period = lanes as f64 / rate;
        let random = Random::new(seed ^ 0x5c4e_d01e, lane as u64);
        let mut schedule = Schedule { begin, arrivals, period, at: 0.0, random };
        schedule.at = match arrivals {
            Arrivals::Poisson => schedule.gap(),
            Arrivals::Constant => lane as f64 / rate,
        };
        schedule
    }

    pub fn due(&self) -> Instant {
        self.begin + Duration::try_from_secs_f64(self.at).unwrap_or(Duration::MAX)
    }

    pub fn advance(&mut self) {
        self.at += match self.arrivals {
            Arrivals::Poisson => self.gap(),
            Arrivals::Constant => self.period,
        };
    }

    /// Exponentially distributed.
    fn gap(&mut self) -> f64 {
        -self.period * (1.0 - self.random.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: Arrivals, lanes: usize, rate: f64, seconds: u64) -> Vec<Duration> {
        let begin = keeper_rt::now();
        let end = begin + Duration::from_secs(seconds);
        let mut times = Vec::new();
        for lane in 0..lanes {
            let mut schedule = Schedule::new(begin, arrivals, rate, lane, lanes, 7);
            while schedule.due() < end {
                times.push(schedule.due() - begin);
                schedule.advance();
            }
        }
        times.sort();
        times
    }

    #[test]
    fn constant_arrivals_of_all_lanes_are_evenly_spaced() {
        let times = times(Arrivals::Constant, 4, 1_000.0, 1);
        assert!((999..=1_001).contains(&times.len()), "{}", times.len());
        for pair in times.windows(2) {
            let gap = pair[1] - pair[0];
            assert!((990..=1_010).contains(&gap.as_micros()), "{gap:?}");
        }
    }

    #[test]
    fn poisson_arrivals_keep_the_rate_and_vary_as_they_should() {
        let times = times(Arrivals::Poisson, 8, 2_000.0, 10);
        let count = times.len() as f64;
        // 20,000 expected, with a standard deviation of 141.
        assert!((count - 20_000.0).abs() < 600.0, "{count}");
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // An exponential distribution's deviation is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{} of {mean}", variance.sqrt());
    }
}
