//! The clients' operations on the common nodes, as `keeper-history` judges them: a second opinion, with rules that
//! nobody adapted to this simulation.

use super::history::WriteId;
use super::operations::{KEYS, label};
use keeper_client::{ClientError, NodeData, Reply, Stat};
use keeper_history::{History, Kind, Operation, Options, Outcome, Seen, check_with};
use std::collections::BTreeMap;

/// Violations put into words.
const VIOLATIONS_SHOWN_MAX: usize = 3;

#[derive(Default)]
pub(super) struct Record {
    history: History,
    /// Where the write of an id stands in `history`.
    writes: BTreeMap<WriteId, usize>,
    processes: u32,
}

/// Who asked, what for and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) session: i64,
    pub(super) key: &'static str,
    pub(super) at_ns: u64,
}

impl Record {
    /// An operation by a process of its own: order within a session follows from the times alone, and for what was
    /// asked at once the callers look themselves.
    fn push(&mut self, asked: Asked, kind: Kind, returned_at_ns: Option<u64>, outcome: Outcome) -> usize {
        self.processes += 1;
        self.history.operations.push(Operation {
            session: asked.session,
            process: self.processes,
            kind,
            path: asked.key.to_string(),
            value: None,
            expected_version: None,
            watch: false,
            is_final: false,
            invoked_at_ns: asked.at_ns,
            returned_at_ns,
            outcome,
        });
        self.history.operations.len() - 1
    }

    pub(super) fn created(&mut self, asked: Asked, value: String, stat: &Stat, now_ns: u64) {
        let seen = Seen {
            zxid: stat.czxid,
            czxid: Some(stat.czxid),
            mzxid: Some(stat.mzxid),
            version: Some(stat.version),
            value: None,
            path: Some(asked.key.to_string()),
        };
        let place = self.push(asked, Kind::Create, Some(now_ns), Outcome::Ok(seen));
        self.history.operations[place].value = Some(value);
    }

    /// A write is about to be asked for; its outcome is unknown until it is answered.
    pub(super) fn asks(&mut self, id: WriteId, asked: Asked, version: i32) {
        if !KEYS.contains(&asked.key) {
            return;
        }
        let place = self.push(asked, Kind::Set, None, Outcome::Unknown);
        self.history.operations[place].value = Some(id.to_string());
        self.history.operations[place].expected_version = (version >= 0).then_some(version);
        self.writes.insert(id, place);
    }

    pub(super) fn answers(&mut self, id: WriteId, answer: &Result<Reply<Stat>, ClientError>, now_ns: u64) {
        let Some(place) = self.writes.get(&id) else { return };
        let operation = &mut self.history.operations[*place];
        operation.outcome = match answer {
            Ok(reply) => Outcome::Ok(Seen {
                zxid: reply.zxid,
                czxid: Some(reply.value.czxid),
                mzxid: Some(reply.value.mzxid),
                version: Some(reply.value.version),
                ..Seen::default()
            }),
            Err(ClientError::Server(code)) => Outcome::Err { code: code.as_i32(), zxid: 0 },
            Err(_) => Outcome::Unknown,
        };
        operation.returned_at_ns = Some(now_ns);
    }

    pub(super) fn reads(&mut self, asked: Asked, reply: &Reply<NodeData>, now_ns: u64) {
        if !KEYS.contains(&asked.key) {
            return;
        }
        let seen = seen(reply.zxid, reply.value.data.as_deref(), &reply.value.stat);
        self.push(asked, Kind::Get, Some(now_ns), Outcome::Ok(seen));
    }

    pub(super) fn syncs(&mut self, asked: Asked, zxid: i64, now_ns: u64) {
        if KEYS.contains(&asked.key) {
            let seen = Seen { zxid, ..Seen::default() };
            self.push(asked, Kind::Sync, Some(now_ns), Outcome::Ok(seen));
        }
    }

    /// A node's tree as it is in the end.
    pub(super) fn is_left(&mut self, asked: Asked, data: Option<&[u8]>, stat: &Stat) {
        let place = self.push(asked, Kind::Get, Some(asked.at_ns), Outcome::Ok(seen(0, data, stat)));
        self.history.operations[place].is_final = true;
    }

    pub(super) fn judge(&self) -> Result<(), String> {
        let report = check_with(&self.history, Options { read_at_its_zxid: true });
        if report.is_clean() {
            return Ok(());
        }
        let shown: Vec<String> =
            report.violations.iter().take(VIOLATIONS_SHOWN_MAX).map(|v| v.to_string()).collect();
        Err(format!("{} violations in the clients' history: {}", report.violations_found, shown.join("; ")))
    }
}

fn seen(zxid: i64, data: Option<&[u8]>, stat: &Stat) -> Seen {
    Seen {
        zxid,
        czxid: Some(stat.czxid),
        mzxid: Some(stat.mzxid),
        version: Some(stat.version),
        value: Some(label(data.unwrap_or_default())),
        path: None,
    }
}
