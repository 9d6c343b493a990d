//! What ClickHouse's newer clients speak after their handshake: compressed blocks, transaction ids of 64 bits, trace
//! contexts behind requests (ClickHouse, protocol versions 10 to 12).
//!
//! Everything else knows ZooKeeper's frames only. So this turns such a client's frames into those, and the frames for it
//! back, with its long ids remembered until they are answered.

pub mod block;
mod trace;

use crate::frame::{FrameDecoder, FrameError, LENGTH_BYTES};
use crate::request::request_bytes;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use keeper_types::{DialectOptions, OpCode};
use std::collections::VecDeque;
use thiserror::Error;

pub use block::BlockError;
pub use trace::Trace;

/// Protocol versions of the handshake.
pub mod version {
    pub const PLAIN: i32 = 0;
    pub const COMPRESSION: i32 = 10;
    /// One byte follows: whether to compress.
    pub const LONG_XIDS: i32 = 11;
    /// Two bytes follow: whether ids are long, whether to compress.
    pub const TRACING: i32 = 12;
    /// Only from a server: it cannot serve now.
    pub const REJECT: i32 = 42;

    /// Bytes of a handshake that its length does not count.
    pub(crate) fn uncounted_bytes(version: i32) -> usize {
        match version {
            LONG_XIDS => 1,
            TRACING => 2,
            _ => 0,
        }
    }

    /// What a server answers to a client that it speaks so with.
    pub fn answer(options: keeper_types::DialectOptions) -> i32 {
        match (options.tracing, options.long_xids, options.compressed) {
            (true, ..) => TRACING,
            (false, true, _) => LONG_XIDS,
            (false, false, true) => COMPRESSION,
            (false, false, false) => PLAIN,
        }
    }
}

const SHORT_XID_BYTES: usize = 4;
const LONG_XID_BYTES: usize = 8;

/// The stream cannot be read further: the connection has to be closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DialectError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error("request of {bytes} bytes has no room for its header")]
    NoHeader { bytes: usize },
    #[error("request without a trace context behind it, or with a malformed one")]
    Trace,
}

/// One connection's.
#[derive(Debug)]
pub struct Dialect {
    options: DialectOptions,
    /// Decompressed, not yet cut into frames. Bounded: nothing is decompressed while a whole frame is there.
    plain: BytesMut,
    /// Long ids of requests whose replies have not come by, oldest first. As many as the server has under way.
    xids: VecDeque<i64>,
    trace: Option<Trace>,
    /// A request whose trace context comes behind its frame and is not there yet.
    untraced: Option<BytesMut>,
}

impl Dialect {
    pub fn new(options: DialectOptions) -> Dialect {
        Dialect { options, plain: BytesMut::new(), xids: VecDeque::new(), trace: None, untraced: None }
    }

    /// The next request as ZooKeeper frames it, once all of it is there. What of `input` was not needed stays there.
    pub fn next(
        &mut self,
        frames: &FrameDecoder,
        input: &mut BytesMut,
    ) -> Result<Option<Bytes>, DialectError> {
        if !self.options.compressed {
            return self.next_plain(frames, input);
        }
        loop {
            let mut plain = std::mem::take(&mut self.plain);
            let next = self.next_plain(frames, &mut plain);
            if !plain.is_empty() {
                // An idle connection holds no buffer.
                self.plain = plain;
            }
            if let Some(frame) = next? {
                return Ok(Some(frame));
            }
            if !block::take(input, &mut self.plain)? {
                return Ok(None);
            }
        }
    }

    fn next_plain(
        &mut self,
        frames: &FrameDecoder,
        input: &mut BytesMut,
    ) -> Result<Option<Bytes>, DialectError> {
        let frame = match self.untraced.take() {
            Some(frame) => frame,
            None => {
                let Some(frame) = frames.cut(input)? else { return Ok(None) };
                let mut frame = self.shorten(frame)?;
                if !self.options.tracing || self.strip_trace(&mut frame)? {
                    return Ok(Some(frame.freeze()));
                }
                frame
            }
        };
        let Some((trace, bytes)) = trace::read_first(input).ok_or(DialectError::Trace)? else {
            self.untraced = Some(frame);
            return Ok(None);
        };
        input.advance(bytes);
        self.trace = trace;
        Ok(Some(frame.freeze()))
    }

    /// Whether part of a request is held here.
    pub fn holds_bytes(&self) -> bool {
        !self.plain.is_empty() || self.untraced.is_some()
    }

    /// The trace that the last request came with.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// A request with a short id in front.
    fn shorten(&mut self, mut frame: BytesMut) -> Result<BytesMut, DialectError> {
        if self.options.long_xids {
            let bytes = frame.len();
            let xid = *frame.first_chunk::<LONG_XID_BYTES>().ok_or(DialectError::NoHeader { bytes })?;
            let xid = i64::from_be_bytes(xid);
            let short = short(xid);
            if short >= 0 {
                self.xids.push_back(xid);
            }
            frame.advance(LONG_XID_BYTES - SHORT_XID_BYTES);
            frame[..SHORT_XID_BYTES].copy_from_slice(&short.to_be_bytes());
        }
        Ok(frame)
    }

    /// Takes the trace context off the end of a frame. `false` when it ends with the request: then the context comes
    /// behind the frame, not counted in its length, as the handshake's bytes are not. Both are understood.
    fn strip_trace(&mut self, frame: &mut BytesMut) -> Result<bool, DialectError> {
        const OP_AT: usize = SHORT_XID_BYTES;
        const BODY_AT: usize = OP_AT + 4;
        self.trace = None;
        let bytes = frame.len();
        let op = frame.get(OP_AT..BODY_AT).and_then(|op| op.first_chunk::<4>().copied());
        let op = op.ok_or(DialectError::NoHeader { bytes })?;
        // An unknown operation is answered by its number alone, and a malformed one refused by whoever reads it whole.
        let Some(op) = OpCode::from_i32(i32::from_be_bytes(op)) else { return Ok(true) };
        let Ok(body_bytes) = request_bytes(op, &frame[BODY_AT..]) else { return Ok(true) };
        if frame.len() == BODY_AT + body_bytes {
            return Ok(false);
        }
        self.trace = trace::read(&frame[BODY_AT + body_bytes..]).ok_or(DialectError::Trace)?;
        frame.truncate(BODY_AT + body_bytes);
        Ok(true)
    }

    /// Appends whole frames of ours as this client reads them. Each is a block of its own: ClickHouse's client waits for
    /// bytes of the socket before each packet, and would not see a second one in a block that it has unpacked.
    pub fn put(&mut self, mut frames: &[u8], out: &mut BytesMut) {
        let mut frame = BytesMut::new();
        while let Some((length, rest)) = frames.split_first_chunk::<LENGTH_BYTES>() {
            let length = i32::from_be_bytes(*length);
            let (payload, later) = rest.split_at((length.max(0) as usize).min(rest.len()));
            frames = later;
            match self.options.compressed {
                false => self.put_frame(length, payload, out),
                true => {
                    frame.clear();
                    self.put_frame(length, payload, &mut frame);
                    block::put(&frame, out);
                }
            }
        }
    }

    fn put_frame(&mut self, length: i32, payload: &[u8], out: &mut BytesMut) {
        match payload.split_first_chunk::<SHORT_XID_BYTES>() {
            Some((xid, body)) if self.options.long_xids => {
                out.put_i32(length.saturating_add((LONG_XID_BYTES - SHORT_XID_BYTES) as i32));
                out.put_i64(self.long(i32::from_be_bytes(*xid)));
                out.put_slice(body);
            }
            // Every frame of ours begins with an id.
            _ => {
                out.put_i32(length);
                out.put_slice(payload);
            }
        }
    }

    /// The id that the client gave the request that is answered now. Replies come in the order of their requests.
    fn long(&mut self, xid: i32) -> i64 {
        if xid < 0 {
            return xid.into();
        }
        while let Some(long) = self.xids.pop_front() {
            if short(long) == xid {
                return long;
            }
        }
        xid.into()
    }
}

/// What stands for a long id inside. Those below zero have a meaning of their own and stay; so does the id that
/// ClickHouse closes with, the largest there is.
fn short(xid: i64) -> i32 {
    i32::try_from(xid).unwrap_or((xid & i64::from(i32::MAX)) as i32)
}

#[cfg(test)]
mod tests;
