//! A tiny ensemble: a log of writes, sessions whose view of it may lag but never goes back, clients that lose
//! answers. Correct, unless it is told to misbehave. Driven by bytes, so that a failing run shrinks.

use std::collections::BTreeMap;

use crate::{History, Kind, Operation, Outcome, Seen};

/// What the ensemble does wrong, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// A sync does not wait for anything.
    IdleSync,
    /// An acknowledged set vanishes.
    LostSet,
    /// A set whose answer got lost is done twice.
    TwiceSet,
    /// A set does not look at the version it was given.
    BlindSet,
}

#[derive(Clone, Debug)]
struct Node {
    value: String,
    czxid: i64,
    mzxid: i64,
    version: i32,
}

struct Pending {
    operation: Operation,
    /// Once done.
    outcome: Option<Outcome>,
}

pub struct Ensemble {
    fault: Fault,
    time_ns: u64,
    /// The nodes after each zxid; the number of them is the last zxid plus one.
    states: Vec<BTreeMap<String, Node>>,
    /// The zxid each process's server has come to.
    views: Vec<usize>,
    pending: Vec<Option<Pending>>,
    /// Writes whose client has given up, that may still be done.
    orphans: Vec<Operation>,
    values: usize,
    history: History,
}

/// The zxid with which the sessions were made: no client ever sees a server at zxid 0, which a record reads as "none".
const SESSIONS_MADE: usize = 1;

const NODES: [&str; 2] = ["/a", "/b"];

/// The history of `processes` clients driven by `choices`, with a look at everything at the end.
pub fn run(processes: usize, choices: &[u8], fault: Fault) -> History {
    let mut ensemble = Ensemble {
        fault,
        time_ns: 0,
        states: vec![BTreeMap::new(); 1 + SESSIONS_MADE],
        views: vec![SESSIONS_MADE; processes],
        pending: (0..processes).map(|_| None).collect(),
        orphans: vec![],
        values: 0,
        history: History::default(),
    };
    for pair in choices.chunks_exact(2) {
        ensemble.step(pair[0] as usize % processes, pair[1]);
    }
    for process in 0..processes {
        while ensemble.pending[process].is_some() {
            ensemble.step(process, 0);
        }
    }
    for node in NODES {
        ensemble.views[0] = ensemble.states.len() - 1;
        let mut operation = ensemble.operation(0, Kind::Get, node);
        operation.is_final = true;
        let outcome = ensemble.read(0, &operation);
        ensemble.finish(operation, outcome);
    }
    ensemble.history
}

impl Ensemble {
    fn now(&mut self) -> u64 {
        self.time_ns += 10;
        self.time_ns
    }

    /// One move of one client: ask, be served, get the answer.
    fn step(&mut self, process: usize, choice: u8) {
        if choice.is_multiple_of(7) && !self.orphans.is_empty() {
            let orphan = self.orphans.remove(0);
            self.write(process, &orphan);
        }
        match self.pending[process].take() {
            None => {
                let operation = self.asked(process, choice);
                self.pending[process] = Some(Pending { operation, outcome: None });
            }
            Some(pending) => match pending.outcome {
                Some(outcome) => self.finish(pending.operation, outcome),
                None if choice > 235 && pending.operation.kind.is_write() => {
                    self.lose(process, pending.operation, choice)
                }
                None => {
                    let outcome = self.serve(process, &pending.operation, choice);
                    self.pending[process] = Some(Pending { outcome: Some(outcome), ..pending });
                }
            },
        }
    }

    fn operation(&mut self, process: usize, kind: Kind, path: &str) -> Operation {
        Operation {
            session: 100 + process as i64,
            process: process as u32,
            kind,
            path: path.into(),
            value: None,
            expected_version: None,
            watch: false,
            is_final: false,
            invoked_at_ns: self.now(),
            returned_at_ns: None,
            outcome: Outcome::Unknown,
        }
    }

    fn asked(&mut self, process: usize, choice: u8) -> Operation {
        let kinds =
            [Kind::Create, Kind::Set, Kind::Set, Kind::Get, Kind::Sync, Kind::Get, Kind::Set, Kind::Delete];
        let kind = kinds[choice as usize % 8];
        // A read behind a sync follows it, so that there are some.
        let after_sync =
            self.history.operations.iter().rev().find(|operation| operation.process == process as u32);
        let kind = if after_sync.is_some_and(|last| last.kind == Kind::Sync) { Kind::Get } else { kind };
        let mut operation = self.operation(process, kind, NODES[choice as usize / 16 % 5 / 4]);
        if matches!(kind, Kind::Create | Kind::Set) {
            self.values += 1;
            operation.value = Some(format!("value-{}", self.values));
        }
        if matches!(kind, Kind::Set | Kind::Delete) && choice > 176 {
            operation.expected_version = Some(i32::from(choice) % 3);
        }
        operation
    }

    /// The answer gets lost: before or after the write was done, or it is done later.
    fn lose(&mut self, process: usize, operation: Operation, choice: u8) {
        match choice % 3 {
            0 => {}
            1 => {
                self.write(process, &operation);
                if self.fault == Fault::TwiceSet && operation.kind == Kind::Set {
                    self.orphans.push(operation.clone());
                }
            }
            _ => self.orphans.push(operation.clone()),
        }
        self.time_ns += 10;
        self.history.operations.push(operation);
    }

    fn finish(&mut self, mut operation: Operation, outcome: Outcome) {
        operation.returned_at_ns = Some(self.now());
        operation.outcome = outcome;
        self.history.operations.push(operation);
    }

    fn serve(&mut self, process: usize, operation: &Operation, choice: u8) -> Outcome {
        let last = self.states.len() - 1;
        match operation.kind {
            Kind::Sync => {
                if self.fault != Fault::IdleSync {
                    self.views[process] = last;
                }
                Outcome::Ok(Seen { zxid: self.views[process] as i64, ..Seen::default() })
            }
            Kind::Get => {
                let behind = last - self.views[process];
                self.views[process] += behind * (choice as usize % 3) / 2;
                self.read(process, operation)
            }
            _ => self.write(process, operation),
        }
    }

    fn read(&self, process: usize, operation: &Operation) -> Outcome {
        let zxid = self.views[process];
        match self.states[zxid].get(&operation.path) {
            None => Outcome::Err { code: -101, zxid: zxid as i64 },
            Some(node) => Outcome::Ok(Seen {
                zxid: zxid as i64,
                czxid: Some(node.czxid),
                mzxid: Some(node.mzxid),
                version: Some(node.version),
                value: Some(node.value.clone()),
                path: None,
            }),
        }
    }

    fn write(&mut self, process: usize, operation: &Operation) -> Outcome {
        let zxid = self.states.len() as i64;
        let mut state = self.states[self.states.len() - 1].clone();
        let result = self.change(&mut state, operation, zxid);
        self.states.push(state);
        self.views[process] = zxid as usize;
        match result {
            Ok(seen) => Outcome::Ok(seen),
            Err(code) => Outcome::Err { code, zxid },
        }
    }

    fn change(
        &self,
        state: &mut BTreeMap<String, Node>,
        operation: &Operation,
        zxid: i64,
    ) -> Result<Seen, i32> {
        let value = operation.value.clone().unwrap_or_default();
        let seen = Seen { zxid, ..Seen::default() };
        if operation.kind == Kind::Create {
            if state.contains_key(&operation.path) {
                return Err(-110);
            }
            state.insert(operation.path.clone(), Node { value, czxid: zxid, mzxid: zxid, version: 0 });
            return Ok(seen);
        }
        let node = state.get_mut(&operation.path).ok_or(-101)?;
        let blind = self.fault == Fault::BlindSet && operation.kind == Kind::Set;
        if !blind && operation.expected_version.is_some_and(|expected| expected != node.version) {
            return Err(-103);
        }
        if operation.kind == Kind::Delete {
            state.remove(&operation.path);
            return Ok(seen);
        }
        let version = node.version + 1;
        let seen = Seen { czxid: Some(node.czxid), mzxid: Some(zxid), version: Some(version), ..seen };
        if !(self.fault == Fault::LostSet && zxid % 5 == 0) {
            *node = Node { value, mzxid: zxid, version, ..node.clone() };
        }
        Ok(seen)
    }
}
