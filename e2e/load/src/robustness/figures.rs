//! What was measured, beside what it had to be.

use std::fmt;

use crate::failover::quantile;

/// One measured value.
#[derive(Clone, Debug)]
pub struct Figure {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    /// The most it may be; `None` where the value only informs.
    pub max: Option<f64>,
}

impl Figure {
    pub fn of(name: impl Into<String>, value: f64, unit: &'static str) -> Figure {
        Figure { name: name.into(), value, unit, max: None }
    }

    pub fn at_most(mut self, max: f64) -> Figure {
        self.max = Some(max);
        self
    }

    pub fn holds(&self) -> bool {
        self.max.is_none_or(|max| self.value <= max)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = format!("{} {}", number(self.value), self.unit);
        write!(f, "{:58} {:>16}", self.name, value)?;
        match self.max {
            None => Ok(()),
            Some(max) => {
                let verdict = if self.holds() { "ok" } else { "TOO MUCH" };
                write!(f, "   at most {:>7}  {verdict}", number(max))
            }
        }
    }
}

/// As short as says enough.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// p50, p99 and the greatest of some times in microseconds, as milliseconds.
pub fn spread_ms(what: &str, values_us: &[u64]) -> [Figure; 3] {
    [("p50", 0.5), ("p99", 0.99), ("max", 1.0)].map(|(name, at)| {
        Figure::of(format!("{what}, {name}"), quantile(values_us, at) as f64 / 1000.0, "ms")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_above_its_bound_does_not_hold_and_says_so() {
        let figure = Figure::of("bytes", 8193.0, "B").at_most(8192.0);
        assert!(!figure.holds());
        assert!(figure.to_string().ends_with("TOO MUCH"), "{figure}");
        assert!(Figure::of("bytes", 8192.0, "B").at_most(8192.0).holds());
        assert!(Figure::of("bytes", 1e9, "B").holds(), "nothing was asked of it");
    }

    #[test]
    fn times_are_shown_in_milliseconds() {
        let figures = spread_ms("time", &[1_000, 2_000, 900_500]);
        assert_eq!(figures.map(|figure| figure.value), [2.0, 900.5, 900.5]);
    }
}
