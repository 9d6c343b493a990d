//! How many nodes and bytes of data a subtree may hold (ZooKeeper Administrator's Guide, "Quotas").
//!
//! The limits of `/a` are the data of `/zookeeper/quota/a/zookeeper_limits`; what it holds is kept as data of
//! `zookeeper_stats` beside it. That changes without a zxid of its own, as in ZooKeeper. Limits are soft, or hard
//! where the writing member enforces quotas: then a write that goes beyond is `QuotaExceeded`.

use keeper_types::ErrorCode;

use crate::apply::Writer;
use crate::multi::Journal;
use crate::node::NodeId;
use crate::tree::Tree;

const QUOTA: &str = "/zookeeper/quota";
const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// Numbers of a limits or stats node; -1 is "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Track {
    count: i64,
    bytes: i64,
    count_hard: i64,
    bytes_hard: i64,
}

impl Track {
    /// `count=1,bytes=2;countHardLimit=3;byteHardLimit=4`, in any order; what is not there or no number is -1.
    fn parse(data: &[u8]) -> Track {
        let mut track = Track { count: -1, bytes: -1, count_hard: -1, bytes_hard: -1 };
        let text = std::str::from_utf8(data).unwrap_or_default();
        for (key, value) in text.split([',', ';']).filter_map(|part| part.split_once('=')) {
            let slot = match key {
                "count" => &mut track.count,
                "bytes" => &mut track.bytes,
                "countHardLimit" => &mut track.count_hard,
                "byteHardLimit" => &mut track.bytes_hard,
                _ => continue,
            };
            *slot = value.parse().unwrap_or(-1);
        }
        track
    }
}

/// `/zookeeper/quota/a/<name>` -> `/a`.
fn subject_of<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    let subject = path.strip_prefix(QUOTA)?.strip_suffix(name)?.strip_suffix('/')?;
    (!subject.is_empty()).then_some(subject)
}

impl Tree {
    /// Finds all limits anew: after a snapshot, or a multi that was taken back.
    pub(crate) fn find_quotas(&mut self) {
        self.quotas.clear();
        let mut open: Vec<(NodeId, String)> =
            self.store.find(QUOTA).map(|id| (id, String::new())).into_iter().collect();
        while let Some((id, subject)) = open.pop() {
            for child in self.store.node(id).children() {
                let name = self.store.node(*child).name();
                if name != LIMITS {
                    open.push((*child, format!("{subject}/{name}")));
                } else if !subject.is_empty() {
                    self.quotas.insert(subject.clone());
                }
            }
        }
    }

    /// The nearest of the node and its ancestors that has limits.
    fn quota_of(&self, path: &str) -> Option<&str> {
        let mut at = path;
        loop {
            if let Some(subject) = self.quotas.get(at) {
                return Some(subject);
            }
            at = keeper_types::parent(at)?;
        }
    }

    /// Whether a write may make the subtree grow by that much.
    pub(crate) fn check_quota(
        &self,
        writer: Writer<'_>,
        path: &str,
        bytes: i64,
        count: i64,
    ) -> Result<(), ErrorCode> {
        if !writer.enforce_quota || self.quotas.is_empty() {
            return Ok(());
        }
        let Some(subject) = self.quota_of(path) else { return Ok(()) };
        let track = |name: &str| {
            let id = self.store.find(&format!("{QUOTA}{subject}/{name}"))?;
            Some(Track::parse(self.store.node(id).data().unwrap_or_default()))
        };
        let (Some(limits), Some(used)) = (track(LIMITS), track(STATS)) else { return Ok(()) };
        let beyond =
            |limit: i64, used: i64, more: i64| more > 0 && limit > -1 && used.saturating_add(more) > limit;
        if beyond(limits.count_hard, used.count, count) || beyond(limits.bytes_hard, used.bytes, bytes) {
            return Err(ErrorCode::QuotaExceeded);
        }
        Ok(())
    }

    /// A node was made: it may be a limit, a place for the count, or count itself.
    pub(crate) fn count_created(&mut self, path: &str, bytes: i64, journal: &mut Journal) {
        if let Some(subject) = subject_of(path, LIMITS) {
            self.quotas.insert(subject.to_owned());
        } else if let Some(subject) = subject_of(path, STATS) {
            let (count, bytes) = self.usage(subject);
            self.set_usage(path, count, bytes, journal);
        }
        self.count_change(path, bytes, 1, journal);
    }

    pub(crate) fn count_removed(&mut self, path: &str, bytes: i64, journal: &mut Journal) {
        if let Some(subject) = subject_of(path, LIMITS) {
            self.quotas.remove(subject);
        }
        self.count_change(path, -bytes, -1, journal);
    }

    /// A subtree with limits holds so much more, or less.
    pub(crate) fn count_change(&mut self, path: &str, bytes: i64, count: i64, journal: &mut Journal) {
        if self.quotas.is_empty() {
            return;
        }
        let Some(subject) = self.quota_of(path) else { return };
        let stats = format!("{QUOTA}{subject}/{STATS}");
        let Some(id) = self.store.find(&stats) else { return };
        let used = Track::parse(self.store.node(id).data().unwrap_or_default());
        self.set_usage(&stats, used.count.saturating_add(count), used.bytes.saturating_add(bytes), journal);
    }

    fn set_usage(&mut self, stats: &str, count: i64, bytes: i64, journal: &mut Journal) {
        let Some(id) = self.store.find(stats) else { return };
        let text = format!("count={count},bytes={bytes}");
        let node = self.store.node(id);
        let (version, mzxid, mtime) = (node.version, node.mzxid, node.mtime);
        let old = self.store.set_data(id, stats, Some(text.as_bytes()), (version, mzxid, mtime));
        if let Some(old) = journal.data_set(id, old, version, mzxid, mtime) {
            self.store.forget_data(old);
        }
    }

    /// Nodes and bytes of data of a subtree, its top included.
    fn usage(&self, path: &str) -> (i64, i64) {
        let mut open: Vec<NodeId> = self.store.find(path).into_iter().collect();
        let (mut count, mut bytes) = (0, 0);
        while let Some(id) = open.pop() {
            let node = self.store.node(id);
            count += 1;
            bytes += node.data_length() as i64;
            open.extend(node.children());
        }
        (count, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_zookeeper_writes_them() {
        let none = Track { count: -1, bytes: -1, count_hard: -1, bytes_hard: -1 };
        assert_eq!(Track::parse(b"count=5,bytes=-1"), Track { count: 5, ..none });
        let all = b"count=1,bytes=2;byteHardLimit=4;countHardLimit=3";
        assert_eq!(Track::parse(all), Track { count: 1, bytes: 2, count_hard: 3, bytes_hard: 4 });
        for nonsense in [&b""[..], b"count", b"count=x", b"\xff", b"=,;="] {
            assert_eq!(Track::parse(nonsense), none);
        }
    }

    #[test]
    fn the_subject_of_a_limit_is_its_path_below_quota() {
        assert_eq!(subject_of("/zookeeper/quota/a/b/zookeeper_limits", LIMITS), Some("/a/b"));
        assert_eq!(subject_of("/zookeeper/quota/zookeeper_limits", LIMITS), None);
        assert_eq!(subject_of("/a/zookeeper_limits", LIMITS), None);
    }
}
