//! Four-letter words: ZooKeeper's plain-text questions on the client port. They answer without a quorum too.
//! Output shapes follow ZooKeeper 3.8/3.9, whose clients parse them.

use crate::metrics::Latency;
use crate::shared::Shared;
use keeper_consensus::{Consensus, Role, Status};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

/// The version that clients of ZooKeeper read: what we are compatible with, then our own.
pub const VERSION_LINE: &str =
    concat!("3.9.5-castellan-", env!("CARGO_PKG_VERSION"), ", built on 01/01/2026 00:00 UTC");

/// Every word this server knows. A configuration may allow a part of them.
pub const WORDS: [&str; 9] = ["ruok", "srvr", "stat", "mntr", "conf", "cons", "envi", "isro", "wchs"];

pub struct Words {
    allowed: BTreeSet<String>,
    consensus: Consensus,
    /// `key=value` lines of `conf`.
    configuration: Vec<(String, String)>,
}

impl Words {
    pub fn new(
        allowed: BTreeSet<String>,
        consensus: Consensus,
        configuration: Vec<(String, String)>,
    ) -> Words {
        Words { allowed, consensus, configuration }
    }

    /// The answer to one word; the connection is closed after it.
    pub fn answer(&self, word: [u8; 4], shared: &Shared) -> String {
        let word = String::from_utf8_lossy(&word).into_owned();
        if !WORDS.contains(&word.as_str()) || !self.allowed.contains(&word) {
            tracing::info!(word, "four-letter word is not known or not in the white list");
            return format!("{word} is not executed because it is not in the whitelist.\n");
        }
        let status = self.consensus.status();
        match word.as_str() {
            "ruok" => "imok".into(),
            "srvr" => self.server(&status, shared),
            "stat" => self.statistics(&status, shared),
            "mntr" => self.monitor(&status, shared),
            "conf" => self.configuration.iter().fold(String::new(), |mut text, (key, value)| {
                let _ = writeln!(text, "{key}={value}");
                text
            }),
            "cons" => connections(shared, true) + "\n",
            "envi" => environment(),
            "isro" => if status.leader.is_some() { "rw" } else { "null" }.into(),
            "wchs" => watches(shared),
            _ => String::new(),
        }
    }

    fn server(&self, status: &Status, shared: &Shared) -> String {
        let Latency { min_ms, max_ms, .. } = shared.metrics.latency();
        let tree = shared.read_tree();
        let (zxid, counts) = (tree.zxid(), tree.counts());
        drop(tree);
        let mut text = String::new();
        let _ = writeln!(text, "Zookeeper version: {VERSION_LINE}");
        let _ = writeln!(
            text,
            "Latency min/avg/max: {}/{:.1}/{}",
            min_ms as u64,
            shared.metrics.latency().average_ms(),
            max_ms as u64
        );
        let _ = writeln!(text, "Received: {}", shared.metrics.packets_received.get());
        let _ = writeln!(text, "Sent: {}", shared.metrics.packets_sent.get());
        let _ = writeln!(text, "Connections: {}", shared.connections().len());
        let _ = writeln!(text, "Outstanding: {}", outstanding(shared));
        let _ = writeln!(text, "Zxid: {:#x}", zxid.0);
        let _ = writeln!(text, "Mode: {}", mode(status));
        let _ = writeln!(text, "Node count: {}", counts.znodes);
        text
    }

    fn statistics(&self, status: &Status, shared: &Shared) -> String {
        let server = self.server(status, shared);
        let (version, rest) = server.split_once('\n').unwrap_or((&server, ""));
        format!("{version}\nClients:\n{}\n{rest}", connections(shared, false))
    }

    fn monitor(&self, status: &Status, shared: &Shared) -> String {
        let latency = shared.metrics.latency();
        let tree = shared.read_tree();
        let (zxid, counts) = (tree.zxid(), tree.counts());
        drop(tree);
        let mut text = String::new();
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "zk_{name}\t{value}");
        };
        line("version", &VERSION_LINE);
        line("server_state", &mode(status));
        line("peer_state", &peer_state(status));
        line("avg_latency", &format!("{:.4}", latency.average_ms()));
        line("max_latency", &(latency.max_ms as u64));
        line("min_latency", &(latency.min_ms as u64));
        line("packets_received", &shared.metrics.packets_received.get());
        line("packets_sent", &shared.metrics.packets_sent.get());
        line("num_alive_connections", &shared.connections().len());
        line("outstanding_requests", &outstanding(shared));
        line("znode_count", &counts.znodes);
        line("watch_count", &shared.watches.summary().watches);
        line("ephemerals_count", &counts.ephemerals);
        line("approximate_data_size", &counts.approximate_data_bytes);
        line("global_sessions", &counts.sessions);
        line("open_file_descriptor_count", &-1);
        line("max_file_descriptor_count", &-1);
        line("uptime", &keeper_rt::now().as_nanos().saturating_sub(3_600_000_000_000).div_euclid(1_000_000));
        line("zxid", &zxid.0);
        line("last_log_index", &status.last_log_index);
        line("committed_log_index", &status.committed_index);
        line("applied_log_index", &status.applied_index);
        line("snapshot_log_index", &status.snapshot_index);
        line("term", &status.term);
        line("quorum_size", &status.membership.voters.len());
        if status.role == Role::Leader {
            let synced =
                status.progress.iter().filter(|peer| peer.lag < crate::limits::READY_LAG_ENTRIES_MAX);
            line("learners", &status.membership.learners.len());
            line("followers", &status.membership.voters.len().saturating_sub(1));
            line("synced_followers", &synced.count());
        }
        text
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

fn peer_state(status: &Status) -> &'static str {
    match status.role {
        Role::Leader => "leading - broadcast",
        Role::Follower if status.leader.is_some() => "following - broadcast",
        Role::Learner if status.leader.is_some() => "observing - broadcast",
        _ => "looking",
    }
}

fn outstanding(shared: &Shared) -> usize {
    shared.in_flight.lock().batches.iter().map(|flight| flight.targets.len()).sum()
}

fn connections(shared: &Shared, full: bool) -> String {
    let mut text = String::new();
    for info in shared.connections().values() {
        let (received, sent) = (info.received.load(Ordering::Relaxed), info.sent.load(Ordering::Relaxed));
        let _ = write!(text, " /{}[1](queued=0,recved={received},sent={sent}", info.remote);
        if full {
            let session = info.session.load(Ordering::Relaxed);
            let timeout = info.timeout_ms.load(Ordering::Relaxed);
            let last = keeper_types::OpCode::from_i32(info.last_op.load(Ordering::Relaxed))
                .map_or("NA", keeper_types::OpCode::name);
            let _ = write!(text, ",sid={session:#x},lop={last},to={timeout}");
        }
        text.push_str(")\n");
    }
    text
}

fn environment() -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "Environment:\nzookeeper.version={VERSION_LINE}\ncastellan.version={}\nos.name={}\nos.arch={}\ncpu.count={cpus}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

fn watches(shared: &Shared) -> String {
    let summary = shared.watches.summary();
    format!(
        "{} connections watching {} paths\nTotal watches:{}\n",
        summary.connections, summary.paths, summary.watches
    )
}
