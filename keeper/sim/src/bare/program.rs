//! The process of a bare cluster: consensus, the small machine, and a door for proposals.

use super::machine::{Machine, State};
use crate::executor::{NodeId, Simulator, lock};
use crate::world::{Process, Program, Starting, Stopping, World};
use bytes::Bytes;
use keeper_consensus::{Consensus, ConsensusOptions};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};

/// Proposals between a client and a process; then the client waits.
const PROPOSALS_MAX: usize = 64;
const SNAPSHOT_LOG_BYTES: u64 = 48 * 1024;

/// A payload and where its outcome goes: true if it is committed and applied at the proposer.
pub(super) struct Proposal {
    pub(super) payload: Bytes,
    pub(super) answer: oneshot::Sender<bool>,
}

struct Door {
    proposals: mpsc::Sender<Proposal>,
    state: Arc<Mutex<State>>,
    consensus: Consensus,
}

#[derive(Clone, Default)]
pub struct BareProgram {
    doors: Arc<Mutex<BTreeMap<NodeId, Door>>>,
}

impl BareProgram {
    pub(super) fn proposals_of(&self, node: NodeId) -> Option<mpsc::Sender<Proposal>> {
        lock(&self.doors).get(&node).map(|door| door.proposals.clone())
    }

    pub(super) fn state_of(&self, node: NodeId) -> Option<State> {
        let state = lock(&self.doors).get(&node).map(|door| door.state.clone())?;
        let state = lock(&state).clone();
        Some(state)
    }
}

/// The log's options of every simulated process: small files, and a lost disk ends the process.
pub(crate) fn log_options(node: NodeId, world: &World) -> keeper_log::Options {
    let mut options = keeper_log::Options::small();
    let world = world.clone();
    options.on_fatal = Arc::new(move |why| {
        tracing::warn!(node, why, "the log ends the process");
        world.ends_itself(node);
    });
    options
}

impl Program for BareProgram {
    fn start(&self, process: Process) -> Starting {
        let program = self.clone();
        Box::pin(async move {
            let Process { node, disk, network, world } = process;
            let (machine, state) = Machine::new(node, &world);
            let pool = keeper_rt::Pool::current();
            let secret = b"a secret of the simulation".to_vec();
            let mut options = ConsensusOptions::new(disk, network, pool, Box::new(machine), secret);
            options.snapshot_log_bytes = SNAPSHOT_LOG_BYTES;
            options.log = log_options(node, &world);
            let (consensus, dispatch) = Consensus::open(options).await.map_err(|error| error.to_string())?;
            let (proposals, receiver) = mpsc::channel(PROPOSALS_MAX);
            keeper_rt::spawn("proposer", propose_all(world.simulator().clone(), consensus.clone(), receiver));
            keeper_rt::spawn("dispatch-keeper", async move {
                let mut dispatch = dispatch;
                while dispatch.recv().await.is_some() {}
            });
            lock(&program.doors).insert(node, Door { proposals, state, consensus: consensus.clone() });
            Ok(consensus)
        })
    }

    fn ended(&self, node: NodeId) {
        let door = lock(&self.doors).remove(&node);
        drop(door);
    }

    fn stop(&self, node: NodeId) -> Option<Stopping> {
        let consensus = lock(&self.doors).get(&node)?.consensus.clone();
        Some(Box::pin(async move { consensus.shutdown().await }))
    }
}

/// Proposes in the order of arrival; the outcomes come in any.
async fn propose_all(simulator: Simulator, consensus: Consensus, mut proposals: mpsc::Receiver<Proposal>) {
    while let Some(Proposal { payload, answer }) = proposals.recv().await {
        match consensus.propose(payload).await {
            Ok(proposed) => {
                keeper_rt::spawn("outcome", async move {
                    let committed = proposed.await.is_ok();
                    let _ = answer.send(committed);
                });
            }
            Err(_) => {
                simulator.sleep_ms(simulator.below(5)).await;
                let _ = answer.send(false);
            }
        }
    }
}
