//! Rules about what reads show of the writes.

use std::collections::BTreeMap;

use super::{Highest, NO_NODE};
use crate::facts::{Facts, Write};
use crate::history::{Kind, Operation, Outcome};
use crate::report::{Report, Rule};

/// Each value read was written to that node, by a write that did not fail and had begun, once.
pub(crate) fn what_was_written(facts: &Facts<'_>, report: &mut Report) {
    let by_zxid: BTreeMap<i64, &Write<'_>> =
        facts.writes.iter().rev().map(|write| (write.zxid, write)).collect();
    let mut seen_at: BTreeMap<&str, (&str, i64, usize)> = BTreeMap::new();
    for (at, operation) in facts.operations.iter().enumerate().filter(|(_, op)| op.kind == Kind::Get) {
        let Some(seen) = operation.seen() else { continue };
        let Some(mzxid) = seen.mzxid else { continue };
        if let Some(write) = by_zxid.get(&mzxid)
            && let Some(message) = contradicts(facts, write, operation, seen.value.as_deref())
        {
            report.add(Rule::ReadsWhatWasWritten, &[write.at, at], message);
            continue;
        }
        let Some(value) = seen.value.as_deref() else { continue };
        let first = *seen_at.entry(value).or_insert((&operation.path, mzxid, at));
        if (first.0, first.1) != (operation.path.as_str(), mzxid) {
            let message = format!(
                "{value:?} was read of {} at mzxid {} and of {} at mzxid {mzxid}",
                first.0, first.1, operation.path
            );
            report.add(Rule::AppliedOnce, &[first.2, at], message);
            continue;
        }
        judge_value(facts, at, value, mzxid, report);
    }
}

/// The write that has the read's mzxid is known, and did not write that.
fn contradicts(
    facts: &Facts<'_>,
    write: &Write<'_>,
    read: &Operation,
    value: Option<&str>,
) -> Option<String> {
    let written = facts.operations[write.at].value.as_deref();
    let (node, zxid) = (write.node, write.zxid);
    if write.kind == Kind::Delete || node != read.path {
        return Some(format!("{} shows mzxid {zxid}, which is the {:?} of {node}", read.path, write.kind));
    }
    let other = written.is_some() && written != value;
    other.then(|| format!("{node} shows {value:?} at mzxid {zxid}, where {written:?} was written"))
}

fn judge_value(facts: &Facts<'_>, at: usize, value: &str, mzxid: i64, report: &mut Report) {
    let read = &facts.operations[at];
    let path = &read.path;
    let Some(writer_at) = facts.writer_of.get(value).copied() else {
        report.add(Rule::ReadsWhatWasWritten, &[at], format!("{path} shows {value:?}, which nobody wrote"));
        return;
    };
    let writer = &facts.operations[writer_at];
    let mut wrong = |rule, message| report.add(rule, &[writer_at, at], message);
    let unknown = writer.outcome == Outcome::Unknown;
    let of_prefix =
        unknown && writer.kind == Kind::CreateSequential && path.starts_with(writer.path.as_str());
    if writer.node() != path && !of_prefix {
        let message = format!("{path} shows {value:?}, which was written to {}", writer.node());
        return wrong(Rule::ReadsWhatWasWritten, message);
    }
    if read.returned_at_ns.is_some_and(|returned| returned < writer.invoked_at_ns) {
        let message = format!("{path} shows {value:?} before anybody began to write it");
        return wrong(Rule::ReadsWhatWasWritten, message);
    }
    match &writer.outcome {
        Outcome::Err { code, .. } => {
            let message = format!("{path} shows {value:?}, whose write failed with {code}");
            wrong(Rule::ReadsWhatWasWritten, message);
        }
        Outcome::Ok(seen) if seen.zxid != mzxid => {
            let message =
                format!("{path} shows {value:?} at mzxid {mzxid}, which was written with zxid {}", seen.zxid);
            wrong(Rule::AppliedOnce, message);
        }
        _ => {}
    }
}

/// A read at zxid h that shows mzxid m: no write of the node lies in between. One that shows no node: the last
/// write up to h is a deletion, or one that nobody knows of may be.
pub(crate) fn at_its_zxid(facts: &Facts<'_>, report: &mut Report) {
    let by_node = facts.writes_by_node();
    for (at, operation) in facts.operations.iter().enumerate().filter(|(_, op)| op.kind.is_read()) {
        let path = operation.path.as_str();
        let (Some(zxid), Some(writes)) = (operation.zxid_of_reply(), by_node.get(path)) else { continue };
        let Some(last) = writes.partition_point(|write| write.zxid <= zxid).checked_sub(1) else { continue };
        let write = &writes[last];
        let (wrong, shows) = match &operation.outcome {
            Outcome::Ok(seen) => {
                let mzxid = seen.mzxid.unwrap_or(i64::MAX);
                (mzxid < write.zxid, format!("mzxid {mzxid}"))
            }
            Outcome::Err { code: NO_NODE, .. } => {
                let excused = write.kind == Kind::Delete || facts.unknown_delete_before(operation);
                (!excused, "no node".into())
            }
            _ => continue,
        };
        if wrong {
            let message =
                format!("{path} shows {shows} as of zxid {zxid}, but was written with zxid {}", write.zxid);
            report.add(Rule::ReadAtItsZxid, &[write.at, at], message);
        }
    }
}

/// What had returned before a moment: the zxid of any reply (also a refusal is committed), and each node's writes.
struct Returned<'a> {
    of_all: Highest,
    of_node: BTreeMap<&'a str, Highest>,
}

impl<'a> Returned<'a> {
    fn of(facts: &Facts<'a>) -> Returned<'a> {
        let replies = facts.operations.iter().enumerate();
        let replies =
            replies.filter_map(|(at, op)| Some((op.returned_at_ns?, op.zxid_of_reply()?, at))).collect();
        let mut by_node: BTreeMap<&str, Vec<(u64, i64, usize)>> = BTreeMap::new();
        for write in &facts.writes {
            let Some(returned) = write.returned_at_ns else { continue };
            by_node.entry(write.node).or_default().push((returned, write.zxid, write.at));
        }
        let of_node = by_node.into_iter().map(|(node, items)| (node, Highest::new(items))).collect();
        Returned { of_all: Highest::new(replies), of_node }
    }

    /// The last write of the node that had returned before `moment` and that the read does not show.
    fn missing(&self, facts: &Facts<'_>, read: &Operation, moment: u64) -> Option<(i64, usize)> {
        let (zxid, at) = self.of_node.get(read.path.as_str())?.before(moment)?;
        let missing = match &read.outcome {
            Outcome::Ok(seen) => seen.mzxid.is_some_and(|mzxid| mzxid < zxid),
            Outcome::Err { code: NO_NODE, .. } => {
                facts.operations[at].kind != Kind::Delete && !may_be_deleted(facts, read, zxid)
            }
            _ => false,
        };
        missing.then_some((zxid, at))
    }
}

/// Somebody may have deleted the node after `zxid`, in time for the read to show it.
fn may_be_deleted(facts: &Facts<'_>, read: &Operation, zxid: i64) -> bool {
    let after = facts.writes.partition_point(|write| write.zxid <= zxid);
    let shown = read.zxid_of_reply().unwrap_or(i64::MAX);
    let in_time = |write: &&Write<'_>| {
        write.zxid <= shown && read.returned_at_ns.is_none_or(|returned| write.invoked_at_ns < returned)
    };
    let mut deletes =
        facts.writes[after..].iter().filter(|write| write.kind == Kind::Delete && write.node == read.path);
    deletes.any(|write| in_time(&write)) || facts.unknown_delete_before(read)
}

pub(crate) fn fresh_after_sync(facts: &Facts<'_>, report: &mut Report) {
    let returned = Returned::of(facts);
    for positions in facts.sessions().values() {
        // The latest sync's beginning: of each process, and of those that had returned.
        let mut own: BTreeMap<u32, u64> = BTreeMap::new();
        let syncs = positions.iter().map(|at| &facts.operations[*at]).filter(|op| op.kind == Kind::Sync);
        let done = syncs.filter(|op| op.seen().is_some());
        let done = done.filter_map(|op| Some((op.returned_at_ns?, op.invoked_at_ns as i64, 0)));
        let done = Highest::new(done.collect());
        for at in positions {
            let operation = &facts.operations[*at];
            if operation.kind == Kind::Sync && operation.seen().is_some() {
                own.insert(operation.process, operation.invoked_at_ns);
            }
            if !operation.kind.is_read() {
                continue;
            }
            let others = done.before(operation.invoked_at_ns).map(|(invoked, _)| invoked as u64);
            let Some(moment) = others.max(own.get(&operation.process).copied()) else { continue };
            report.counts.reads_after_sync += 1;
            if let Some((zxid, write)) = returned.missing(facts, operation, moment) {
                let message = format!(
                    "{} does not show the write with zxid {zxid}, which had returned before the sync began",
                    operation.path
                );
                report.add(Rule::FreshAfterSync, &[write, *at], message);
            }
            let zxid_of_reply = operation.zxid_of_reply().unwrap_or(0);
            if let Some((zxid, write)) = returned.of_all.before(moment)
                && (1..zxid).contains(&zxid_of_reply)
            {
                let message = format!(
                    "a read of {} is as of zxid {zxid_of_reply}, but zxid {zxid} had returned before the sync began",
                    operation.path
                );
                report.add(Rule::FreshAfterSync, &[write, *at], message);
            }
        }
    }
}

pub(crate) fn nothing_lost(facts: &Facts<'_>, report: &mut Report) {
    let returned = Returned::of(facts);
    for (at, operation) in facts.operations.iter().enumerate() {
        if !operation.is_final || !operation.kind.is_read() {
            continue;
        }
        if let Some((zxid, write)) = returned.missing(facts, operation, operation.invoked_at_ns) {
            let now = match &operation.outcome {
                Outcome::Ok(seen) => format!("shows mzxid {}", seen.mzxid.unwrap_or_default()),
                _ => "is gone".into(),
            };
            let message =
                format!("the acknowledged write of {} with zxid {zxid} is lost: it {now}", operation.path);
            report.add(Rule::NothingLost, &[write, at], message);
        }
    }
}
