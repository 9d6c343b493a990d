//! The judgement: what was checked, and what a correct server could not have done.

use std::fmt;

use serde::Serialize;

use crate::limits::VIOLATIONS_MAX;

/// What has to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The recording itself is wrong: two operations wrote the same value, a reply came before its request.
    Recording,
    /// No two writes have one zxid.
    UniqueZxid,
    /// A node's version goes up by one with each of its writes.
    Versions,
    /// A write that returned before another began has the smaller zxid.
    RealTimeOrder,
    /// A write is refused for the node's state only if that was the node's state.
    RefusedRightly,
    /// A write is done only if the node's state allowed it.
    DoneRightly,
    /// A read returns exactly what was written at the mzxid it shows.
    ReadsWhatWasWritten,
    /// A read whose reply names a zxid shows the state at that zxid.
    ReadAtItsZxid,
    /// A read behind a sync shows every write that had returned before the sync began.
    FreshAfterSync,
    /// In one session neither the zxids of replies nor what is seen of a node goes back.
    SessionOrder,
    /// A watch's event comes before any reply that shows the change.
    WatchBeforeReply,
    /// At the end every acknowledged write is there, or a later one.
    NothingLost,
    /// No write was done more than once.
    AppliedOnce,
    /// Numbers given to sequential nodes are never given twice, and grow with the zxid.
    SequenceOrder,
}

impl Rule {
    /// In words, for people.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Recording => "recording",
            Rule::UniqueZxid => "unique zxid",
            Rule::Versions => "versions",
            Rule::RealTimeOrder => "real-time order",
            Rule::RefusedRightly => "refused rightly",
            Rule::DoneRightly => "done rightly",
            Rule::ReadsWhatWasWritten => "reads what was written",
            Rule::ReadAtItsZxid => "read at its zxid",
            Rule::FreshAfterSync => "fresh after sync",
            Rule::SessionOrder => "session order",
            Rule::WatchBeforeReply => "watch before reply",
            Rule::NothingLost => "nothing lost",
            Rule::AppliedOnce => "applied once",
            Rule::SequenceOrder => "sequence order",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub rule: Rule,
    pub message: String,
    /// Positions in `History::operations` of the operations that show it.
    pub operations: Vec<usize>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (operations {:?})", self.rule.name(), self.message, self.operations)
    }
}

/// How much there was to check: a clean report of an empty history says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub operations: u64,
    pub sessions: u64,
    pub writes_ok: u64,
    pub reads_ok: u64,
    /// Answered with an error.
    pub failed: u64,
    pub unknown: u64,
    /// Of `unknown`: writes that were seen to have been done.
    pub unknown_done: u64,
    pub syncs: u64,
    /// Reads behind a sync, so held against real time.
    pub reads_after_sync: u64,
    pub events: u64,
    /// Nodes with an acknowledged write.
    pub nodes_written: u64,
    /// Of `nodes_written`: read at the end.
    pub nodes_read_at_end: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// At most `VIOLATIONS_MAX` of each rule.
    pub violations: Vec<Violation>,
    /// All of them.
    pub violations_found: u64,
    pub counts: Counts,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.violations_found == 0
    }

    pub(crate) fn add(&mut self, rule: Rule, operations: &[usize], message: String) {
        self.violations_found += 1;
        let same = self.violations.iter().filter(|violation| violation.rule == rule).count();
        if same < VIOLATIONS_MAX {
            self.violations.push(Violation { rule, message, operations: operations.to_vec() });
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        writeln!(
            f,
            "{} operations of {} sessions: {} writes and {} reads answered, {} failed, {} of unknown outcome \
             ({} done), {} of {} written nodes read at the end: {} violations",
            counts.operations,
            counts.sessions,
            counts.writes_ok,
            counts.reads_ok,
            counts.failed,
            counts.unknown,
            counts.unknown_done,
            counts.nodes_read_at_end,
            counts.nodes_written,
            self.violations_found,
        )?;
        self.violations.iter().try_for_each(|violation| writeln!(f, "  {violation}"))
    }
}
