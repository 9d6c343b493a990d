//! Numbers that are read when they are scraped: consensus, tree, sessions, log.

use crate::node::{Node, Readiness};
use keeper_consensus::Role;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::fmt;
use std::sync::atomic::Ordering;

pub struct StatusCollector {
    node: Node,
}

impl StatusCollector {
    pub fn new(node: Node) -> StatusCollector {
        StatusCollector { node }
    }
}

impl fmt::Debug for StatusCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatusCollector({})", self.node.name())
    }
}

impl Collector for StatusCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = self.node.consensus().status();
        let shared = self.node.shared();
        let tree = shared.read_tree();
        let (zxid, counts, tree_bytes) = (tree.zxid().0, tree.counts(), tree.memory());
        drop(tree);
        let ready = self.node.readiness() == Readiness::Ready;
        let memory_full = shared.memory_full.load(Ordering::Relaxed);
        let (watches, digests) = (shared.watches.summary(), &shared.digests);
        let gauges: [(&str, &str, i64); 22] = [
            ("ready", "1 when clients should be sent here", i64::from(ready)),
            ("is_leader", "1 on the leader", i64::from(status.role == Role::Leader)),
            ("has_leader", "1 when a leader is known", i64::from(status.leader.is_some())),
            ("term", "Raft term", status.term as i64),
            ("last_log_index", "Last entry in this member's log", status.last_log_index as i64),
            ("committed_index", "Last entry known to be committed", status.committed_index as i64),
            ("applied_index", "Last entry applied to the tree", status.applied_index as i64),
            ("snapshot_index", "Last entry in the newest snapshot", status.snapshot_index as i64),
            ("voters", "Voters of the newest configuration", status.membership.voters.len() as i64),
            ("learners", "Learners of the newest configuration", status.membership.learners.len() as i64),
            ("zxid", "Last zxid applied", zxid),
            ("znodes", "Nodes in the tree", counts.znodes as i64),
            ("ephemerals", "Ephemeral nodes", counts.ephemerals as i64),
            ("sessions", "Sessions of the whole cluster", counts.sessions as i64),
            ("data_bytes", "Bytes of all paths and data", counts.approximate_data_bytes as i64),
            ("connections", "Client connections of this member", shared.connections().len() as i64),
            ("watches", "Watches of this member's clients", watches.watches as i64),
            ("disk_full", "1 while writes are refused for want of room", i64::from(shared.is_disk_full())),
            ("memory_full", "1 while writes are refused for want of memory", i64::from(memory_full)),
            ("tree_bytes", "Memory that the replicated state takes, estimated", tree_bytes as i64),
            ("tree_differs", "1 when this member's tree is known to be wrong", i64::from(digests.differs())),
            (
                "digest_agreed_index",
                "Log index at which the members' trees were last the same",
                digests.agreed_index.load(Ordering::Relaxed) as i64,
            ),
        ];
        for (name, help, value) in gauges {
            let metric = ConstGauge::new(value);
            let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
            metric.encode(encoder)?;
        }
        let refusals = ConstCounter::new(status.refusals.total());
        let encoder = encoder.encode_descriptor(
            "peer_refusals",
            "Peer connections refused: wrong secret, other cluster, wrong server, malformed",
            None,
            refusals.metric_type(),
        )?;
        refusals.encode(encoder)
    }
}
