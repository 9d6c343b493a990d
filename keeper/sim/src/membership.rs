//! Changes of the cluster's members in the middle of everything: what an operator would do, one change at a time.
//!
//! A machine that comes into the cluster, or comes back with an empty disk, is always a new server: ids are given once.
//! Like a real operator this one repeats each call until it is carried out, whatever its answer was.

use crate::boot::{member, on_node};
use crate::executor::{Event, NodeId, OUTSIDE, lock};
use crate::world::World;
use keeper_consensus::{AdminError, Consensus, Membership, Precondition};
use keeper_types::ServerId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Between two changes, and between two attempts at one call.
const CHANGE_PAUSE_MS: u64 = 1_500;
const ATTEMPT_PAUSE_MS: u64 = 100;
/// Attempts to ask for the members in the end.
const COMPARE_ATTEMPTS_MAX: u32 = 600;
/// How long a removed server's process goes on, not knowing or not caring.
const REMOVED_LIVES_MS: u64 = 3_000;
/// A cluster is never made smaller than this on purpose.
const MEMBERS_MIN: usize = 3;

#[derive(Default)]
struct Control {
    stop: bool,
    busy: bool,
}

/// Handle of the operator's task.
#[derive(Clone, Default)]
pub struct Operator(Arc<Mutex<Control>>);

impl Operator {
    /// Replaces members whose disks are damaged, until the run ends; with `changes` it changes the members all the time.
    /// The founders have the ids of their machines.
    pub fn start(&self, world: &World, changes: bool) {
        lock(&self.0).stop = !changes;
        let next = ServerId(world.founders().count() as u64 + 1);
        let changer = Changer { operator: self.clone(), world: world.clone(), next };
        world.simulator().spawn_on(OUTSIDE, "operator", changer.run());
    }

    /// What is begun is brought to its end; after that only what is damaged is replaced.
    pub fn stop(&self) {
        lock(&self.0).stop = true;
    }

    pub fn is_busy(&self) -> bool {
        lock(&self.0).busy
    }
}

struct Changer {
    operator: Operator,
    world: World,
    /// The next new server's id. Counted up before it is used, so that no attempt shares one.
    next: ServerId,
}

#[derive(Clone, Copy)]
enum Change {
    /// A machine that is free becomes a voter.
    Add(NodeId),
    /// A member leaves; the leader after it has handed over.
    Remove(NodeId),
    /// A member's disk is lost; its machine comes back as a new server.
    Replace(NodeId),
    /// Someone asks for an id that was used before; it must be refused.
    Reuse(NodeId),
}

impl Change {
    /// In the trace: apart from the kinds of misfortune.
    fn number(self) -> u64 {
        let (kind, node) = match self {
            Change::Add(node) => (1, node),
            Change::Remove(node) => (2, node),
            Change::Replace(node) => (3, node),
            Change::Reuse(node) => (4, node),
        };
        kind * 1_000 + u64::from(node)
    }
}

impl Changer {
    async fn run(mut self) {
        let simulator = self.world.simulator().clone();
        while self.world.oracle().is_content() {
            simulator.sleep_ms(1 + simulator.below(CHANGE_PAUSE_MS)).await;
            let Some(change) = self.choose() else { continue };
            lock(&self.operator.0).busy = true;
            simulator.trace(Event::Misfortune, change.number());
            match change {
                Change::Add(node) => self.add(node).await,
                Change::Remove(node) => self.remove(node).await,
                Change::Replace(node) => self.replace(node).await,
                Change::Reuse(node) => self.reuse(node).await,
            }
            lock(&self.operator.0).busy = false;
            self.world.members_changed();
        }
    }

    fn choose(&self) -> Option<Change> {
        if let Some(node) = self.world.needs_repair() {
            return Some(Change::Replace(node));
        }
        if lock(&self.operator.0).stop {
            return None;
        }
        let simulator = self.world.simulator();
        let members = self.world.members();
        let any = |nodes: Vec<NodeId>| nodes.get(simulator.below(nodes.len() as u64) as usize).copied();
        let free = any(self.world.nodes().filter(|node| !members.contains_key(node)).collect());
        let taken = any(members.keys().copied().collect());
        match simulator.below(5) {
            0 | 1 => free.map(Change::Add),
            2 if members.len() > MEMBERS_MIN => taken.map(Change::Remove),
            3 => any(self.world.nodes().collect()).map(Change::Reuse),
            _ => taken.filter(|node| self.world.may_damage(*node)).map(Change::Replace),
        }
    }

    async fn add(&mut self, node: NodeId) {
        let id = self.next;
        self.next.0 += 1;
        self.world.set_member(node, Some(id));
        let joined = self.admin(Some(node), move |consensus| async move {
            consensus.add_learner(member(node, id), Precondition::default()).await?;
            consensus.promote(id, Precondition::default()).await
        });
        if joined.await.is_some() {
            self.world.is_whole(node);
        }
    }

    async fn remove(&mut self, node: NodeId) {
        self.take_out(node).await;
        // It may not even know that it was removed.
        let simulator = self.world.simulator().clone();
        simulator.sleep_ms(simulator.below(REMOVED_LIVES_MS)).await;
        self.empty(node);
        self.world.is_whole(node);
    }

    async fn replace(&mut self, node: NodeId) {
        self.empty(node);
        self.take_out(node).await;
        // One that had no vote yet may have been taken in again meanwhile, as the server that is removed now.
        self.empty(node);
        self.add(node).await;
    }

    async fn take_out(&mut self, node: NodeId) {
        let Some(id) = self.world.members().get(&node).copied() else { return };
        let world = self.world.clone();
        let removed = self.admin(None, move |consensus| {
            let world = world.clone();
            async move {
                if consensus.identity().is_some_and(|identity| identity.server_id == id) {
                    hand_over(&consensus, id).await?;
                }
                let membership = consensus.remove(id, Precondition::default()).await?;
                world.oracle().removed(id, consensus.status().term);
                Ok(membership)
            }
        });
        if removed.await.is_some() {
            self.world.set_member(node, None);
        }
    }

    /// The machine's disk is lost, or taken out to be used again.
    fn empty(&self, node: NodeId) {
        self.world.replace_disk(node);
        self.world.start_soon(node, 500);
    }

    async fn reuse(&self, node: NodeId) {
        let simulator = self.world.simulator();
        let members: BTreeSet<ServerId> = self.world.members().into_values().collect();
        // The highest one is the one that is forgotten most easily.
        let highest = self.next.0 - 1;
        let id = ServerId(if simulator.one_in(2) { highest } else { 1 + simulator.below(highest) });
        let leader = self.world.leader().and_then(|leader| Some((leader, self.world.consensus(leader)?)));
        let Some((leader, consensus)) = leader.filter(|_| !members.contains(&id)) else { return };
        let asked = on_node(&self.world, leader, async move {
            consensus.add_learner(member(node, id), Precondition::default()).await
        });
        if asked.await.is_ok() {
            self.world.oracle().found(format!("server id {id} was given out again"));
        }
    }

    /// Repeats a call to whoever leads until it is carried out. `None` once something else was found, or the machine
    /// that is to join has to be replaced.
    async fn admin<F>(&self, joins: Option<NodeId>, call: impl Fn(Consensus) -> F) -> Option<Membership>
    where
        F: Future<Output = Result<Membership, AdminError>> + Send + 'static,
    {
        let simulator = self.world.simulator();
        let in_vain = || joins.is_some_and(|node| self.world.has_refused(node));
        while self.world.oracle().is_content() && !in_vain() {
            if let Some(leader) = self.world.leader()
                && let Some(consensus) = self.world.consensus(leader)
            {
                match on_node(&self.world, leader, call(consensus)).await {
                    Ok(membership) => return Some(membership),
                    Err(error) => tracing::debug!(leader, %error, "the operator asks again"),
                }
            }
            simulator.sleep_ms(1 + simulator.below(ATTEMPT_PAUSE_MS)).await;
        }
        None
    }
}

/// The leader hands over to another voter before it is removed.
async fn hand_over(consensus: &Consensus, me: ServerId) -> Result<(), AdminError> {
    let voters = consensus.committed_membership().await?.voters;
    let Some(other) = voters.iter().find(|voter| voter.id != me) else { return Ok(()) };
    consensus.transfer_leadership(other.id, Precondition::default()).await?;
    Err(AdminError::InProgress)
}

/// At the end: the cluster has the voters that it should have. Asked until someone leads who can say so.
pub async fn compare(world: &World) {
    let expected: BTreeSet<ServerId> = world.members().into_values().collect();
    for _ in 0..COMPARE_ATTEMPTS_MAX {
        if let Some(leader) = world.leader()
            && let Some(consensus) = world.consensus(leader)
            && let Ok(now) =
                on_node(world, leader, async move { consensus.committed_membership().await }).await
        {
            let voters: BTreeSet<ServerId> = now.voters.iter().map(|voter| voter.id).collect();
            if voters != expected || !now.learners.is_empty() {
                world.oracle().found(format!("the members should be {expected:?}, they are {voters:?}"));
            }
            return;
        }
        world.simulator().sleep_ms(ATTEMPT_PAUSE_MS).await;
    }
    world.oracle().found("nobody says who the members are".to_string());
}
