//! The real [`Network`]: frames over TCP, or TLS over it. A frame is its length in four bytes, little-endian, and that
//! many bytes.
//!
//! A dialled connection counts as made once TCP says so; TLS' handshake belongs to the connection's own task. So a
//! dial fails for the same reasons with TLS as without, and the failure detector learns the same from it. Who fails
//! that handshake is seen as a connection that closes, within the time that the members' own handshake has.
//!
//! Each connection has a reader and a writer task with bounded queues between them and whoever uses it. Which peer it
//! is and what the frames mean is not known here.

use crate::limits::{
    ACCEPTED_CONNS_MAX, CONN_FRAMES_MAX, DIAL, HANDSHAKE_FRAME_BYTES_MAX, HANDSHAKE_FRAMES, HANDSHAKE_STEP,
    KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, PEER_FRAME_BYTES_MAX, TCP_USER_TIMEOUT, TCP_WRITE_BYTES_MAX,
};
use crate::net::{Conn, DialError, NetFuture, Network};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use keeper_tls::Tls;
use keeper_tls::limits::PEER_HANDSHAKE_TIME_MAX;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

/// Whoever waits for a connection's first frame must not give up before TLS does, which says why.
const _: () = assert!(PEER_HANDSHAKE_TIME_MAX.as_millis() < HANDSHAKE_STEP.as_millis());

/// Bytes read from a socket at a time.
const READ_BYTES: usize = 64 << 10;
/// Larger frames are written as they are; smaller ones are gathered first.
const COPY_BYTES_MAX: usize = 16 << 10;
/// Smaller frames get memory of their own: as slices of the read buffer they would keep all of it alive, and entries
/// live long in the log's cache.
const SLICE_BYTES_MIN: usize = 64 << 10;
/// Connections that the system may hold for us before we accept them.
const BACKLOG: u32 = 128;

/// TCP to and from other members, inside TLS where there is a certificate.
pub struct TcpNetwork {
    listen: SocketAddr,
    tls: Option<Arc<Tls>>,
}

impl TcpNetwork {
    /// Will listen at `listen` once asked to.
    #[allow(clippy::new_ret_no_self)]
    pub fn new(listen: SocketAddr) -> Arc<dyn Network> {
        Arc::new(TcpNetwork { listen, tls: None })
    }

    /// The same inside TLS: both sides prove a certificate before the first frame. `tls` is that of the peer port.
    pub fn with_tls(listen: SocketAddr, tls: Arc<Tls>) -> Arc<dyn Network> {
        Arc::new(TcpNetwork { listen, tls: Some(tls) })
    }
}

impl Network for TcpNetwork {
    fn dial<'a>(&'a self, address: &'a str) -> NetFuture<'a, Result<Conn, DialError>> {
        Box::pin(dial(address, self.tls.clone()))
    }

    fn listen(&self) -> NetFuture<'_, io::Result<mpsc::Receiver<Conn>>> {
        Box::pin(async move {
            let listener = bind(self.listen)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.listen)))?;
            let (accepted, conns) = mpsc::channel(ACCEPTED_CONNS_MAX);
            keeper_rt::spawn("peer-accept", accept(listener, accepted, self.tls.clone()));
            Ok(conns)
        })
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    // A restarted process must not wait for its predecessor's connections to time out.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, accepted: mpsc::Sender<Conn>, tls: Option<Arc<Tls>>) {
    loop {
        let next = tokio::select! {
            biased;
            () = accepted.closed() => return,
            next = listener.accept() => next,
        };
        match next {
            Ok((stream, remote)) => {
                let side = tls.clone().map_or(Side::Plain, Side::Accepting);
                let Ok(conn) = wrap(stream, remote.to_string(), side) else { continue };
                if accepted.send(conn).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                // Out of file descriptors or the like: the listener itself stays good.
                tracing::warn!(%error, "cannot accept a peer connection");
                keeper_rt::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Resolves and connects; each address of the name is tried in turn. The caller limits the time too.
async fn dial(address: &str, tls: Option<Arc<Tls>>) -> Result<Conn, DialError> {
    let unreachable = |why: String| DialError::Unreachable(format!("{address}: {why}"));
    let resolving = keeper_rt::timeout(DIAL, tokio::net::lookup_host(address)).await;
    let resolved = resolving.map_err(|_| unreachable("name resolution timed out".into()))?;
    let mut last = unreachable("no address".into());
    for resolved in resolved.map_err(|error| unreachable(error.to_string()))? {
        match keeper_rt::timeout(DIAL, connect(resolved)).await {
            Ok(Ok(stream)) => {
                let side = tls.map_or(Side::Plain, Side::Dialling);
                return wrap(stream, address.to_owned(), side)
                    .map_err(|error| unreachable(error.to_string()));
            }
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => last = DialError::Refused,
            Ok(Err(error)) => last = unreachable(error.to_string()),
            Err(_) => last = unreachable("timed out".into()),
        }
    }
    Err(last)
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    socket.connect(address).await
}

/// What lies between the socket and the frames.
enum Side {
    Plain,
    Accepting(Arc<Tls>),
    Dialling(Arc<Tls>),
}

/// Starts the tasks of a connection.
fn wrap(stream: TcpStream, remote: String, side: Side) -> io::Result<Conn> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL),
    )?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
    let (sender, outgoing) = mpsc::channel(CONN_FRAMES_MAX);
    let (incoming, receiver) = mpsc::channel(CONN_FRAMES_MAX);
    let from = remote.clone();
    match side {
        Side::Plain => {
            let (read_half, write_half) = stream.into_split();
            spawn_writer(write_half, outgoing);
            keeper_rt::spawn("peer-read", read(read_half, incoming, from));
        }
        Side::Accepting(tls) => {
            keeper_rt::spawn("peer-read", async move {
                let handshake = async { Some(tls.accept(stream, &from).await?.stream) };
                secured(handshake, incoming, outgoing, &from).await;
            });
        }
        Side::Dialling(tls) => {
            keeper_rt::spawn("peer-read", async move {
                secured(tls.dial(stream, &from), incoming, outgoing, &from).await;
            });
        }
    }
    Ok(Conn { sender, receiver, remote })
}

/// Waits for TLS' handshake, then carries frames both ways. Gives up with whoever uses the connection.
async fn secured<S>(
    handshake: impl Future<Output = Option<S>>,
    incoming: mpsc::Sender<Bytes>,
    outgoing: mpsc::Receiver<Bytes>,
    remote: &str,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = tokio::select! {
        biased;
        () = incoming.closed() => return,
        stream = handshake => stream,
    };
    let Some(stream) = stream else { return };
    let (read_half, write_half) = tokio::io::split(stream);
    spawn_writer(write_half, outgoing);
    read(read_half, incoming, remote.to_owned()).await;
}

fn spawn_writer(stream: impl AsyncWrite + Unpin + Send + 'static, outgoing: mpsc::Receiver<Bytes>) {
    keeper_rt::spawn("peer-write", async move {
        // The reader sees the end as well; whoever uses the connection learns it from there.
        let _ = write_frames(stream, outgoing).await;
    });
}

async fn read(stream: impl AsyncRead + Unpin, incoming: mpsc::Sender<Bytes>, remote: String) {
    if let Err(error) = read_frames(stream, &incoming).await {
        tracing::debug!(remote, %error, "peer connection ended");
    }
}

async fn read_frames(mut stream: impl AsyncRead + Unpin, incoming: &mpsc::Sender<Bytes>) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    let mut frames = 0;
    loop {
        // Nobody has proved anything yet in the first frames of a connection.
        let limit =
            |frames| if frames < HANDSHAKE_FRAMES { HANDSHAKE_FRAME_BYTES_MAX } else { PEER_FRAME_BYTES_MAX };
        while let Some(frame) = split_frame(&mut buffer, limit(frames))? {
            frames += 1;
            if incoming.send(frame).await.is_err() {
                return Ok(());
            }
        }
        if buffer.spare_capacity_mut().is_empty() {
            buffer.reserve(READ_BYTES);
        }
        let read = tokio::select! {
            biased;
            () = incoming.closed() => return Ok(()),
            read = stream.read_buf(&mut buffer) => read?,
        };
        if read == 0 {
            return Ok(());
        }
    }
}

/// Takes a whole frame off the front. A length out of bounds is an error before anything is allocated for it.
fn split_frame(buffer: &mut BytesMut, len_max: usize) -> io::Result<Option<Bytes>> {
    let Some(head) = buffer.first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_le_bytes(*head) as usize;
    if len == 0 || len > len_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {len} bytes")));
    }
    if buffer.len() < 4 + len {
        // Grows with what arrives, at most twofold: a length alone takes no memory.
        let missing = 4 + len - buffer.len();
        buffer.reserve(missing.min(buffer.len().max(READ_BYTES)));
        return Ok(None);
    }
    buffer.advance(4);
    if len < SLICE_BYTES_MIN {
        let frame = Bytes::copy_from_slice(&buffer[..len]);
        buffer.advance(len);
        return Ok(Some(frame));
    }
    Ok(Some(buffer.split_to(len).freeze()))
}

/// Writes what has gathered, in one call where it is small.
async fn write_frames(
    mut stream: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::Receiver<Bytes>,
) -> io::Result<()> {
    let mut gathered = BytesMut::with_capacity(TCP_WRITE_BYTES_MAX);
    while let Some(first) = outgoing.recv().await {
        let mut next = Some(first);
        while let Some(frame) = next.take() {
            assert!(frame.len() <= PEER_FRAME_BYTES_MAX, "a frame of {} bytes", frame.len());
            gathered.put_u32_le(frame.len() as u32);
            if frame.len() > COPY_BYTES_MAX {
                stream.write_all_buf(&mut gathered.split()).await?;
                stream.write_all(&frame).await?;
            } else {
                gathered.put_slice(&frame);
            }
            if gathered.len() < TCP_WRITE_BYTES_MAX {
                next = outgoing.try_recv().ok();
            }
        }
        if !gathered.is_empty() {
            stream.write_all_buf(&mut gathered.split()).await?;
        }
        // TLS keeps what the socket did not take.
        stream.flush().await?;
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests;
