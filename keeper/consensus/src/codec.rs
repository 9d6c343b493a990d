//! Bytes of votes, log ids, entries, configurations and snapshot heads: on the disk and between members alike.
//! Everything is little-endian. Decoding checks every length against a named limit before it allocates and never
//! panics on bytes from outside. `docs/protocol/peer.md` has the tables.

use crate::api::Member;
use crate::limits::{MEMBER_TEXT_BYTES_MAX, MEMBERS_MAX, PAYLOAD_BYTES_MAX};
use crate::types::{
    Entry, EntryPayload, LogId, Payload, RaftMembership, SnapshotMeta, StoredMembership, Vote, log_id,
};
use bytes::{BufMut, Bytes, BytesMut};
use keeper_types::ServerId;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

impl From<Malformed> for io::Error {
    fn from(error: Malformed) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, error)
    }
}

/// Takes values off the front; large ones without a copy.
pub struct Reader(Bytes);

impl Reader {
    pub fn new(bytes: Bytes) -> Reader {
        Reader(bytes)
    }

    pub fn bytes(&mut self, len: usize, what: &'static str) -> Result<Bytes, Malformed> {
        if len > self.0.len() {
            return Err(Malformed(what));
        }
        Ok(self.0.split_to(len))
    }

    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let bytes = self.bytes(N, what)?;
        <[u8; N]>::try_from(&bytes[..]).map_err(|_| Malformed(what))
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        Ok(self.array::<1>(what)?[0])
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    pub fn flag(&mut self, what: &'static str) -> Result<bool, Malformed> {
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed(what)),
        }
    }

    pub fn text(&mut self, len_max: usize, what: &'static str) -> Result<String, Malformed> {
        let len = usize::from(self.u16(what)?);
        if len > len_max {
            return Err(Malformed(what));
        }
        let bytes = self.bytes(len, what)?;
        std::str::from_utf8(&bytes).map(str::to_owned).map_err(|_| Malformed(what))
    }

    pub fn rest(self) -> Bytes {
        self.0
    }

    /// Nothing may follow.
    pub fn end(self, what: &'static str) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed(what)) }
    }
}

/// Texts of members are checked before they get here; a longer one (an error message) is cut.
pub fn put_text(out: &mut BytesMut, text: &str, len_max: usize) {
    let mut len = text.len().min(len_max).min(usize::from(u16::MAX));
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    out.put_u16_le(len as u16);
    out.put_slice(&text.as_bytes()[..len]);
}

pub fn put_vote(out: &mut BytesMut, vote: &Vote) {
    out.put_u64_le(vote.leader_id.term);
    out.put_u64_le(vote.leader_id.voted_for);
    out.put_u8(u8::from(vote.committed));
}

pub fn read_vote(reader: &mut Reader) -> Result<Vote, Malformed> {
    let term = reader.u64("vote term")?;
    let node = reader.u64("vote node")?;
    Ok(if reader.flag("vote kind")? { Vote::new_committed(term, node) } else { Vote::new(term, node) })
}

pub fn encode_vote(vote: &Vote) -> Bytes {
    let mut out = BytesMut::with_capacity(17);
    put_vote(&mut out, vote);
    out.freeze()
}

pub fn decode_vote(bytes: Bytes) -> Result<Vote, Malformed> {
    let mut reader = Reader::new(bytes);
    let vote = read_vote(&mut reader)?;
    reader.end("vote")?;
    Ok(vote)
}

pub fn put_log_id(out: &mut BytesMut, id: &LogId) {
    out.put_u64_le(id.leader_id.term);
    out.put_u64_le(id.index);
}

pub fn read_log_id(reader: &mut Reader) -> Result<LogId, Malformed> {
    let term = reader.u64("log id term")?;
    Ok(log_id(term, reader.u64("log id index")?))
}

pub fn put_log_id_option(out: &mut BytesMut, id: &Option<LogId>) {
    out.put_u8(u8::from(id.is_some()));
    if let Some(id) = id {
        put_log_id(out, id);
    }
}

pub fn read_log_id_option(reader: &mut Reader) -> Result<Option<LogId>, Malformed> {
    Ok(if reader.flag("log id option")? { Some(read_log_id(reader)?) } else { None })
}

const KIND_BLANK: u8 = 0;
const KIND_NORMAL: u8 = 1;
const KIND_MEMBERSHIP: u8 = 2;

/// Bytes of the head that the log keeps beside each payload: kind, term. The index is the log's own.
pub const HEAD_BYTES: usize = 9;

/// Head and payload of an entry; the payload is shared, not copied.
pub fn encode_entry(entry: &Entry) -> (Bytes, Bytes) {
    let (kind, payload) = match &entry.payload {
        EntryPayload::Blank => (KIND_BLANK, Bytes::new()),
        EntryPayload::Normal(payload) => (KIND_NORMAL, payload.0.clone()),
        EntryPayload::Membership(membership) => {
            let mut out = BytesMut::new();
            put_membership(&mut out, membership);
            (KIND_MEMBERSHIP, out.freeze())
        }
    };
    let mut head = BytesMut::with_capacity(HEAD_BYTES);
    head.put_u8(kind);
    head.put_u64_le(entry.log_id.leader_id.term);
    (head.freeze(), payload)
}

pub fn decode_entry(index: u64, head: Bytes, payload: Bytes) -> Result<Entry, Malformed> {
    let mut reader = Reader::new(head);
    let kind = reader.u8("entry kind")?;
    let term = reader.u64("entry term")?;
    reader.end("entry head")?;
    entry_of(kind, log_id(term, index), payload)
}

fn entry_of(kind: u8, log_id: LogId, payload: Bytes) -> Result<Entry, Malformed> {
    let payload = match kind {
        KIND_BLANK if payload.is_empty() => EntryPayload::Blank,
        KIND_NORMAL => EntryPayload::Normal(Payload(payload)),
        KIND_MEMBERSHIP => {
            let mut reader = Reader::new(payload);
            let membership = read_membership(&mut reader)?;
            reader.end("membership")?;
            EntryPayload::Membership(membership)
        }
        _ => return Err(Malformed("entry kind")),
    };
    Ok(Entry { log_id, payload })
}

/// The log id of a recovered head.
pub fn head_log_id(index: u64, head: &Bytes) -> Result<LogId, Malformed> {
    let mut reader = Reader::new(head.clone());
    reader.u8("entry kind")?;
    let term = reader.u64("entry term")?;
    reader.end("entry head")?;
    Ok(log_id(term, index))
}

/// A head for a log id alone, kept when the entry itself is purged.
pub fn purged_head(id: &LogId) -> Bytes {
    let mut head = BytesMut::with_capacity(HEAD_BYTES);
    head.put_u8(KIND_BLANK);
    head.put_u64_le(id.leader_id.term);
    head.freeze()
}

/// An entry as it travels in an append request. Indexes follow from the request's `prev`.
pub fn put_wire_entry(out: &mut BytesMut, entry: &Entry) {
    let (head, payload) = encode_entry(entry);
    out.put_slice(&head);
    out.put_u32_le(payload.len() as u32);
    out.put_slice(&payload);
}

pub fn read_wire_entry(reader: &mut Reader, index: u64) -> Result<Entry, Malformed> {
    let kind = reader.u8("entry kind")?;
    let term = reader.u64("entry term")?;
    let len = reader.u32("entry length")? as usize;
    if len > PAYLOAD_BYTES_MAX {
        return Err(Malformed("entry length"));
    }
    entry_of(kind, log_id(term, index), reader.bytes(len, "entry payload")?)
}

pub fn put_member(out: &mut BytesMut, member: &Member) {
    out.put_u64_le(member.id.0);
    put_text(out, &member.peer_address, MEMBER_TEXT_BYTES_MAX);
    put_text(out, &member.client_address, MEMBER_TEXT_BYTES_MAX);
    put_text(out, &member.name, MEMBER_TEXT_BYTES_MAX);
    out.put_u16_le(member.election_port);
}

pub fn read_member(reader: &mut Reader) -> Result<Member, Malformed> {
    Ok(Member {
        id: ServerId(reader.u64("member id")?),
        peer_address: reader.text(MEMBER_TEXT_BYTES_MAX, "peer address")?,
        client_address: reader.text(MEMBER_TEXT_BYTES_MAX, "client address")?,
        name: reader.text(MEMBER_TEXT_BYTES_MAX, "member name")?,
        election_port: reader.u16("election port")?,
    })
}

/// At most two sets of voters: a joint configuration has the old and the new one.
const CONFIGS_MAX: usize = 2;

pub fn put_membership(out: &mut BytesMut, membership: &RaftMembership) {
    let configs = membership.get_joint_config();
    assert!(configs.len() <= CONFIGS_MAX, "a configuration of {} voter sets", configs.len());
    out.put_u8(configs.len() as u8);
    for voters in configs {
        out.put_u16_le(voters.len() as u16);
        for id in voters {
            out.put_u64_le(*id);
        }
    }
    out.put_u16_le(membership.nodes().count() as u16);
    for (_, member) in membership.nodes() {
        put_member(out, member);
    }
}

pub fn read_membership(reader: &mut Reader) -> Result<RaftMembership, Malformed> {
    let configs_len = usize::from(reader.u8("voter sets")?);
    if configs_len > CONFIGS_MAX {
        return Err(Malformed("voter sets"));
    }
    let mut configs = Vec::with_capacity(configs_len);
    for _ in 0..configs_len {
        let len = usize::from(reader.u16("voters")?);
        if len > MEMBERS_MAX {
            return Err(Malformed("voters"));
        }
        configs.push((0..len).map(|_| reader.u64("voter")).collect::<Result<BTreeSet<u64>, _>>()?);
    }
    let len = usize::from(reader.u16("members")?);
    if len > MEMBERS_MAX {
        return Err(Malformed("members"));
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..len {
        let member = read_member(reader)?;
        nodes.insert(member.id.0, member);
    }
    if configs.is_empty() && nodes.is_empty() {
        return Ok(RaftMembership::default());
    }
    RaftMembership::new(configs, nodes).map_err(|_| Malformed("membership"))
}

/// What consensus keeps beside a snapshot of the state machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHead {
    pub meta: SnapshotMeta,
    /// Highest server id that was ever a member, up to `meta.last_log_id`.
    pub server_id_max: u64,
}

const SNAPSHOT_HEAD_VERSION: u8 = 1;

pub fn encode_snapshot_head(head: &SnapshotHead) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(SNAPSHOT_HEAD_VERSION);
    put_log_id_option(&mut out, &head.meta.last_log_id);
    put_log_id_option(&mut out, head.meta.last_membership.log_id());
    put_membership(&mut out, head.meta.last_membership.membership());
    out.put_u64_le(head.server_id_max);
    out.freeze()
}

pub fn decode_snapshot_head(bytes: Bytes) -> Result<SnapshotHead, Malformed> {
    let mut reader = Reader::new(bytes);
    if reader.u8("snapshot head version")? != SNAPSHOT_HEAD_VERSION {
        return Err(Malformed("snapshot head version"));
    }
    let last_log_id = read_log_id_option(&mut reader)?;
    let membership_log_id = read_log_id_option(&mut reader)?;
    let membership = read_membership(&mut reader)?;
    let server_id_max = reader.u64("highest server id")?;
    reader.end("snapshot head")?;
    let last_membership = StoredMembership::new(membership_log_id, membership);
    Ok(SnapshotHead { meta: SnapshotMeta { last_log_id, last_membership }, server_id_max })
}

#[cfg(test)]
mod tests;
