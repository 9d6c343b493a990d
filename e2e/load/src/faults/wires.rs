//! Proxies in the place of the wires: one before each member's peer port, one before its clients' port.
//!
//! All members are told the same address of a peer, and on loopback they share a source address too. So a proxy tells its
//! diallers apart by the server id in the first frame of a peer connection (docs/protocol/peer.md, hello).

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;

use crate::cluster::keeper::Plan;
use crate::proxy::{Behaviour, Direction, Link, Proxy, Route};

pub struct Wires {
    /// `peers[from][to]` carries the connections that `from` dials.
    peers: Vec<Vec<Arc<Link>>>,
    clients: Vec<Arc<Link>>,
    client_hosts: Vec<SocketAddr>,
    /// They end when dropped.
    _proxies: Vec<Proxy>,
}

/// The first frame: its length, then what begins with these bytes.
const HELLO: &[u8] = b"\x01KPPR";
const HELLO_AT: usize = 4;
/// The dialling server's id, 8 bytes, little-endian.
const FROM_AT: usize = HELLO_AT + 1 + 4 + 2 + 1 + 1 + 16;
const FIRST_BYTES: usize = FROM_AT + 8;

impl Wires {
    /// Puts itself between the members of `plan`. Their server ids are their places plus 1.
    pub async fn start(plan: &mut Plan) -> Result<Wires> {
        let members = plan.places.len();
        let link = |_| Arc::new(Link::default());
        let peers: Vec<Vec<Arc<Link>>> = (0..members).map(|_| (0..members).map(link).collect()).collect();
        let clients: Vec<Arc<Link>> = (0..members).map(link).collect();
        let (mut client_hosts, mut proxies) = (Vec::new(), Vec::new());
        for (to, place) in plan.places.iter_mut().enumerate() {
            let links = peers.iter().map(|row| Arc::clone(&row[to])).collect();
            let route = Route::ByFirstBytes { links, bytes: FIRST_BYTES, dialler };
            let peer = Proxy::start(place.peer, route).await?;
            place.advertised = peer.address();
            let client = Proxy::start(place.client, Route::One(Arc::clone(&clients[to]))).await?;
            client_hosts.push(client.address());
            proxies.extend([peer, client]);
        }
        Ok(Wires { peers, clients, client_hosts, _proxies: proxies })
    }

    /// Where clients find the members.
    pub fn client_hosts(&self) -> Vec<SocketAddr> {
        self.client_hosts.clone()
    }

    /// Of what member `from` sends to member `to`, whoever dialled.
    pub fn set(&self, from: usize, to: usize, behaviour: Behaviour) {
        self.peers[from][to].set(Direction::ToTarget, behaviour);
        self.peers[to][from].set(Direction::ToDialler, behaviour);
    }

    /// Of what a member sends to its clients.
    pub fn set_to_clients(&self, member: usize, behaviour: Behaviour) {
        self.clients[member].set(Direction::ToDialler, behaviour);
    }

    /// Of what its clients send to a member.
    pub fn set_from_clients(&self, member: usize, behaviour: Behaviour) {
        self.clients[member].set(Direction::ToTarget, behaviour);
    }

    /// Of all that a member sends, its answers to clients included.
    pub fn set_outgoing(&self, member: usize, behaviour: Behaviour) {
        for to in (0..self.peers.len()).filter(|to| *to != member) {
            self.set(member, to, behaviour);
        }
        self.set_to_clients(member, behaviour);
    }

    /// Everything passes.
    pub fn heal(&self) {
        for member in 0..self.peers.len() {
            self.set_outgoing(member, Behaviour::Pass);
            self.set_from_clients(member, Behaviour::Pass);
        }
    }
}

/// Which member a peer connection comes from.
fn dialler(first: &[u8]) -> Option<usize> {
    let hello = first.get(HELLO_AT..)?;
    let from: [u8; 8] = first.get(FROM_AT..FIRST_BYTES)?.try_into().ok()?;
    let place = u64::from_le_bytes(from).checked_sub(1)?;
    hello.starts_with(HELLO).then_some(usize::try_from(place).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialler_is_known_by_its_hello() {
        let mut first = [&[73, 0, 0, 0][..], HELLO, &[1, 0, 1, 0], &[0xca; 16], &3u64.to_le_bytes()].concat();
        assert_eq!(first.len(), FIRST_BYTES);
        assert_eq!(dialler(&first), Some(2));
        first[FROM_AT] = 0;
        assert_eq!(dialler(&first), None, "no server has the id 0");
        first[FROM_AT] = 3;
        first[HELLO_AT + 1] = b'X';
        assert_eq!(dialler(&first), None, "not a hello");
        assert_eq!(dialler(&first[..20]), None);
    }
}
