//! Runs every rule over a history.

use std::collections::BTreeSet;

use crate::facts::Facts;
use crate::history::{History, Kind, Outcome};
use crate::report::{Counts, Report};
use crate::rules;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Also hold a read to the zxid in its reply's header: it must show the last write up to there. Our server
    /// reads both under one lock; ZooKeeper does not, so this is off by default.
    pub read_at_its_zxid: bool,
}

/// Whether a correct server could have given this history, in O(n log n).
///
/// Every violation it reports is one. It may miss what follows only from weighing all the ways in which several
/// writes of unknown outcome may have gone; `linearizable` does that for small histories.
pub fn check(history: &History) -> Report {
    check_with(history, Options::default())
}

pub fn check_with(history: &History, options: Options) -> Report {
    let facts = Facts::of(history);
    let mut report = Report { counts: count(history, &facts), ..Report::default() };
    rules::recording::check(&facts, &mut report);
    rules::writes::unique_zxids(&facts, &mut report);
    rules::writes::versions(&facts, &mut report);
    rules::writes::real_time_order(&facts, &mut report);
    rules::writes::explained_by_the_state(&facts, &mut report);
    rules::writes::sequence_order(&facts, &mut report);
    rules::reads::what_was_written(&facts, &mut report);
    if options.read_at_its_zxid {
        rules::reads::at_its_zxid(&facts, &mut report);
    }
    rules::reads::fresh_after_sync(&facts, &mut report);
    rules::reads::nothing_lost(&facts, &mut report);
    rules::sessions::order(&facts, &mut report);
    rules::sessions::watch_before_reply(&facts, &mut report);
    report.violations.sort_by_key(|violation| violation.rule);
    report
}

fn count(history: &History, facts: &Facts<'_>) -> Counts {
    let operations = &history.operations;
    let mut counts = Counts { operations: operations.len() as u64, ..Counts::default() };
    counts.sessions =
        operations.iter().map(|operation| operation.session).collect::<BTreeSet<_>>().len() as u64;
    for operation in operations {
        match (&operation.outcome, operation.kind) {
            (Outcome::Ok(_), Kind::Sync) => counts.syncs += 1,
            (Outcome::Ok(_), Kind::Event) => counts.events += 1,
            (Outcome::Ok(_), kind) if kind.is_write() => counts.writes_ok += 1,
            (Outcome::Ok(_), _) => counts.reads_ok += 1,
            (Outcome::Err { .. }, _) => counts.failed += 1,
            (Outcome::Unknown, _) => counts.unknown += 1,
        }
    }
    let known = facts.writes.iter().filter(|write| write.returned_at_ns.is_some());
    let written: BTreeSet<&str> = known.clone().map(|write| write.node).collect();
    counts.unknown_done = (facts.writes.len() - known.count()) as u64;
    let read_at_end =
        operations.iter().filter(|operation| operation.is_final && operation.outcome != Outcome::Unknown);
    let read_at_end: BTreeSet<&str> = read_at_end.map(|operation| operation.path.as_str()).collect();
    counts.nodes_written = written.len() as u64;
    counts.nodes_read_at_end = written.intersection(&read_at_end).count() as u64;
    counts
}
