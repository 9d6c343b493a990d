//! What a run came to, for people and for programs.

mod json;
mod table;

pub use table::progress_line;

#[cfg(test)]
mod tests;

use crate::record::Totals;
use crate::schedule::Arrivals;
use std::time::Duration;

pub struct Report {
    pub name: String,
    /// With the number of sessions of each.
    pub hosts: Vec<(String, usize)>,
    pub sessions: usize,
    pub lanes: usize,
    /// `None`: nothing was drawn.
    pub seed: Option<u64>,
    pub offered: Offered,
    /// Measured time.
    pub elapsed: Duration,
    pub totals: Totals,
    pub has_watches: bool,
    pub errors_max: f64,
    pub notes: Vec<String>,
}

/// How requests were offered to the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Offered {
    Closed,
    Open {
        rate: f64,
        arrivals: Arrivals,
        /// What a closed loop reached, where the rate was taken from that.
        calibrated: Option<f64>,
    },
    /// At a log's own times.
    Recorded {
        speed: f64,
    },
}

impl Offered {
    pub fn name(&self) -> &'static str {
        match self {
            Offered::Closed => "closed",
            Offered::Open { .. } => "open",
            Offered::Recorded { .. } => "recorded",
        }
    }

    /// What the latencies mean.
    pub fn statement(&self) -> String {
        match self {
            Offered::Closed => {
                "closed loop; latency from when a request was sent, so it leaves out what was not \
                                sent while the server was slow (coordinated omission)"
                    .to_owned()
            }
            Offered::Open { rate, arrivals, calibrated } => {
                let origin = calibrated.map_or_else(String::new, |reached| {
                    format!(", {:.0} % of the {reached:.0}/s of a closed loop", 100.0 * rate / reached)
                });
                format!(
                    "open loop, {rate:.0}/s {}{origin}; latency from when a request was due",
                    arrivals.name()
                )
            }
            Offered::Recorded { speed } => {
                format!("at the log's times, {speed} times as fast; latency from when a request was due")
            }
        }
    }
}

impl Report {
    pub fn requests(&self) -> u64 {
        self.totals.kinds.values().map(|series| series.requests()).sum()
    }

    pub fn errors(&self) -> u64 {
        self.totals.kinds.values().map(|series| series.failed).sum()
    }

    pub fn error_share(&self) -> f64 {
        match self.requests() {
            0 => 0.0,
            requests => self.errors() as f64 / requests as f64,
        }
    }

    /// Why the run counts as failed.
    pub fn verdict(&self) -> Result<(), String> {
        if self.requests() == 0 {
            return Err("no request was measured".to_owned());
        }
        if self.error_share() > self.errors_max {
            let (errors, requests) = (self.errors(), self.requests());
            let max = self.errors_max;
            return Err(format!(
                "{errors} of {requests} requests failed, more than the share of {max} allowed"
            ));
        }
        Ok(())
    }
}

/// The percentiles shown, with their names.
pub const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
