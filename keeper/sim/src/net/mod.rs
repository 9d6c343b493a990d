//! The simulated network: ordered connections with a delay per message, partitions, resets and silent deaths.
//!
//! Dials to a machine whose process is dead are refused; dials through a partition or to a dead machine time out.
//! A connection stalls under a partition and breaks after a while. Frames are never lost, doubled or reordered
//! within a connection, as with TCP.

mod pump;

#[cfg(test)]
mod tests;

use crate::executor::{NodeId, OUTSIDE, SimSleep, Simulator, lock};
use crate::limits::{ACCEPT_BACKLOG, CONN_CHANNEL_FRAMES};
use bytes::Bytes;
use keeper_consensus::{Conn, DialError, NetFuture, Network};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

pub(crate) use pump::{Link, Sink, Source, SplitEnd, connect_streams};

/// How slow the network is.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    pub least: Duration,
    pub jitter: Duration,
    /// One message in so many takes twenty times as long.
    pub slow_one_in: u64,
}

impl Default for Delays {
    fn default() -> Delays {
        Delays { least: Duration::from_micros(60), jitter: Duration::from_micros(400), slow_one_in: 400 }
    }
}

/// A living connection, for resets.
struct Living {
    ends: (NodeId, NodeId),
    broken: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    names: BTreeMap<String, NodeId>,
    listeners: BTreeMap<NodeId, mpsc::Sender<Conn>>,
    /// Directions in which nothing passes.
    blocked: BTreeSet<(NodeId, NodeId)>,
    /// Machines that neither answer nor refuse until then.
    silent_until_ns: BTreeMap<NodeId, u64>,
    /// How often a machine lost its power: what was under way from it is lost.
    power_losses: BTreeMap<NodeId, u64>,
    living: Vec<Living>,
    dials: u64,
}

/// The network of a cluster.
#[derive(Clone)]
pub struct SimNet {
    simulator: Simulator,
    delays: Delays,
    state: Arc<Mutex<State>>,
}

impl SimNet {
    pub fn new(simulator: &Simulator, delays: Delays) -> SimNet {
        SimNet { simulator: simulator.clone(), delays, state: Arc::default() }
    }

    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// Lets `address` (`host:port`) lead to `node`.
    pub fn name(&self, address: &str, node: NodeId) {
        lock(&self.state).names.insert(address.to_string(), node);
    }

    /// The network as the processes of `node` see it.
    pub fn interface(&self, node: NodeId) -> Arc<dyn Network> {
        Arc::new(Interface { net: self.clone(), node })
    }

    pub fn block(&self, from: NodeId, to: NodeId) {
        lock(&self.state).blocked.insert((from, to));
    }

    pub fn unblock(&self, from: NodeId, to: NodeId) {
        lock(&self.state).blocked.remove(&(from, to));
    }

    /// Ends every partition.
    pub fn heal(&self) {
        lock(&self.state).blocked.clear();
    }

    pub(crate) fn is_blocked(&self, from: NodeId, to: NodeId) -> bool {
        lock(&self.state).blocked.contains(&(from, to))
    }

    /// The process of `node` died; what it had sent still arrives, and dials to it are refused.
    pub fn process_died(&self, node: NodeId) {
        let listener = lock(&self.state).listeners.remove(&node);
        drop(listener);
    }

    /// The machine of `node` died: what it had sent is lost, and for so long nobody learns of it.
    pub fn machine_died(&self, node: NodeId, silent_for: Duration) {
        let until = self.simulator.now_ns() + u64::try_from(silent_for.as_nanos()).unwrap_or(u64::MAX / 2);
        {
            let mut state = lock(&self.state);
            state.silent_until_ns.insert(node, until);
            *state.power_losses.entry(node).or_default() += 1;
        }
        self.process_died(node);
    }

    /// The machine answers again, be it to refuse.
    pub fn machine_is_back(&self, node: NodeId) {
        lock(&self.state).silent_until_ns.remove(&node);
    }

    pub(crate) fn is_silent(&self, node: NodeId) -> bool {
        let until = lock(&self.state).silent_until_ns.get(&node).copied();
        until.is_some_and(|until| until > self.simulator.now_ns())
    }

    pub(crate) fn power_losses(&self, node: NodeId) -> u64 {
        lock(&self.state).power_losses.get(&node).copied().unwrap_or(0)
    }

    /// Breaks all connections of one pair of ends that has any.
    pub fn reset_some(&self) {
        let pick = self.simulator.random_u64();
        let broken: Vec<watch::Sender<bool>> = {
            let mut state = lock(&self.state);
            state.living.retain(|conn| !*conn.broken.borrow());
            if state.living.is_empty() {
                return;
            }
            let ends = state.living[(pick % state.living.len() as u64) as usize].ends;
            state.living.iter().filter(|conn| conn.ends == ends).map(|conn| conn.broken.clone()).collect()
        };
        for conn in broken {
            conn.send_replace(true);
        }
    }

    /// Connections that were established.
    pub fn dials(&self) -> u64 {
        lock(&self.state).dials
    }

    pub(crate) fn delay(&self) -> Duration {
        self.simulator.with_random(|random| {
            let jitter_ns = u64::try_from(self.delays.jitter.as_nanos()).unwrap_or(u64::MAX - 1);
            let delay = self.delays.least + Duration::from_nanos(random.below(jitter_ns + 1));
            if random.one_in(self.delays.slow_one_in) { delay * 20 } else { delay }
        })
    }

    pub(crate) fn sleep_delay(&self) -> SimSleep {
        self.simulator.sleep(self.delay())
    }

    /// Registers a connection between `from` and `to`; `true` in what is returned breaks it.
    pub(crate) fn register(&self, from: NodeId, to: NodeId) -> watch::Sender<bool> {
        let (broken, _) = watch::channel(false);
        let mut state = lock(&self.state);
        state.living.retain(|conn| !*conn.broken.borrow());
        state.living.push(Living { ends: (from.min(to), from.max(to)), broken: broken.clone() });
        state.dials += 1;
        broken
    }

    /// What a dial from `from` to `to` meets, after the time it takes.
    pub(crate) async fn reach(&self, from: NodeId, to: NodeId) -> Result<(), DialError> {
        self.sleep_delay().await;
        self.sleep_delay().await;
        if self.is_blocked(from, to) || self.is_blocked(to, from) || self.is_silent(to) {
            let ms = 200 + self.simulator.below(800);
            self.simulator.sleep_ms(ms).await;
            return Err(DialError::Unreachable("timed out".to_string()));
        }
        Ok(())
    }

    async fn dial(&self, from: NodeId, address: &str) -> Result<Conn, DialError> {
        let to = lock(&self.state).names.get(address).copied();
        let Some(to) = to else {
            return Err(DialError::Unreachable(format!("{address}: name not known")));
        };
        self.reach(from, to).await?;
        let listener = lock(&self.state).listeners.get(&to).cloned();
        let Some(listener) = listener else { return Err(DialError::Refused) };
        let (near, from_near) = mpsc::channel(CONN_CHANNEL_FRAMES);
        let (to_near, near_receiver) = mpsc::channel(CONN_CHANNEL_FRAMES);
        let (far, from_far) = mpsc::channel(CONN_CHANNEL_FRAMES);
        let (to_far, far_receiver) = mpsc::channel(CONN_CHANNEL_FRAMES);
        let accepted = Conn { sender: far, receiver: far_receiver, remote: format!("node {from}") };
        if listener.try_send(accepted).is_err() {
            return Err(DialError::Refused);
        }
        let broken = self.register(from, to);
        self.start_pump(Link::new(self, from, to, &broken), from_near, to_far);
        self.start_pump(Link::new(self, to, from, &broken), from_far, to_near);
        Ok(Conn { sender: near, receiver: near_receiver, remote: address.to_string() })
    }

    pub(crate) fn start_pump(
        &self,
        link: Link,
        source: impl Source + Send + 'static,
        sink: impl Sink + Send + 'static,
    ) {
        self.simulator.spawn_on(OUTSIDE, "link", link.run(source, sink));
    }
}

impl Source for mpsc::Receiver<Bytes> {
    fn poll_next(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Option<Bytes>> {
        self.poll_recv(cx)
    }
}

impl Sink for mpsc::Sender<Bytes> {
    async fn put(&mut self, bytes: Bytes) -> bool {
        self.send(bytes).await.is_ok()
    }
}

struct Interface {
    net: SimNet,
    node: NodeId,
}

impl Network for Interface {
    fn dial<'a>(&'a self, address: &'a str) -> NetFuture<'a, Result<Conn, DialError>> {
        Box::pin(self.net.dial(self.node, address))
    }

    fn listen(&self) -> NetFuture<'_, io::Result<mpsc::Receiver<Conn>>> {
        Box::pin(async move {
            let (sender, receiver) = mpsc::channel(ACCEPT_BACKLOG);
            let before = lock(&self.net.state).listeners.insert(self.node, sender);
            drop(before);
            self.net.machine_is_back(self.node);
            Ok(receiver)
        })
    }
}
