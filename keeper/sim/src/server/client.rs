//! Clients of the whole server: sessions that come, work, are closed, abandoned or lost.

use super::connector::{SimConnector, client_address};
use super::operations::{EPHEMERALS, KEYS, PAIR, QUEUE, Session, SharedKnowledge, first_data};
use super::program::ServerProgram;
use super::record::Asked;
use crate::executor::{NodeId, OUTSIDE, lock};
use crate::world::World;
use keeper_client::{ANY_VERSION, Client, ClientError, CreateMode, Options};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Machines of clients are numbered from here.
const FIRST_CLIENT: NodeId = 101;

#[derive(Default)]
struct Control {
    stop: bool,
    running: BTreeSet<NodeId>,
}

/// All clients of a run.
#[derive(Clone)]
pub(super) struct Clients {
    pub(super) world: World,
    pub(super) program: ServerProgram,
    pub(super) knowledge: SharedKnowledge,
    control: Arc<Mutex<Control>>,
    think: Duration,
}

impl Clients {
    pub(super) fn new(world: &World, program: &ServerProgram, think: Duration) -> Clients {
        Clients {
            world: world.clone(),
            program: program.clone(),
            knowledge: SharedKnowledge::default(),
            control: Arc::default(),
            think,
        }
    }

    pub(super) fn connector(&self, client: NodeId) -> SimConnector {
        SimConnector { world: self.world.clone(), program: self.program.clone(), client }
    }

    pub(super) fn all_servers(&self) -> Vec<String> {
        self.world.nodes().map(client_address).collect()
    }

    /// Creates the nodes that the clients write. Runs before anything goes wrong.
    pub(super) async fn prepare(&self) -> Result<(), String> {
        let (done, prepared) = tokio::sync::oneshot::channel();
        let clients = self.clone();
        self.world.simulator().spawn_on(FIRST_CLIENT - 1, "prepare", async move {
            let _ = done.send(clients.create_nodes().await);
        });
        match prepared.await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err("the first client died".to_string()),
        }
    }

    async fn create_nodes(&self) -> Result<(), ClientError> {
        let options = Options { session_timeout_ms: 20_000, ..Options::default() };
        let connector = self.connector(FIRST_CLIENT - 1);
        let client = Client::connect_with(connector, &self.all_servers(), options).await?;
        for path in ["/keys", QUEUE, EPHEMERALS].into_iter().chain(KEYS).chain(PAIR) {
            let asked =
                Asked { session: client.session_id(), key: path, at_ns: self.world.simulator().now_ns() };
            let created = client.create(path, first_data(path).as_bytes(), CreateMode::Persistent).await?;
            if KEYS.contains(&path) {
                let now_ns = self.world.simulator().now_ns();
                lock(&self.knowledge).record.created(asked, first_data(path), &created.value.stat, now_ns);
            }
        }
        client.close().await
    }

    pub(super) fn start(&self, count: u32) {
        for node in FIRST_CLIENT..FIRST_CLIENT + count {
            lock(&self.control).running.insert(node);
            self.start_process(node);
        }
        self.world.simulator().spawn_on(OUTSIDE, "client-killer", self.clone().kill_some());
    }

    fn start_process(&self, node: NodeId) {
        self.world.simulator().restart_clock(node);
        self.world.simulator().spawn_on(node, "client", self.clone().run(node));
    }

    /// Processes of clients die too, in the middle of anything.
    async fn kill_some(self) {
        let simulator = self.world.simulator();
        loop {
            simulator.sleep_ms(500 + simulator.below(3_000)).await;
            let running: Vec<NodeId> = lock(&self.control).running.iter().copied().collect();
            if self.stopping() || running.is_empty() {
                return;
            }
            let victim = running[simulator.below(running.len() as u64) as usize];
            simulator.crash(victim);
            self.start_process(victim);
        }
    }

    pub(super) fn stop(&self) {
        lock(&self.control).stop = true;
    }

    pub(super) fn running(&self) -> usize {
        lock(&self.control).running.len()
    }

    fn stopping(&self) -> bool {
        lock(&self.control).stop
    }

    async fn run(self, node: NodeId) {
        while !self.session(node).await {
            self.world.simulator().sleep_ms(self.world.simulator().below(300)).await;
        }
        lock(&self.control).running.remove(&node);
    }

    fn options(&self) -> Options {
        let simulator = self.world.simulator();
        Options {
            session_timeout_ms: 4_000 + simulator.below(8_000) as i32,
            connect_timeout: Duration::from_millis(500 + simulator.below(2_500)),
            operation_timeout: Some(Duration::from_millis(2_000 + simulator.below(8_000))),
            ..Options::default()
        }
    }

    /// One session from its beginning to its end. True once the client may stop: after the end of the run it has
    /// had a write answered and its session closed.
    async fn session(&self, node: NodeId) -> bool {
        let (connector, servers) = (self.connector(node), self.all_servers());
        let Ok(client) = Client::connect_with(connector, &servers, self.options()).await else {
            return false;
        };
        let mut session = Session::new(&self.world, &self.knowledge, client.clone());
        let simulator = self.world.simulator();
        while !client.state().is_ended() {
            if self.stopping() {
                return session.set(KEYS[0], ANY_VERSION).await && client.close().await.is_ok();
            }
            match simulator.below(200) {
                // Abandoned: it ends by its timeout.
                0 => return false,
                1 => {
                    let _ = client.close().await;
                    return false;
                }
                _ => self.work(&mut session, node).await,
            }
            let ns = simulator.below(self.think.as_nanos() as u64 + 1);
            keeper_rt::sleep(Duration::from_nanos(ns)).await;
        }
        false
    }

    async fn work(&self, session: &mut Session, node: NodeId) {
        let simulator = self.world.simulator();
        let key = KEYS[simulator.below(KEYS.len() as u64) as usize];
        match simulator.below(20) {
            0..=5 => drop(session.set(key, ANY_VERSION).await),
            6 | 7 => drop(session.compare_and_set(key).await),
            8 | 9 => session.pipeline(key).await,
            10 => session.set_two().await,
            11..=13 => drop(session.get(key).await),
            14 | 15 => session.sync_and_get(key).await,
            16 | 17 => session.watch(key).await,
            18 => session.ephemeral(&format!("c{node}")).await,
            _ => session.enqueue().await,
        }
    }
}
