//! A snapshot in slices, between which the tree goes on changing: what comes out is the state as it was at the begin,
//! byte for byte what [`Tree::encode_snapshot`] would have given then.
//!
//! A node is encoded when the walk gets to it. Whoever changes or removes one before that keeps what it was, once a
//! snapshot, and the walk takes that instead. Nodes made after the begin are in no list of children that it sees.

use std::fmt;

use hashbrown::HashMap;

use super::encode::Walk;
use super::output::Output;
use crate::acl_table::AclRef;
use crate::blobs::{Blob, Large};
use crate::limits::{SNAPSHOT_SLICE_BYTES, SNAPSHOT_SLICE_NODES};
use crate::node::{Facts, Node, NodeId};
use crate::tree::Tree;

/// The snapshot that is being made, as the store's writers know it.
pub(crate) struct Running {
    id: u64,
    /// A bit for each node's number: the walk was there, or what it was is kept, or it was made after the begin.
    /// Numbers behind its end were all given out after the begin.
    done: Vec<u64>,
    /// Invariant: the bit in `done` is set.
    kept: HashMap<NodeId, Kept>,
    kept_bytes: usize,
}

/// A node as it was at the begin.
struct Kept {
    blob: Large,
    acl: AclRef,
    facts: Facts,
    children: Vec<NodeId>,
}

impl Running {
    fn new(id: u64, slots: usize) -> Running {
        Running { id, done: vec![0; slots.div_ceil(64)], kept: HashMap::new(), kept_bytes: 0 }
    }

    /// Whether a change of this node must first be told to [`Running::keep`].
    pub fn wants(&self, id: NodeId) -> bool {
        self.done.get(id.0 as usize / 64).is_some_and(|word| word & (1 << (id.0 % 64)) == 0)
    }

    pub fn keep(&mut self, id: NodeId, node: &Node<'_>) {
        self.set_done(id);
        let blob = Large::new(node.name_bytes(), node.data());
        let kept = Kept { blob, acl: node.acl, facts: **node, children: node.children().to_vec() };
        self.kept_bytes += kept.bytes();
        self.kept.insert(id, kept);
    }

    /// The node was made after the begin, or the walk has seen it.
    pub fn set_done(&mut self, id: NodeId) {
        if let Some(word) = self.done.get_mut(id.0 as usize / 64) {
            *word |= 1 << (id.0 % 64);
        }
    }

    fn take_kept(&mut self, id: NodeId) -> Option<Kept> {
        let kept = self.kept.remove(&id)?;
        self.kept_bytes -= kept.bytes();
        Some(kept)
    }

    pub fn memory(&self) -> usize {
        self.done.capacity() * 8 + self.kept.allocation_size() + self.kept_bytes
    }
}

impl Kept {
    fn node(&self) -> Node<'_> {
        let Kept { blob, acl, facts, children } = self;
        Node { acl: *acl, parent: crate::node::NOWHERE, facts: *facts, blob: Blob::Large(blob), children }
    }

    fn bytes(&self) -> usize {
        self.blob.len() + self.children.capacity() * size_of::<NodeId>()
    }
}

/// One snapshot, as its maker holds it. At its end, or when it is given up, [`Tree::end_snapshot`] is due: until then
/// writers keep what they change.
pub struct SnapshotWalk {
    id: u64,
    walk: Walk,
    nodes: u32,
    output: Output,
}

impl SnapshotWalk {
    /// A chunk of at most `SNAPSHOT_CHUNK_BYTES_MAX`, if there is enough for one. Needs no tree.
    pub fn take_chunk(&mut self) -> Option<Vec<u8>> {
        let complete = self.is_complete();
        self.output.take_chunk(complete)
    }

    /// No more slices are needed; chunks may be left.
    pub fn is_complete(&self) -> bool {
        self.walk.number() == self.nodes
    }
}

/// Another snapshot was begun since, or the tree is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotAbandoned;

impl fmt::Display for SnapshotAbandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the snapshot was abandoned: another one was begun, or the state was replaced")
    }
}

impl std::error::Error for SnapshotAbandoned {}

impl Tree {
    /// Begins a snapshot of the state as it is now. One that was under way is abandoned.
    pub fn begin_snapshot(&mut self) -> SnapshotWalk {
        self.snapshots_begun += 1;
        let id = self.snapshots_begun;
        let mut output = Output::default();
        let walk = Walk::new(self.encode_head(&mut output));
        self.store.running = Some(Box::new(Running::new(id, self.store.slots())));
        SnapshotWalk { id, walk, nodes: self.store.len() as u32, output }
    }

    /// Goes on by at most `SNAPSHOT_SLICE_NODES` nodes. Whatever else the tree does may happen before the next one.
    pub fn snapshot_slice(&mut self, snapshot: &mut SnapshotWalk) -> Result<(), SnapshotAbandoned> {
        self.slice_of(snapshot, SNAPSHOT_SLICE_NODES)
    }

    pub(crate) fn slice_of(
        &mut self,
        snapshot: &mut SnapshotWalk,
        nodes_max: usize,
    ) -> Result<(), SnapshotAbandoned> {
        let Some(mut running) = self.store.running.take_if(|running| running.id == snapshot.id) else {
            return Err(SnapshotAbandoned);
        };
        let SnapshotWalk { walk, output, .. } = snapshot;
        let bytes_max = output.len() + SNAPSHOT_SLICE_BYTES;
        for _ in 0..nodes_max {
            if output.len() >= bytes_max {
                break;
            }
            let Some((id, parent)) = walk.next() else { break };
            if let Some(mut kept) = running.take_kept(id) {
                let children = std::mem::take(&mut kept.children);
                walk.visit(&kept.node(), children, parent, output);
            } else {
                running.set_done(id);
                let node = self.store.node(id);
                walk.visit(&node, node.children().to_vec(), parent, output);
            }
        }
        self.store.running = Some(running);
        Ok(())
    }

    /// Writers need keep nothing more for this snapshot. Does nothing if another one was begun since.
    pub fn end_snapshot(&mut self, snapshot: &SnapshotWalk) {
        self.store.running.take_if(|running| running.id == snapshot.id);
    }
}
