//! Name → source. One row a number.
//!
//! ZooKeeper's names are those of its 3.9 `mntr` and of its Prometheus provider, which writes the same without `zk_` but
//! has `_sum` and `_count` for summaries. ClickHouse's are those of its 26.x `system.asynchronous_metrics`,
//! `system.metrics` and `system.events`, as its Prometheus endpoint prefixes them.

use super::reading::Reading;
use crate::percentiles::Buckets;
use crate::stats::Summary;
use keeper_consensus::Role;
use keeper_types::OpCode;
use std::sync::atomic::Ordering;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Whole(i64),
    Broken(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    /// Only grows, until the process or the word `srst` starts it anew.
    Counter,
}

/// Which of ClickHouse's tables has the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clickhouse {
    Async(&'static str),
    Metric(&'static str),
    Event(&'static str),
}

impl Clickhouse {
    pub fn prefix(self) -> &'static str {
        match self {
            Clickhouse::Async(_) => "ClickHouseAsyncMetrics_",
            Clickhouse::Metric(_) => "ClickHouseMetrics_",
            Clickhouse::Event(_) => "ClickHouseProfileEvents_",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Clickhouse::Async(name) | Clickhouse::Metric(name) | Clickhouse::Event(name) => name,
        }
    }
}

pub struct Number {
    /// In `mntr`, after `zk_`.
    pub mntr: Option<&'static str>,
    /// In ZooKeeper's Prometheus page.
    pub prometheus: Option<&'static str>,
    pub clickhouse: &'static [Clickhouse],
    pub kind: Kind,
    pub help: &'static str,
    /// `None` when this member has no such number now.
    pub read: fn(&Reading) -> Option<Value>,
}

use Clickhouse::{Async, Event, Metric};
use Kind::{Counter, Gauge};

/// Under the same name in `mntr` and in ZooKeeper's Prometheus page.
const fn both(
    name: &'static str,
    clickhouse: &'static [Clickhouse],
    kind: Kind,
    help: &'static str,
    read: fn(&Reading) -> Option<Value>,
) -> Number {
    Number { mntr: Some(name), prometheus: Some(name), clickhouse, kind, help, read }
}

/// In `mntr` only: names of ours, or such as ClickHouse adds there.
const fn mntr(
    name: &'static str,
    clickhouse: &'static [Clickhouse],
    kind: Kind,
    help: &'static str,
    read: fn(&Reading) -> Option<Value>,
) -> Number {
    Number { mntr: Some(name), prometheus: None, clickhouse, kind, help, read }
}

const fn prometheus(
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: fn(&Reading) -> Option<Value>,
) -> Number {
    Number { mntr: None, prometheus: Some(name), clickhouse: &[], kind, help, read }
}

const fn clickhouse(
    names: &'static [Clickhouse],
    kind: Kind,
    help: &'static str,
    read: fn(&Reading) -> Option<Value>,
) -> Number {
    Number { mntr: None, prometheus: None, clickhouse: names, kind, help, read }
}

fn whole(value: u64) -> Option<Value> {
    Some(Value::Whole(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn truth(value: bool) -> Option<Value> {
    whole(u64::from(value))
}

fn maybe(value: Option<u64>) -> Option<Value> {
    value.and_then(whole)
}

/// Microseconds as the milliseconds that ZooKeeper counts in.
fn ms(us: u64) -> Option<Value> {
    whole(us / 1_000)
}

fn average_ms(summary: &Summary) -> Option<Value> {
    Some(Value::Broken(summary.average() / 1_000.0))
}

/// Zero while nothing was measured, as ZooKeeper prints it; rounded up, but never beyond the longest.
fn percentile_ms(buckets: &Buckets, all: &Summary, thousandths: u64) -> Option<Value> {
    ms(buckets.percentile(thousandths).unwrap_or_default().min(all.max))
}

/// Sizes; unknown while nothing was counted.
fn size(summary: Summary, of: fn(&Summary) -> u64) -> Option<Value> {
    (summary.count > 0).then(|| of(&summary)).and_then(whole)
}

fn proposal(reading: &Reading, of: fn(&Summary) -> u64) -> Option<Value> {
    if reading.leads() { size(reading.shared.stats.proposal_bytes.read(), of) } else { None }
}

fn reply(reading: &Reading, of: fn(&Summary) -> u64) -> Option<Value> {
    size(reading.shared.stats.reply_bytes.read(), of)
}

pub const NUMBERS: &[Number] = &[
    both("avg_latency", &[Async("KeeperAvgLatency")], Gauge, "Average time of a request, ms", |r| {
        average_ms(&r.latency)
    }),
    both("max_latency", &[Async("KeeperMaxLatency")], Gauge, "Longest time of a request, ms", |r| {
        ms(r.latency.max)
    }),
    both("min_latency", &[Async("KeeperMinLatency")], Gauge, "Shortest time of a request, ms", |r| {
        ms(r.latency.min)
    }),
    both(
        "packets_received",
        &[Async("KeeperPacketsReceived"), Event("KeeperPacketsReceived")],
        Counter,
        "Requests that clients sent",
        |r| whole(r.shared.stats.packets_received.load(Ordering::Relaxed)),
    ),
    both(
        "packets_sent",
        &[Async("KeeperPacketsSent"), Event("KeeperPacketsSent")],
        Counter,
        "Replies and watch events sent to clients",
        |r| whole(r.shared.stats.packets_sent.load(Ordering::Relaxed)),
    ),
    both(
        "num_alive_connections",
        &[Metric("KeeperAliveConnections")],
        Gauge,
        "Open client connections",
        |r| whole(r.connections as u64),
    ),
    both(
        "outstanding_requests",
        &[Metric("KeeperOutstandingRequests")],
        Gauge,
        "Requests not answered yet",
        |r| whole(r.outstanding),
    ),
    both("znode_count", &[Async("KeeperZnodeCount")], Gauge, "Nodes in the tree", |r| whole(r.counts.znodes)),
    both("watch_count", &[Async("KeeperWatchCount")], Gauge, "Watches of this member's clients", |r| {
        whole(r.watches.watches as u64)
    }),
    both("ephemerals_count", &[Async("KeeperEphemeralsCount")], Gauge, "Ephemeral nodes", |r| {
        whole(r.counts.ephemerals)
    }),
    both(
        "approximate_data_size",
        &[Async("KeeperApproximateDataSize")],
        Gauge,
        "Bytes of all paths and data",
        |r| whole(r.counts.approximate_data_bytes),
    ),
    mntr(
        "key_arena_size",
        &[Async("KeeperKeyArenaSize")],
        Gauge,
        "Always 0: there is no arena of keys",
        |_| whole(0),
    ),
    mntr("latest_snapshot_size", &[], Gauge, "Bytes of the newest snapshot", |r| whole(r.snapshot_bytes)),
    both(
        "open_file_descriptor_count",
        &[Async("KeeperOpenFileDescriptorCount")],
        Gauge,
        "File descriptors of this process",
        |r| maybe(r.open_files.map(|files| files.count)),
    ),
    both(
        "max_file_descriptor_count",
        &[Async("KeeperMaxFileDescriptorCount")],
        Gauge,
        "File descriptors that this process may have",
        |r| maybe(r.open_files.and_then(|files| files.limit)),
    ),
    both("uptime", &[], Gauge, "Since the start, ms", |r| whole(r.uptime.as_millis() as u64)),
    both("global_sessions", &[], Gauge, "Sessions of the whole cluster", |r| whole(r.counts.sessions)),
    both("local_sessions", &[], Gauge, "Always 0: every session is replicated", |_| whole(0)),
    both("quorum_size", &[], Gauge, "Voters of the newest configuration", |r| {
        whole(r.status.membership.voters.len() as u64)
    }),
    clickhouse(
        &[Event("KeeperRequestRejectedDueToSoftMemoryLimitCount")],
        Counter,
        "Writes refused for want of memory",
        |r| whole(r.shared.memory_refusals.load(Ordering::Relaxed)),
    ),
    both("digest_mismatches_count", &[], Counter, "Marks at which the members' trees differed", |r| {
        whole(r.shared.digests.mismatches.load(Ordering::Relaxed))
    }),
    mntr(
        "digest_agreed_index",
        &[],
        Gauge,
        "Log index at which the members' trees were last the same",
        |r| whole(r.shared.digests.agreed_index.load(Ordering::Relaxed)),
    ),
    // The leader's.
    both("learners", &[], Gauge, "Members that follow this leader", |r| {
        maybe(r.on_leader(|status| status.progress.len()))
    }),
    mntr("followers", &[Async("KeeperFollowers")], Gauge, "Voters that follow this leader", |r| {
        maybe(r.on_leader(|status| status.membership.voters.len().saturating_sub(1)))
    }),
    both(
        "synced_followers",
        &[Async("KeeperSyncedFollowers")],
        Gauge,
        "Following voters that keep up",
        |r| maybe(r.synced(true)),
    ),
    both("synced_observers", &[], Gauge, "Members without a vote that keep up", |r| maybe(r.synced(false))),
    both("synced_non_voting_followers", &[], Gauge, "Members without a vote that keep up", |r| {
        maybe(r.synced(false))
    }),
    both("last_proposal_size", &[], Gauge, "Bytes of the leader's last proposal", |r| {
        proposal(r, |s| s.last)
    }),
    both("max_proposal_size", &[], Gauge, "Bytes of the leader's largest proposal", |r| {
        proposal(r, |s| s.max)
    }),
    both("min_proposal_size", &[], Gauge, "Bytes of the leader's smallest proposal", |r| {
        proposal(r, |s| s.min)
    }),
    both("proposal_count", &[], Counter, "Proposals of this leader, each a batch of writes", |r| {
        proposal(r, |s| s.count)
    }),
    both("last_client_response_size", &[], Gauge, "Bytes of the last reply", |r| reply(r, |s| s.last)),
    both("max_client_response_size", &[], Gauge, "Bytes of the largest reply", |r| reply(r, |s| s.max)),
    both("min_client_response_size", &[], Gauge, "Bytes of the smallest reply", |r| reply(r, |s| s.min)),
    both("response_bytes", &[], Counter, "Bytes of all replies", |r| {
        whole(r.shared.stats.reply_bytes.read().sum)
    }),
    both("connection_rejected", &[], Counter, "Client connections refused for a limit", |r| {
        whole(r.shared.metrics.connections_refused_total.get())
    }),
    // Summaries.
    mntr("avg_readlatency", &[], Gauge, "Average time of a read, ms", |r| average_ms(&r.reads)),
    mntr("min_readlatency", &[], Gauge, "Shortest time of a read, ms", |r| ms(r.reads.min)),
    mntr("max_readlatency", &[], Gauge, "Longest time of a read, ms", |r| ms(r.reads.max)),
    mntr("p50_readlatency", &[], Gauge, "Half of the reads took no longer, ms", |r| {
        percentile_ms(&r.shared.stats.read_buckets, &r.reads, 500)
    }),
    mntr("p95_readlatency", &[], Gauge, "95 of 100 reads took no longer, ms", |r| {
        percentile_ms(&r.shared.stats.read_buckets, &r.reads, 950)
    }),
    mntr("p99_readlatency", &[], Gauge, "99 of 100 reads took no longer, ms", |r| {
        percentile_ms(&r.shared.stats.read_buckets, &r.reads, 990)
    }),
    mntr("p999_readlatency", &[], Gauge, "999 of 1000 reads took no longer, ms", |r| {
        percentile_ms(&r.shared.stats.read_buckets, &r.reads, 999)
    }),
    mntr("cnt_readlatency", &[], Counter, "Reads", |r| whole(r.reads.count)),
    mntr("sum_readlatency", &[], Counter, "Time of all reads, ms", |r| ms(r.reads.sum)),
    prometheus("readlatency_count", Counter, "Reads", |r| whole(r.reads.count)),
    prometheus("readlatency_sum", Counter, "Time of all reads, ms", |r| ms(r.reads.sum)),
    mntr("avg_updatelatency", &[], Gauge, "Average time of a write, ms", |r| average_ms(&r.writes)),
    mntr("min_updatelatency", &[], Gauge, "Shortest time of a write, ms", |r| ms(r.writes.min)),
    mntr("max_updatelatency", &[], Gauge, "Longest time of a write, ms", |r| ms(r.writes.max)),
    mntr("p50_updatelatency", &[], Gauge, "Half of the writes took no longer, ms", |r| {
        percentile_ms(&r.shared.stats.write_buckets, &r.writes, 500)
    }),
    mntr("p95_updatelatency", &[], Gauge, "95 of 100 writes took no longer, ms", |r| {
        percentile_ms(&r.shared.stats.write_buckets, &r.writes, 950)
    }),
    mntr("p99_updatelatency", &[], Gauge, "99 of 100 writes took no longer, ms", |r| {
        percentile_ms(&r.shared.stats.write_buckets, &r.writes, 990)
    }),
    mntr("p999_updatelatency", &[], Gauge, "999 of 1000 writes took no longer, ms", |r| {
        percentile_ms(&r.shared.stats.write_buckets, &r.writes, 999)
    }),
    mntr("cnt_updatelatency", &[], Counter, "Writes", |r| whole(r.writes.count)),
    mntr("sum_updatelatency", &[], Counter, "Time of all writes, ms", |r| ms(r.writes.sum)),
    prometheus("updatelatency_count", Counter, "Writes", |r| whole(r.writes.count)),
    prometheus("updatelatency_sum", Counter, "Time of all writes, ms", |r| ms(r.writes.sum)),
    mntr("avg_fsynctime", &[], Gauge, "Average time of a sync of the log, ms", |r| {
        let sync = &r.log.sync;
        average_ms(&Summary { count: sync.count, sum: sync.sum_us, ..Summary::default() })
    }),
    mntr("cnt_fsynctime", &[], Counter, "Syncs of the log", |r| whole(r.log.sync.count)),
    mntr("sum_fsynctime", &[], Counter, "Time of all syncs of the log, ms", |r| ms(r.log.sync.sum_us)),
    prometheus("fsynctime_count", Counter, "Syncs of the log", |r| whole(r.log.sync.count)),
    prometheus("fsynctime_sum", Counter, "Time of all syncs of the log, ms", |r| ms(r.log.sync.sum_us)),
    // Names of our own in `mntr`; `/metrics` has them as `keeper_…`.
    mntr("zxid", &[Async("KeeperZxid")], Gauge, "Last zxid applied", |r| Some(Value::Whole(r.zxid))),
    mntr("last_log_index", &[Async("KeeperLastLogIdx")], Gauge, "Last entry of this member's log", |r| {
        whole(r.status.last_log_index)
    }),
    mntr(
        "committed_log_index",
        &[Async("KeeperLastCommittedLogIdx"), Async("KeeperTargetCommitLogIdx")],
        Gauge,
        "Last entry known to be committed",
        |r| whole(r.status.committed_index),
    ),
    mntr("applied_log_index", &[], Gauge, "Last entry applied to the tree", |r| {
        whole(r.status.applied_index)
    }),
    mntr(
        "snapshot_log_index",
        &[Async("KeeperLastSnapshotIdx")],
        Gauge,
        "Last entry in the newest snapshot",
        |r| whole(r.status.snapshot_index),
    ),
    mntr("term", &[], Gauge, "Raft term", |r| whole(r.status.term)),
    // ClickHouse's alone.
    clickhouse(&[Async("KeeperIsLeader")], Gauge, "1 on the leader", |r| truth(r.leads())),
    clickhouse(&[Async("KeeperIsFollower")], Gauge, "1 on a follower", |r| {
        truth(r.status.role == Role::Follower)
    }),
    clickhouse(&[Async("KeeperIsObserver")], Gauge, "1 on a member without a vote", |r| {
        truth(r.status.role == Role::Learner)
    }),
    clickhouse(&[Async("KeeperIsStandalone")], Gauge, "1 when this member is the only voter", |r| {
        truth(r.leads() && r.status.membership.voters.len() == 1)
    }),
    clickhouse(&[Async("KeeperSessionWithWatches")], Gauge, "Sessions that watch something", |r| {
        whole(r.watches.connections as u64)
    }),
    clickhouse(&[Async("KeeperPathsWatched")], Gauge, "Paths that are watched", |r| {
        whole(r.watches.paths as u64)
    }),
    clickhouse(&[Async("KeeperLatestLogsCacheSize")], Gauge, "Bytes of the log kept in memory", |r| {
        whole(r.log.cached_bytes)
    }),
    clickhouse(&[Event("KeeperRequestTotal")], Counter, "Requests that were answered", |r| {
        whole(r.latency.count)
    }),
    clickhouse(&[Event("KeeperLatency")], Counter, "Time of all requests, ms", |r| ms(r.latency.sum)),
    clickhouse(&[Event("KeeperTotalElapsedMicroseconds")], Counter, "Time of all requests, us", |r| {
        whole(r.latency.sum)
    }),
    clickhouse(
        &[Event("KeeperChangelogFileSyncMicroseconds")],
        Counter,
        "Time of all syncs of the log, us",
        |r| whole(r.log.sync.sum_us),
    ),
    clickhouse(&[Event("KeeperCreateRequest")], Counter, "Creates", |r| {
        whole(r.operations(&[
            OpCode::Create,
            OpCode::Create2,
            OpCode::CreateContainer,
            OpCode::CreateTtl,
            OpCode::CreateIfNotExists,
        ]))
    }),
    clickhouse(&[Event("KeeperRemoveRequest")], Counter, "Deletes", |r| {
        whole(r.operations(&[OpCode::Delete, OpCode::TryRemove, OpCode::RemoveRecursive]))
    }),
    clickhouse(&[Event("KeeperSetRequest")], Counter, "Changes of data", |r| {
        whole(r.operations(&[OpCode::SetData]))
    }),
    clickhouse(&[Event("KeeperReconfigRequest")], Counter, "Changes of the membership by clients", |r| {
        whole(r.operations(&[OpCode::Reconfig]))
    }),
    clickhouse(&[Event("KeeperCheckRequest")], Counter, "Checks of versions", |r| {
        whole(r.operations(&[OpCode::Check, OpCode::CheckNotExists, OpCode::CheckStat]))
    }),
    clickhouse(&[Event("KeeperMultiRequest")], Counter, "Transactions", |r| {
        whole(r.operations(&[OpCode::Multi]))
    }),
    clickhouse(&[Event("KeeperMultiReadRequest")], Counter, "Several reads in one request", |r| {
        whole(r.operations(&[OpCode::MultiRead]))
    }),
    clickhouse(&[Event("KeeperGetRequest")], Counter, "Reads of data", |r| {
        whole(r.operations(&[OpCode::GetData]))
    }),
    clickhouse(&[Event("KeeperListRequest")], Counter, "Listings of children", |r| {
        whole(r.operations(&[
            OpCode::GetChildren,
            OpCode::GetChildren2,
            OpCode::FilteredList,
            OpCode::FilteredListWithStatsAndData,
        ]))
    }),
    clickhouse(&[Event("KeeperListRecursiveRequest")], Counter, "Listings of whole subtrees", |r| {
        whole(r.operations(&[OpCode::ListRecursive]))
    }),
    clickhouse(&[Event("KeeperExistsRequest")], Counter, "Questions whether a node exists", |r| {
        whole(r.operations(&[OpCode::Exists]))
    }),
    clickhouse(&[Event("KeeperAddWatchRequest")], Counter, "Persistent watches asked for", |r| {
        whole(r.operations(&[OpCode::AddWatch]))
    }),
    clickhouse(&[Event("KeeperRemoveWatchRequest")], Counter, "Watches taken back", |r| {
        whole(r.operations(&[OpCode::RemoveWatches]))
    }),
    clickhouse(&[Event("KeeperCheckWatchRequest")], Counter, "Questions whether a watch is set", |r| {
        whole(r.operations(&[OpCode::CheckWatches]))
    }),
    clickhouse(
        &[Event("KeeperSetWatchesRequest")],
        Counter,
        "Watches set again by clients that moved",
        |r| whole(r.operations(&[OpCode::SetWatches, OpCode::SetWatches2])),
    ),
];
