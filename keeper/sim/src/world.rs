//! The machines: their disks, the network between them, and the processes that live and die on them.

use crate::disk::{DISK_FULL, LyingDisk, SYNC_FAILED, SimDisk};
use crate::executor::{NodeId, OUTSIDE, Simulator, lock};
use crate::net::{Delays, SimNet};
use crate::oracle::Oracle;
use keeper_consensus::{Consensus, Network, Role, Status};
use keeper_log::SharedDisk;
use keeper_types::ServerId;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a new process is given.
pub struct Process {
    pub node: NodeId,
    pub disk: SharedDisk,
    pub network: Arc<dyn Network>,
    pub world: World,
}

/// Why a process did not start.
pub type StartFailure = String;

pub type Starting = Pin<Box<dyn Future<Output = Result<Consensus, StartFailure>> + Send>>;

/// An orderly stop under way.
pub type Stopping = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How many machines there are.
#[derive(Clone, Copy, Debug)]
pub struct Machines {
    pub founders: u32,
    /// Not in the cluster at first.
    pub spares: u32,
}

/// What runs on the machines.
pub trait Program: Send + Sync + 'static {
    /// Starts a process, within its node; what it spawns goes on living.
    fn start(&self, process: Process) -> Starting;
    /// The process of `node` is gone: whatever leads to it must be forgotten.
    fn ended(&self, node: NodeId);
    /// The orderly stop of the process of `node`, to run within the node; `None` if it has not started yet.
    fn stop(&self, node: NodeId) -> Option<Stopping>;
}

/// How a process ends that is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// kill -9: what it had written is in the page cache.
    Process,
    /// The machine lost its power; nobody learns of it for a while.
    Power { silent_for: Duration },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub starts: u64,
    pub crashes: u64,
    pub power_losses: u64,
    pub stops: u64,
    /// Processes that did not start because their disk was damaged.
    pub refusals: u64,
    /// Changes of the members that were carried out.
    pub changes: u64,
}

#[derive(Default)]
struct State {
    /// Living processes, and what they showed once they had started.
    processes: BTreeMap<NodeId, Option<Consensus>>,
    /// Processes that were asked to stop.
    stopping: BTreeSet<NodeId>,
    /// Which server of the cluster a machine is; none is one that was removed, or was never added.
    members: BTreeMap<NodeId, ServerId>,
    /// The machine whose disk is damaged or lost. The others' must not be, or a majority could be lost.
    fragile: Option<NodeId>,
    /// Members that do not start because of their disk, or have lost it: to be replaced.
    refused: BTreeSet<NodeId>,
    counts: Counts,
}

struct Inner {
    simulator: Simulator,
    net: SimNet,
    oracle: Oracle,
    disks: BTreeMap<NodeId, SimDisk>,
    /// Machines 1 to so many found the cluster.
    founders: u32,
    program: Box<dyn Program>,
    state: Mutex<State>,
}

#[derive(Clone)]
pub struct World(Arc<Inner>);

/// Whether a failure says that the disk holds something else than was written.
fn says_damage(failure: &str) -> bool {
    failure.contains("damaged") || failure.contains("missing")
}

/// Where peers dial a node.
pub fn peer_address(node: NodeId) -> String {
    format!("keeper-{node}:9234")
}

impl World {
    /// All machines are off; the founders are numbered first.
    pub fn new(
        simulator: &Simulator,
        oracle: &Oracle,
        machines: Machines,
        program: Box<dyn Program>,
    ) -> World {
        let net = SimNet::new(simulator, Delays::default());
        let Machines { founders, spares } = machines;
        let servers = founders + spares;
        let disks = (1..=servers).map(|node| (node, SimDisk::new(simulator, node))).collect();
        for node in 1..=servers {
            net.name(&peer_address(node), node);
        }
        let (simulator, oracle) = (simulator.clone(), oracle.clone());
        World(Arc::new(Inner { simulator, net, oracle, disks, founders, program, state: Mutex::default() }))
    }

    pub fn simulator(&self) -> &Simulator {
        &self.0.simulator
    }

    pub fn net(&self) -> &SimNet {
        &self.0.net
    }

    pub fn oracle(&self) -> &Oracle {
        &self.0.oracle
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        1..=self.0.disks.len() as NodeId
    }

    pub fn founders(&self) -> impl Iterator<Item = NodeId> + use<> {
        1..=self.0.founders
    }

    /// The machines that are in the cluster, and as which servers.
    pub fn members(&self) -> BTreeMap<NodeId, ServerId> {
        lock(&self.0.state).members.clone()
    }

    pub fn set_member(&self, node: NodeId, id: Option<ServerId>) {
        let members = &mut lock(&self.0.state).members;
        match id {
            Some(id) => members.insert(node, id),
            None => members.remove(&node),
        };
    }

    /// Whether the disk of `node` may be damaged: it is a member's, and those of all others are whole.
    pub fn may_damage(&self, node: NodeId) -> bool {
        let mut state = lock(&self.0.state);
        state.members.contains_key(&node) && *state.fragile.get_or_insert(node) == node
    }

    /// The machine has a whole disk and what a member needs on it, or is none any more.
    pub fn is_whole(&self, node: NodeId) {
        let damaged = self.disk(node).is_damaged();
        let mut state = lock(&self.0.state);
        if !damaged && !state.refused.contains(&node) && state.fragile == Some(node) {
            state.fragile = None;
        }
    }

    pub fn members_changed(&self) {
        lock(&self.0.state).counts.changes += 1;
    }

    pub fn has_refused(&self, node: NodeId) -> bool {
        lock(&self.0.state).refused.contains(&node)
    }

    /// A member that must be replaced.
    pub fn needs_repair(&self) -> Option<NodeId> {
        let state = lock(&self.0.state);
        state.refused.iter().find(|node| state.members.contains_key(node)).copied()
    }

    /// Puts an empty disk in the place of the one that the machine had.
    pub fn replace_disk(&self, node: NodeId) {
        self.crash(node, Crash::Power { silent_for: Duration::ZERO });
        self.disk(node).replace();
        lock(&self.0.state).refused.remove(&node);
    }

    pub fn disk(&self, node: NodeId) -> &SimDisk {
        &self.0.disks[&node]
    }

    pub fn counts(&self) -> Counts {
        lock(&self.0.state).counts
    }

    pub fn is_up(&self, node: NodeId) -> bool {
        lock(&self.0.state).processes.contains_key(&node)
    }

    /// The consensus of a process that has started.
    pub fn consensus(&self, node: NodeId) -> Option<Consensus> {
        lock(&self.0.state).processes.get(&node)?.clone()
    }

    /// The node that leads the highest term, as the nodes see it.
    pub fn leader(&self) -> Option<NodeId> {
        self.nodes()
            .filter_map(|node| Some((node, self.consensus(node)?.status())))
            .filter(|(_, status)| status.role == Role::Leader)
            .max_by_key(|(_, status)| status.term)
            .map(|(node, _)| node)
    }

    pub async fn wait_for_leader(&self) -> NodeId {
        loop {
            if let Some(leader) = self.leader() {
                return leader;
            }
            self.0.simulator.sleep_ms(10).await;
        }
    }

    /// Starts a process on `node`, if none runs there.
    pub fn start(&self, node: NodeId) {
        {
            let mut state = lock(&self.0.state);
            if state.processes.contains_key(&node) {
                return;
            }
            state.processes.insert(node, None);
            state.counts.starts += 1;
        }
        let world = self.clone();
        self.0.simulator.restart_clock(node);
        self.0.net.machine_is_back(node);
        self.0.oracle.process_started(node);
        let disk = self.disk(node).interface();
        let lies = keeper_rt::planted!("disk-lies-about-syncs");
        let process = Process {
            node,
            disk: if lies { LyingDisk::over(disk, self.simulator()) } else { disk },
            network: self.0.net.interface(node),
            world: self.clone(),
        };
        self.0.simulator.spawn_on(node, "process", async move {
            match world.0.program.start(process).await {
                Ok(consensus) => world.started(node, consensus),
                Err(failure) => world.start_failed(node, &failure),
            }
        });
    }

    fn start_failed(&self, node: NodeId, failure: &str) {
        // A member must start again on a full disk, but it cannot begin on one.
        let has_no_room = failure.contains(DISK_FULL) && failure.contains("create the first log segment");
        if failure.contains(SYNC_FAILED) || has_no_room {
            return self.ends_itself(node);
        }
        if lock(&self.0.state).fragile == Some(node) && says_damage(failure) {
            return self.refuses(node);
        }
        self.0.oracle.found(format!("node {node} does not start: {failure}"));
    }

    /// The process that is being polled does not start from its disk, and says so.
    fn refuses(&self, node: NodeId) {
        let world = self.clone();
        self.0.simulator.after_this_poll(move || {
            world.crash(node, Crash::Process);
            let mut state = lock(&world.0.state);
            state.counts.refusals += 1;
            state.refused.insert(node);
        });
    }

    /// The process that is being polled ends because of its disk, at once; it must be able to start again.
    pub fn ends_itself(&self, node: NodeId) {
        let world = self.clone();
        self.0.simulator.after_this_poll(move || {
            if world.is_up(node) {
                world.crash(node, Crash::Process);
                world.start_soon(node, 2_000);
            }
        });
    }

    fn started(&self, node: NodeId, consensus: Consensus) {
        let (world, mut statuses) = (self.clone(), consensus.watch_status());
        let process = self.counts().starts;
        self.0.simulator.spawn_on(node, "status", async move {
            loop {
                let status = statuses.borrow_and_update().clone();
                world.look_at(node, process, &status);
                if statuses.changed().await.is_err() {
                    return;
                }
            }
        });
        lock(&self.0.state).processes.insert(node, Some(consensus));
    }

    fn look_at(&self, node: NodeId, process: u64, status: &Status) {
        let asked_to_stop = lock(&self.0.state).stopping.contains(&node);
        match &status.failure {
            // Who was asked to stop says that it has stopped.
            Some(_) if asked_to_stop => {}
            Some(failure) if failure.contains(SYNC_FAILED) => {
                self.ends_itself(node);
            }
            Some(failure) if lock(&self.0.state).fragile == Some(node) && says_damage(failure) => {
                self.ends_itself(node);
            }
            _ => {
                let disk = (node, self.disk(node).number());
                self.0.oracle.status(node, status);
                if let Some(identity) = &status.identity {
                    self.0.oracle.identity(disk, process, identity);
                }
            }
        }
    }

    /// Starts a process on `node` within so many milliseconds.
    pub fn start_soon(&self, node: NodeId, within_ms: u64) {
        let world = self.clone();
        let ms = self.0.simulator.below(within_ms);
        self.0.simulator.spawn_on(OUTSIDE, "restart", async move {
            world.0.simulator.sleep_ms(ms).await;
            world.start(node);
        });
    }

    /// Ends the process of `node` at once, if one runs there.
    pub fn crash(&self, node: NodeId, crash: Crash) {
        if !self.is_up(node) {
            return;
        }
        match crash {
            Crash::Process => {
                self.0.net.process_died(node);
                self.disk(node).process_died();
            }
            Crash::Power { silent_for } => {
                self.0.net.machine_died(node, silent_for);
                self.disk(node).lose_power();
            }
        }
        if self.disk(node).lacks_its_last_batch() {
            self.disk(node).replace();
            lock(&self.0.state).refused.insert(node);
        }
        self.0.simulator.crash(node);
        self.0.program.ended(node);
        let gone = {
            let mut state = lock(&self.0.state);
            state.counts.crashes += 1;
            state.counts.power_losses += u64::from(crash != Crash::Process);
            state.stopping.remove(&node);
            state.processes.remove(&node)
        };
        drop(gone);
    }

    /// Asks the process of `node` to stop and starts it again some time after it has.
    pub fn stop_and_restart(&self, node: NodeId, within_ms: u64) {
        let Some(stopping) = self.0.program.stop(node) else { return };
        {
            let mut state = lock(&self.0.state);
            if !state.stopping.insert(node) {
                return;
            }
            state.counts.stops += 1;
        }
        let world = self.clone();
        let (done, stopped) = tokio::sync::oneshot::channel();
        self.0.simulator.spawn_on(node, "stop", async move {
            stopping.await;
            let _ = done.send(());
        });
        self.0.simulator.spawn_on(OUTSIDE, "stopped", async move {
            // If the process crashed meanwhile, whoever made it crash starts it again.
            if stopped.await.is_ok() && world.is_up(node) {
                world.crash(node, Crash::Process);
                world.start_soon(node, within_ms);
            }
        });
    }

    /// From now on one in ten crash points in the server's code costs its node the power for up to 100 ms.
    pub fn cut_power_at_points(&self) {
        let world = self.clone();
        self.0.simulator.cut_power_at_points(10, move |node, _| {
            world.crash(node, Crash::Power { silent_for: Duration::ZERO });
            world.start_soon(node, 100);
        });
    }

    /// Ends all partitions and slowness, and starts what is down.
    pub fn heal(&self) {
        self.0.simulator.spare_points();
        self.0.net.heal();
        for node in self.nodes() {
            self.disk(node).set_slowness(1);
            self.disk(node).set_size_bytes(u64::MAX);
            self.disk(node).set_failing_syncs(0);
            self.start(node);
        }
    }
}
