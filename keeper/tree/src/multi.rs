//! multi: all of its operations under one zxid, or none. The operations are made one after another on the
//! real tree, with a journal of how to take each back.

use keeper_types::{CreateMode, ErrorCode, MultiOp, MultiResult, OpCode, Response};

use crate::apply::{Change, Writer, answers_stat};
use crate::command::{Outcome, Sink};
use crate::lifetime::Lifetime;
use crate::node::NodeId;
use crate::store::{OldData, ParentBefore, Removed};
use crate::tree::Tree;

enum Undo {
    Create { id: NodeId, before: ParentBefore },
    Remove { id: NodeId, removed: Removed, lifetime: Lifetime, before: ParentBefore },
    SetData { id: NodeId, old: OldData, version: i32, mzxid: i64, mtime: i64 },
}

/// How to take back what was done, or nothing for a single operation, which cannot fail after it has begun.
pub(crate) struct Journal {
    on: bool,
    entries: Vec<Undo>,
}

impl Journal {
    pub fn off() -> Journal {
        Journal { on: false, entries: Vec::new() }
    }

    fn on() -> Journal {
        Journal { on: true, entries: Vec::new() }
    }

    pub fn created(&mut self, id: NodeId, before: ParentBefore) {
        if self.on {
            self.entries.push(Undo::Create { id, before });
        }
    }

    /// Gives the node back when no journal is kept: its removal is final.
    pub fn removed(
        &mut self,
        id: NodeId,
        removed: Removed,
        lifetime: Lifetime,
        before: ParentBefore,
    ) -> Option<Removed> {
        if !self.on {
            return Some(removed);
        }
        self.entries.push(Undo::Remove { id, removed, lifetime, before });
        None
    }

    /// Gives the old data back when no journal is kept: it is not needed again.
    pub fn data_set(
        &mut self,
        id: NodeId,
        old: OldData,
        version: i32,
        mzxid: i64,
        mtime: i64,
    ) -> Option<OldData> {
        if !self.on {
            return Some(old);
        }
        self.entries.push(Undo::SetData { id, old, version, mzxid, mtime });
        None
    }
}

impl Tree {
    pub(crate) fn multi(
        &mut self,
        writer: Writer<'_>,
        ops: &[MultiOp<'_>],
        want_reply: bool,
        sink: &mut dyn Sink,
    ) -> Result<Outcome, ErrorCode> {
        if ops.iter().any(has_unreadable_mode) {
            return Err(ErrorCode::MarshallingError);
        }
        let sums = self.store.sums();
        let mut journal = Journal::on();
        let mut changes = Vec::with_capacity(ops.len());
        let mut results = Vec::with_capacity(if want_reply { ops.len() } else { 0 });
        for (at, op) in ops.iter().enumerate() {
            match self.multi_op(writer, op, want_reply, &mut journal, &mut changes) {
                Ok(result) => results.extend(result),
                Err(code) => {
                    self.roll_back(journal);
                    self.store.restore_sums(sums);
                    self.find_quotas_again(ops);
                    return Ok(if want_reply { failed(ops.len(), at, code) } else { Outcome::None });
                }
            }
        }
        for undo in journal.entries {
            match undo {
                Undo::Create { .. } => {}
                Undo::Remove { removed, .. } => self.store.forget(removed),
                Undo::SetData { old, .. } => self.store.forget_data(old),
            }
        }
        for change in &changes {
            change.tell(sink, self.zxid);
        }
        Ok(if want_reply { Outcome::Response(Response::Multi(results)) } else { Outcome::None })
    }

    fn multi_op<'a>(
        &mut self,
        writer: Writer<'_>,
        op: &MultiOp<'a>,
        want_reply: bool,
        journal: &mut Journal,
        changes: &mut Vec<Change<'a>>,
    ) -> Result<Option<MultiResult>, ErrorCode> {
        let done = want_reply.then_some(MultiResult::Done(op.op()));
        Ok(match op {
            MultiOp::Create(op, request) => {
                let (id, path) = self.create(writer, *op, request, journal)?;
                let result = want_reply.then(|| self.multi_created(*op, id, path.to_string()));
                changes.extend(id.map(|id| Change::Created { path, readers: self.family_readers(id) }));
                result
            }
            MultiOp::Delete(request) => {
                let readers = self.delete(writer, request, journal)?;
                changes.push(Change::Deleted { path: request.path.into(), readers });
                done
            }
            MultiOp::TryRemove(request) => {
                let removed = self.try_remove(writer, request, journal)?;
                changes.extend(removed.map(|readers| Change::Deleted { path: request.path.into(), readers }));
                done
            }
            MultiOp::RemoveRecursive(request) => {
                let removed = self.remove_recursive(writer, request, journal)?;
                let change = |(path, readers): (String, _)| Change::Deleted { path: path.into(), readers };
                changes.extend(removed.into_iter().map(change));
                done
            }
            MultiOp::SetData(request) => {
                let (stat, readers) = self.set_data(writer, request, journal)?;
                changes.push(Change::DataSet { path: request.path, readers });
                want_reply.then_some(MultiResult::SetData { stat })
            }
            MultiOp::Check(request) => {
                self.check(writer, request)?;
                done
            }
            MultiOp::CheckNotExists(request) => {
                self.check_not_exists(writer, request)?;
                done
            }
            MultiOp::CheckStat(request) => {
                self.check_stat(writer, request)?;
                done
            }
        })
    }

    fn multi_created(&self, op: OpCode, id: Option<NodeId>, path: String) -> MultiResult {
        match id {
            Some(id) if answers_stat(op) => MultiResult::Create2 { path, stat: self.store.node(id).stat() },
            _ if op == OpCode::CreateIfNotExists => MultiResult::CreateIfNotExists { path },
            _ => MultiResult::Create { path },
        }
    }

    /// A multi that was taken back may have made or removed limits.
    fn find_quotas_again(&mut self, ops: &[MultiOp<'_>]) {
        if ops.iter().any(|op| op.path().starts_with("/zookeeper")) {
            self.find_quotas();
        }
    }

    /// Takes everything back, last first. The sums are the caller's.
    fn roll_back(&mut self, journal: Journal) {
        for undo in journal.entries.into_iter().rev() {
            match undo {
                Undo::Create { id, before } => {
                    self.forget_lifetime(self.store.node(id).lifetime(), id);
                    let removed = self.store.undo_insert(id, before);
                    self.store.forget(removed);
                }
                Undo::Remove { id, removed, lifetime, before } => {
                    let back = self.store.undo_remove(removed, before);
                    assert_eq!(
                        back, id,
                        "a rolled back deletion returns to the slot it left, as the slots are a stack"
                    );
                    self.note_lifetime(lifetime, id);
                }
                Undo::SetData { id, old, version, mzxid, mtime } => {
                    self.store.undo_set_data(id, old, version, mzxid, mtime);
                }
            }
        }
    }
}

/// ZooKeeper fails to read a multi with a create, create2 or createContainer of a mode that is none, or has a time to
/// live, and answers it as a whole.
fn has_unreadable_mode(op: &MultiOp<'_>) -> bool {
    match op {
        MultiOp::Create(OpCode::Create | OpCode::Create2 | OpCode::CreateContainer, request) => {
            !(0..=CreateMode::Container as i32).contains(&request.flags)
        }
        _ => false,
    }
}

/// ZooKeeper's answer to a failed multi: 0 before the culprit, its own error, RuntimeInconsistency after it.
fn failed(count: usize, culprit: usize, code: ErrorCode) -> Outcome {
    let of = |at: usize| match at.cmp(&culprit) {
        std::cmp::Ordering::Less => None,
        std::cmp::Ordering::Equal => Some(code),
        std::cmp::Ordering::Greater => Some(ErrorCode::RuntimeInconsistency),
    };
    Outcome::Response(Response::Multi((0..count).map(|at| MultiResult::Error(of(at))).collect()))
}
