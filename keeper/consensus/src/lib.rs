//! Raft for the rest of the server: the only crate that names openraft.
//!
//! Above this line consensus is five things: a [`StateMachine`] that is fed committed payloads in log order, an
//! ordered [`Consensus::propose`], a [`Status`] to watch, the membership calls, and authenticated dispatch
//! connections between members. Nothing generic and nothing of openraft leaves the crate, so that only this crate
//! pays for compiling it. Sessions, trees and clients are unknown here; payloads are opaque bytes.
//!
//! To read in order: `api` (the values), `facade` (the calls), `start` (how a member comes to life), `membership`,
//! `storage` and `machine` (what Raft stands on), `peer` (how members talk, and notice a dead leader), `net` and `tcp`.
#![forbid(unsafe_code)]

mod api;
mod codec;
mod config;
mod facade;
pub mod files;
mod identity;
mod inquiry;
pub mod limits;
mod machine;
mod membership;
mod net;
mod node;
mod peer;
mod runtime;
mod snapshots;
mod start;
mod status;
mod storage;
mod tcp;
mod types;

pub use api::{
    AdminError, ConsensusOptions, DiskUsage, DispatchConn, Identity, LogEnds, LogPosition, Member,
    Membership, NotLeader, OpenError, PeerProgress, PeerRefusals, Precondition, Role, SnapshotSource,
    StateMachine, Status,
};
pub use facade::{Consensus, Proposed};
pub use net::{Conn, DialError, NetFuture, Network};
pub use tcp::TcpNetwork;
