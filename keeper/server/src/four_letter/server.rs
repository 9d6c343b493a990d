//! The server as a whole: srvr, stat, conf, envi, isro, dirs, hash. Shapes as in ZooKeeper 3.9.

use super::connections;
use super::text::{Text, put};
use super::{Question, Service, VERSION_LINE};
use crate::numbers::Reading;
use keeper_consensus::{Role, Status};

/// Milliseconds are whole numbers in all three places: ZooKeeper 3.9 prints the average with decimals, older versions
/// and ClickHouse do not, and of the two Go clients one reads digits only and the other reads both.
pub fn srvr(question: &Question<'_>, reading: &Reading) -> Text {
    let mut text = Text::default();
    put!(text, "Zookeeper version: {VERSION_LINE}");
    body(question, reading, &mut text);
    text
}

pub fn stat(question: &Question<'_>, reading: &Reading) -> Text {
    let mut text = Text::default();
    put!(text, "Zookeeper version: {VERSION_LINE}");
    put!(text, "Clients:");
    connections::list(question.shared, false, &mut text);
    put!(text, "");
    body(question, reading, &mut text);
    text
}

fn body(question: &Question<'_>, reading: &Reading, text: &mut Text) {
    use std::sync::atomic::Ordering::Relaxed;
    let (latency, stats) = (&reading.latency, &question.shared.stats);
    let (min, average, max) = (latency.min / 1_000, latency.average() as u64 / 1_000, latency.max / 1_000);
    put!(text, "Latency min/avg/max: {min}/{average}/{max}");
    put!(text, "Received: {}", stats.packets_received.load(Relaxed));
    put!(text, "Sent: {}", stats.packets_sent.load(Relaxed));
    put!(text, "Connections: {}", reading.connections);
    put!(text, "Outstanding: {}", reading.outstanding);
    put!(text, "Zxid: {:#x}", reading.zxid);
    put!(text, "Mode: {}", mode_of(question));
    put!(text, "Node count: {}", reading.counts.znodes);
    let proposals = stats.proposal_bytes.read();
    if reading.status.role == Role::Leader && reading.status.membership.voters.len() > 1 {
        // ZooKeeper's -1 stands for "none yet".
        let sizes = [proposals.last, proposals.min, proposals.max]
            .map(|size| if proposals.count == 0 { "-1".to_owned() } else { size.to_string() });
        put!(text, "Proposal sizes last/min/max: {}", sizes.join("/"));
    }
}

fn mode_of(question: &Question<'_>) -> &'static str {
    match question.service {
        Service::ReadOnly => "read-only",
        Service::ReadWrite | Service::None => mode(&question.status),
    }
}

/// ZooKeeper's words for what a member is.
pub fn mode(status: &Status) -> &'static str {
    match status.role {
        Role::Leader if status.membership.voters.len() == 1 => "standalone",
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Learner => "observer",
        Role::Candidate => "candidate",
        Role::Uninitialized => "uninitialized",
        Role::Failed => "failed",
    }
}

pub fn conf(question: &Question<'_>) -> Text {
    let mut text = Text::default();
    for (key, value) in question.configuration {
        put!(text, "{key}={value}");
    }
    if let Some(identity) = question.status.identity {
        put!(text, "serverId={}", identity.server_id);
        put!(text, "clusterId={}", identity.cluster_id);
    }
    text
}

/// `key=value` lines; kazoo reads the version in the first.
pub fn environment() -> Vec<(&'static str, String)> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let folder = std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
    vec![
        ("zookeeper.version", VERSION_LINE.into()),
        ("castellan.version", env!("CARGO_PKG_VERSION").into()),
        ("host.name", keeper_rt::host_name()),
        ("os.name", std::env::consts::OS.into()),
        ("os.arch", std::env::consts::ARCH.into()),
        ("os.version", keeper_rt::os_release()),
        ("cpu.count", std::thread::available_parallelism().map_or(1, usize::from).to_string()),
        ("user.name", variable("USER")),
        ("user.home", variable("HOME")),
        ("user.dir", folder),
        ("user.tmp", std::env::temp_dir().display().to_string()),
    ]
}

pub fn envi() -> Text {
    let mut text = Text::default();
    put!(text, "Environment:");
    for (key, value) in environment() {
        put!(text, "{key}={value}");
    }
    text
}

pub fn isro(service: Service) -> &'static str {
    match service {
        Service::None => "null",
        Service::ReadOnly => "ro",
        Service::ReadWrite => "rw",
    }
}

/// ZooKeeper's names, then ClickHouse's for the same.
pub async fn dirs(question: &Question<'_>) -> Text {
    let mut text = Text::default();
    match question.consensus.disk_usage().await {
        Ok(usage) => {
            put!(text, "datadir_size: {}", usage.snapshot_bytes);
            put!(text, "logdir_size: {}", usage.log_bytes);
            put!(text, "snapshot_dir_size: {}", usage.snapshot_bytes);
            put!(text, "log_dir_size: {}", usage.log_bytes);
        }
        Err(error) => {
            put!(text, "cannot read the data folder: {error}");
        }
    }
    text
}

/// One line of ZooKeeper's list: zxid and digest in hexadecimal. Members that have applied the same zxid show the same.
pub fn hash(question: &Question<'_>) -> Text {
    let tree = question.shared.read_tree();
    let (zxid, digest) = (tree.zxid().0, tree.digest());
    drop(tree);
    let mut text = Text::default();
    put!(text, "{zxid:x}: {digest:x}");
    text
}
