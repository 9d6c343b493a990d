//! The small state machine: for each origin its epoch and next sequence number, and a digest of everything done.

use crate::executor::{Event, NodeId, lock};
use crate::oracle::{Applied, Operation};
use crate::random::{hash_bytes, hash_words};
use crate::world::World;
use bytes::{Buf, BufMut, Bytes};
use keeper_consensus::{SnapshotSource, StateMachine};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

/// origin → epoch and next sequence number.
pub(super) type NextByOrigin = BTreeMap<u64, (u64, u64)>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) next: NextByOrigin,
    pub(super) digest: u64,
    pub(super) last_index: u64,
}

/// An operation as a payload: its number, then bytes that make entries of all sizes.
pub(super) fn encode(operation: Operation, filler: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(24 + filler.len());
    bytes.put_u64(operation.origin);
    bytes.put_u64(operation.epoch);
    bytes.put_u64(operation.seq);
    bytes.extend_from_slice(filler);
    bytes.into()
}

fn decode(payload: &Bytes) -> Option<Operation> {
    let mut bytes = payload.clone();
    (bytes.len() >= 24).then(|| Operation {
        origin: bytes.get_u64(),
        epoch: bytes.get_u64(),
        seq: bytes.get_u64(),
    })
}

impl State {
    /// True if the operation took effect; a repeated one and one after a gap do not.
    fn apply(&mut self, operation: Operation, payload_hash: u64, twice: bool) -> bool {
        let next = self.next.entry(operation.origin).or_insert((operation.epoch, 0));
        if operation.epoch > next.0 {
            *next = (operation.epoch, 0);
        }
        let expected = operation.epoch == next.0 && operation.seq == next.1;
        let repeated = operation.epoch == next.0 && operation.seq + 1 == next.1;
        let applies = expected || repeated && twice;
        if !applies {
            return false;
        }
        next.1 = operation.seq + 1;
        self.digest = hash_words(&[self.digest, payload_hash]);
        true
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u64(self.digest);
        bytes.put_u64(self.last_index);
        for (origin, (epoch, seq)) in &self.next {
            [*origin, *epoch, *seq].into_iter().for_each(|word| bytes.put_u64(word));
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<State> {
        let mut words =
            bytes.chunks_exact(8).map(|word| u64::from_be_bytes(word.try_into().unwrap_or_default()));
        let mut state = State { digest: words.next()?, last_index: words.next()?, ..State::default() };
        while let (Some(origin), Some(epoch), Some(seq)) = (words.next(), words.next(), words.next()) {
            state.next.insert(origin, (epoch, seq));
        }
        Some(state)
    }
}

/// The machine of one process; what it does is told to the oracle.
pub(super) struct Machine {
    node: NodeId,
    world: World,
    state: Arc<Mutex<State>>,
}

impl Machine {
    pub(super) fn new(node: NodeId, world: &World) -> (Machine, Arc<Mutex<State>>) {
        let state: Arc<Mutex<State>> = Arc::default();
        (Machine { node, world: world.clone(), state: state.clone() }, state)
    }
}

impl StateMachine for Machine {
    fn apply(&mut self, index: u64, payload: Bytes) {
        let payload_hash = hash_bytes(&payload);
        let Some(operation) = decode(&payload) else {
            self.world.oracle().found(format!("node {} was given a payload nobody proposed", self.node));
            return;
        };
        let twice = keeper_rt::planted!("machine-applies-twice");
        let mut state = lock(&self.state);
        let done = state.apply(operation, payload_hash, twice).then_some(operation);
        state.last_index = index;
        let digest = state.digest;
        drop(state);
        self.world.simulator().trace(Event::Apply, hash_words(&[u64::from(self.node), index, digest]));
        self.world.oracle().applied(self.node, Applied { index, payload_hash, done, digest });
    }

    fn snapshot(&mut self) -> SnapshotSource {
        let mut state = lock(&self.state).clone();
        if keeper_rt::planted!("snapshot-forgets-next-seq") {
            state.next.clear();
        }
        let chunks: Vec<Vec<u8>> = state.encode().chunks(64).map(<[u8]>::to_vec).collect();
        let mut chunks = chunks.into_iter();
        Box::new(move || Ok(chunks.next()))
    }

    fn restore(&mut self, index: u64, chunks: &mut dyn Iterator<Item = io::Result<Bytes>>) -> io::Result<()> {
        let mut bytes = Vec::new();
        for chunk in chunks {
            bytes.extend_from_slice(&chunk?);
        }
        let state = State::decode(&bytes).ok_or_else(|| io::Error::other("too short for a state"))?;
        self.world.oracle().restored(self.node, index, state.digest);
        *lock(&self.state) = state;
        Ok(())
    }
}
