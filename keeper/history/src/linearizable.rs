//! The cross-check: a search (Wing and Gong, with Lowe's memory of visited states) for an order of the calls on
//! one node that explains every answer. It knows nothing of zxids, so it can find nothing by trusting them. For
//! small histories: the search is exponential at worst, and gives up at a bound.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{History, Kind, Operation, Outcome};
use crate::limits::{SEARCH_OPERATIONS_MAX, SEARCH_STATES_MAX};
use crate::rules::{BAD_VERSION, NO_NODE, NODE_EXISTS};

/// What was asked of the node, which works as a register with compare-and-set by version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    Create {
        value: String,
    },
    /// `None` sets whatever the version is.
    Set {
        value: String,
        expected: Option<i32>,
    },
    Delete {
        expected: Option<i32>,
    },
    Get,
}

/// What the client learned; what it did not learn is not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done or never done, now or later.
    Unknown,
    Done {
        version: Option<i32>,
        value: Option<String>,
    },
    Failed {
        code: i32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub invoked_at_ns: u64,
    /// Not looked at when the answer is `Unknown`.
    pub returned_at_ns: u64,
    pub ask: Ask,
    pub answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Linearizable,
    /// No order explains more than this many calls.
    NotLinearizable {
        explained: usize,
    },
    /// More calls or more states than the bounds allow.
    TooLarge,
}

/// The calls on one node that a linearizable register has to explain: all writes, and of the reads those held
/// against real time: behind a sync of their own process (from its beginning on), and those at the end. The
/// node must not have been there before the history.
pub fn calls_of(history: &History, node: &str) -> Vec<Call> {
    let mut operations: Vec<&Operation> = history.operations.iter().collect();
    operations.sort_by_key(|operation| operation.invoked_at_ns);
    let mut synced: BTreeMap<(i64, u32), u64> = BTreeMap::new();
    let mut calls = Vec::new();
    for operation in operations {
        let process = (operation.session, operation.process);
        match operation.kind {
            Kind::Sync if operation.seen().is_some() => {
                synced.insert(process, operation.invoked_at_ns);
            }
            Kind::Get | Kind::Exists if operation.path == node => {
                let from = if operation.is_final {
                    Some(operation.invoked_at_ns)
                } else {
                    synced.get(&process).copied()
                };
                calls.extend(from.and_then(|from| call(operation, Ask::Get, from)));
            }
            kind if kind.is_write() && operation.node() == node => {
                let value = operation.value.clone().unwrap_or_default();
                let expected = operation.expected_version;
                let ask = match kind {
                    Kind::Set => Ask::Set { value, expected },
                    Kind::Delete => Ask::Delete { expected },
                    _ => Ask::Create { value },
                };
                calls.extend(call(operation, ask, operation.invoked_at_ns));
            }
            _ => {}
        }
    }
    calls
}

/// `None` for what says nothing of the register: a read without an answer, a refusal for another reason.
fn call(operation: &Operation, ask: Ask, invoked_at_ns: u64) -> Option<Call> {
    let answer = match &operation.outcome {
        Outcome::Unknown if operation.kind.is_write() => Answer::Unknown,
        Outcome::Unknown => return None,
        Outcome::Ok(seen) => Answer::Done {
            version: if ask == Ask::Get || matches!(ask, Ask::Set { .. }) { seen.version } else { None },
            value: if operation.kind == Kind::Get { seen.value.clone() } else { None },
        },
        Outcome::Err { code, .. } if [NO_NODE, BAD_VERSION, NODE_EXISTS].contains(code) => {
            Answer::Failed { code: *code }
        }
        Outcome::Err { .. } => return None,
    };
    Some(Call { invoked_at_ns, returned_at_ns: operation.returned_at_ns.unwrap_or(u64::MAX), ask, answer })
}

/// The register: version and value, or no node. Values are numbered, to be compared quickly.
type State = Option<(i32, u32)>;

struct Search<'a> {
    calls: &'a [Call],
    values: BTreeMap<&'a str, u32>,
}

/// Whether some order of the calls, each at a moment between its two times, explains every answer.
pub fn linearizable(calls: &[Call]) -> Verdict {
    if calls.len() > SEARCH_OPERATIONS_MAX {
        return Verdict::TooLarge;
    }
    let mut search = Search { calls, values: BTreeMap::new() };
    for call in calls {
        let seen =
            if let Answer::Done { value: Some(value), .. } = &call.answer { Some(value) } else { None };
        let written =
            if let Ask::Create { value } | Ask::Set { value, .. } = &call.ask { Some(value) } else { None };
        for value in written.into_iter().chain(seen) {
            let next = search.values.len() as u32;
            search.values.entry(value).or_insert(next);
        }
    }
    search.run()
}

impl Search<'_> {
    fn run(&self) -> Verdict {
        let answered = |at: &usize| self.calls[*at].answer != Answer::Unknown;
        let goal = (0..self.calls.len()).filter(answered).fold(0u128, |set, at| set | 1 << at);
        let mut open: Vec<(u128, State)> = vec![(0, None)];
        let mut visited: BTreeSet<(u128, State)> = open.iter().copied().collect();
        let mut explained = 0;
        while let Some((done, state)) = open.pop() {
            if done & goal == goal {
                return Verdict::Linearizable;
            }
            explained = explained.max((done & goal).count_ones() as usize);
            let left = |at: &usize| done & (1 << at) == 0;
            let unanswered = (0..self.calls.len()).filter(left);
            let first_return =
                unanswered.clone().filter(answered).map(|at| self.calls[at].returned_at_ns).min();
            for at in unanswered.filter(|at| Some(self.calls[*at].invoked_at_ns) <= first_return) {
                if let Some(next) = self.step(state, &self.calls[at]) {
                    let node = (done | 1 << at, next);
                    if visited.insert(node) {
                        open.push(node);
                    }
                }
            }
            if visited.len() > SEARCH_STATES_MAX {
                return Verdict::TooLarge;
            }
        }
        Verdict::NotLinearizable { explained }
    }

    /// The state after the call, if the call's answer can be had in this state.
    fn step(&self, state: State, call: &Call) -> Option<State> {
        let (next, result) = self.execute(state, &call.ask);
        match (&call.answer, result) {
            (Answer::Unknown, Ok(())) => Some(next),
            (Answer::Failed { code }, Err(failed)) if *code == failed => Some(state),
            (Answer::Done { version, value }, Ok(())) => {
                let shown = if call.ask == Ask::Get { state } else { next };
                let value = value.as_deref().map(|value| self.values[value]);
                let fits = version.is_none_or(|version| shown.is_some_and(|shown| shown.0 == version))
                    && value.is_none_or(|value| shown.is_some_and(|shown| shown.1 == value));
                fits.then_some(next)
            }
            _ => None,
        }
    }

    fn execute(&self, state: State, ask: &Ask) -> (State, Result<(), i32>) {
        let number = |value: &String| self.values[value.as_str()];
        let fits = |expected: &Option<i32>, version: i32| expected.is_none_or(|expected| expected == version);
        match (ask, state) {
            (Ask::Create { .. }, Some(_)) => (state, Err(NODE_EXISTS)),
            (Ask::Create { value }, None) => (Some((0, number(value))), Ok(())),
            (_, None) => (state, Err(NO_NODE)),
            (Ask::Get, Some(_)) => (state, Ok(())),
            (Ask::Set { expected, .. } | Ask::Delete { expected }, Some((version, _)))
                if !fits(expected, version) =>
            {
                (state, Err(BAD_VERSION))
            }
            (Ask::Set { value, .. }, Some((version, _))) => (Some((version + 1, number(value))), Ok(())),
            (Ask::Delete { .. }, Some(_)) => (None, Ok(())),
        }
    }
}
