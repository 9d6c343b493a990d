//! Log lines (`RUST_LOG`) carry the simulated time and the node instead of the real clock.

use keeper_sim::executor::position;
use std::fmt;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

struct SimulatedTime;

impl FormatTime for SimulatedTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        match position() {
            Some((node, ns)) => write!(writer, "{:>11.6} node {node}", ns as f64 / 1e9),
            None => write!(writer, "outside"),
        }
    }
}

/// Without `RUST_LOG` nothing is logged: the seeds run faster.
pub fn install() {
    if std::env::var_os("RUST_LOG").is_none() {
        return;
    }
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_timer(SimulatedTime)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
}
