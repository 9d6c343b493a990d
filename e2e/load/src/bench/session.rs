//! One session of the load generator: a non-blocking socket, requests in flight, replies cut from one buffer.
//!
//! It must never wait: set-up calls apart, reading and writing stop where the socket would block.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::wire;

/// A server that answers nothing for so long is broken.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const SESSION_TIMEOUT_MS: i32 = 30_000;
/// Bytes read from a socket at once.
const READ_BYTES: usize = 64 << 10;
const KEY_DIGITS: usize = 8;

pub struct Session {
    pub stream: TcpStream,
    pub id: i64,
    pub password: Vec<u8>,
    xid: i32,
    out: Vec<u8>,
    /// Bytes of `out` that the socket has taken.
    /// Invariant: `out_sent <= out.len()`.
    out_sent: usize,
    input: Vec<u8>,
    /// Invariant: `input_from <= input_to <= input.len()`; the bytes between are read and not yet used.
    input_from: usize,
    input_to: usize,
    /// (xid, nanoseconds at which it was handed over), oldest first.
    pending: VecDeque<(i32, u64)>,
    /// True while epoll is asked for writability too.
    pub wants_out: bool,
    /// `DIRECTORY/k00000000`: the digits are written anew for each request.
    path: Vec<u8>,
}

/// One reply.
pub struct Reply<'a> {
    pub sent_ns: u64,
    pub error: i32,
    pub body: &'a [u8],
}

impl Session {
    /// A new session, or a return to an old one when its id and password are given.
    pub fn connect(address: SocketAddr, again: Option<(i64, &[u8])>, timeout: Duration) -> Result<Session> {
        let mut stream = TcpStream::connect_timeout(&address, timeout)
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let (id, password) = again.unwrap_or((0, &[0; 16]));
        let mut out = Vec::new();
        wire::connect(&mut out, SESSION_TIMEOUT_MS, id, password);
        stream.write_all(&out)?;
        let reply = read_frame(&mut stream)
            .with_context(|| format!("{address} did not answer the connect request"))?;
        let id = wire::i64_at(&reply, 8).unwrap_or(0);
        let granted_ms = wire::i32_at(&reply, 4).unwrap_or(0);
        ensure!(id != 0 && granted_ms > 0, "{address} refused the session");
        let password = reply.get(20..36).context("connect response without a password")?.to_vec();
        Ok(Session {
            stream,
            id,
            password,
            xid: 1,
            out: Vec::new(),
            out_sent: 0,
            input: vec![0; READ_BYTES],
            input_from: 0,
            input_to: 0,
            pending: VecDeque::new(),
            wants_out: false,
            path: Vec::new(),
        })
    }

    /// Names the directory that this session's keys live in.
    pub fn set_directory(&mut self, directory: &str) {
        self.path = format!("{directory}/k{:0KEY_DIGITS$}", 0).into_bytes();
    }

    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    pub fn push_create(&mut self, key: u64, data: &[u8], now_ns: u64) {
        self.write_key(key);
        let xid = self.next(now_ns);
        wire::create(&mut self.out, xid, &self.path, data);
    }

    pub fn push_get(&mut self, key: u64, now_ns: u64) {
        self.write_key(key);
        let xid = self.next(now_ns);
        wire::get(&mut self.out, xid, &self.path);
    }

    pub fn push_set(&mut self, key: u64, data: &[u8], now_ns: u64) {
        self.write_key(key);
        let xid = self.next(now_ns);
        wire::set(&mut self.out, xid, &self.path, data);
    }

    fn next(&mut self, now_ns: u64) -> i32 {
        let xid = self.xid;
        self.xid = self.xid.wrapping_add(1) & i32::MAX;
        self.pending.push_back((xid, now_ns));
        xid
    }

    fn write_key(&mut self, mut key: u64) {
        let digits = self.path.len() - KEY_DIGITS;
        for digit in self.path[digits..].iter_mut().rev() {
            *digit = b'0' + (key % 10) as u8;
            key /= 10;
        }
    }

    /// Hands the socket what it takes; true when all is gone.
    pub fn flush(&mut self) -> Result<bool> {
        while self.out_sent < self.out.len() {
            match self.stream.write(&self.out[self.out_sent..]) {
                Ok(0) => bail!("the server closed session 0x{:x}", self.id),
                Ok(count) => self.out_sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    return Err(error).with_context(|| format!("session 0x{:x} cannot write", self.id));
                }
            }
        }
        self.out.clear();
        self.out_sent = 0;
        Ok(true)
    }

    /// Reads once and calls `each` for every whole reply. One read a wake-up: what is left wakes us again.
    pub fn receive(&mut self, each: &mut dyn FnMut(Reply<'_>) -> Result<()>) -> Result<()> {
        self.make_room();
        match self.stream.read(&mut self.input[self.input_to..]) {
            Ok(0) => bail!("the server closed session 0x{:x}", self.id),
            Ok(count) => self.input_to += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).with_context(|| format!("session 0x{:x} cannot read", self.id)),
        }
        loop {
            let unread = &self.input[self.input_from..self.input_to];
            let Some(len) = wire::i32_at(unread, 0) else { break };
            let len = frame_len(len)?;
            let Some(frame) = unread.get(4..4 + len) else { break };
            self.input_from += 4 + len;
            let (xid, error) = reply_header(frame)?;
            if xid < 0 {
                continue;
            }
            let (expected, sent_ns) = self.pending.pop_front().context("a reply that nothing asked for")?;
            ensure!(xid == expected, "replies out of order: xid {xid} where {expected} is due");
            each(Reply { sent_ns, error, body: &frame[wire::REPLY_HEADER_BYTES..] })?;
        }
        Ok(())
    }

    fn make_room(&mut self) {
        if self.input_from == self.input_to {
            self.input_from = 0;
            self.input_to = 0;
        } else if self.input.len() - self.input_to < READ_BYTES / 2 {
            self.input.copy_within(self.input_from..self.input_to, 0);
            self.input_to -= self.input_from;
            self.input_from = 0;
            if self.input.len() - self.input_to < READ_BYTES / 2 {
                self.input.resize(self.input.len() * 2, 0);
            }
        }
    }

    /// One request and its answer, waiting: for set-up only. Returns the error code.
    pub fn call(&mut self, encode: impl FnOnce(&mut Vec<u8>, i32)) -> Result<i32> {
        debug_assert!(self.pending.is_empty() && self.out.is_empty());
        let mut out = Vec::new();
        let xid = self.xid;
        self.xid = self.xid.wrapping_add(1) & i32::MAX;
        encode(&mut out, xid);
        self.stream.write_all(&out)?;
        loop {
            let frame = read_frame(&mut self.stream)?;
            let (reply_xid, error) = reply_header(&frame)?;
            if reply_xid == xid {
                return Ok(error);
            }
            ensure!(reply_xid < 0, "reply {reply_xid} where {xid} is due");
        }
    }

    /// Creates `path`, which may exist. A parent made through another member may not have arrived here yet, so a
    /// sync comes first.
    pub fn ensure_node(&mut self, path: &str) -> Result<()> {
        let error = self.call(|out, xid| wire::sync(out, xid, path.as_bytes()))?;
        ensure!(error == 0, "sync of {path} failed: error {error}");
        match self.call(|out, xid| wire::create(out, xid, path.as_bytes(), b""))? {
            0 | wire::ERROR_NODE_EXISTS => Ok(()),
            wire::ERROR_NO_NODE => bail!("cannot create {path}: its parent is missing"),
            error => bail!("cannot create {path}: error {error}"),
        }
    }
}

fn reply_header(frame: &[u8]) -> Result<(i32, i32)> {
    let xid = wire::i32_at(frame, 0);
    let error = wire::i32_at(frame, 12);
    xid.zip(error).with_context(|| format!("a reply of {} bytes is too short for its header", frame.len()))
}

fn frame_len(len: i32) -> Result<usize> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    ensure!(len <= wire::REPLY_BYTES_MAX, "a reply of {len} bytes: more than anything asked for");
    Ok(len)
}

fn read_frame(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut frame = vec![0; frame_len(i32::from_be_bytes(len))?];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}
