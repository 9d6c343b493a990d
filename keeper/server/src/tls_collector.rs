//! Numbers of TLS that are read when they are scraped, one set for each port that has TLS.

use keeper_tls::{Reason, Tls};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::Arc;

pub struct TlsCollector(Vec<Arc<Tls>>);

impl TlsCollector {
    pub fn new(ports: Vec<Arc<Tls>>) -> TlsCollector {
        TlsCollector(ports)
    }

    fn counters(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        read: impl Fn(&Tls) -> u64,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for tls in &self.0 {
            let labels = [("port", tls.port().name())];
            ConstCounter::new(read(tls)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn gauges(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        read: impl Fn(&Tls) -> i64,
    ) -> fmt::Result {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for tls in &self.0 {
            let labels = [("port", tls.port().name())];
            ConstGauge::new(read(tls)).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn refusals(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "TLS handshakes that failed, by what was wrong (docs/tls.md)";
        let mut family =
            encoder.encode_descriptor("tls_handshakes_refused", help, None, MetricType::Counter)?;
        for tls in &self.0 {
            for reason in Reason::ALL {
                let labels = [("port", tls.port().name()), ("reason", reason.name())];
                ConstCounter::new(tls.counts().refused(reason)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// Only of ports that have lists: a number for the others would look like a list long out of date.
    fn lists_due(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "When the first revocation list is out of date, seconds since 1970";
        let name = "tls_revocation_lists_due_seconds";
        let due = |tls: &Arc<Tls>| Some((tls.port().name(), tls.counts().lists_due_s()?));
        let due: Vec<(&str, i64)> = self.0.iter().filter_map(due).collect();
        if due.is_empty() {
            return Ok(());
        }
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (port, due_s) in due {
            ConstGauge::new(due_s).encode(family.encode_family(&[("port", port)])?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for TlsCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = self.0.iter().map(|tls| tls.port().name());
        f.debug_list().entries(ports).finish()
    }
}

impl Collector for TlsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        self.refusals(&mut encoder)?;
        self.counters(&mut encoder, "tls_handshakes", "TLS handshakes completed", |tls| {
            tls.counts().handshakes()
        })?;
        self.counters(&mut encoder, "tls_reloads", "New certificate files taken over", |tls| {
            tls.counts().reloads()
        })?;
        let help = "New certificate files that could not be used";
        self.counters(&mut encoder, "tls_reload_failures", help, |tls| tls.counts().reload_failures())?;
        let help = "1 while the certificate files cannot be used and the old ones still are";
        self.gauges(&mut encoder, "tls_files_unusable", help, |tls| i64::from(tls.counts().is_stale()))?;
        let help = "When the certificate in use expires, seconds since 1970";
        self.gauges(&mut encoder, "tls_certificate_not_after_seconds", help, |tls| {
            tls.counts().not_after_s()
        })?;
        self.lists_due(&mut encoder)
    }
}
