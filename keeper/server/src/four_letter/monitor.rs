//! The words that are tables of numbers and names: mntr, pfev, ftfl, lgif.

use super::server::mode;
use super::text::{Text, put};
use super::{Question, Service, VERSION_LINE};
use crate::numbers::{Clickhouse, NUMBERS, Reading, value_text};
use crate::shared::Shared;
use crate::stage::Stage;
use keeper_consensus::{Role, Status};
use keeper_types::Feature;

/// `zk_<name>\t<value>`, as ZooKeeper's own exporters, ClickHouse's tests and Altinity's exporters read it.
pub fn mntr(question: &Question<'_>, reading: &Reading) -> Text {
    let mut text = Text::default();
    put!(text, "zk_version\t{VERSION_LINE}");
    let state = if question.service == Service::ReadOnly { "read-only" } else { mode(&reading.status) };
    put!(text, "zk_server_state\t{state}");
    if reading.status.membership.voters.len() > 1 {
        put!(text, "zk_peer_state\t{}", peer_state(&reading.status));
    }
    for number in NUMBERS {
        if let (Some(name), Some(value)) = (number.mntr, (number.read)(reading)) {
            put!(text, "zk_{name}\t{}", value_text(value));
        }
    }
    text
}

/// ZooKeeper's names for the phases of its protocol, as far as they have a like here.
fn peer_state(status: &Status) -> &'static str {
    match status.role {
        Role::Leader => "leading - broadcast",
        Role::Follower if status.leader.is_some() => "following - broadcast",
        Role::Learner if status.leader.is_some() => "observing - broadcast",
        _ => "looking",
    }
}

/// Where a write's time goes: a row a stage, tab between, microseconds; each percentile rounded up by at most an eighth.
/// What a stage's time is counted from stands at the metric `keeper_write_stage_seconds`.
pub fn stgs(shared: &Shared) -> Text {
    let mut text = Text::default();
    put!(text, "stage\tcount\tp50_us\tp99_us\tp999_us\tmax_us");
    for stage in Stage::ALL {
        let times = shared.metrics.times(stage);
        let at = |thousandths| times.percentile(thousandths).unwrap_or_default();
        let (count, name) = (times.count(), stage.name());
        put!(text, "{name}\t{count}\t{}\t{}\t{}\t{}", at(500), at(990), at(999), at(1_000));
    }
    text
}

/// ClickHouse's events: name, value, what it is.
pub fn pfev(reading: &Reading) -> Text {
    let mut text = Text::default();
    for number in NUMBERS {
        let events = number.clickhouse.iter().filter_map(|name| match name {
            Clickhouse::Event(name) => Some(name),
            Clickhouse::Async(_) | Clickhouse::Metric(_) => None,
        });
        for name in events {
            if let Some(value) = (number.read)(reading) {
                put!(text, "{name}\t{}\t{}", value_text(value), number.help);
            }
        }
    }
    text
}

/// Every flag a client is told of in `/keeper/feature_flags`.
pub fn ftfl(question: &Question<'_>) -> Text {
    let mut text = Text::default();
    for feature in Feature::ALL {
        put!(text, "{}\t{}", feature.key(), u8::from(question.shared.features.has(*feature)));
    }
    text
}

/// ClickHouse prints the first index in the place of the first term; here it is the term.
pub async fn lgif(question: &Question<'_>) -> Text {
    let (status, log) = (&question.status, question.consensus.log_stats());
    let mut text = Text::default();
    match question.consensus.log_ends().await {
        Ok(ends) => {
            for (name, end) in [("first", ends.first), ("last", ends.last)] {
                let end = end.unwrap_or_default();
                put!(text, "{name}_log_idx\t{}", end.index);
                put!(text, "{name}_log_term\t{}", end.term);
            }
        }
        Err(error) => tracing::warn!(%error, "cannot read the ends of the log"),
    }
    put!(text, "last_committed_log_idx\t{}", status.applied_index);
    put!(text, "leader_committed_log_idx\t{}", status.committed_index);
    put!(text, "target_committed_log_idx\t{}", status.committed_index);
    put!(text, "last_snapshot_idx\t{}", status.snapshot_index);
    put!(text, "latest_logs_cache_size\t{}", log.cached_bytes);
    text
}
