//! Clients of the bare cluster: each numbers its operations, keeps some in flight, and proposes again what it was
//! not told the outcome of. Now and then one begins a new epoch, as an origin that has restarted.

use super::machine::encode;
use super::program::{BareProgram, Proposal};
use crate::executor::{NodeId, OUTSIDE, lock};
use crate::oracle::Operation;
use crate::random::{Stream, hash_words};
use crate::world::World;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// A client's patience with one server.
const ANSWER_MS_MAX: u64 = 3_000;

#[derive(Default)]
struct Control {
    stop: bool,
    running: u32,
}

/// All clients of a run.
#[derive(Clone)]
pub struct Clients {
    world: World,
    program: BareProgram,
    control: Arc<Mutex<Control>>,
}

impl Clients {
    /// Starts `count` clients with up to `window` operations in flight, and a pause between them of up to `think`.
    pub fn start(
        world: &World,
        program: &BareProgram,
        count: u32,
        window: usize,
        think: Duration,
    ) -> Clients {
        let control = Arc::new(Mutex::new(Control { stop: false, running: count }));
        let clients = Clients { world: world.clone(), program: program.clone(), control };
        for number in 0..count {
            let client = Client {
                clients: clients.clone(),
                origin: 1_000 + u64::from(number),
                epoch: 1,
                next: 0,
                sent: 0,
                goal: None,
                window,
                think,
            };
            world.simulator().spawn_on(OUTSIDE, "client", client.run());
        }
        clients
    }

    /// No new operations; those in flight are brought to their end.
    pub fn stop(&self) {
        lock(&self.control).stop = true;
    }

    pub fn running(&self) -> u32 {
        lock(&self.control).running
    }
}

struct Client {
    clients: Clients,
    origin: u64,
    epoch: u64,
    /// The oldest operation whose outcome is not known.
    next: u64,
    /// The number of the first operation never proposed.
    sent: u64,
    /// Once the client is to stop: the number up to which everything must be acknowledged, and no more is proposed.
    goal: Option<u64>,
    window: usize,
    think: Duration,
}

impl Client {
    async fn run(mut self) {
        let world = self.clients.world.clone();
        while !self.is_finished() {
            let node = self.choose_server();
            if let Some(server) = self.clients.program.proposals_of(node) {
                self.talk_to(server, node).await;
            }
            let pause_ms = 5 + world.simulator().below(100);
            world.simulator().sleep_ms(pause_ms).await;
            if world.simulator().one_in(20) && self.goal.is_none() {
                self.epoch += 1;
                self.next = 0;
                self.sent = 0;
            }
        }
        lock(&self.clients.control).running -= 1;
    }

    /// A client that is to stop has everything acknowledged that it ever proposed in its epoch, and one operation
    /// more: the cluster must still take new ones.
    fn is_finished(&mut self) -> bool {
        if self.goal.is_none() && lock(&self.clients.control).stop {
            self.goal = Some(self.sent + 1);
        }
        self.goal.is_some_and(|goal| self.next >= goal)
    }

    fn choose_server(&self) -> NodeId {
        let world = &self.clients.world;
        match world.leader() {
            Some(leader) if !world.simulator().one_in(10) => leader,
            _ => 1 + world.simulator().below(world.nodes().count() as u64) as NodeId,
        }
    }

    fn payload(&self, operation: Operation) -> Bytes {
        let mut random = Stream::from_seed(hash_words(&[operation.origin, operation.epoch, operation.seq]));
        let len = if random.one_in(20) { random.below(6_000) } else { random.below(200) };
        let filler: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        encode(operation, &filler)
    }

    /// Proposes in order until something goes wrong, or the client is to stop and all is answered.
    async fn talk_to(&mut self, server: mpsc::Sender<Proposal>, node: NodeId) {
        let world = self.clients.world.clone();
        let mut in_flight: VecDeque<(Operation, oneshot::Receiver<bool>)> = VecDeque::new();
        let mut seq = self.next;
        while !self.is_finished() {
            let allowed = self.goal.is_none_or(|goal| seq < goal);
            if allowed && in_flight.len() < self.window {
                let operation = Operation { origin: self.origin, epoch: self.epoch, seq };
                let (answer, outcome) = oneshot::channel();
                if server.send(Proposal { payload: self.payload(operation), answer }).await.is_err() {
                    return;
                }
                in_flight.push_back((operation, outcome));
                seq += 1;
                self.sent = self.sent.max(seq);
                let ns = world.simulator().below(self.think.as_nanos() as u64 + 1);
                world.simulator().sleep(Duration::from_nanos(ns)).await;
                if in_flight.len() < self.window && world.simulator().one_in(2) {
                    continue;
                }
            }
            let Some((operation, outcome)) = in_flight.pop_front() else { return };
            let patience = world.simulator().sleep_ms(ANSWER_MS_MAX);
            let committed = tokio::select! {
                biased;
                outcome = outcome => outcome.unwrap_or(false),
                () = patience => false,
            };
            if !committed || !self.took_effect(node, operation) {
                return;
            }
            self.next = operation.seq + 1;
            world.oracle().acknowledged(operation);
        }
    }

    /// A committed entry took effect if the state that applied it is past its number.
    fn took_effect(&self, node: NodeId, operation: Operation) -> bool {
        let Some(state) = self.clients.program.state_of(node) else { return false };
        state
            .next
            .get(&self.origin)
            .is_some_and(|(epoch, next)| (*epoch, *next) > (operation.epoch, operation.seq))
    }
}
