//! One run: boot, clients, misfortunes, healing, comparison.

use super::client::Clients;
use super::machine;
use super::program::BareProgram;
use crate::boot::boot;
use crate::executor::Simulator;
use crate::membership::{self, Operator};
use crate::misfortune::{self, Kind, Misfortunes};
use crate::oracle::Oracle;
use crate::outcome::Outcome;
use crate::world::{Machines, World};
use std::collections::BTreeSet;
use std::time::Duration;

/// Simulated time after healing within which all clients must be answered, and then all nodes be level.
const RECOVERY_MS_MAX: u64 = 60_000;

#[derive(Clone, Debug)]
pub struct Parameters {
    pub servers: u32,
    /// Machines outside the cluster, for changes of its members.
    pub spares: u32,
    pub clients: u32,
    /// Operations a client keeps in flight.
    pub window: usize,
    pub think: Duration,
    pub chaos: Duration,
    pub misfortunes: BTreeSet<Kind>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            servers: 3,
            spares: 1,
            clients: 4,
            window: 4,
            think: Duration::from_millis(20),
            chaos: Duration::from_secs(20),
            misfortunes: Kind::STANDARD.into(),
        }
    }
}

pub async fn scenario(simulator: Simulator, parameters: Parameters) -> Outcome {
    let oracle = Oracle::new(&simulator);
    let program = BareProgram::default();
    let kinds = misfortune::choose(&simulator, &parameters.misfortunes);
    let spares = if kinds.contains(&Kind::Membership) { parameters.spares } else { 0 };
    let machines = Machines { founders: parameters.servers, spares };
    let world = World::new(&simulator, &oracle, machines, Box::new(program.clone()));
    if let Err(why) = boot(&world).await {
        oracle.found(format!("the cluster does not come up: {why}"));
        return Outcome::of(&world);
    }
    let clients = Clients::start(&world, &program, parameters.clients, parameters.window, parameters.think);
    let operator = Operator::default();
    operator.start(&world, kinds.contains(&Kind::Membership));
    Misfortunes::new(&world, &kinds).cause_for(parameters.chaos).await;
    if oracle.is_content() {
        world.heal();
        clients.stop();
        operator.stop();
        let limit_ns = simulator.now_ns() + RECOVERY_MS_MAX * 1_000_000;
        while (operator.is_busy() || world.needs_repair().is_some()) && oracle.is_content() {
            if simulator.now_ns() > limit_ns {
                let what =
                    format!("the members are not what they should be {RECOVERY_MS_MAX} ms after healing");
                oracle.found(what);
            }
            simulator.sleep_ms(100).await;
        }
        settle(&world, &program, &clients).await;
        membership::compare(&world).await;
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
            let members = || world.members().into_keys();
            let at: Vec<Option<u64>> =
                members().map(|node| program.state_of(node).map(|state| state.last_index)).collect();
            oracle.found(format!(
                "nodes do not catch up: they are at {at:?}, the last is {}",
                oracle.last_index()
            ));
            return;
        }
        simulator.sleep_ms(100).await;
    }
    for node in world.members().into_keys() {
        if let Some(machine::State { next, digest, .. }) = program.state_of(node) {
            oracle.holds_all_acknowledged(node, &next, digest);
        }
    }
}

fn all_level(world: &World, program: &BareProgram) -> bool {
    let last = world.oracle().last_index();
    world
        .members()
        .into_keys()
        .all(|node| program.state_of(node).is_some_and(|state| state.last_index >= last))
}
