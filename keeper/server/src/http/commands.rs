//! ZooKeeper's AdminServer: `GET /commands/<name>` answers JSON with `command`, `error`, and the command's own fields.
//!
//! Only commands that read, and of these only those whose word is in the white list: the same questions are open on
//! both ports. Snapshots, resets and the rest go through the admin port with its token.

use crate::four_letter::{Question, Service, VERSION_LINE, Words, environment, mode};
use crate::numbers::{NUMBERS, Reading, Value as Number};
use crate::shared::Shared;
use crate::tally::Info;
use axum::http::StatusCode;
use keeper_consensus::Role;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Primary name, other names, the word that opens it.
const COMMANDS: &[(&str, &[&str], &str)] = &[
    ("configuration", &["conf", "config"], "conf"),
    ("connections", &["cons"], "cons"),
    ("dirs", &[], "dirs"),
    ("environment", &["env", "envi"], "envi"),
    ("get_trace_mask", &["gtmk"], "gtmk"),
    ("hash", &[], "hash"),
    ("is_read_only", &["isro"], "isro"),
    ("leader", &["lead"], "srvr"),
    ("monitor", &["mntr"], "mntr"),
    ("ruok", &[], "ruok"),
    ("server_stats", &["srvr"], "srvr"),
    ("stats", &["stat"], "stat"),
    ("watch_summary", &["wchs"], "wchs"),
    ("zabstate", &[], "srvr"),
];

/// Links, as ZooKeeper lists them.
pub fn list() -> String {
    let link =
        |(name, _, _): &(&str, &[&str], &str)| format!("<a href=\"/commands/{name}\">{name}</a><br/>\n");
    COMMANDS.iter().map(link).collect()
}

pub async fn answer(words: &Words, shared: &Arc<Shared>, name: &str) -> (StatusCode, Value) {
    let Some((primary, _, word)) =
        COMMANDS.iter().find(|(primary, others, _)| *primary == name || others.contains(&name))
    else {
        return failed(StatusCode::NOT_FOUND, name, format!("Unknown command: {name}"));
    };
    if !words.is_allowed(word) {
        let why = format!("{word} is not executed because it is not in the whitelist.");
        return failed(StatusCode::FORBIDDEN, primary, why);
    }
    let question = words.question(&[], shared);
    if needs_service(word) && question.service == Service::None {
        let why = "This ZooKeeper instance is not currently serving requests".into();
        return failed(StatusCode::SERVICE_UNAVAILABLE, primary, why);
    }
    let mut fields = fields(words, &question, primary).await;
    fields.insert("command".into(), json!(primary));
    fields.insert("error".into(), Value::Null);
    (StatusCode::OK, Value::Object(fields))
}

fn failed(code: StatusCode, command: &str, error: String) -> (StatusCode, Value) {
    (code, json!({ "command": command, "error": error }))
}

fn needs_service(word: &str) -> bool {
    crate::four_letter::find(word).is_some_and(|word| word.needs_service)
}

async fn fields(words: &Words, question: &Question<'_>, command: &str) -> Map<String, Value> {
    let shared = question.shared;
    let read_only = question.service == Service::ReadOnly;
    match command {
        "configuration" => configuration(question),
        "connections" => connections(shared),
        "dirs" => dirs(question).await,
        "environment" => environment().into_iter().map(|(key, value)| (key.into(), json!(value))).collect(),
        "get_trace_mask" => object(json!({ "tracemask": shared.stats.trace_mask.load(Relaxed) })),
        "hash" => {
            let tree = shared.read_tree();
            let (zxid, digest) = (tree.zxid().0, tree.digest());
            object(json!({ "digests": [{ "zxid": zxid, "digest": digest }] }))
        }
        "is_read_only" => object(json!({ "read_only": read_only })),
        "leader" => leader(question),
        "monitor" => monitor(&words.reading(shared).await),
        "server_stats" => server_stats(&words.reading(shared).await, read_only),
        "stats" => {
            let mut fields = server_stats(&words.reading(shared).await, read_only);
            fields.extend(connections(shared));
            fields
        }
        "watch_summary" => {
            let summary = shared.watches.summary();
            object(json!({
                "num_connections": summary.connections,
                "num_paths": summary.paths,
                "num_total_watches": summary.watches,
            }))
        }
        "zabstate" => zabstate(question),
        _ => Map::new(),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Names of `conf` as AdminServer writes them; the others stay as they are.
fn configuration(question: &Question<'_>) -> Map<String, Value> {
    let named = [
        ("clientPort", "client_port"),
        ("dataDir", "data_dir"),
        ("maxClientCnxns", "max_client_cnxns"),
        ("minSessionTimeout", "min_session_timeout"),
        ("maxSessionTimeout", "max_session_timeout"),
    ];
    let mut fields = Map::new();
    for (key, value) in question.configuration {
        let name = named.iter().find(|(theirs, _)| theirs == key).map_or(key.as_str(), |(_, name)| name);
        let number = value.parse::<i64>().map(Value::from);
        fields.insert(name.into(), number.unwrap_or_else(|_| json!(value)));
    }
    if let Some(identity) = question.status.identity {
        fields.insert("server_id".into(), json!(identity.server_id.0));
    }
    fields
}

fn connections(shared: &Shared) -> Map<String, Value> {
    let all: Vec<Arc<Info>> = shared.connections().values().cloned().collect();
    let all: Vec<Value> = all.iter().map(|info| connection(info)).collect();
    object(json!({ "connections": all, "secure_connections": [] }))
}

fn connection(info: &Info) -> Value {
    let latency = info.latency.read();
    json!({
        "remote_socket_address": info.remote,
        "interest_ops": 1,
        "outstanding_requests": info.outstanding.load(Relaxed),
        "packets_received": info.received.load(Relaxed),
        "packets_sent": info.sent.load(Relaxed),
        "session_id": info.session.load(Relaxed),
        "last_operation": crate::four_letter::operation(info.last_op.load(Relaxed)),
        "established": info.established_ms,
        "session_timeout": info.timeout_ms.load(Relaxed),
        "last_cxid": info.last_cxid.load(Relaxed),
        "last_zxid": info.last_zxid.load(Relaxed),
        "last_response_time": info.last_response_ms.load(Relaxed),
        "last_latency": latency.last / 1_000,
        "min_latency": latency.min / 1_000,
        "avg_latency": latency.average() as u64 / 1_000,
        "max_latency": latency.max / 1_000,
    })
}

async fn dirs(question: &Question<'_>) -> Map<String, Value> {
    match question.consensus.disk_usage().await {
        Ok(usage) => object(json!({ "datadir_size": usage.snapshot_bytes, "logdir_size": usage.log_bytes })),
        Err(error) => {
            tracing::warn!(%error, "cannot read the data folder");
            Map::new()
        }
    }
}

fn leader(question: &Question<'_>) -> Map<String, Value> {
    let status = &question.status;
    let leader = status.leader.and_then(|id| status.membership.member(id));
    let host = leader.map(|member| member.peer_address.rsplit_once(':').map_or("", |(host, _)| host));
    object(json!({
        "is_leader": status.role == Role::Leader,
        "leader_id": status.leader.map(|id| id.0),
        "leader_ip": host.unwrap_or_default(),
    }))
}

/// As `mntr`, without `zk_`.
fn monitor(reading: &Reading) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("version".into(), json!(VERSION_LINE));
    fields.insert("server_state".into(), json!(mode(&reading.status)));
    for number in NUMBERS {
        let (Some(name), Some(value)) = (number.mntr, (number.read)(reading)) else { continue };
        let value = match value {
            Number::Whole(value) => json!(value),
            Number::Broken(value) => json!(value),
        };
        fields.insert(name.into(), value);
    }
    fields
}

fn server_stats(reading: &Reading, read_only: bool) -> Map<String, Value> {
    let (latency, stats) = (&reading.latency, &reading.shared.stats);
    let sizes = |summary: crate::stats::Summary| {
        let of = |size: u64| if summary.count == 0 { json!(-1) } else { json!(size) };
        json!({
            "last_buffer_size": of(summary.last),
            "min_buffer_size": of(summary.min),
            "max_buffer_size": of(summary.max),
        })
    };
    let mut fields = object(json!({
        "version": VERSION_LINE,
        "read_only": read_only,
        "server_stats": {
            "packets_sent": stats.packets_sent.load(Relaxed),
            "packets_received": stats.packets_received.load(Relaxed),
            "max_latency": latency.max / 1_000,
            "min_latency": latency.min / 1_000,
            "avg_latency": latency.average() / 1_000.0,
            "server_state": mode(&reading.status),
            "outstanding_requests": reading.outstanding,
            "last_processed_zxid": reading.zxid,
            "num_alive_client_connections": reading.connections,
            "data_dir_size": reading.snapshot_bytes,
            "log_dir_size": reading.log.segment_bytes,
            "uptime": reading.uptime.as_millis() as u64,
        },
        "client_response": sizes(stats.reply_bytes.read()),
        "node_count": reading.counts.znodes,
    }));
    if reading.leads() {
        fields.insert("proposal_stats".into(), sizes(stats.proposal_bytes.read()));
    }
    fields
}

/// ZooKeeper's zxid has an epoch; the term stands for it.
fn zabstate(question: &Question<'_>) -> Map<String, Value> {
    let status = &question.status;
    let me = status.identity.map(|identity| identity.server_id);
    let member = me.and_then(|me| status.membership.member(me));
    let address = |of: fn(&keeper_consensus::Member) -> &String| member.map(of).cloned().unwrap_or_default();
    let zxid = question.shared.read_tree().zxid().0;
    object(json!({
        "myid": me.map(|me| me.0),
        "is_leader": status.role == Role::Leader,
        "quorum_address": address(|member| &member.peer_address),
        "client_address": address(|member| &member.client_address),
        "voting": me.is_some_and(|me| status.membership.voter(me).is_some()),
        "last_zxid": format!("{zxid:#x}"),
        "zab_epoch": status.term,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_word_that_only_reads() {
        for (name, _, word) in COMMANDS {
            let word = crate::four_letter::find(word).unwrap_or_else(|| panic!("{name}: no word {word}"));
            assert!(word.open, "{name} would be open over HTTP");
        }
    }

    #[test]
    fn the_list_links_every_command() {
        assert!(list().contains("<a href=\"/commands/server_stats\">server_stats</a><br/>"));
        assert_eq!(list().lines().count(), COMMANDS.len());
    }
}
