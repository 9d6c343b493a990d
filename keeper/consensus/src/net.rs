//! `Dial` and `Accept`: ordered connections of frames between members. TCP in production, simulated pipes else.
//! Sessions, windows, reconnects, the handshake and the failure detector live above this line, so that a
//! simulation runs them all.

use bytes::Bytes;
use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::sync::mpsc;

pub type NetFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why a dial failed. Only `Refused` proves that no process listens there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    #[error("connection refused: no process listens there")]
    Refused,
    /// Timed out, no route, name not resolved: proves nothing.
    #[error("{0}")]
    Unreachable(String),
}

/// An ordered, reliable, bounded connection. Either end sees the other's death as a closed channel.
pub struct Conn {
    pub sender: mpsc::Sender<Bytes>,
    pub receiver: mpsc::Receiver<Bytes>,
    /// The other end's address, for messages only.
    pub remote: String,
}

pub trait Network: Send + Sync + 'static {
    /// Connects to `host:port`; names are resolved anew at each call.
    fn dial<'a>(&'a self, address: &'a str) -> NetFuture<'a, Result<Conn, DialError>>;
    /// Starts to accept; connections come out of the channel until it is dropped.
    fn listen(&self) -> NetFuture<'_, io::Result<mpsc::Receiver<Conn>>>;
}
