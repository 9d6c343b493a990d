//! A TLS stream that behaves as TCP does for a task that reads and writes but never flushes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// tokio-rustls keeps what the socket did not take until somebody flushes. Here later reads and writes push it on,
/// and a write waits until the last one's bytes are out, so that who measures whether the other side takes its bytes
/// sees the truth. Both halves must be polled by one task: reading may wait for writing.
pub struct TlsStream<S> {
    inner: S,
    /// Bytes of a write may still be here.
    unsent: bool,
}

impl<S: AsyncWrite + Unpin> TlsStream<S> {
    pub fn new(inner: S) -> TlsStream<S> {
        // The last message of a handshake may be unsent as well.
        TlsStream { inner, unsent: true }
    }

    fn push(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.unsent {
            ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
            self.unsent = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(Err(error)) = self.push(cx) {
            return Poll::Ready(Err(error));
        }
        match ready!(Pin::new(&mut self.inner).poll_read(cx, buf)) {
            // The end without TLS' farewell. Every message of ours says how long it is: a cut shows all the same.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            other => Poll::Ready(other),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.push(cx))?;
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.unsent = true;
        match self.push(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(written)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.push(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
