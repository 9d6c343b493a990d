//! Rules about what one session sees, in its own order.

use std::collections::BTreeMap;

use super::{Highest, NO_NODE};
use crate::facts::Facts;
use crate::history::{Kind, Operation, Outcome};
use crate::report::{Report, Rule};

/// What a reply showed of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Absent,
    At(i64),
}

fn shown(operation: &Operation) -> Option<Shown> {
    match (&operation.outcome, operation.kind) {
        (Outcome::Ok(seen), Kind::Get | Kind::Exists) => seen.mzxid.map(Shown::At),
        (Outcome::Ok(seen), Kind::Create | Kind::CreateSequential | Kind::Set) => Some(Shown::At(seen.zxid)),
        (Outcome::Ok(_), Kind::Delete) => Some(Shown::Absent),
        (Outcome::Err { code: NO_NODE, .. }, Kind::Get | Kind::Exists | Kind::Set | Kind::Delete) => {
            Some(Shown::Absent)
        }
        _ => None,
    }
}

/// Replies that one process got, or that had come before another process of the session asked, never show an
/// older zxid, nor an older state of a node.
pub(crate) fn order(facts: &Facts<'_>, report: &mut Report) {
    for (session, positions) in facts.sessions() {
        let session = format!("session {session:#x}");
        let numbered = |at: &usize| Some((*at, facts.operations[*at].zxid_of_reply()?));
        never_back(facts, positions.iter().filter_map(numbered).collect(), report, &session, "is as of zxid");
        let mut of_node: BTreeMap<&str, Vec<(usize, i64)>> = BTreeMap::new();
        for at in &positions {
            let operation = &facts.operations[*at];
            if let Some(Shown::At(mzxid)) = shown(operation) {
                of_node.entry(operation.node()).or_default().push((*at, mzxid));
            }
        }
        for (node, numbers) in of_node {
            never_back(facts, numbers, report, &format!("{session}, node {node}"), "shows mzxid");
        }
    }
}

fn never_back(facts: &Facts<'_>, numbers: Vec<(usize, i64)>, report: &mut Report, who: &str, what: &str) {
    let time = |at: usize| facts.operations[at].returned_at_ns.unwrap_or(u64::MAX);
    let highest = Highest::new(numbers.iter().map(|(at, number)| (time(*at), *number, *at)).collect());
    let mut by_return = numbers;
    by_return.sort_by_key(|(at, _)| (time(*at), *at));
    let mut last_of_process: BTreeMap<u32, (i64, usize)> = BTreeMap::new();
    for (at, number) in by_return {
        let operation = &facts.operations[at];
        let own = last_of_process.insert(operation.process, (number, at));
        let earlier = own.max(highest.before(operation.invoked_at_ns));
        if let Some((before, earlier)) = earlier.filter(|(before, _)| *before > number) {
            let message = format!("{who}: a reply {what} {number} after one that {what} {before}");
            report.add(Rule::SessionOrder, &[earlier, at], message);
        }
    }
}

/// A watch that is set and has not fired.
#[derive(Clone, Copy)]
struct Armed {
    at: usize,
    shown: Shown,
    since_ns: u64,
}

pub(crate) fn watch_before_reply(facts: &Facts<'_>, report: &mut Report) {
    let mut places: BTreeMap<(i64, &str), Vec<usize>> = BTreeMap::new();
    for (at, operation) in facts.operations.iter().enumerate() {
        if operation.returned_at_ns.is_some() && operation.outcome != Outcome::Unknown {
            places.entry((operation.session, operation.node())).or_default().push(at);
        }
    }
    for ((session, node), mut positions) in places {
        // An event and a reply of the same nanosecond: the event was first in the stream.
        positions.sort_by_key(|at| {
            let operation = &facts.operations[*at];
            (operation.returned_at_ns, operation.kind != Kind::Event, *at)
        });
        let mut armed: Option<Armed> = None;
        for at in positions {
            let operation = &facts.operations[at];
            if operation.kind == Kind::Event {
                armed = None;
                continue;
            }
            let Some(now) = shown(operation) else { continue };
            if let Some(watch) = armed
                && operation.invoked_at_ns >= watch.since_ns
                && is_newer(now, watch.shown)
            {
                let message = format!(
                    "session {session:#x}: a reply shows {node} changed ({:?}, then {now:?}), the watch has not fired",
                    watch.shown
                );
                report.add(Rule::WatchBeforeReply, &[watch.at, at], message);
                armed = None;
            }
            if operation.watch && armed.is_none() && sets_watch(operation) {
                armed =
                    Some(Armed { at, shown: now, since_ns: operation.returned_at_ns.unwrap_or(u64::MAX) });
            }
        }
    }
}

/// An exists leaves its watch also where there is no node, a get does not.
fn sets_watch(operation: &Operation) -> bool {
    operation.kind == Kind::Exists || operation.kind == Kind::Get && operation.seen().is_some()
}

fn is_newer(now: Shown, before: Shown) -> bool {
    match (before, now) {
        (Shown::At(before), Shown::At(now)) => now > before,
        (before, now) => before != now,
    }
}
