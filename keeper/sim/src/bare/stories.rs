//! Stories told step by step, where chance would take too long to come by.

use super::client::Clients;
use super::program::BareProgram;
use super::scenario::{Parameters, settle};
use crate::boot::boot;
use crate::executor::Simulator;
use crate::oracle::Oracle;
use crate::outcome::Outcome;
use crate::world::{Crash, Machines, World};
use std::time::Duration;

async fn booted(simulator: &Simulator, parameters: &Parameters) -> (World, BareProgram, Clients) {
    let oracle = Oracle::new(simulator);
    let program = BareProgram::default();
    let machines = Machines { founders: parameters.servers, spares: 0 };
    let world = World::new(simulator, &oracle, machines, Box::new(program.clone()));
    if let Err(why) = boot(&world).await {
        oracle.found(format!("the cluster does not come up: {why}"));
    }
    let clients = Clients::start(&world, &program, parameters.clients, parameters.window, parameters.think);
    (world, program, clients)
}

/// A leader whose own disk stalls while the others commit loses its process and comes back at once. If it took up
/// its old term again, it would give the indexes it lost to other entries: acknowledged writes would differ from
/// node to node, without an error anywhere.
pub async fn restored_leader(simulator: Simulator, parameters: Parameters, power: bool) -> Outcome {
    let (world, program, clients) = booted(&simulator, &parameters).await;
    let leader = world.wait_for_leader().await;
    simulator.sleep_ms(1_000).await;
    world.disk(leader).set_slowness(200);
    simulator.sleep_ms(200).await;
    let crash = match power {
        true => Crash::Power { silent_for: Duration::ZERO },
        false => Crash::Process,
    };
    world.crash(leader, crash);
    world.disk(leader).set_slowness(1);
    simulator.sleep_ms(30).await;
    world.start(leader);
    simulator.sleep_ms(5_000).await;
    clients.stop();
    settle(&world, &program, &clients).await;
    Outcome::of(&world)
}

/// Kills the leader's process again and again; measures until the next operation is acknowledged.
pub async fn failover(simulator: Simulator, parameters: Parameters, rounds: u32) -> Outcome {
    let (world, program, clients) = booted(&simulator, &parameters).await;
    let mut failovers = Vec::new();
    for _ in 0..rounds {
        simulator.sleep_ms(4_000 + simulator.below(1_000)).await;
        let leader = world.wait_for_leader().await;
        let killed_ns = simulator.now_ns();
        world.crash(leader, Crash::Process);
        simulator.sleep_ms(3).await;
        let acknowledged = world.oracle().seen().acknowledged;
        while world.oracle().seen().acknowledged == acknowledged && world.oracle().is_content() {
            simulator.sleep_ms(1).await;
        }
        failovers.push(Duration::from_nanos(simulator.now_ns() - killed_ns));
        simulator.sleep_ms(300).await;
        world.start(leader);
    }
    clients.stop();
    settle(&world, &program, &clients).await;
    Outcome { failovers, ..Outcome::of(&world) }
}
