//! Raft for the rest of the server: the only crate that names openraft.
//!
//! Above this line consensus is five things: a [`StateMachine`] that is fed committed payloads in log order, an
//! ordered [`Consensus::propose`], a [`Status`] to watch, the membership calls, and authenticated dispatch
//! connections between members. Nothing generic and nothing of openraft leaves the crate, so that only this crate
//! pays for compiling it. Sessions, trees and clients are unknown here; payloads are opaque bytes.

mod api;
mod facade;
mod net;

pub use api::{
    AdminError, ConsensusOptions, DispatchConn, Identity, LogPosition, Member, Membership, NotLeader,
    OpenError, PeerProgress, PeerRefusals, Precondition, Role, SnapshotSource, StateMachine, Status,
};
pub use facade::{Consensus, Proposed};
pub use net::{Conn, DialError, NetFuture, Network};
