//! How a stream of bytes to a server comes to be. The session above it does not know whether it is TCP or a
//! simulation's pipe.

use keeper_tls::{ClientTls, TlsStream, dialled};
use std::future::Future;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

pub trait Connector: Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Connects to `host:port`. The caller sets the time limit. A stream must pass on what is written to it
    /// without being flushed.
    fn connect(&self, address: &str) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// TCP; names are resolved anew at each call.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    type Stream = TcpStream;

    // The one place where the session touches the network: a simulation brings its own connector.
    #[allow(clippy::disallowed_methods)]
    async fn connect(&self, address: &str) -> io::Result<Self::Stream> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// TLS over TCP: the server proves that it is the one that was dialled, and we prove who we are if we can.
#[derive(Clone, Debug)]
pub struct TlsConnector(pub ClientTls);

impl Connector for TlsConnector {
    type Stream = TlsStream<dialled::TlsStream<TcpStream>>;

    async fn connect(&self, address: &str) -> io::Result<Self::Stream> {
        self.0.connect(TcpConnector.connect(address).await?, address).await
    }
}
