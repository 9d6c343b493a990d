//! How a stream of bytes to a server comes to be. The session above it does not know whether it is TCP or a
//! simulation's pipe.

use std::future::Future;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

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
    type Stream = tokio::net::TcpStream;

    // The one place where the session touches the network: a simulation brings its own connector.
    #[allow(clippy::disallowed_methods)]
    async fn connect(&self, address: &str) -> io::Result<Self::Stream> {
        let stream = tokio::net::TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}
