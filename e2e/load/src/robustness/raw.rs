//! One raw session: frames over a tokio socket with no client library between. For clients that no library would be:
//! twenty thousand idle ones, a storm of returning ones, broken ones.
//!
//! It must never hide what a server did: a closed connection is an error, an event is a frame like any other.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::frame;
use crate::bench::wire::{i32_at, i64_at};

/// Bytes asked of the socket at once.
const READ_BYTES: usize = 512;
/// Largest reply that is believed: the largest that an attack here asks for is far smaller.
const REPLY_BYTES_MAX: usize = 16 << 20;
/// Connecting and the handshake may take so long in all.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub struct RawSession {
    pub stream: TcpStream,
    pub id: i64,
    pub password: Vec<u8>,
    pub timeout_ms: i32,
    /// Bytes read and not yet used.
    input: Vec<u8>,
}

/// How a session is asked for.
#[derive(Clone, Debug)]
pub struct Opening {
    pub timeout_ms: i32,
    /// Id, password and the last zxid seen, of a session to go on with.
    pub resume: Option<(i64, Vec<u8>, i64)>,
    /// The address to connect from: one has only so many ports.
    pub source: Option<IpAddr>,
}

impl Opening {
    pub fn new(timeout_ms: i32) -> Opening {
        Opening { timeout_ms, resume: None, source: None }
    }
}

/// What a handshake that was answered came to.
pub enum Opened {
    Session(RawSession),
    /// The server says that the session asked for is gone.
    Expired,
}

#[derive(Clone, Debug)]
pub struct Reply {
    pub xid: i32,
    pub zxid: i64,
    pub error: i32,
    pub body: Vec<u8>,
}

/// A connection without a word on it.
pub async fn connect(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, socket.connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

impl RawSession {
    /// An error is a server that cannot be reached or that closed the connection.
    pub async fn open(address: SocketAddr, opening: &Opening) -> io::Result<Opened> {
        let mut session = RawSession::unopened(connect(address, opening.source).await?);
        let (id, password, seen) = opening.resume.clone().unwrap_or((0, vec![0; 16], 0));
        session.stream.write_all(&frame::connect(opening.timeout_ms, id, &password, seen)).await?;
        let response = tokio::time::timeout(CONNECT_TIMEOUT, session.next_frame()).await??;
        session.timeout_ms = i32_at(&response, 4).unwrap_or(0);
        session.id = i64_at(&response, 8).unwrap_or(0);
        if session.id == 0 || session.timeout_ms <= 0 {
            return Ok(Opened::Expired);
        }
        let password = response.get(20..36).ok_or(io::Error::from(ErrorKind::InvalidData))?;
        session.password = password.to_vec();
        Ok(Opened::Session(session))
    }

    /// A connection before its handshake.
    pub fn unopened(stream: TcpStream) -> RawSession {
        RawSession { stream, id: 0, password: vec![0; 16], timeout_ms: 0, input: Vec::new() }
    }

    /// A new session; that it is refused is an error too.
    pub async fn new(address: SocketAddr, timeout_ms: i32) -> io::Result<RawSession> {
        match RawSession::open(address, &Opening::new(timeout_ms)).await? {
            Opened::Session(session) => Ok(session),
            Opened::Expired => Err(io::Error::other("a new session was refused")),
        }
    }

    /// The payload of the next frame. May be dropped while it waits: no byte is lost.
    pub async fn next_frame(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(frame) = take_frame(&mut self.input)? {
                return Ok(frame);
            }
            if self.input.capacity() - self.input.len() < READ_BYTES {
                self.input.reserve(READ_BYTES);
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// As [`next_frame`](Self::next_frame).
    pub async fn next_reply(&mut self) -> io::Result<Reply> {
        let frame = self.next_frame().await?;
        let header = || Some((i32_at(&frame, 0)?, i64_at(&frame, 4)?, i32_at(&frame, 12)?));
        let (xid, zxid, error) = header().ok_or(io::Error::from(ErrorKind::InvalidData))?;
        Ok(Reply { xid, zxid, error, body: frame[16..].to_vec() })
    }

    /// Sends one whole request frame and waits for the reply with its xid; events and pings between are dropped.
    pub async fn call(&mut self, request: &[u8]) -> io::Result<Reply> {
        let xid = i32_at(request, 4);
        self.stream.write_all(request).await?;
        loop {
            let reply = self.next_reply().await?;
            if Some(reply.xid) == xid {
                return Ok(reply);
            }
        }
    }
}

fn take_frame(input: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let Some(len) = i32_at(input, 0) else { return Ok(None) };
    let len = usize::try_from(len).ok().filter(|len| *len <= REPLY_BYTES_MAX);
    let len = len.ok_or(io::Error::from(ErrorKind::InvalidData))?;
    if input.len() < 4 + len {
        return Ok(None);
    }
    let frame = input[4..4 + len].to_vec();
    input.drain(..4 + len);
    Ok(Some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_where_they_end() {
        let mut input = vec![0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(take_frame(&mut input).unwrap(), Some(vec![7, 8]));
        assert_eq!(take_frame(&mut input).unwrap(), Some(vec![]));
        assert_eq!(take_frame(&mut input).unwrap(), None);
        assert_eq!(input.len(), 3);
        assert!(take_frame(&mut vec![0xff; 4]).is_err());
    }
}
