//! openraft's types, filled in once. Nothing here leaves the crate.

use crate::api::{LogPosition, Member};
use crate::machine::Adapter;
use crate::runtime::Rt;
use bytes::Bytes;
use openraft::type_config::alias;
use std::fmt;

/// What one entry carries: bytes that only the state machine understands.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(pub Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Answers are made by each member's state machine for its own clients; Raft itself answers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nothing;

openraft::declare_raft_types!(
    pub TC:
        D = Payload,
        R = Nothing,
        NodeId = u64,
        Node = Member,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
        AsyncRuntime = Rt,
);

pub type Raft = openraft::Raft<TC, Adapter>;
pub type LogId = alias::LogIdOf<TC>;
pub type Vote = alias::VoteOf<TC>;
pub type Entry = alias::EntryOf<TC>;
pub type EntryPayload = openraft::EntryPayload<Payload, u64, Member>;
pub type RaftMembership = openraft::Membership<u64, Member>;
pub type StoredMembership = alias::StoredMembershipOf<TC>;
pub type SnapshotMeta = alias::SnapshotMetaOf<TC>;
pub type Snapshot = alias::SnapshotOf<TC, crate::machine::SnapshotData>;
pub type AppendRequest = openraft::raft::AppendEntriesRequest<TC>;
pub type AppendResult = openraft::raft::StreamAppendResult<TC>;
pub type VoteRequest = openraft::raft::VoteRequest<TC>;
pub type VoteResponse = openraft::raft::VoteResponse<TC>;
pub type TransferRequest = openraft::raft::TransferLeaderRequest<TC>;

pub fn log_id(term: u64, index: u64) -> LogId {
    LogId { leader_id: openraft::vote::leader_id_std::CommittedLeaderId::new(term), index }
}

pub fn position(log_id: &LogId) -> LogPosition {
    LogPosition { term: log_id.leader_id.term, index: log_id.index }
}
