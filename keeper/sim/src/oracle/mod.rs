//! Watches the whole cluster from outside. What is broken is kept in words, with its simulated time.
//!
//! It knows every life of every node, so it can compare what no node can: what all of them applied at an index, and
//! what clients were told. It must never change what it watches.

mod log;

#[cfg(test)]
mod tests;

use crate::executor::{NodeId, Simulator, lock};
use crate::limits::FINDINGS_MAX;
use keeper_consensus::{Identity, Role, Status};
use keeper_types::ServerId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub use log::{Applied, Operation};

#[derive(Default)]
struct State {
    findings: Vec<String>,
    /// Who led each term.
    leaders: BTreeMap<u64, NodeId>,
    log: log::LogOracle,
    acknowledged: u64,
    last_acknowledged_ns: u64,
    restored: u64,
    /// index → digest of the tree, as the first node was seen with it.
    trees: BTreeMap<u64, (NodeId, u64)>,
    /// Server id → machine and disk that it was given to.
    servers: BTreeMap<ServerId, (NodeId, u64)>,
    /// Server id and number of its start → process.
    lives: BTreeMap<(ServerId, u64), u64>,
    /// Server id → the term in which it was removed.
    removed: BTreeMap<ServerId, u64>,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub acknowledged: u64,
    pub applied: u64,
    pub terms: u64,
    pub snapshots_restored: u64,
}

#[derive(Clone)]
pub struct Oracle {
    simulator: Simulator,
    state: Arc<Mutex<State>>,
}

impl Oracle {
    pub fn new(simulator: &Simulator) -> Oracle {
        Oracle { simulator: simulator.clone(), state: Arc::default() }
    }

    /// Records a broken promise.
    pub fn found(&self, what: String) {
        self.record(&mut lock(&self.state), what);
    }

    fn record(&self, state: &mut State, what: String) {
        if state.findings.len() < FINDINGS_MAX {
            let seconds = self.simulator.now_ns() as f64 / 1e9;
            state.findings.push(format!("{seconds:.6} s: {what}"));
        }
    }

    fn check(&self, work: impl FnOnce(&mut State) -> Result<(), String>) {
        let mut state = lock(&self.state);
        if let Err(what) = work(&mut state) {
            self.record(&mut state, what);
        }
    }

    pub fn findings(&self) -> Vec<String> {
        lock(&self.state).findings.clone()
    }

    pub fn is_content(&self) -> bool {
        lock(&self.state).findings.is_empty()
    }

    pub fn seen(&self) -> Seen {
        let state = lock(&self.state);
        Seen {
            acknowledged: state.acknowledged,
            applied: state.log.count().max(state.trees.len() as u64),
            terms: state.leaders.len() as u64,
            snapshots_restored: state.restored,
        }
    }

    /// A node's status changed.
    pub fn status(&self, node: NodeId, status: &Status) {
        self.check(|state| {
            if let Some(failure) = &status.failure {
                return Err(format!("consensus of node {node} has stopped: {failure}"));
            }
            if status.role != Role::Leader {
                return Ok(());
            }
            let id = status.identity.map_or(ServerId(0), |identity| identity.server_id);
            if let Some(term) = state.removed.get(&id).filter(|removed| **removed < status.term) {
                let now = status.term;
                return Err(format!("server {id}, removed in term {term}, leads in term {now}"));
            }
            let first = *state.leaders.entry(status.term).or_insert(node);
            if first != node {
                return Err(format!("two leaders in term {}: nodes {first} and {node}", status.term));
            }
            Ok(())
        });
    }

    /// A process shows who it is; `disk` is its machine and the number of the disk there.
    pub fn identity(&self, disk: (NodeId, u64), process: u64, identity: &Identity) {
        self.check(|state| {
            let Identity { server_id, boot, .. } = *identity;
            let first = *state.servers.entry(server_id).or_insert(disk);
            if first != disk {
                return Err(format!(
                    "server id {server_id} is used twice: on disk {first:?} and on {disk:?}"
                ));
            }
            if *state.lives.entry((server_id, boot)).or_insert(process) != process {
                return Err(format!("server {server_id} has started twice as number {boot}"));
            }
            Ok(())
        });
    }

    /// A leader of `term` has said that the server is removed: it must never lead a later term.
    pub fn removed(&self, id: ServerId, term: u64) {
        lock(&self.state).removed.entry(id).or_insert(term);
    }

    /// A new process of `node` begins, with an empty state.
    pub fn process_started(&self, node: NodeId) {
        lock(&self.state).log.process_started(node);
    }

    /// `node` applied an entry.
    pub fn applied(&self, node: NodeId, applied: Applied) {
        self.check(|state| state.log.applied(node, applied));
    }

    /// `node` replaced its state by a snapshot that holds everything up to `index`.
    pub fn restored(&self, node: NodeId, index: u64, digest: u64) {
        self.check(|state| {
            state.restored += 1;
            state.log.restored(node, index, digest)
        });
    }

    /// The tree of `node` has this digest after everything up to `index`.
    pub fn tree(&self, node: NodeId, index: u64, digest: u64) {
        self.check(|state| {
            let (first, known) = *state.trees.entry(index).or_insert((node, digest));
            if known != digest {
                return Err(format!(
                    "trees differ at index {index}: node {first} has digest {known:x}, node {node} {digest:x}"
                ));
            }
            Ok(())
        });
    }

    /// A node's tree was replaced by a snapshot; its digest is compared as any other.
    pub fn restored_tree(&self) {
        lock(&self.state).restored += 1;
    }

    /// A client was answered.
    pub fn answered(&self, checked: Result<(), String>) {
        let now = self.simulator.now_ns();
        self.check(|state| {
            state.acknowledged += 1;
            state.last_acknowledged_ns = now;
            checked
        });
    }

    /// A client was told that its operation is done.
    pub fn acknowledged(&self, operation: Operation) {
        let now = self.simulator.now_ns();
        self.check(|state| {
            state.acknowledged += 1;
            state.last_acknowledged_ns = now;
            state.log.acknowledged(operation)
        });
    }

    pub fn last_acknowledged_ns(&self) -> u64 {
        lock(&self.state).last_acknowledged_ns
    }

    /// The last index any node applied.
    pub fn last_index(&self) -> u64 {
        lock(&self.state).log.last_index()
    }

    /// At the end, after healing: `next` (origin → epoch and next seq) is what the node's state holds.
    pub fn holds_all_acknowledged(&self, node: NodeId, next: &BTreeMap<u64, (u64, u64)>, digest: u64) {
        self.check(|state| state.log.holds_all_acknowledged(node, next, digest));
    }
}
