//! Three members of one process, who dial each other by name.

use bytes::Bytes;
use keeper_consensus::{Conn, DialError, Member, NetFuture, Network, Precondition};
use keeper_server::{Node, NodeOptions};
use keeper_types::{ClusterId, ServerId};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

use crate::support::{member_of_no_cluster, ready};

/// Messages under way between two members; more wait at the sender.
const MESSAGES_MAX: usize = 64;

#[derive(Clone, Default)]
struct Mesh(Arc<Mutex<BTreeMap<String, mpsc::Sender<Conn>>>>);

struct Port {
    mesh: Mesh,
    address: String,
}

impl Network for Port {
    fn dial<'a>(&'a self, address: &'a str) -> NetFuture<'a, Result<Conn, DialError>> {
        Box::pin(async move {
            let listener =
                self.mesh.0.lock().expect("no panic").get(address).cloned().ok_or(DialError::Refused)?;
            let (to_them, from_us) = mpsc::channel::<Bytes>(MESSAGES_MAX);
            let (to_us, from_them) = mpsc::channel::<Bytes>(MESSAGES_MAX);
            let theirs = Conn { sender: to_us, receiver: from_us, remote: self.address.clone() };
            listener.send(theirs).await.map_err(|_| DialError::Refused)?;
            Ok(Conn { sender: to_them, receiver: from_them, remote: address.into() })
        })
    }

    fn listen(&self) -> NetFuture<'_, io::Result<mpsc::Receiver<Conn>>> {
        Box::pin(async move {
            let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
            self.mesh.0.lock().expect("no panic").insert(self.address.clone(), sender);
            Ok(receiver)
        })
    }
}

/// The first one founded the cluster; all are ready.
pub async fn three_members(change: impl Fn(&mut NodeOptions)) -> Vec<Node> {
    let mesh = Mesh::default();
    let member = |number: u64| Member {
        id: ServerId(number),
        peer_address: format!("member-{number}:1"),
        client_address: format!("member-{number}:2"),
        name: format!("member-{number}"),
        election_port: 0,
    };
    let mut nodes = Vec::new();
    for number in 1..=3 {
        let port = Port { mesh: mesh.clone(), address: format!("member-{number}:1") };
        let node = member_of_no_cluster(|options| {
            change(options);
            options.network = Arc::new(port);
        });
        nodes.push(node.await);
    }
    let first = nodes[0].consensus();
    first.bootstrap(ClusterId([7; 16]), member(1)).await.expect("founded");
    for number in 2..=3 {
        first.add_learner(member(number), Precondition::default()).await.expect("added");
        first.promote(ServerId(number), Precondition::default()).await.expect("promoted");
    }
    for node in &nodes {
        ready(node).await;
    }
    nodes
}
