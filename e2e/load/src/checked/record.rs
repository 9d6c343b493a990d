//! What one loader session did and saw: facts only, judged after the run.

use std::time::Instant;

use keeper_client::{Reply, Stat};
use keeper_history::{Kind, Operation, Outcome, Seen};

/// An operation with its place in the order in which replies and events came to its client; 0 when none came.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub arrival: u64,
    pub operation: Operation,
}

/// An operation of `path` whose outcome is not known yet.
pub fn operation(kind: Kind, path: &str, invoked_at_ns: u64) -> Operation {
    Operation {
        session: 0,
        process: 0,
        kind,
        path: path.into(),
        value: None,
        expected_version: None,
        watch: false,
        is_final: false,
        invoked_at_ns,
        returned_at_ns: None,
        outcome: Outcome::Unknown,
    }
}

/// What a reply with a Stat showed.
pub fn seen(reply: &Reply<Stat>) -> Seen {
    let Stat { czxid, mzxid, version, .. } = reply.value;
    Seen {
        zxid: reply.zxid,
        czxid: Some(czxid),
        mzxid: Some(mzxid),
        version: Some(version),
        ..Seen::default()
    }
}

/// Events are stamped when the loader gets round to them, which may be after replies that came behind them. Their
/// place in the stream is known, so the time is set back to that of the first such reply. Of one client only.
pub fn date_events(recorded: &mut [Recorded]) {
    let mut replies: Vec<(u64, u64)> = recorded
        .iter()
        .filter(|one| one.arrival > 0 && one.operation.kind != Kind::Event)
        .filter_map(|one| Some((one.arrival, one.operation.returned_at_ns?)))
        .collect();
    replies.sort_unstable();
    // The earliest time of this reply and all behind it.
    let mut earliest = u64::MAX;
    for (_, time) in replies.iter_mut().rev() {
        earliest = earliest.min(*time);
        *time = earliest;
    }
    for one in recorded.iter_mut().filter(|one| one.operation.kind == Kind::Event) {
        let behind = replies.partition_point(|(arrival, _)| *arrival < one.arrival);
        if let Some((_, time)) = replies.get(behind) {
            let time = one.operation.invoked_at_ns.min(*time);
            one.operation.invoked_at_ns = time;
            one.operation.returned_at_ns = Some(time);
        }
    }
}

/// Clock of a run: all sessions stamp with it.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    pub fn now_ns(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// Everything of one session.
#[derive(Debug, Default)]
pub struct Record {
    pub operations: Vec<Operation>,
    /// Of the client in use now; dated and moved to `operations` when it ends.
    pub recorded: Vec<Recorded>,
    /// Nodes that must exist at the end with exactly this value: (path, value).
    pub created: Vec<(String, String)>,
    /// Acknowledged sequential nodes: (path, value).
    pub sequential: Vec<(String, String)>,
    /// Own register: path, value and version it must have at the end.
    pub register: (String, String, i32),
    /// Own ephemeral node and the session that must own it.
    pub ephemeral: (String, i64),
    /// Promises seen broken while the load ran.
    pub violations: Vec<String>,
    pub counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub writes: u64,
    pub reads: u64,
    pub syncs: u64,
    pub events: u64,
    /// Writes whose answer was lost.
    pub unknown: u64,
    /// … that the first attempt had applied.
    pub unknown_applied: u64,
    /// … that only the second attempt applied.
    pub unknown_repeated: u64,
    /// Writes refused because a member's disk was full; each attempt counts.
    pub refused: u64,
    /// Connections lost and found again by the same session.
    pub reconnects: u64,
    pub sessions: u64,
    /// Sessions that ended although nobody closed them.
    pub sessions_lost: u64,
}

impl Record {
    /// The client in use has ended: what it recorded is complete.
    pub fn end_client(&mut self) {
        date_events(&mut self.recorded);
        self.operations.extend(self.recorded.drain(..).map(|one| one.operation));
    }
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.writes += other.writes;
        self.reads += other.reads;
        self.syncs += other.syncs;
        self.events += other.events;
        self.unknown += other.unknown;
        self.unknown_applied += other.unknown_applied;
        self.unknown_repeated += other.unknown_repeated;
        self.refused += other.refused;
        self.reconnects += other.reconnects;
        self.sessions += other.sessions;
        self.sessions_lost += other.sessions_lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(kind: Kind, arrival: u64, time: u64) -> Recorded {
        let mut operation = operation(kind, "/a", time);
        operation.returned_at_ns = Some(time);
        Recorded { arrival, operation }
    }

    #[test]
    fn an_event_is_dated_before_the_replies_behind_it() {
        let mut all = vec![
            recorded(Kind::Get, 1, 10),
            recorded(Kind::Get, 3, 30),
            recorded(Kind::Get, 4, 40),
            recorded(Kind::Event, 2, 45),
            recorded(Kind::Event, 5, 50),
        ];
        date_events(&mut all);
        let times: Vec<u64> = all.iter().filter_map(|one| one.operation.returned_at_ns).collect();
        assert_eq!(times, [10, 30, 40, 30, 50]);
    }
}
