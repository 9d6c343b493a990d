//! The sockets of production: clients, HTTP and admin. Outside the simulator's reach; holds no logic of its own.
#![allow(clippy::disallowed_methods)]

use crate::node::Node;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Pause after a failed accept (too many open files), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
#[error("cannot listen for {what} on {address}: {cause}")]
pub struct ListenError {
    pub what: &'static str,
    pub address: SocketAddr,
    #[source]
    pub cause: io::Error,
}

/// Opens a listening socket.
pub async fn bind(what: &'static str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address).await.map_err(|cause| ListenError { what, address, cause })
}

/// Serves clients until the task is dropped.
pub async fn serve_clients(node: Node, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                prepare(&stream);
                let node = node.clone();
                keeper_rt::spawn(
                    "client",
                    async move { node.serve_client(stream, remote.to_string()).await },
                );
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a client");
                keeper_rt::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Replies leave at once, and a client whose machine died is noticed. Failure of either is no reason to refuse.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}
