//! Requests written and not yet answered, in the order in which their answers must come.

use crate::call::{Call, changes_something};
use crate::limits::{IN_FLIGHT_BYTES_MAX, IN_FLIGHT_MAX};
use std::collections::VecDeque;

struct Sent {
    xid: i32,
    /// Position in the connection's stream at which the request's frame ends.
    end: u64,
    call: Call,
}

#[derive(Default)]
pub(crate) struct InFlight {
    sent: VecDeque<Sent>,
    /// Invariant: the sum of the frames in `sent`.
    bytes: usize,
}

impl InFlight {
    /// How many more requests may be written now.
    pub fn room(&self) -> usize {
        if self.bytes >= IN_FLIGHT_BYTES_MAX { 0 } else { IN_FLIGHT_MAX.saturating_sub(self.sent.len()) }
    }

    pub fn push(&mut self, xid: i32, end: u64, call: Call) {
        self.bytes += call.frame.len();
        self.sent.push_back(Sent { xid, end, call });
    }

    /// The call that a reply with `xid` answers: always the oldest. `Err` holds the xid that was due.
    pub fn answer(&mut self, xid: i32) -> Result<Call, Option<i32>> {
        match self.sent.front() {
            Some(sent) if sent.xid == xid => {}
            other => return Err(other.map(|sent| sent.xid)),
        }
        let Some(sent) = self.sent.pop_front() else {
            return Err(None);
        };
        self.bytes -= sent.call.frame.len();
        Ok(sent.call)
    }

    /// The connection is lost after `written` bytes of its stream. Returns what to send again, in order: a
    /// request of which the server cannot have the last byte, and every read. The other writes end here.
    pub fn abandon(&mut self, written: u64, cause: &str) -> VecDeque<Call> {
        let mut again = VecDeque::new();
        self.bytes = 0;
        for sent in self.sent.drain(..) {
            if sent.end <= written && changes_something(sent.call.op) {
                let error = sent.call.unknown_outcome(cause);
                sent.call.finish(Err(error));
            } else {
                sent.call.phase.put_back();
                again.push_back(sent.call);
            }
        }
        again
    }
}
