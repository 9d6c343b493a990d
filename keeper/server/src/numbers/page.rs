//! The table as a part of the Prometheus page.
//!
//! Types are `unknown` for what counts up: OpenMetrics wants such names to end in `_total`, which theirs do not.

use super::reading::Reading;
use super::table::{Kind, NUMBERS, Value};
use keeper_types::OpCode;
use std::fmt::Write as _;

/// A value as all of them are written: whole, or with four decimals as ZooKeeper rounds.
pub fn value_text(value: Value) -> String {
    match value {
        Value::Whole(value) => value.to_string(),
        Value::Broken(value) => format!("{value:.4}"),
    }
}

/// Lines in the OpenMetrics text format, without the closing `# EOF`.
pub fn page(reading: &Reading) -> String {
    let mut text = requests(reading);
    for number in NUMBERS {
        let Some(value) = (number.read)(reading) else { continue };
        let value = value_text(value);
        let mut line = |prefix: &str, name: &str| {
            let kind = match number.kind {
                Kind::Gauge => "gauge",
                Kind::Counter => "unknown",
            };
            let help = number.help;
            let _ = write!(
                text,
                "# HELP {prefix}{name} {help}.\n# TYPE {prefix}{name} {kind}\n{prefix}{name} {value}\n"
            );
        };
        if let Some(name) = number.prometheus {
            line("", name);
        }
        for name in number.clickhouse {
            line(name.prefix(), name.name());
        }
    }
    text
}

/// Requests by operation; those that never came are left out.
fn requests(reading: &Reading) -> String {
    let mut text = String::from(
        "# HELP keeper_requests Requests of clients by operation.\n# TYPE keeper_requests counter\n",
    );
    for op in OpCode::ALL {
        let count = reading.operations(&[*op]);
        if count > 0 {
            let _ = writeln!(text, "keeper_requests_total{{operation=\"{}\"}} {count}", op.name());
        }
    }
    text
}
