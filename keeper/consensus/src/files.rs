//! What consensus' bytes in files mean, for tools that only read them. The log and the snapshot store keep them as bytes.

use crate::api::Membership;
use crate::codec::{decode_entry, decode_snapshot_head, decode_vote};
use crate::status;
use crate::types::{EntryPayload, StoredMembership, log_id};
use bytes::Bytes;
use keeper_log::SnapshotMeta;
use keeper_types::ServerId;
use std::io;

/// A record of the log, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord {
    /// `committed`: its node has been elected with it.
    Vote {
        term: u64,
        node: ServerId,
        committed: bool,
    },
    /// What a new leader begins with.
    Blank {
        term: u64,
    },
    Configuration {
        term: u64,
        membership: Membership,
    },
    /// For the state machine.
    Payload {
        term: u64,
        payload: Bytes,
    },
    /// Where the log stands, of no meaning to Raft by itself.
    Other,
}

impl LogRecord {
    /// `kind` as [`keeper_log::Found::Record`] names it.
    pub fn decode(kind: &str, index: Option<u64>, head: Bytes, payload: Bytes) -> io::Result<LogRecord> {
        let index = match (kind, index) {
            ("vote", _) => {
                let vote = decode_vote(payload)?;
                let (term, node) = (vote.leader_id.term, ServerId(vote.leader_id.voted_for));
                return Ok(LogRecord::Vote { term, node, committed: vote.committed });
            }
            ("entry", Some(index)) => index,
            _ => return Ok(LogRecord::Other),
        };
        let entry = decode_entry(index, head, payload)?;
        let term = entry.log_id.leader_id.term;
        Ok(match entry.payload {
            EntryPayload::Blank => LogRecord::Blank { term },
            EntryPayload::Normal(payload) => LogRecord::Payload { term, payload: payload.0 },
            EntryPayload::Membership(membership) => {
                let stored = StoredMembership::new(Some(log_id(term, index)), membership);
                LogRecord::Configuration { term, membership: status::membership(&stored, 0) }
            }
        })
    }
}

/// The configuration in force at the end of a snapshot.
pub fn snapshot_membership(meta: &SnapshotMeta) -> io::Result<Membership> {
    let head = decode_snapshot_head(meta.head.clone())?;
    Ok(status::membership(&head.meta.last_membership, head.server_id_max))
}
