//! A cluster in one process: each member on a runtime of its own (dropping it is kill -9), a disk in memory that can
//! lose what was not synced, and a network in memory that knows refused from unreachable.
#![allow(dead_code, clippy::disallowed_methods)]

use bytes::Bytes;
use keeper_consensus::{
    Conn, Consensus, ConsensusOptions, DialError, DispatchConn, Member, NetFuture, Network, Precondition,
    Role, SnapshotSource, StateMachine, Status,
};
use keeper_log::faulty::{FaultyDisk, Loss};
use keeper_rt::Pool;
use keeper_types::{ClusterId, ServerId};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

pub const CLUSTER: ClusterId = ClusterId([0xc1; 16]);
pub const SECRET: &[u8] = b"the cluster's secret";

/// Which addresses answer.
#[derive(Default)]
struct Switchboard {
    listeners: BTreeMap<String, mpsc::Sender<Conn>>,
    /// Addresses that answer nothing at all, as a machine without power.
    silent: Vec<String>,
}

#[derive(Clone, Default)]
pub struct MemNetwork(Arc<Mutex<Switchboard>>);

impl MemNetwork {
    /// The network as the member at `address` sees it.
    pub fn at(&self, address: &str) -> Arc<dyn Network> {
        Arc::new(MemPort { network: self.clone(), address: address.to_owned() })
    }

    pub fn set_silent(&self, address: &str, silent: bool) {
        let mut board = self.0.lock().unwrap();
        board.silent.retain(|other| other != address);
        if silent {
            board.silent.push(address.to_owned());
        }
    }

    pub fn unlisten(&self, address: &str) {
        self.0.lock().unwrap().listeners.remove(address);
    }

    pub async fn dial(&self, from: &str, to: &str) -> Result<Conn, DialError> {
        let listener = {
            let board = self.0.lock().unwrap();
            if board.silent.iter().any(|silent| silent == to || silent == from) {
                return Err(DialError::Unreachable("silent".into()));
            }
            board.listeners.get(to).cloned().ok_or(DialError::Refused)?
        };
        let (forth, from_dialer) = mpsc::channel(64);
        let (back, to_dialer) = mpsc::channel(64);
        let accepted = Conn { sender: back, receiver: from_dialer, remote: from.to_owned() };
        listener.send(accepted).await.map_err(|_| DialError::Refused)?;
        Ok(Conn { sender: forth, receiver: to_dialer, remote: to.to_owned() })
    }
}

struct MemPort {
    network: MemNetwork,
    address: String,
}

impl Network for MemPort {
    fn dial<'a>(&'a self, address: &'a str) -> NetFuture<'a, Result<Conn, DialError>> {
        Box::pin(self.network.dial(&self.address, address))
    }

    fn listen(&self) -> NetFuture<'_, io::Result<mpsc::Receiver<Conn>>> {
        Box::pin(async move {
            let (sender, receiver) = mpsc::channel(64);
            self.network.0.lock().unwrap().listeners.insert(self.address.clone(), sender);
            Ok(receiver)
        })
    }
}

/// What one life of a member has applied: index and payload.
pub type Applied = Arc<Mutex<Vec<(u64, Bytes)>>>;

/// A payload that begins so takes [`SLOW_APPLY`] to apply.
pub const SLOW: &[u8] = b"slow";
/// Longer than followers wait for a leader's sign of life.
pub const SLOW_APPLY: Duration = Duration::from_secs(4);

/// Remembers everything.
pub struct Recorder(pub Applied);

impl StateMachine for Recorder {
    fn apply(&mut self, index: u64, payload: Bytes) {
        if payload.starts_with(SLOW) {
            std::thread::sleep(SLOW_APPLY);
        }
        let mut applied = self.0.lock().unwrap();
        assert!(applied.last().is_none_or(|(last, _)| *last < index), "index {index} applied twice");
        applied.push((index, payload));
    }

    fn snapshot(&mut self) -> SnapshotSource {
        let all = self.0.lock().unwrap().clone();
        let mut chunks =
            all.into_iter().map(|(index, payload)| [&index.to_le_bytes()[..], &payload[..]].concat());
        Box::new(move || Ok(chunks.next()))
    }

    fn restore(&mut self, index: u64, chunks: &mut dyn Iterator<Item = io::Result<Bytes>>) -> io::Result<()> {
        let mut all = Vec::new();
        for chunk in chunks {
            let chunk = chunk?;
            all.push((u64::from_le_bytes(chunk[..8].try_into().unwrap()), chunk.slice(8..)));
        }
        assert!(all.last().is_none_or(|(last, _)| *last <= index));
        *self.0.lock().unwrap() = all;
        Ok(())
    }
}

pub fn member(id: u64) -> Member {
    Member {
        id: ServerId(id),
        peer_address: format!("k-{id}:9234"),
        client_address: format!("k-{id}:2181"),
        name: format!("k-{id}"),
        election_port: 0,
    }
}

/// One process.
pub struct Life {
    /// Taken when it ends.
    runtime: Option<Runtime>,
    pub consensus: Consensus,
    pub dispatch: mpsc::Receiver<DispatchConn>,
    pub applied: Applied,
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub struct Node {
    pub id: u64,
    pub disk: FaultyDisk,
    pub life: Option<Life>,
}

/// How members of a test differ from production's defaults.
#[derive(Clone)]
pub struct Setup {
    pub secret: Vec<u8>,
    pub expected_cluster: Option<ClusterId>,
    pub snapshot_log_bytes: u64,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup { secret: SECRET.to_vec(), expected_cluster: None, snapshot_log_bytes: 64 << 20 }
    }
}

#[derive(Default)]
pub struct Cluster {
    pub network: MemNetwork,
    pub nodes: BTreeMap<u64, Node>,
    pub setup: Setup,
}

impl Cluster {
    /// Bootstraps member 1, then adds the others one at a time as the operator does.
    pub async fn of(size: u64, setup: Setup) -> Cluster {
        let mut cluster = Cluster { setup, ..Cluster::default() };
        cluster.start(1).await;
        cluster.on(1).bootstrap(CLUSTER, member(1)).await.unwrap();
        cluster.wait_leader().await;
        for id in 2..=size {
            cluster.start(id).await;
            cluster.add(id).await;
        }
        cluster
    }

    /// Adds a running, empty member and gives it its vote.
    pub async fn add(&self, id: u64) {
        let leader = self.wait_leader().await;
        self.on(leader).add_learner(member(id), Precondition::default()).await.unwrap();
        self.on(leader).promote(ServerId(id), Precondition::default()).await.unwrap();
    }

    /// Starts a process on the node's disk; a new disk if there is none.
    pub async fn start(&mut self, id: u64) {
        self.try_start(id, self.setup.clone()).await.unwrap();
    }

    pub async fn try_start(&mut self, id: u64, setup: Setup) -> Result<(), keeper_consensus::OpenError> {
        init_tracing();
        let fresh = || Node { id, disk: FaultyDisk::new(id), life: None };
        let node = self.nodes.entry(id).or_insert_with(fresh);
        assert!(node.life.is_none(), "node {id} runs");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let applied = Applied::default();
        let mut options = ConsensusOptions::new(
            node.disk.disk(),
            self.network.at(&member(id).peer_address),
            Pool::of(runtime.handle().clone()),
            Box::new(Recorder(applied.clone())),
            setup.secret,
        );
        options.expected_cluster = setup.expected_cluster;
        options.snapshot_log_bytes = setup.snapshot_log_bytes;
        options.log = keeper_log::Options::small();
        // A killed member's log ends with its disk; the other members live in this process.
        options.log.on_fatal = Arc::new(|_| {});
        match Consensus::open(options).await {
            Ok((consensus, dispatch)) => {
                node.life = Some(Life { runtime: Some(runtime), consensus, dispatch, applied });
                Ok(())
            }
            Err(error) => {
                runtime.shutdown_background();
                self.network.unlisten(&member(id).peer_address);
                Err(error)
            }
        }
    }

    /// kill -9.
    pub fn kill(&mut self, id: u64, loss: Loss) {
        let node = self.nodes.get_mut(&id).unwrap();
        let life = node.life.take().unwrap();
        self.network.unlisten(&member(id).peer_address);
        node.disk.crash(loss);
        drop(life);
    }

    pub fn on(&self, id: u64) -> Consensus {
        self.life(id).consensus.clone()
    }

    pub fn life(&self, id: u64) -> &Life {
        self.nodes[&id].life.as_ref().unwrap()
    }

    pub fn applied(&self, id: u64) -> Vec<(u64, Bytes)> {
        self.life(id).applied.lock().unwrap().clone()
    }

    pub fn running(&self) -> Vec<u64> {
        self.nodes.values().filter(|node| node.life.is_some()).map(|node| node.id).collect()
    }

    /// The leader that a majority of its voters follows.
    pub async fn wait_leader(&self) -> u64 {
        let leads = |id: u64| {
            let mine = self.on(id).status();
            let follows = |voter: &ServerId| {
                let life = self.nodes.get(&voter.0).and_then(|node| node.life.as_ref());
                life.is_some_and(|life| life.consensus.status().leader == Some(ServerId(id)))
            };
            let voters: Vec<ServerId> = mine.membership.voters.iter().map(|member| member.id).collect();
            mine.role == Role::Leader && voters.iter().filter(|id| follows(id)).count() * 2 > voters.len()
        };
        for _ in 0..1_500 {
            if let Some(leader) = self.running().into_iter().find(|id| leads(*id)) {
                return leader;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let all: Vec<_> = self.running().iter().map(|id| self.on(*id).status()).collect();
        panic!("no leader: {all:#?}");
    }

    pub async fn wait_status(&self, id: u64, what: &str, holds: impl Fn(&Status) -> bool) -> Status {
        let mut watch = self.on(id).watch_status();
        let waiting = watch.wait_for(|status| holds(status));
        match tokio::time::timeout(Duration::from_secs(20), waiting).await {
            Ok(status) => status.unwrap().clone(),
            Err(_) => panic!("node {id} never showed {what}: {:?}", self.on(id).status()),
        }
    }

    /// Proposes at the leader, again and again until it is committed; for tests that do not care about the order.
    pub async fn write(&self, payload: impl Into<Bytes>) -> u64 {
        let payload = payload.into();
        for _ in 0..2_000 {
            for id in self.running() {
                let Ok(proposed) = self.on(id).propose(payload.clone()).await else { continue };
                if let Ok(index) = proposed.await {
                    return index;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no leader takes writes");
    }

    /// Waits until all running members have applied the same, at least `index`; returns it.
    pub async fn wait_same(&self, index: u64) -> Vec<(u64, Bytes)> {
        let running = self.running();
        let mut same = Vec::new();
        eventually("the same entries everywhere", || {
            same = self.applied(running[0]);
            let reached = same.last().is_some_and(|(last, _)| *last >= index);
            reached && running.iter().all(|id| self.applied(*id) == same)
        })
        .await;
        same
    }
}

/// Polls for up to 20 s.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came true: {what}");
}

pub fn number(payload: &Bytes) -> u64 {
    u64::from_le_bytes(payload[..8].try_into().unwrap())
}

/// `RUST_LOG`-less tests stay quiet; set `KEEPER_TEST_LOG=1` to see what happens.
fn init_tracing() {
    if std::env::var_os("KEEPER_TEST_LOG").is_some() {
        let _ = tracing_subscriber::fmt()
            .with_env_filter("info,openraft=info,keeper_consensus=debug")
            .with_writer(std::io::stderr)
            .try_init();
    }
}
