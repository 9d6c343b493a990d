//! A call on its way from the caller to the session's task. The two agree on whether it was sent through
//! [`Phase`], so that a caller who gives up can say for sure.

use crate::error::ClientError;
use crate::watches::WatchRequest;
use bytes::{Bytes, BytesMut};
use keeper_types::{OpClass, OpCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::sync::oneshot;

const WAITING: u8 = 0;
const WRITTEN: u8 = 1;
const GIVEN_UP: u8 = 2;

/// Where a call stands. Only the caller gives up, only the session's task writes; both from `WAITING`.
#[derive(Clone, Default)]
pub(crate) struct Phase(Arc<AtomicU8>);

impl Phase {
    /// The task asks before it writes the call; false when the caller has given up.
    pub fn begin_write(&self) -> bool {
        self.0.compare_exchange(WAITING, WRITTEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The call did not reach the server and waits again.
    pub fn put_back(&self) {
        self.0.store(WAITING, Ordering::Release);
    }

    /// The caller asks when its time is over; true when the call will never be written.
    pub fn give_up(&self) -> bool {
        self.0.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A reply, its body still as bytes: the caller's own task decodes it.
#[derive(Clone)]
pub(crate) struct RawAnswer {
    pub zxid: i64,
    pub arrival: u64,
    pub error: i32,
    pub body: Bytes,
}

pub(crate) type AnswerSender = oneshot::Sender<Result<RawAnswer, ClientError>>;

pub(crate) struct Call {
    pub op: OpCode,
    /// For messages and watches.
    pub path: String,
    /// A whole frame; its xid is written when it is sent.
    pub frame: BytesMut,
    pub phase: Phase,
    pub answer: AnswerSender,
    pub watch: Option<WatchRequest>,
}

impl Call {
    /// An answer nobody waits for any more is dropped.
    pub fn finish(self, result: Result<RawAnswer, ClientError>) {
        let _ = self.answer.send(result);
    }

    pub fn unknown_outcome(&self, cause: &str) -> ClientError {
        ClientError::UnknownOutcome { op: self.op, path: self.path.clone(), cause: cause.to_owned() }
    }
}

/// True when sending the operation twice may do something twice.
pub(crate) fn changes_something(op: OpCode) -> bool {
    match op.class() {
        OpClass::Read => false,
        OpClass::Write => !matches!(op, OpCode::Check | OpCode::CheckNotExists | OpCode::CheckStat),
        OpClass::Session => false,
        OpClass::Membership | OpClass::Unserved => true,
    }
}
