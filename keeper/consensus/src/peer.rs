//! Members talking to each other: handshake, messages, the dialling and the accepting side, and the detector that
//! notices a dead leader. `docs/protocol/peer.md` comes first; this must never accept what is not in it.

pub mod detector;
pub mod frame;
pub mod handshake;
pub mod incoming;
pub mod outgoing;
pub mod refusals;
pub mod snapshot;
