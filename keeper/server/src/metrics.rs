//! Numbers of one member, in Prometheus' terms. They belong to the node object, never to the process.

use crate::percentiles::Buckets;
use crate::stage::Stage;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabel {
    stage: &'static str,
}

pub struct Metrics {
    registry: Mutex<Registry>,
    stages: [Histogram; Stage::ALL.len()],
    /// The same times in microseconds, for the word `stgs`.
    times: [Buckets; Stage::ALL.len()],
    batch_requests: Histogram,
    batch_bytes: Histogram,
    pub packets_received: Counter,
    pub packets_sent: Counter,
    pub malformed_total: Counter,
    pub connections_refused_total: Counter,
    pub connections_refused_for_address: Counter,
}

/// From a tenth of a millisecond to half a minute.
fn seconds_buckets() -> impl Iterator<Item = f64> {
    exponential_buckets(0.000_1, 2.0, 19)
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("keeper");
        let family =
            Family::<StageLabel, Histogram>::new_with_constructor(|| Histogram::new(seconds_buckets()));
        let stages = Stage::ALL.map(|stage| family.get_or_create_owned(&StageLabel { stage: stage.name() }));
        registry.register_with_unit(
            "write_stage",
            "received, admitted, applied: since the frame was read; dispatched: wait for a batch; proposed, committed: \
             since the batch was packed; persisted: one sync of the log; replied: from the tree to the socket",
            Unit::Seconds,
            family,
        );
        let batch_requests = Histogram::new(exponential_buckets(1.0, 2.0, 10));
        registry.register("batch_requests", "Requests in one batch of this member", batch_requests.clone());
        let batch_bytes = Histogram::new(exponential_buckets(64.0, 4.0, 10));
        registry.register("batch_bytes", "Bytes of one batch of this member", batch_bytes.clone());
        let counter = |registry: &mut Registry, name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let packets_received = counter(&mut registry, "packets_received", "Request frames read from clients");
        let packets_sent =
            counter(&mut registry, "packets_sent", "Replies and watch events on their way to clients");
        let malformed_total =
            counter(&mut registry, "malformed_connections", "Client connections closed for what they sent");
        let connections_refused_total =
            counter(&mut registry, "refused_connections", "Client connections refused for a limit");
        let connections_refused_for_address = counter(
            &mut registry,
            "refused_connections_of_address",
            "Client connections refused because their address has too many",
        );
        Metrics {
            registry: Mutex::new(registry),
            stages,
            times: Default::default(),
            batch_requests,
            batch_bytes,
            packets_received,
            packets_sent,
            malformed_total,
            connections_refused_total,
            connections_refused_for_address,
        }
    }
}

impl Metrics {
    /// `took` since the request was received, or as the stage defines it.
    pub fn observe(&self, stage: Stage, took: Duration) {
        self.stages[stage as usize].observe(took.as_secs_f64());
        self.times[stage as usize].add(took.as_micros() as u64, 1);
    }

    pub fn times(&self, stage: Stage) -> &Buckets {
        &self.times[stage as usize]
    }

    pub fn observe_batch(&self, requests: usize, bytes: usize) {
        self.batch_requests.observe(requests as f64);
        self.batch_bytes.observe(bytes as f64);
    }

    /// Adds a collector that reads its numbers when it is scraped.
    pub fn collect_from(&self, collector: Box<dyn prometheus_client::collector::Collector>) {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner).register_collector(collector);
    }

    /// The page of our own names in the OpenMetrics text format, with more lines of the same format behind them.
    pub fn page(&self, more: &str) -> String {
        let mut page = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a String cannot fail.
        let _ = text::encode_registry(&mut page, &registry);
        page.push_str(more);
        let _ = text::encode_eof(&mut page);
        page
    }
}
