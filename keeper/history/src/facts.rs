//! What follows from a history before any rule is asked: which write has which zxid (also those whose outcome
//! the client never learned, when somebody read their value), and who wrote which value.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{History, Kind, Operation, Outcome};

/// A write that is known to have been done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub at: usize,
    pub kind: Kind,
    pub node: &'a str,
    pub zxid: i64,
    pub invoked_at_ns: u64,
    /// `None` if the client never heard of its success.
    pub returned_at_ns: Option<u64>,
}

/// The state of a node as one successful reply showed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    pub at: usize,
    pub node: &'a str,
    pub czxid: Option<i64>,
    pub mzxid: i64,
    pub version: Option<i32>,
}

pub(crate) struct Facts<'a> {
    pub operations: &'a [Operation],
    /// By zxid.
    pub writes: Vec<Write<'a>>,
    /// Every reply that showed a node's mzxid, in the history's order.
    pub sights: Vec<Sight<'a>>,
    /// Who wrote a value, whether it succeeded or not. The first one, if two did.
    pub writer_of: BTreeMap<&'a str, usize>,
    /// Unknown sets of a node whose value nobody ever saw: each may have used up a version.
    pub unseen_sets: BTreeMap<&'a str, u64>,
    /// Nodes with a write of unknown outcome that nobody saw done.
    pub unsettled: BTreeSet<&'a str>,
    /// Nodes with a delete of unknown outcome, and when the first of them began.
    pub unknown_deletes: BTreeMap<&'a str, u64>,
}

impl<'a> Facts<'a> {
    pub fn of(history: &'a History) -> Facts<'a> {
        let operations = history.operations.as_slice();
        let mut facts = Facts {
            operations,
            writes: Vec::new(),
            sights: operations.iter().enumerate().filter_map(|(at, op)| sight(at, op)).collect(),
            writer_of: BTreeMap::new(),
            unseen_sets: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            unknown_deletes: BTreeMap::new(),
        };
        for (at, operation) in operations.iter().enumerate() {
            if let (true, Some(value)) = (operation.kind.is_write(), &operation.value) {
                facts.writer_of.entry(value).or_insert(at);
            }
        }
        let seen_at = facts.values_seen();
        for (at, operation) in operations.iter().enumerate().filter(|(_, op)| op.kind.is_write()) {
            facts.add_write(at, operation, &seen_at);
        }
        facts.writes.sort_by_key(|write| (write.zxid, write.at));
        facts
    }

    /// Where each value was read first: its node and mzxid.
    fn values_seen(&self) -> BTreeMap<&'a str, (&'a str, i64)> {
        let mut seen_at = BTreeMap::new();
        for operation in self.operations.iter().filter(|operation| operation.kind == Kind::Get) {
            let Some(seen) = operation.seen() else { continue };
            if let (Some(value), Some(mzxid)) = (&seen.value, seen.mzxid) {
                seen_at.entry(value.as_str()).or_insert((operation.path.as_str(), mzxid));
            }
        }
        seen_at
    }

    fn add_write(
        &mut self,
        at: usize,
        operation: &'a Operation,
        seen_at: &BTreeMap<&'a str, (&'a str, i64)>,
    ) {
        let mut write = Write {
            at,
            kind: operation.kind,
            node: operation.node(),
            zxid: 0,
            invoked_at_ns: operation.invoked_at_ns,
            returned_at_ns: operation.returned_at_ns,
        };
        match &operation.outcome {
            Outcome::Ok(seen) => {
                write.zxid = seen.zxid;
                self.writes.push(write);
            }
            Outcome::Err { .. } => {}
            Outcome::Unknown => {
                write.returned_at_ns = None;
                let seen = operation.value.as_deref().and_then(|value| seen_at.get(value));
                if let Some((node, mzxid)) = seen {
                    write.node = node;
                    write.zxid = *mzxid;
                    self.writes.push(write);
                } else {
                    self.unsettled.insert(&operation.path);
                    match operation.kind {
                        Kind::Set => *self.unseen_sets.entry(&operation.path).or_default() += 1,
                        Kind::Delete => {
                            let began = self.unknown_deletes.entry(&operation.path).or_insert(u64::MAX);
                            *began = operation.invoked_at_ns.min(*began);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Somebody had begun to delete the node of a read before it returned, and never learned whether it was done.
    pub fn unknown_delete_before(&self, read: &Operation) -> bool {
        let began = self.unknown_deletes.get(read.path.as_str());
        began.is_some_and(|began| read.returned_at_ns.is_none_or(|returned| *began < returned))
    }

    /// The known writes of each node, by zxid.
    pub fn writes_by_node(&self) -> BTreeMap<&'a str, Vec<Write<'a>>> {
        let mut by_node: BTreeMap<&str, Vec<Write<'_>>> = BTreeMap::new();
        for write in &self.writes {
            by_node.entry(write.node).or_default().push(*write);
        }
        by_node
    }

    /// The positions of each session's operations, by the time they were begun.
    pub fn sessions(&self) -> BTreeMap<i64, Vec<usize>> {
        let mut sessions: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (at, operation) in self.operations.iter().enumerate() {
            sessions.entry(operation.session).or_default().push(at);
        }
        for positions in sessions.values_mut() {
            positions.sort_by_key(|at| self.operations[*at].invoked_at_ns);
        }
        sessions
    }
}

fn sight(at: usize, operation: &Operation) -> Option<Sight<'_>> {
    let seen = operation.seen()?;
    let node = operation.node();
    let (czxid, mzxid, version) = match operation.kind {
        // The reply of a plain create has no Stat, but there is only one it can have.
        Kind::Create | Kind::CreateSequential => (Some(seen.zxid), seen.zxid, Some(0)),
        Kind::Set => (seen.czxid, seen.mzxid.unwrap_or(seen.zxid), seen.version),
        Kind::Get | Kind::Exists => (seen.czxid, seen.mzxid?, seen.version),
        Kind::Delete | Kind::Sync | Kind::Event => return None,
    };
    Some(Sight { at, node, czxid, mzxid, version })
}
