//! Identities of a session. A server forgets them with the connection, so each is told again to the next one,
//! before any request.

use crate::call::{Call, RawAnswer};
use crate::error::ClientError;
use crate::limits::IDENTITIES_MAX;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

struct Identity {
    /// A whole auth frame.
    frame: Bytes,
    /// Who waits for the next answer. Invariant: at most `IDENTITIES_MAX`.
    waiting: Vec<Call>,
}

#[derive(Default)]
pub(crate) struct Identities {
    known: Vec<Identity>,
    /// Positions in `known`, in the order in which their answers come.
    asked: VecDeque<usize>,
}

impl Identities {
    /// Adds the identity of an auth call; writes it to `out`, which is the current connection's.
    pub fn add(&mut self, mut call: Call, out: &mut BytesMut) {
        let frame = call.frame.split().freeze();
        let known = self.known.iter().position(|identity| identity.frame == frame);
        let at = known.unwrap_or(self.known.len());
        let waiting = known.map_or(0, |at| self.known[at].waiting.len());
        if at == IDENTITIES_MAX || waiting == IDENTITIES_MAX {
            let refused = format!("a session can have {IDENTITIES_MAX} identities");
            return call.finish(Err(ClientError::Invalid(refused)));
        }
        if known.is_none() {
            self.known.push(Identity { frame: frame.clone(), waiting: Vec::new() });
        }
        self.known[at].waiting.push(call);
        self.asked.push_back(at);
        out.extend_from_slice(&frame);
    }

    /// An identity from the options, for which nobody waits.
    pub fn preset(&mut self, frame: Bytes) {
        self.known.push(Identity { frame, waiting: Vec::new() });
    }

    /// Writes all of them for a new connection.
    pub fn tell_again(&mut self, out: &mut BytesMut) {
        self.asked.clear();
        for (at, identity) in self.known.iter().enumerate() {
            self.asked.push_back(at);
            out.extend_from_slice(&identity.frame);
        }
    }

    /// The server accepted the oldest one asked.
    pub fn accepted(&mut self, answer: &RawAnswer) {
        let identity = self.asked.pop_front().and_then(|at| self.known.get_mut(at));
        for call in identity.into_iter().flat_map(|identity| identity.waiting.drain(..)) {
            call.finish(Ok(answer.clone()));
        }
    }

    /// The session ends with `error`.
    pub fn end(&mut self, error: &ClientError) {
        for call in self.known.iter_mut().flat_map(|identity| identity.waiting.drain(..)) {
            call.finish(Err(error.clone()));
        }
    }
}
