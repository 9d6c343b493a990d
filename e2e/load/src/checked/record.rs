//! What one loader session did and saw: facts only, judged after the run.

use std::time::Instant;

/// One finished or forever unknown call, or one event.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Number of the loader session.
    pub client: usize,
    /// The server's session it ran in; it changes only when a session was lost.
    pub session_id: i64,
    /// Nanoseconds since the run began.
    pub call_ns: u64,
    pub return_ns: u64,
    /// Order in which replies and events came to this client; 0 when nothing came.
    pub arrival: u64,
    /// zxid of the reply's header; 0 when nothing came.
    pub zxid: i64,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Action {
    /// The node was created: version 0, its czxid the zxid of the write.
    Created {
        path: String,
        value: String,
        czxid: i64,
    },
    /// The value was written as `version`, at `mzxid`.
    Written {
        path: String,
        value: String,
        version: i32,
        mzxid: i64,
    },
    /// Nobody knows whether the value was written.
    Unknown {
        path: String,
        value: String,
    },
    Read {
        path: String,
        value: String,
        version: i32,
        mzxid: i64,
    },
    Sync,
    /// A watch left by a read that saw `seen_mzxid`, as the client's reply number `set_arrival`, fired.
    Event {
        path: String,
        set_arrival: u64,
        seen_mzxid: i64,
    },
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
    /// Nodes that must exist at the end with exactly this value: (path, value).
    pub created: Vec<(String, String)>,
    /// Names of acknowledged sequential nodes.
    pub sequential: Vec<String>,
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
    /// Connections lost and found again by the same session.
    pub reconnects: u64,
    pub sessions: u64,
    /// Sessions that ended although nobody closed them.
    pub sessions_lost: u64,
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
        self.reconnects += other.reconnects;
        self.sessions += other.sessions;
        self.sessions_lost += other.sessions_lost;
    }
}
