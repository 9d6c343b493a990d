//! multi: all of its operations under one zxid, or none. The operations are made one after another on the
//! real tree, with a journal of how to take each back.

use keeper_types::{ErrorCode, MultiOp, MultiResult, OpCode, Response, SessionId};

use crate::apply::{Change, Writer};
use crate::command::{Outcome, Sink};
use crate::node::{Node, NodeId, OldData};
use crate::store::ParentBefore;
use crate::tree::Tree;

enum Undo {
    Create {
        id: NodeId,
        before: ParentBefore,
    },
    /// The node still holds its use of its ACL.
    Remove {
        id: NodeId,
        node: Node,
        before: ParentBefore,
    },
    SetData {
        id: NodeId,
        old: OldData,
        version: i32,
        mzxid: i64,
        mtime: i64,
    },
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
    pub fn removed(&mut self, id: NodeId, node: Node, before: ParentBefore) -> Option<Node> {
        if !self.on {
            return Some(node);
        }
        self.entries.push(Undo::Remove { id, node, before });
        None
    }

    pub fn data_set(&mut self, id: NodeId, old: OldData, version: i32, mzxid: i64, mtime: i64) {
        if self.on {
            self.entries.push(Undo::SetData { id, old, version, mzxid, mtime });
        }
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
        if ops.iter().any(|op| matches!(op, MultiOp::Unserved(_))) {
            return Err(ErrorCode::Unimplemented);
        }
        let sums = self.store.sums();
        let mut journal = Journal::on();
        let mut changes = Vec::with_capacity(ops.len());
        let mut results = Vec::with_capacity(if want_reply { ops.len() } else { 0 });
        for (at, op) in ops.iter().enumerate() {
            match self.multi_op(writer, op, want_reply, &mut journal) {
                Ok((change, result)) => {
                    changes.extend(change);
                    results.extend(result);
                }
                Err(code) => {
                    self.roll_back(journal);
                    self.store.restore_sums(sums);
                    return Ok(if want_reply { failed(ops.len(), at, code) } else { Outcome::None });
                }
            }
        }
        for undo in journal.entries {
            if let Undo::Remove { node, .. } = undo {
                self.store.acls.release(node.acl);
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
    ) -> Result<(Option<Change<'a>>, Option<MultiResult>), ErrorCode> {
        Ok(match op {
            MultiOp::Create(op, request) => {
                let (id, path) = self.create(writer, request, journal)?;
                let result = want_reply.then(|| match op {
                    OpCode::Create2 => {
                        MultiResult::Create2 { path: path.to_string(), stat: self.store.node(id).stat() }
                    }
                    _ => MultiResult::Create { path: path.to_string() },
                });
                (Some(Change::Created { path }), result)
            }
            MultiOp::Delete(request) => {
                self.delete(writer, request, journal)?;
                (Some(Change::Deleted { path: request.path }), want_reply.then_some(MultiResult::Delete))
            }
            MultiOp::SetData(request) => {
                let stat = self.set_data(writer, request, journal)?;
                let result = want_reply.then_some(MultiResult::SetData { stat });
                (Some(Change::DataSet { path: request.path }), result)
            }
            MultiOp::Check(request) => {
                self.check(writer, request)?;
                (None, want_reply.then_some(MultiResult::Check))
            }
            MultiOp::Unserved(_) => return Err(ErrorCode::Unimplemented),
        })
    }

    /// Takes everything back, last first. The sums are the caller's.
    fn roll_back(&mut self, journal: Journal) {
        for undo in journal.entries.into_iter().rev() {
            match undo {
                Undo::Create { id, before } => {
                    let node = self.store.undo_insert(id, before);
                    if node.ephemeral_owner != 0 {
                        self.ephemerals.remove(&(SessionId(node.ephemeral_owner), id));
                    }
                    self.store.acls.release(node.acl);
                }
                Undo::Remove { id, node, before } => {
                    let owner = node.ephemeral_owner;
                    let back = self.store.undo_remove(node, before);
                    assert_eq!(
                        back, id,
                        "a rolled back deletion returns to the slot it left, as the slots are a stack"
                    );
                    if owner != 0 {
                        self.ephemerals.insert((SessionId(owner), id));
                    }
                }
                Undo::SetData { id, old, version, mzxid, mtime } => {
                    self.store.undo_set_data(id, old, version, mzxid, mtime);
                }
            }
        }
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
