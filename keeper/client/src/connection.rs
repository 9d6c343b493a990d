//! One connection of a session: the handshake, then requests without waiting for answers, replies matched in
//! order, events, pings.
//!
//! It must never end a call as failed whose frame was handed over whole: see `in_flight`.

use crate::call::{Call, RawAnswer};
use crate::connector::Connector;
use crate::error::ClientError;
use crate::in_flight::InFlight;
use crate::limits::{BATCH_LEN_MAX, READ_BYTES, READ_BYTES_MIN, WATCHES_MAX};
use crate::options::Resume;
use crate::reply::Reply;
use crate::session::{Session, SessionState};
use bytes::{Bytes, BytesMut};
use keeper_rt::Instant;
use keeper_types::{ConnectResponse, ErrorCode, OpCode, Request};
use keeper_wire::limits::HANDSHAKE_BYTES_MAX;
use keeper_wire::{FrameDecoder, xid};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

/// ClickHouse's way of refusing a session while it has no quorum.
const PROTOCOL_VERSION_REJECTED: i32 = 42;

/// Why there is no connection (any more).
pub(crate) enum Ended {
    Lost { cause: String },
    Expired,
    AuthFailed,
    Closed,
}

fn lost(cause: impl ToString) -> Ended {
    Ended::Lost { cause: cause.to_string() }
}

pub(crate) struct Connection<S> {
    reader: ReadHalf<S>,
    writer: WriteHalf<S>,
    inbox: BytesMut,
    /// Bytes not yet handed to the stream.
    /// Invariant: `written + outbox.len()` is the length of the stream so far.
    outbox: BytesMut,
    written: u64,
    in_flight: InFlight,
    last_read: Instant,
    last_write: Instant,
    closing: bool,
}

/// What the connection woke up for.
enum Woken {
    Stop,
    Written(io::Result<usize>),
    Read(io::Result<usize>),
    Calls(usize),
    Timer,
}

impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static> Connection<S> {
    /// Dials and shakes hands, within the connect timeout.
    pub async fn open<C: Connector<Stream = S>>(
        connector: &C,
        address: &str,
        session: &Session,
    ) -> Result<(Connection<S>, ConnectResponse), Ended> {
        let limit = session.options.connect_timeout;
        let open = async {
            let (reader, writer) = tokio::io::split(connector.connect(address).await.map_err(lost)?);
            let now = keeper_rt::now();
            let mut connection = Connection {
                reader,
                writer,
                inbox: BytesMut::new(),
                outbox: BytesMut::new(),
                written: 0,
                in_flight: InFlight::default(),
                last_read: now,
                last_write: now,
                closing: false,
            };
            let response = connection.shake_hands(session).await?;
            Ok((connection, response))
        };
        let late = |_| lost(format!("no session after {limit:?}"));
        keeper_rt::timeout(limit, open).await.map_err(late)?
    }

    async fn shake_hands(&mut self, session: &Session) -> Result<ConnectResponse, Ended> {
        let request = session.connect_request();
        let mut out = BytesMut::new();
        keeper_wire::encode_connect_request(&request, &mut out);
        self.writer.write_all(&out).await.map_err(lost)?;
        let decoder = FrameDecoder::new(HANDSHAKE_BYTES_MAX);
        let frame = loop {
            if let Some(frame) = decoder.next(&mut self.inbox).map_err(lost)? {
                break frame;
            }
            if self.reader.read_buf(&mut self.inbox).await.map_err(lost)? == 0 {
                return Err(lost("closed during the handshake"));
            }
        };
        let response = keeper_wire::decode_connect_response(&frame).map_err(lost)?;
        if response.protocol_version == PROTOCOL_VERSION_REJECTED {
            return Err(lost("the server takes no sessions now"));
        }
        if response.session_id == 0 || response.timeout_ms <= 0 {
            let had_none = request.session_id == 0;
            return Err(if had_none { lost("the server gave no session") } else { Ended::Expired });
        }
        Ok(response)
    }

    /// Runs the connection until it ends. What the server cannot have is left in `session.again`.
    pub async fn serve(mut self, session: &mut Session, address: &str, granted: ConnectResponse) -> Ended {
        session.timeout_ms = granted.timeout_ms;
        session.resume.send_modify(|resume| {
            resume.session_id = granted.session_id;
            resume.password = granted.password;
        });
        let relative_zxid = session.resume.borrow().last_zxid_seen;
        session.identities.tell_again(&mut self.outbox);
        session.watches.set_again(relative_zxid, &mut self.outbox);
        self.send_again(session);
        session.state.send_replace(SessionState::Connected {
            address: address.to_owned(),
            session_id: granted.session_id,
            timeout_ms: granted.timeout_ms,
        });
        let ended = self.exchange(session).await;
        let cause = match &ended {
            Ended::Lost { cause } => format!("{address}: {cause}"),
            Ended::Expired => "the session expired".to_owned(),
            Ended::AuthFailed => "an identity was refused".to_owned(),
            Ended::Closed => "the client was closed".to_owned(),
        };
        let mut again = self.in_flight.abandon(self.written, &cause);
        again.append(&mut session.again);
        session.again = again;
        ended
    }

    async fn exchange(&mut self, session: &mut Session) -> Ended {
        let stop = Arc::clone(&session.stop);
        let mut calls = Vec::with_capacity(BATCH_LEN_MAX);
        let mut timer = keeper_rt::sleep_until(self.due(session));
        // Bytes behind the handshake's answer may be here already.
        if let Err(ended) = self.receive(session) {
            return ended;
        }
        loop {
            let batch = self.in_flight.room().min(BATCH_LEN_MAX);
            let takes_calls = batch > 0 && !self.closing && session.again.is_empty();
            // Answers still held elsewhere share the buffer: asking for all of it each time would copy it.
            if self.inbox.capacity() - self.inbox.len() < READ_BYTES_MIN {
                self.inbox.reserve(READ_BYTES);
            }
            // Writing first empties the outbox before more goes in; it ends when IN_FLIGHT_MAX is reached.
            let woken = tokio::select! {
                biased;
                () = stop.notified() => Woken::Stop,
                result = self.writer.write_buf(&mut self.outbox), if !self.outbox.is_empty() => {
                    Woken::Written(result)
                }
                result = self.reader.read_buf(&mut self.inbox) => Woken::Read(result),
                count = session.calls.recv_many(&mut calls, batch), if takes_calls => Woken::Calls(count),
                () = &mut timer => Woken::Timer,
            };
            let result = match woken {
                Woken::Stop | Woken::Calls(0) => Err(Ended::Closed),
                Woken::Written(result) => self.wrote(result),
                Woken::Read(result) => self.read(session, result),
                Woken::Calls(_) => {
                    calls.drain(..).for_each(|call| self.send(session, call));
                    Ok(())
                }
                Woken::Timer => {
                    let result = self.keep_alive(session);
                    timer = keeper_rt::sleep_until(self.due(session));
                    result
                }
            };
            if let Err(ended) = result {
                return ended;
            }
        }
    }

    fn wrote(&mut self, result: io::Result<usize>) -> Result<(), Ended> {
        match result {
            Ok(0) => Err(self.lost_or_closed("the server takes no more bytes")),
            Ok(count) => {
                self.written += count as u64;
                self.last_write = keeper_rt::now();
                Ok(())
            }
            Err(error) => Err(self.lost_or_closed(error)),
        }
    }

    fn read(&mut self, session: &mut Session, result: io::Result<usize>) -> Result<(), Ended> {
        match result {
            Ok(0) => Err(self.lost_or_closed("closed by the server")),
            Ok(_) => {
                self.last_read = keeper_rt::now();
                self.receive(session)?;
                self.send_again(session);
                Ok(())
            }
            Err(error) => Err(self.lost_or_closed(error)),
        }
    }

    /// Some servers close the connection as their answer to a close.
    fn lost_or_closed(&self, cause: impl ToString) -> Ended {
        if self.closing { Ended::Closed } else { lost(cause) }
    }

    /// A third of the session timeout without a byte sent calls for a ping; two thirds without a byte received
    /// leave a third to find another server.
    fn due(&self, session: &Session) -> Instant {
        let third = third(session);
        (self.last_write + third).min(self.last_read + third * 2)
    }

    fn keep_alive(&mut self, session: &Session) -> Result<(), Ended> {
        let (now, third) = (keeper_rt::now(), third(session));
        if now >= self.last_read + third * 2 {
            return Err(lost(format!("silent for {:?}", third * 2)));
        }
        if now >= self.last_write + third {
            if self.outbox.is_empty() {
                keeper_wire::encode_request(xid::PING, &Request::Ping, &mut self.outbox)
                    .expect("a ping is short");
            }
            self.last_write = now;
        }
        Ok(())
    }

    /// Sends what an earlier connection left, as far as there is room.
    fn send_again(&mut self, session: &mut Session) {
        while self.in_flight.room() > 0 && !self.closing {
            let Some(call) = session.again.pop_front() else {
                return;
            };
            self.send(session, call);
        }
    }

    fn send(&mut self, session: &mut Session, mut call: Call) {
        if call.answer.is_closed() || !call.phase.begin_write() {
            return;
        }
        if call.watch.is_some() && session.watches.is_full() {
            let full = format!("a session can hold {WATCHES_MAX} watches");
            return call.finish(Err(ClientError::Invalid(full)));
        }
        match call.op {
            OpCode::Auth => return session.identities.add(call, &mut self.outbox),
            OpCode::CloseSession => self.closing = true,
            _ => {}
        }
        let xid = session.next_xid();
        call.frame[4..8].copy_from_slice(&xid.to_be_bytes());
        self.outbox.extend_from_slice(&call.frame);
        self.in_flight.push(xid, self.written + self.outbox.len() as u64, call);
    }

    /// Handles every whole frame that has come.
    fn receive(&mut self, session: &mut Session) -> Result<(), Ended> {
        let decoder = FrameDecoder::new(session.options.reply_bytes_max);
        let mut last_zxid = 0;
        let mut result = Ok(());
        while result.is_ok() {
            result = match decoder.next(&mut self.inbox) {
                Ok(Some(frame)) => self.handle(session, frame, &mut last_zxid),
                Ok(None) => break,
                Err(error) => Err(lost(error)),
            };
        }
        if last_zxid > session.resume.borrow().last_zxid_seen {
            session.resume.send_modify(|resume: &mut Resume| resume.last_zxid_seen = last_zxid);
        }
        result
    }

    fn handle(&mut self, session: &mut Session, frame: Bytes, last_zxid: &mut i64) -> Result<(), Ended> {
        let (header, body) = keeper_wire::decode_reply_header(&frame).map_err(lost)?;
        session.arrivals += 1;
        let answer = RawAnswer {
            zxid: header.zxid,
            arrival: session.arrivals,
            error: header.error,
            body: frame.slice_ref(body),
        };
        match header.xid {
            xid::EVENT => {
                let event = keeper_wire::decode_watch_event(&answer.body).map_err(lost)?;
                session.watches.fire(&Reply { zxid: answer.zxid, arrival: answer.arrival, value: event });
            }
            xid::PING | xid::SET_WATCHES => {}
            xid::AUTH if answer.error == ErrorCode::AuthFailed.as_i32() => return Err(Ended::AuthFailed),
            xid::AUTH => session.identities.accepted(&answer),
            xid => {
                *last_zxid = (*last_zxid).max(answer.zxid);
                return self.answered(session, xid, answer);
            }
        }
        Ok(())
    }

    fn answered(&mut self, session: &mut Session, xid: i32, answer: RawAnswer) -> Result<(), Ended> {
        let mut call = self.in_flight.answer(xid).map_err(|due| match due {
            Some(due) => lost(format!("answered request {xid}, but {due} was due")),
            None => lost(format!("answered request {xid}, which was not asked")),
        })?;
        if let Some(request) = call.watch.take() {
            session.watches.answered(call.op, std::mem::take(&mut call.path), answer.error, request);
        }
        let op = call.op;
        call.finish(Ok(answer));
        if op == OpCode::CloseSession { Err(Ended::Closed) } else { Ok(()) }
    }
}

fn third(session: &Session) -> Duration {
    Duration::from_millis(u64::from(session.timeout_ms.unsigned_abs())) / 3
}
