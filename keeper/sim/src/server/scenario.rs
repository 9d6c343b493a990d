//! One run of the whole server: boot, clients, misfortunes, healing, comparison.

use super::client::Clients;
use super::operations::{KEYS, PAIR, observed};
use super::program::{ServerProgram, TreeView};
use super::record::Asked;
use crate::boot::boot;
use crate::executor::{NodeId, Simulator, lock};
use crate::membership::{self, Operator};
use crate::misfortune::{self, Kind, Misfortunes};
use crate::oracle::Oracle;
use crate::outcome::Outcome;
use crate::world::{Machines, World};
use std::collections::BTreeSet;
use std::time::Duration;

/// Simulated time after healing within which every client has written something and closed its session.
const RECOVERY_MS_MAX: u64 = 90_000;
/// And then: within which all nodes have the same tree, without sessions.
const LEVEL_MS_MAX: u64 = 90_000;

#[derive(Clone, Debug)]
pub struct Parameters {
    pub servers: u32,
    /// Machines outside the cluster, for changes of its members.
    pub spares: u32,
    pub clients: u32,
    pub think: Duration,
    pub chaos: Duration,
    pub misfortunes: BTreeSet<Kind>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            servers: 3,
            spares: 1,
            clients: 5,
            think: Duration::from_millis(40),
            chaos: Duration::from_secs(20),
            misfortunes: Kind::STANDARD.into(),
        }
    }
}

/// A cluster with its nodes for the clients' use, before anything goes wrong.
pub(super) async fn booted(
    simulator: &Simulator,
    parameters: &Parameters,
    spares: u32,
) -> (World, ServerProgram, Clients) {
    let oracle = Oracle::new(simulator);
    let program = ServerProgram::default();
    let world = World::new(
        simulator,
        &oracle,
        Machines { founders: parameters.servers, spares },
        Box::new(program.clone()),
    );
    let clients = Clients::new(&world, &program, parameters.think);
    if let Err(why) = boot(&world).await {
        oracle.found(format!("the cluster does not come up: {why}"));
    } else if let Err(why) = clients.prepare().await {
        oracle.found(format!("the first client fails: {why}"));
    }
    (world, program, clients)
}

pub async fn scenario(simulator: Simulator, parameters: Parameters) -> Outcome {
    let kinds = misfortune::choose(&simulator, &parameters.misfortunes);
    let spares = if kinds.contains(&Kind::Membership) { parameters.spares } else { 0 };
    let (world, program, clients) = booted(&simulator, &parameters, spares).await;
    if !world.oracle().is_content() {
        return Outcome::of(&world);
    }
    clients.start(parameters.clients);
    let operator = Operator::default();
    operator.start(&world, kinds.contains(&Kind::Membership));
    Misfortunes::new(&world, &kinds).cause_for(parameters.chaos).await;
    if world.oracle().is_content() {
        world.heal();
        clients.stop();
        operator.stop();
        let at_rest = || !operator.is_busy() && world.needs_repair().is_none();
        if !wait(&world, RECOVERY_MS_MAX, at_rest).await {
            let what = format!("the members are not what they should be {RECOVERY_MS_MAX} ms after healing");
            world.oracle().found(what);
        }
        settle(&world, &program, &clients).await;
        membership::compare(&world).await;
    }
    Outcome::of(&world)
}

/// After healing: every client is served, and every node has the same tree with all that was answered.
pub(super) async fn settle(world: &World, program: &ServerProgram, clients: &Clients) {
    let running = || clients.running();
    if !wait(world, RECOVERY_MS_MAX, || running() == 0).await {
        let what = format!("{} clients are not served {RECOVERY_MS_MAX} ms after healing", running());
        return world.oracle().found(what);
    }
    let views =
        || -> Vec<Option<TreeView>> { world.members().into_keys().map(|node| program.tree(node)).collect() };
    let level = || {
        let views = views();
        views
            .iter()
            .all(|view| *view == views[0] && view.is_some_and(|v| v.sessions == 0 && v.ephemerals == 0))
    };
    if !wait(world, LEVEL_MS_MAX, level).await {
        return world
            .oracle()
            .found(format!("the nodes do not become level, without sessions: {:?}", views()));
    }
    for node in world.members().into_keys() {
        compare_with_history(world, program, clients, node);
    }
    if let Err(what) = lock(&clients.knowledge).record.judge() {
        world.oracle().found(what);
    }
}

/// Waits until `reached`; false if that takes too long or something else was found.
async fn wait(world: &World, ms_max: u64, reached: impl Fn() -> bool) -> bool {
    let limit_ns = world.simulator().now_ns() + ms_max * 1_000_000;
    while !reached() {
        if world.simulator().now_ns() > limit_ns || !world.oracle().is_content() {
            return false;
        }
        world.simulator().sleep_ms(100).await;
    }
    true
}

fn compare_with_history(world: &World, program: &ServerProgram, clients: &Clients, number: NodeId) {
    let Some(node) = program.node(number) else { return };
    let tree = node.shared().read_tree();
    for key in KEYS.into_iter().chain(PAIR) {
        let mut knowledge = lock(&clients.knowledge);
        let result = match tree.get_data(key, &[]) {
            Ok((data, stat)) => {
                if KEYS.contains(&key) {
                    let at_ns = world.simulator().now_ns();
                    let asked = Asked { session: -i64::from(number), key, at_ns };
                    knowledge.record.is_left(asked, data, &stat);
                }
                knowledge.history.final_state(key, observed(data, &stat))
            }
            Err(code) => Err(format!("{key} answers {code}")),
        };
        if let Err(what) = result {
            world.oracle().found(format!("node {number} at the end: {what}"));
        }
    }
}
