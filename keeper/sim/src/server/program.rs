//! The process of a whole server, and what of it is visible to the oracle.

use crate::bare::log_options;
use crate::executor::{Event, NodeId, lock};
use crate::random::hash_words;
use crate::world::{Process, Program, Starting, Stopping, World};
use keeper_server::{Node, NodeOptions};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

const SNAPSHOT_LOG_BYTES: u64 = 64 * 1024;

/// Where a node's tree stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TreeView {
    pub(super) index: u64,
    pub(super) digest: u64,
    pub(super) sessions: u64,
    pub(super) ephemerals: u64,
}

#[derive(Clone, Default)]
pub(super) struct ServerProgram {
    nodes: Arc<Mutex<BTreeMap<NodeId, Node>>>,
}

impl ServerProgram {
    pub(super) fn node(&self, node: NodeId) -> Option<Node> {
        lock(&self.nodes).get(&node).cloned()
    }

    pub(super) fn tree(&self, node: NodeId) -> Option<TreeView> {
        Some(view(&self.node(node)?))
    }
}

fn view(node: &Node) -> TreeView {
    let shared = node.shared();
    let tree = shared.read_tree();
    let counts = tree.counts();
    TreeView {
        index: shared.applied_index.load(Ordering::Acquire),
        digest: tree.digest(),
        sessions: counts.sessions,
        ephemerals: counts.ephemerals,
    }
}

/// Tells the oracle what the node's tree is at each index it is seen at, as long as the process lives.
async fn compare_trees(world: World, number: NodeId, node: Node) {
    let mut statuses = node.consensus().watch_status();
    let mut applied = 0;
    loop {
        let (now, snapshot) = {
            let status = statuses.borrow_and_update();
            (status.applied_index, status.snapshot_index)
        };
        if snapshot > applied {
            world.oracle().restored_tree();
        }
        // Index 0 is the founding entry, and also what is said of a tree that has none yet.
        if now != applied && now > 0 {
            applied = now;
            let TreeView { index, digest, .. } = view(&node);
            world.simulator().trace(Event::Apply, hash_words(&[u64::from(number), index, digest]));
            world.oracle().tree(number, index, digest);
        }
        if statuses.changed().await.is_err() {
            return;
        }
    }
}

impl Program for ServerProgram {
    fn start(&self, process: Process) -> Starting {
        let program = self.clone();
        Box::pin(async move {
            let Process { node: number, disk, network, world } = process;
            let pool = keeper_rt::Pool::current();
            let secret = b"a secret of the simulation".to_vec();
            let mut options = NodeOptions::new(format!("keeper-{number}"), disk, network, pool, secret);
            options.snapshot_log_bytes = SNAPSHOT_LOG_BYTES;
            options.log = log_options(number, &world);
            let node = Node::start(options).await.map_err(|error| error.to_string())?;
            let consensus = node.consensus().clone();
            lock(&program.nodes).insert(number, node.clone());
            keeper_rt::spawn("trees", compare_trees(world, number, node));
            Ok(consensus)
        })
    }

    fn ended(&self, node: NodeId) {
        let gone = lock(&self.nodes).remove(&node);
        drop(gone);
    }

    fn stop(&self, node: NodeId) -> Option<Stopping> {
        let node = self.node(node)?;
        Some(Box::pin(async move { node.shutdown().await }))
    }
}
