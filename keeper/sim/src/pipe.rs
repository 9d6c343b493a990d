//! Byte pipes between clients and servers: what a TCP connection is to the server's connection task.
//!
//! The bytes arrive in pieces of any size, delayed, through the same partitions and resets as the peers' frames.

use crate::executor::NodeId;
use crate::limits::CLIENT_PIPE_BYTES;
use crate::net::{SimNet, Sink, Source, SplitEnd, connect_streams};
use bytes::Bytes;
use keeper_consensus::DialError;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream, ReadBuf, ReadHalf, WriteHalf};
use tokio::sync::watch;

/// Most bytes carried as one piece.
const PIECE_BYTES_MAX: u64 = 16 * 1024;

/// Both ends of an established connection, and the means to break it.
pub struct Pipe {
    pub client: DuplexStream,
    pub server: DuplexStream,
    broken: watch::Sender<bool>,
}

impl Pipe {
    /// A switch that breaks the connection: both ends then read the end and fail to write.
    pub fn breaker(&self) -> watch::Sender<bool> {
        self.broken.clone()
    }
}

/// Connects `client` with `server`, unless a partition or a dead machine is in between. Whether a process listens
/// there is for the caller to know.
pub async fn connect(net: &SimNet, client: NodeId, server: NodeId) -> Result<Pipe, DialError> {
    net.reach(client, server).await?;
    let (client_end, near) = tokio::io::duplex(CLIENT_PIPE_BYTES);
    let (server_end, far) = tokio::io::duplex(CLIENT_PIPE_BYTES);
    let near = End { net: net.clone(), stream: near };
    let far = End { net: net.clone(), stream: far };
    let broken = connect_streams(net, client, server, near, far);
    Ok(Pipe { client: client_end, server: server_end, broken })
}

struct End {
    net: SimNet,
    stream: DuplexStream,
}

impl SplitEnd for End {
    type Source = Pieces;
    type Sink = WriteHalf<DuplexStream>;

    fn split(self) -> (Pieces, WriteHalf<DuplexStream>) {
        let (reader, writer) = tokio::io::split(self.stream);
        (Pieces { net: self.net, reader, buffer: vec![0; PIECE_BYTES_MAX as usize] }, writer)
    }
}

struct Pieces {
    net: SimNet,
    reader: ReadHalf<DuplexStream>,
    buffer: Vec<u8>,
}

impl Source for Pieces {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // Often all that is there, sometimes a few bytes: frames are torn anywhere.
        let len = self.net.simulator().with_random(|random| match random.one_in(4) {
            true => 1 + random.below(40),
            false => PIECE_BYTES_MAX,
        });
        let mut piece = ReadBuf::new(&mut self.buffer[..len as usize]);
        let result = std::task::ready!(Pin::new(&mut self.reader).poll_read(cx, &mut piece));
        if result.is_err() || piece.filled().is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Bytes::copy_from_slice(piece.filled())))
    }
}

impl Sink for WriteHalf<DuplexStream> {
    async fn put(&mut self, bytes: Bytes) -> bool {
        self.write_all(&bytes).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{Options, run};
    use crate::net::Delays;
    use tokio::io::AsyncReadExt;

    #[test]
    fn bytes_arrive_whole_and_in_order_in_pieces() {
        for seed in 0..20 {
            let finished = run(seed, Options::default(), |simulator| async move {
                let net = SimNet::new(&simulator, Delays::default());
                let mut pipe = connect(&net, 101, 1).await.unwrap();
                let sent: Vec<u8> = (0..200_000u32).map(|n| (n * 7 % 253) as u8).collect();
                let copy = sent.clone();
                simulator.spawn_on(101, "writer", async move {
                    pipe.client.write_all(&copy).await.unwrap();
                    pipe.client.shutdown().await.unwrap();
                });
                let mut received = Vec::new();
                let mut reads = 0;
                let mut buffer = vec![0; 100_000];
                loop {
                    let count = pipe.server.read(&mut buffer).await.unwrap();
                    if count == 0 {
                        break;
                    }
                    reads += 1;
                    received.extend_from_slice(&buffer[..count]);
                }
                (received == sent, reads)
            });
            let (same, reads) = finished.output.unwrap();
            assert!(same && reads >= 3, "seed {seed}: {same} after {reads} reads");
        }
    }

    #[test]
    fn a_broken_pipe_ends_at_both_ends() {
        let finished = run(1, Options::default(), |simulator| async move {
            let net = SimNet::new(&simulator, Delays::default());
            let mut pipe = connect(&net, 101, 1).await.unwrap();
            pipe.client.write_all(b"hello").await.unwrap();
            let mut hello = [0; 5];
            pipe.server.read_exact(&mut hello).await.unwrap();
            pipe.breaker().send_replace(true);
            let client_read = pipe.client.read(&mut [0; 8]).await.unwrap();
            (hello, client_read, pipe.server.read(&mut [0; 8]).await.unwrap())
        });
        assert_eq!(finished.output.unwrap(), (*b"hello", 0, 0));
    }
}
