//! One run: boot, clients, misfortunes, healing, comparison.

use super::client::Clients;
use super::program::BareProgram;
use super::{Fault, machine};
use crate::boot::boot;
use crate::executor::Simulator;
use crate::misfortune::{Kind, Misfortunes};
use crate::oracle::Oracle;
use crate::outcome::Outcome;
use crate::world::World;
use std::collections::BTreeSet;
use std::time::Duration;

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
