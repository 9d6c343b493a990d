//! Rules about the order of writes.

use std::collections::BTreeMap;

use super::{BAD_VERSION, Highest, NO_NODE, NODE_EXISTS};
use crate::facts::{Facts, Sight};
use crate::history::{Kind, Outcome};
use crate::report::{Report, Rule};

pub(crate) fn unique_zxids(facts: &Facts<'_>, report: &mut Report) {
    for pair in facts.writes.windows(2) {
        let [first, second] = pair else { continue };
        if first.zxid == second.zxid {
            let message =
                format!("the writes of {} and {} both have zxid {}", first.node, second.node, first.zxid);
            report.add(Rule::UniqueZxid, &[first.at, second.at], message);
        }
    }
}

/// Versions of one life of one node: 0 at its creation, then one more with each mzxid. Steps that nobody saw
/// are allowed for as many sets as have an unknown outcome.
pub(crate) fn versions(facts: &Facts<'_>, report: &mut Report) {
    compare_expected(facts, report);
    let mut lives: BTreeMap<(&str, i64), Vec<Sight<'_>>> = BTreeMap::new();
    for sight in facts.sights.iter().filter(|sight| sight.version.is_some()) {
        if let Some(czxid) = sight.czxid {
            lives.entry((sight.node, czxid)).or_default().push(*sight);
        }
    }
    let mut missing: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for ((node, czxid), mut sights) in lives {
        sights.sort_by_key(|sight| (sight.mzxid, sight.at));
        let mut last = (czxid, 0, sights[0].at);
        for sight in sights {
            let version = sight.version.unwrap_or_default();
            let (mzxid_before, version_before, at_before) = last;
            let step = i64::from(version) - i64::from(version_before);
            let same = sight.mzxid == mzxid_before;
            if same && step != 0 || !same && step < 1 || sight.mzxid < czxid {
                let message = format!(
                    "{node} has version {version_before} at mzxid {mzxid_before}, but {version} at mzxid {}",
                    sight.mzxid
                );
                report.add(Rule::Versions, &[at_before, sight.at], message);
            } else if step > 1 {
                let entry = missing.entry(node).or_insert((0, sight.at));
                entry.0 += step as u64 - 1;
            }
            last = (sight.mzxid, version, sight.at);
        }
    }
    for (node, (steps, at)) in missing {
        let possible = facts.unseen_sets.get(node).copied().unwrap_or(0);
        if steps > possible {
            let message = format!(
                "{node} went {steps} versions further than its known writes, {possible} are possible"
            );
            report.add(Rule::Versions, &[at], message);
        }
    }
}

/// A set that asked for a version made the one after it, whether its client or only a reader saw that.
fn compare_expected(facts: &Facts<'_>, report: &mut Report) {
    for (at, operation) in facts.operations.iter().enumerate() {
        let Some(seen) = operation.seen() else { continue };
        let setter_at = match (operation.kind, seen.value.as_deref()) {
            (Kind::Set, _) => Some(at),
            (Kind::Get, Some(value)) => facts.writer_of.get(value).copied(),
            _ => None,
        };
        let Some(setter) = setter_at.map(|at| &facts.operations[at]).filter(|op| op.kind == Kind::Set) else {
            continue;
        };
        if let (Some(expected), Some(version)) = (setter.expected_version, seen.version)
            && version != expected.wrapping_add(1)
        {
            let message = format!("a set of {} at version {expected} made version {version}", setter.path);
            report.add(Rule::Versions, &[setter_at.unwrap_or(at), at], message);
        }
        if let (Kind::Set, Some(mzxid)) = (operation.kind, seen.mzxid)
            && mzxid != seen.zxid
        {
            let message = format!("a set of {} with zxid {} made mzxid {mzxid}", operation.path, seen.zxid);
            report.add(Rule::Versions, &[at], message);
        }
    }
}

/// A write was refused or done for the node's state: the last write before its zxid left a state that explains it.
/// Says nothing of nodes with a write that may or may not have been done, nor of what was before the history.
pub(crate) fn explained_by_the_state(facts: &Facts<'_>, report: &mut Report) {
    let by_node = facts.writes_by_node();
    let versions: BTreeMap<(&str, i64), i32> =
        facts.sights.iter().filter_map(|sight| Some(((sight.node, sight.mzxid), sight.version?))).collect();
    for (at, operation) in facts.operations.iter().enumerate().filter(|(_, op)| op.kind.is_write()) {
        let (Some(zxid), node) = (operation.zxid_of_reply(), operation.node()) else { continue };
        if facts.unsettled.contains(node) {
            continue;
        }
        let Some(writes) = by_node.get(node) else { continue };
        let Some(last) = writes.partition_point(|write| write.zxid < zxid).checked_sub(1) else { continue };
        let last = writes[last];
        let exists = last.kind != Kind::Delete;
        let version = versions.get(&(node, last.zxid)).copied().filter(|_| exists);
        let expected = operation.expected_version;
        let (rule, verdict, wrong) = match operation.outcome {
            Outcome::Err { code, .. } => {
                let wrong = match code {
                    NODE_EXISTS => !exists,
                    NO_NODE => exists,
                    BAD_VERSION => !exists || version.is_some() && version == expected,
                    _ => false,
                };
                (Rule::RefusedRightly, format!("failed with {code}"), wrong)
            }
            _ => {
                let wrong = match operation.kind {
                    Kind::Create | Kind::CreateSequential => exists,
                    // Its Stat says which version it found: `versions` has that.
                    Kind::Set => !exists,
                    _ => !exists || version.is_some() && expected.is_some() && version != expected,
                };
                (Rule::DoneRightly, "was done".into(), wrong)
            }
        };
        if wrong {
            let message = format!(
                "the {:?} of {node} with zxid {zxid} {verdict}, but the last write was the {:?} with zxid {}",
                operation.kind, last.kind, last.zxid
            );
            report.add(rule, &[last.at, at], message);
        }
    }
}

pub(crate) fn real_time_order(facts: &Facts<'_>, report: &mut Report) {
    let returned =
        facts.writes.iter().filter_map(|write| Some((write.returned_at_ns?, write.zxid, write.at)));
    let highest = Highest::new(returned.collect());
    for write in &facts.writes {
        if let Some((zxid, earlier)) = highest.before(write.invoked_at_ns)
            && zxid > write.zxid
        {
            let message = format!(
                "a write with zxid {zxid} had returned before the write of {} began, which has zxid {}",
                write.node, write.zxid
            );
            report.add(Rule::RealTimeOrder, &[earlier, write.at], message);
        }
    }
}

/// Numbers of sequential nodes: unique by name, and growing with the zxid under one parent.
pub(crate) fn sequence_order(facts: &Facts<'_>, report: &mut Report) {
    let mut last_of_parent: BTreeMap<&str, (i64, usize)> = BTreeMap::new();
    for write in facts.writes.iter().filter(|write| write.kind == Kind::CreateSequential) {
        let operation = &facts.operations[write.at];
        let number =
            write.node.strip_prefix(operation.path.as_str()).and_then(|number| number.parse::<i64>().ok());
        let Some(number) = number else {
            if operation.outcome != Outcome::Unknown {
                let message = format!("{:?} is no sequential name for {:?}", write.node, operation.path);
                report.add(Rule::SequenceOrder, &[write.at], message);
            }
            continue;
        };
        let parent = operation.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        if let Some((before, at)) = last_of_parent.insert(parent, (number, write.at))
            && before >= number
        {
            let what = if before == number { "was given twice" } else { "came after a higher one" };
            let message = format!("under {parent:?} the number {number} (zxid {}) {what}", write.zxid);
            report.add(Rule::SequenceOrder, &[at, write.at], message);
        }
    }
}
