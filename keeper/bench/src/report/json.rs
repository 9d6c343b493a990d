//! The report as JSON: figures by kind, and ClickHouse keeper-bench's own fields beside them.

use super::{Offered, PERCENTILES, Report};
use crate::record::Series;
use crate::request::Kind;
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

/// The percentiles that ClickHouse's tool reports.
const CLICKHOUSE_PERCENTILES: [f64; 14] =
    [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9, 99.99];

impl Report {
    pub fn json(&self) -> Value {
        let seconds = self.elapsed.as_secs_f64().max(1e-9);
        let kinds: Map<String, Value> = self
            .totals
            .kinds
            .iter()
            .map(|(kind, series)| (kind.name().to_owned(), figures(series, seconds)))
            .collect();
        let errors: Vec<Value> = self
            .totals
            .errors
            .iter()
            .map(|((kind, label), errors)| {
                json!({ "kind": kind.name(), "error": label, "count": errors.count, "example": errors.example })
            })
            .collect();
        let hosts: Map<String, Value> =
            self.hosts.iter().map(|(host, sessions)| (host.clone(), json!(sessions))).collect();
        let mut report = json!({
            "workload": self.name,
            "timestamp": keeper_rt::wall_ms(),
            "loop": self.offered.name(),
            "latency_is": self.offered.statement(),
            "seconds": self.elapsed.as_secs_f64(),
            "sessions": self.sessions,
            "lanes": self.lanes,
            "hosts": hosts,
            "seed": self.seed,
            "kinds": kinds,
            "total": figures(&self.totals.together(|_| true), seconds),
            "errors": errors,
            "error_share": self.error_share(),
            "errors_max": self.errors_max,
            "failed": self.verdict().err(),
            "notes": self.notes,
        });
        if let Offered::Open { rate, arrivals, calibrated } = self.offered {
            report["offered"] =
                json!({ "rate": rate, "arrivals": arrivals.name(), "closed_loop_reached": calibrated });
        }
        for (key, picks_reads) in [("read_results", true), ("write_results", false)] {
            let series = self.totals.together(|kind: Kind| kind.is_read() == picks_reads);
            if series.requests() > 0 {
                report[key] = as_clickhouse(&series, seconds);
            }
        }
        if self.has_watches {
            report["watches_fired"] = json!(self.totals.events_received);
            report["write_to_event_ms"] = json!(self.totals.events.as_ref().map(times));
        }
        report
    }
}

fn figures(series: &Series, seconds: f64) -> Value {
    json!({
        "requests": series.requests(),
        "errors": series.failed,
        "done_per_second": series.done() as f64 / seconds,
        "bytes_per_second": series.bytes as f64 / seconds,
        "latency_ms": times(&series.latency),
    })
}

fn times(latency: &Histogram<u64>) -> Value {
    let mut times: Map<String, Value> = PERCENTILES
        .iter()
        .map(|(name, quantile)| ((*name).to_owned(), json!(ms(latency.value_at_quantile(*quantile)))))
        .collect();
    times.insert("mean".to_owned(), json!(latency.mean() / 1_000.0));
    times.insert("max".to_owned(), json!(ms(latency.max())));
    Value::Object(times)
}

fn as_clickhouse(series: &Series, seconds: f64) -> Value {
    let percentiles: Vec<Value> = CLICKHOUSE_PERCENTILES
        .iter()
        .map(|percent| {
            let value = ms(series.latency.value_at_quantile(percent / 100.0));
            Value::Object([(percent.to_string(), json!(value))].into_iter().collect())
        })
        .collect();
    json!({
        "total_requests": series.done(),
        "requests_per_second": series.done() as f64 / seconds,
        "bytes_per_second": series.bytes as f64 / seconds,
        "percentiles": percentiles,
    })
}

fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}
