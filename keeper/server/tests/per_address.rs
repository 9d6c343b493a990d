//! `maxClientCnxns` on a real socket: who is one too many is closed, and a place that is free again is given away.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod support;

use keeper_server::listener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What `ruok` is answered; empty when the connection is closed instead.
async fn ruok(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    let _ = stream.write_all(b"ruok").await;
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

#[tokio::test]
async fn one_too_many_of_an_address_is_closed_and_counted() {
    let node = support::one_member_with(|options| options.connections_per_address_max = 1).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    keeper_rt::spawn("plain", listener::serve_clients(node.clone(), listener, None));
    let connect = || async move { TcpStream::connect(address).await.unwrap() };
    let refused = || node.shared().metrics.connections_refused_for_address.get();

    // The listener takes connections in their order: this one is admitted first.
    let first = connect().await;
    assert_eq!(ruok(connect().await).await, "");
    assert_eq!(refused(), 1);
    assert_eq!(ruok(first).await, "imok");

    // Its place is free once the server has seen the end.
    let freed = async {
        while ruok(connect().await).await != "imok" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(support::WAIT, freed).await.unwrap();
}
