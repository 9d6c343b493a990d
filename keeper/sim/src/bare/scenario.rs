//! One run: boot, clients, misfortunes, healing, comparison.

use super::client::Clients;
use super::program::BareProgram;
use super::{Fault, machine};
use crate::executor::Simulator;
use crate::misfortune::{Kind, Misfortunes};
use crate::oracle::Oracle;
use crate::outcome::Outcome;
use crate::world::{World, peer_address};
use keeper_consensus::{AdminError, Consensus, Member, Precondition};
use keeper_types::{ClusterId, ServerId};
use std::collections::BTreeSet;
use std::time::Duration;

/// Simulated time within which a fresh cluster must have all its voters.
const BOOT_MS_MAX: u64 = 60_000;
/// Simulated time after healing within which all clients must be answered, and then all nodes be level.
const RECOVERY_MS_MAX: u64 = 60_000;

#[derive(Clone, Debug)]
pub struct Parameters {
    pub servers: u32,
    pub clients: u32,
    /// Operations a client keeps in flight.
    pub window: usize,
    pub think: Duration,
    pub chaos: Duration,
    pub misfortunes: BTreeSet<Kind>,
    pub fault: Option<Fault>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            servers: 3,
            clients: 4,
            window: 4,
            think: Duration::from_millis(20),
            chaos: Duration::from_secs(20),
            misfortunes: Kind::ALL.into(),
            fault: None,
        }
    }
}

pub async fn scenario(simulator: Simulator, parameters: Parameters) -> Outcome {
    let oracle = Oracle::new(&simulator);
    let program = BareProgram::new(parameters.fault);
    let world = World::new(&simulator, &oracle, parameters.servers, Box::new(program.clone()));
    if let Err(why) = boot(&world).await {
        oracle.found(format!("the cluster does not come up: {why}"));
        return Outcome::of(&world);
    }
    let clients = Clients::start(&world, &program, parameters.clients, parameters.window, parameters.think);
    Misfortunes::new(&world, &parameters.misfortunes).cause_for(parameters.chaos).await;
    if oracle.is_content() {
        world.heal();
        clients.stop();
        settle(&world, &program, &clients).await;
    }
    Outcome::of(&world)
}

fn member(node: u32) -> Member {
    Member {
        id: ServerId(u64::from(node)),
        peer_address: peer_address(node),
        client_address: format!("keeper-{node}:2181"),
        name: format!("keeper-{node}"),
    }
}

/// Starts every machine; founds the cluster on the first one and adds the others, as an operator would.
pub(crate) async fn boot(world: &World) -> Result<(), String> {
    let simulator = world.simulator();
    world.nodes().for_each(|node| world.start(node));
    let limit_ns = simulator.now_ns() + BOOT_MS_MAX * 1_000_000;
    while world.nodes().any(|node| world.consensus(node).is_none()) {
        if simulator.now_ns() > limit_ns || !world.oracle().is_content() {
            return Err("a process does not start".to_string());
        }
        simulator.sleep_ms(10).await;
    }
    for node in world.nodes() {
        loop {
            let Err(error) = add(world, node).await else { break };
            if simulator.now_ns() > limit_ns {
                return Err(format!("node {node}: {error}"));
            }
            simulator.sleep_ms(50).await;
        }
    }
    Ok(())
}

async fn add(world: &World, node: u32) -> Result<(), AdminError> {
    if node == 1 {
        let first = world.consensus(1).ok_or(AdminError::Uninitialized)?;
        return on_node(
            world,
            1,
            async move { first.bootstrap(ClusterId([7; 16]), member(1)).await.map(drop) },
        )
        .await;
    }
    let leader = world.wait_for_leader().await;
    let consensus: Consensus = world.consensus(leader).ok_or(AdminError::Uninitialized)?;
    on_node(world, leader, async move {
        consensus.add_learner(member(node), Precondition::default()).await?;
        consensus.promote(ServerId(u64::from(node)), Precondition::default()).await.map(drop)
    })
    .await
}

/// Runs a call as part of the process it is made to: it sleeps by that node's clock and dies with it.
async fn on_node<T: Send + 'static>(
    world: &World,
    node: u32,
    call: impl Future<Output = Result<T, AdminError>> + Send + 'static,
) -> Result<T, AdminError> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    world.simulator().spawn_on(node, "admin-call", async move {
        let _ = done.send(call.await);
    });
    outcome.await.unwrap_or_else(|_| Err(AdminError::Stopped("the process died".to_string())))
}

/// After healing: every client gets its answers, every node the same state with all that was acknowledged.
pub(super) async fn settle(world: &World, program: &BareProgram, clients: &Clients) {
    let (simulator, oracle) = (world.simulator(), world.oracle());
    let limit_ns = simulator.now_ns() + RECOVERY_MS_MAX * 1_000_000;
    while clients.running() > 0 {
        if simulator.now_ns() > limit_ns {
            let running = clients.running();
            oracle.found(format!("{running} clients have no answer {RECOVERY_MS_MAX} ms after healing"));
            return;
        }
        if !oracle.is_content() {
            return;
        }
        simulator.sleep_ms(100).await;
    }
    let limit_ns = simulator.now_ns() + RECOVERY_MS_MAX * 1_000_000;
    while !all_level(world, program) {
        if simulator.now_ns() > limit_ns {
            let at: Vec<Option<u64>> =
                world.nodes().map(|node| program.state_of(node).map(|state| state.last_index)).collect();
            oracle.found(format!(
                "nodes do not catch up: they are at {at:?}, the last is {}",
                oracle.last_index()
            ));
            return;
        }
        simulator.sleep_ms(100).await;
    }
    for node in world.nodes() {
        if let Some(machine::State { next, digest, .. }) = program.state_of(node) {
            oracle.holds_all_acknowledged(node, &next, digest);
        }
    }
}

fn all_level(world: &World, program: &BareProgram) -> bool {
    let last = world.oracle().last_index();
    world.nodes().all(|node| program.state_of(node).is_some_and(|state| state.last_index >= last))
}
