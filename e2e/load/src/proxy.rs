//! A TCP proxy that is unkind on demand: between members, or before the clients' ports.
//!
//! Each direction of a [`Link`] passes bytes on, delays them in their order, stalls or resets; what is set holds at once
//! for connections that exist and for new ones. It must never lose, change or reorder a byte of a connection, and its
//! buffers are bounded: a sender whose bytes nobody takes has to wait, as before a real network.
//!
//! What differs from a network that drops packets: a dial succeeds as long as the proxy runs, and what a stalled direction
//! has not read stays with the sender's kernel, which sees a closed window instead of silence.

mod pump;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Behaviour {
    #[default]
    Pass,
    /// Bytes arrive `base` later, plus or minus up to `jitter`, in their order.
    Delay { base: Duration, jitter: Duration },
    /// Nothing moves.
    Stall,
    /// Connections are reset, new ones too. Of one direction it is the end of both.
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From who dialled to who is behind the proxy.
    ToTarget,
    ToDialler,
}

/// The way between one dialler and one target; shared by all connections between the two.
#[derive(Debug, Default)]
pub struct Link {
    to_target: watch::Sender<Behaviour>,
    to_dialler: watch::Sender<Behaviour>,
}

impl Link {
    pub fn set(&self, direction: Direction, behaviour: Behaviour) {
        match direction {
            Direction::ToTarget => self.to_target.send_replace(behaviour),
            Direction::ToDialler => self.to_dialler.send_replace(behaviour),
        };
    }
}

/// Which link a connection belongs to.
#[derive(Clone)]
pub enum Route {
    /// All of them to one.
    One(Arc<Link>),
    /// Diallers share an address and are told apart by what they send first.
    ByFirstBytes { links: Vec<Arc<Link>>, bytes: usize, dialler: fn(&[u8]) -> Option<usize> },
}

/// A listening proxy. It and its connections end when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// Connections through one proxy at a time; more are turned away.
const CONNECTIONS_MAX: usize = 4096;
/// After a failed accept, as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A dialler may say nothing for so long before it is let go of.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(15);
/// Between two looks at what a dialler has sent so far.
const FIRST_BYTES_POLL: Duration = Duration::from_millis(1);

impl Proxy {
    /// Listens on a loopback port of its own and passes connections on to `target`.
    pub async fn start(target: SocketAddr, route: Route) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot bind a proxy")?;
        let address = listener.local_addr()?;
        Ok(Proxy { address, task: tokio::spawn(serve(listener, target, route)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, route: Route) {
    // Dropped with this task, which ends them.
    let mut connections = JoinSet::new();
    let mut number = 0;
    loop {
        tokio::select! {
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((dialler, _)) if connections.len() < CONNECTIONS_MAX => {
                    number += 1;
                    connections.spawn(connect(dialler, target, route.clone(), number));
                }
                Ok(_one_too_many) => {}
                Err(_passing) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

async fn connect(dialler: TcpStream, target: SocketAddr, route: Route, number: u64) {
    let choose = tokio::time::timeout(FIRST_BYTES_TIMEOUT, choose(&dialler, &route));
    let Ok(Ok(Some(link))) = choose.await else { return };
    let mut to_target = link.to_target.subscribe();
    // Who cannot be reached is not dialled either.
    let reached = to_target.wait_for(|behaviour| *behaviour != Behaviour::Stall).await.is_ok();
    match TcpStream::connect(target).await {
        Ok(target) if reached => pump::both(dialler, target, &link, number).await,
        _ => pump::reset(&dialler),
    }
}

/// `None`: it is nobody whom the route knows, or it has gone.
async fn choose(dialler: &TcpStream, route: &Route) -> std::io::Result<Option<Arc<Link>>> {
    let (links, bytes, dialler_of) = match route {
        Route::One(link) => return Ok(Some(Arc::clone(link))),
        Route::ByFirstBytes { links, bytes, dialler } => (links, *bytes, dialler),
    };
    let mut first = vec![0; bytes];
    loop {
        let seen = dialler.peek(&mut first).await?;
        if seen == 0 {
            return Ok(None);
        }
        if seen == bytes {
            return Ok(dialler_of(&first).and_then(|index| links.get(index)).cloned());
        }
        tokio::time::sleep(FIRST_BYTES_POLL).await;
    }
}

#[cfg(test)]
mod tests;
