//! The report as text.

use super::{PERCENTILES, Report};
use crate::record::Series;
use hdrhistogram::Histogram;
use std::fmt::Write;
use std::time::Duration;

impl Report {
    pub fn table(&self) -> String {
        let mut out = String::new();
        let hosts: Vec<String> =
            self.hosts.iter().map(|(host, sessions)| format!("{host} ({sessions})")).collect();
        // Writing to a String does not fail.
        let _ = writeln!(out, "{}: {}", self.name, self.offered.statement());
        let _ = writeln!(
            out,
            "{:.1} s measured, {} sessions, {} lanes; {}\n",
            self.elapsed.as_secs_f64(),
            self.sessions,
            self.lanes,
            hosts.join(", ")
        );
        let _ = write!(out, "{:<14}{:>10}{:>11}{:>9}", "ms", "requests", "done/s", "MB/s");
        for (name, _) in PERCENTILES {
            let _ = write!(out, "{name:>10}");
        }
        let _ = writeln!(out, "{:>10}{:>9}", "max", "errors");
        for (kind, series) in &self.totals.kinds {
            self.row(&mut out, kind.name(), series);
        }
        self.row(&mut out, "total", &self.totals.together(|_| true));
        if self.has_watches {
            self.watches(&mut out);
        }
        for ((kind, label), errors) in &self.totals.errors {
            let _ = writeln!(out, "{} × {} {label}: {}", errors.count, kind.name(), errors.example);
        }
        for note in &self.notes {
            let _ = writeln!(out, "note: {note}");
        }
        out
    }

    fn row(&self, out: &mut String, name: &str, series: &Series) {
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        let (done, bytes) = (series.done() as f64 / seconds, series.bytes as f64 / seconds / 1e6);
        let _ = write!(out, "{name:<14}{:>10}{done:>11.0}{bytes:>9.2}", series.requests());
        times(out, &series.latency);
        let _ = writeln!(out, "{:>9}", series.failed);
    }

    fn watches(&self, out: &mut String) {
        let received = self.totals.events_received;
        let per_second = received as f64 / self.elapsed.as_secs_f64().max(1e-9);
        let _ = write!(out, "{:<14}{received:>10}{per_second:>11.0}{:>9}", "write→event", "");
        match &self.totals.events {
            Some(latency) => {
                times(out, latency);
                out.push('\n');
            }
            None => out.push_str("  (this server's events do not say which write they belong to)\n"),
        }
    }
}

fn times(out: &mut String, latency: &Histogram<u64>) {
    for (_, quantile) in PERCENTILES {
        let _ = write!(out, "{:>10}", milliseconds(latency.value_at_quantile(quantile)));
    }
    let _ = write!(out, "{:>10}", milliseconds(latency.max()));
}

fn milliseconds(us: u64) -> String {
    let ms = us as f64 / 1_000.0;
    if ms < 100.0 { format!("{ms:.2}") } else { format!("{ms:.0}") }
}

/// One line while the run goes on.
pub fn progress_line(name: &str, elapsed: Duration, done_per_second: f64, failed: u64) -> String {
    format!("{name}  {:.0} s  {done_per_second:.0} done/s  {failed} errors", elapsed.as_secs_f64())
}
