//! How a fresh cluster comes to be: the first member founds it, the others are added one by one.

use crate::executor::NodeId;
use crate::world::{World, peer_address};
use keeper_consensus::{AdminError, Consensus, Member, Precondition};
use keeper_types::{ClusterId, ServerId};

/// Simulated time within which a fresh cluster must have all its voters.
const BOOT_MS_MAX: u64 = 60_000;

/// The machine as a server of the cluster.
pub(crate) fn member(node: NodeId, id: ServerId) -> Member {
    Member {
        id,
        peer_address: peer_address(node),
        client_address: format!("keeper-{node}:2181"),
        name: format!("keeper-{node}"),
        election_port: 0,
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
    for node in world.founders() {
        world.set_member(node, Some(ServerId(u64::from(node))));
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

async fn add(world: &World, node: NodeId) -> Result<(), AdminError> {
    let id = ServerId(u64::from(node));
    if node == 1 {
        let first = world.consensus(1).ok_or(AdminError::Uninitialized)?;
        return on_node(world, 1, async move {
            first.bootstrap(ClusterId([7; 16]), member(1, id)).await.map(drop)
        })
        .await;
    }
    let leader = world.wait_for_leader().await;
    let consensus: Consensus = world.consensus(leader).ok_or(AdminError::Uninitialized)?;
    on_node(world, leader, async move {
        consensus.add_learner(member(node, id), Precondition::default()).await?;
        consensus.promote(id, Precondition::default()).await.map(drop)
    })
    .await
}

/// Runs a call as part of the process it is made to: it sleeps by that node's clock and dies with it.
pub(crate) async fn on_node<T: Send + 'static>(
    world: &World,
    node: NodeId,
    call: impl Future<Output = Result<T, AdminError>> + Send + 'static,
) -> Result<T, AdminError> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    world.simulator().spawn_on(node, "admin-call", async move {
        let _ = done.send(call.await);
    });
    outcome.await.unwrap_or_else(|_| Err(AdminError::Stopped("the process died".to_string())))
}
