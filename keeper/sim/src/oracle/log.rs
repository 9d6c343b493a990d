//! State machine safety: every node applies the same payloads at the same indexes, with the same result.

use crate::executor::NodeId;
use std::collections::BTreeMap;

/// An operation as its origin numbered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    pub origin: u64,
    pub epoch: u64,
    pub seq: u64,
}

/// An entry as one node applied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    pub index: u64,
    pub payload_hash: u64,
    /// The operation, if the entry was the first to carry it.
    pub done: Option<Operation>,
    /// The state's digest afterwards.
    pub digest: u64,
}

#[derive(Default)]
pub(super) struct LogOracle {
    /// As the first node applied them. Entries of consensus itself have no place here.
    entries: BTreeMap<u64, Applied>,
    /// Where each node's state stands.
    position: BTreeMap<NodeId, u64>,
    done: BTreeMap<Operation, u64>,
    /// (origin, epoch) → the next seq that nobody was told of.
    acknowledged: BTreeMap<(u64, u64), u64>,
}

impl LogOracle {
    pub(super) fn count(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn last_index(&self) -> u64 {
        self.entries.last_key_value().map_or(0, |(index, _)| *index)
    }

    pub(super) fn process_started(&mut self, node: NodeId) {
        self.position.insert(node, 0);
    }

    pub(super) fn applied(&mut self, node: NodeId, applied: Applied) -> Result<(), String> {
        let index = applied.index;
        let before = self.position.insert(node, index).unwrap_or(0);
        if index <= before {
            return Err(format!("node {node} applied index {index} after {before}"));
        }
        if let Some((skipped, _)) = self.entries.range(before + 1..index).next() {
            return Err(format!("node {node} skipped index {skipped}: it went from {before} to {index}"));
        }
        if let Some(first) = self.entries.get(&index) {
            if *first != applied {
                return Err(format!("node {node} applied {applied:?}, another node before it {first:?}"));
            }
            return Ok(());
        }
        if index < self.last_index() {
            let last = self.last_index();
            return Err(format!("node {node} applied index {index}, skipped by a node that is at {last}"));
        }
        self.entries.insert(index, applied);
        if let Some(operation) = applied.done
            && let Some(first) = self.done.insert(operation, index)
        {
            return Err(format!("{operation:?} took effect twice: at {first} and {index}"));
        }
        Ok(())
    }

    pub(super) fn restored(&mut self, node: NodeId, index: u64, digest: u64) -> Result<(), String> {
        self.position.insert(node, index);
        let expected = self.digest_at(index);
        if index > 0 && expected != digest {
            return Err(format!(
                "node {node} restored a snapshot at {index} with digest {digest:x}, applied was {expected:x}"
            ));
        }
        Ok(())
    }

    /// The digest after everything up to `index`.
    fn digest_at(&self, index: u64) -> u64 {
        self.entries.range(..=index).next_back().map_or(0, |(_, applied)| applied.digest)
    }

    pub(super) fn acknowledged(&mut self, operation: Operation) -> Result<(), String> {
        let next = self.acknowledged.entry((operation.origin, operation.epoch)).or_insert(0);
        *next = (*next).max(operation.seq + 1);
        if !self.done.contains_key(&operation) {
            return Err(format!("{operation:?} was acknowledged but no node applied it"));
        }
        Ok(())
    }

    pub(super) fn holds_all_acknowledged(
        &self,
        node: NodeId,
        next: &BTreeMap<u64, (u64, u64)>,
        digest: u64,
    ) -> Result<(), String> {
        for (&(origin, epoch), &acknowledged) in &self.acknowledged {
            let holds = next.get(&origin).copied().unwrap_or((0, 0));
            if holds.0 < epoch || (holds.0 == epoch && holds.1 < acknowledged) {
                return Err(format!(
                    "node {node} lost acknowledged operations of origin {origin} epoch {epoch}: \
                     it holds {holds:?}, acknowledged were {acknowledged}"
                ));
            }
        }
        let expected = self.digest_at(u64::MAX);
        if digest != expected {
            return Err(format!("node {node} ends with digest {digest:x}, others with {expected:x}"));
        }
        Ok(())
    }
}
