//! The sockets of production: clients, HTTP and admin. Outside the simulator's reach; holds no logic of its own.
#![allow(clippy::disallowed_methods)]

use crate::limits::{ACCEPT_BACKLOG, FIRST_BYTE_TIME_MAX, PASS_ON_DIAL_TIME_MAX, PASSED_ON_MAX};
use crate::node::Node;
use keeper_tls::{Tls, TlsStream};
use keeper_types::AclId;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pause after a failed accept (too many open files), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What a TLS client says first: a record of type handshake (RFC 8446, 5.1). A request's length and a four-letter word
/// never begin so: that length would be 369 MB.
const TLS_HANDSHAKE: u8 = 0x16;

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
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(ACCEPT_BACKLOG)
    };
    open().map_err(|cause| ListenError { what, address, cause })
}

/// Serves clients until the task is dropped: without TLS, and where there are `clients` of TLS, those as well.
pub async fn serve_clients(node: Node, listener: TcpListener, clients: Option<TlsClients>) {
    let passing = Arc::new(Semaphore::new(PASSED_ON_MAX));
    loop {
        let (stream, remote) = accept(&listener, "client").await;
        let Some(place) = node.admit(remote.ip()) else { continue };
        if let Some(address) = node.shared().clients_go_to() {
            // Without room the client is closed, and tries another member.
            if let Ok(room) = passing.clone().try_acquire_owned() {
                keeper_rt::spawn("client-passed-on", async move {
                    let _place = place;
                    pass_on(stream, address, room).await;
                });
            }
            continue;
        }
        let (node, clients) = (node.clone(), clients.clone());
        keeper_rt::spawn("client", async move {
            let _place = place;
            let remote = remote.to_string();
            match clients {
                None => node.serve_client(stream, remote, Vec::new()).await,
                Some(clients) => match speaks_tls(&stream).await {
                    // On the heap, or every idle client without TLS would hold room for it.
                    Some(true) => Box::pin(clients.serve(&node, stream, remote)).await,
                    Some(false) => node.serve_client(stream, remote, Vec::new()).await,
                    None => tracing::debug!(remote, "a client left or stayed silent before its first byte"),
                },
            }
        });
    }
}

/// What the first byte says, which stays where it is. `None`: there was none in time.
async fn speaks_tls(stream: &TcpStream) -> Option<bool> {
    let mut first = [0];
    match keeper_rt::timeout(FIRST_BYTE_TIME_MAX, stream.peek(&mut first)).await {
        Ok(Ok(1)) => Some(first == [TLS_HANDSHAKE]),
        Ok(_) | Err(_) => None,
    }
}

/// Every byte both ways between a client and another member, until either side ends it.
async fn pass_on(mut client: TcpStream, address: String, _room: OwnedSemaphorePermit) {
    let dialling = keeper_rt::timeout(PASS_ON_DIAL_TIME_MAX, TcpStream::connect(&address)).await;
    let Ok(Ok(mut member)) = dialling else {
        tracing::info!(address, "a client could not be passed on");
        return;
    };
    prepare(&member);
    // How it ends is between those two.
    let _ = tokio::io::copy_bidirectional(&mut client, &mut member).await;
}

/// What makes a port one of TLS.
#[derive(Clone)]
pub struct TlsClients {
    /// That of the client port.
    pub tls: Arc<Tls>,
    /// The subject whose holder may do everything: ZooKeeper's `X509AuthenticationProvider.superUser`.
    pub super_subject: Option<String>,
}

/// Serves clients inside TLS until the task is dropped. A client in the handshake holds up nobody else.
pub async fn serve_tls_clients(node: Node, listener: TcpListener, clients: TlsClients) {
    loop {
        let (stream, remote) = accept(&listener, "client").await;
        let Some(place) = node.admit(remote.ip()) else { continue };
        let (node, clients) = (node.clone(), clients.clone());
        keeper_rt::spawn("client", async move {
            let _place = place;
            clients.serve(&node, stream, remote.to_string()).await;
        });
    }
}

impl TlsClients {
    async fn serve(&self, node: &Node, stream: TcpStream, remote: String) {
        let Some(accepted) = self.tls.accept(stream, &remote).await else { return };
        let proved = self.identities(accepted.subject);
        node.serve_client(TlsStream::new(accepted.stream), remote, proved).await;
    }

    /// As ZooKeeper's X509AuthenticationProvider gives them.
    fn identities(&self, subject: Option<String>) -> Vec<AclId> {
        let identity = |scheme: &str, id: &str| AclId { scheme: scheme.into(), id: id.into() };
        let Some(subject) = subject else { return Vec::new() };
        let mut proved = vec![identity("x509", &subject)];
        if self.super_subject.as_ref() == Some(&subject) {
            proved.push(identity("super", &subject));
        }
        proved
    }
}

/// The next connection. Trouble with one, or with too many, does not end the listener.
pub(crate) async fn accept(listener: &TcpListener, what: &str) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => {
                prepare(&stream);
                return (stream, remote);
            }
            Err(error) => {
                tracing::warn!(%error, what, "cannot accept a connection");
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
