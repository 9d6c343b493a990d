//! The messages of the classes Log and Snapshot: values here, bytes on the wire (`docs/protocol/peer.md`).

use crate::codec::{
    Malformed, Reader, SnapshotHead, decode_snapshot_head, encode_snapshot_head, put_log_id,
    put_log_id_option, put_text, put_vote, put_wire_entry, read_log_id, read_log_id_option, read_vote,
    read_wire_entry,
};
use crate::limits::{SNAPSHOT_CHUNK_BYTES_MAX, TEXT_BYTES_MAX};
use crate::types::{
    AppendRequest, AppendResult, Entry, EntryPayload, TransferRequest, Vote, VoteRequest, VoteResponse,
};
use bytes::{BufMut, Bytes, BytesMut};
use openraft::raft::{StreamAppendError, TransferLeaderError, TransferLeaderResponse};

const APPEND: u8 = 0x10;
const APPEND_ANSWER: u8 = 0x11;
const REQUEST: u8 = 0x20;
const ANSWER: u8 = 0x21;
const SNAPSHOT_BEGIN: u8 = 0x30;
const SNAPSHOT_CHUNK: u8 = 0x31;
const SNAPSHOT_END: u8 = 0x32;
const SNAPSHOT_DONE: u8 = 0x33;

const KIND_FAILED: u8 = 0;
const KIND_VOTE: u8 = 1;
const KIND_PRE_VOTE: u8 = 2;
const KIND_TRANSFER: u8 = 3;

/// Entries of one append that a decoder accepts.
const ENTRIES_MAX: u32 = 65_536;
/// Least bytes of an entry on the wire.
const ENTRY_BYTES_MIN: usize = 13;

pub type TransferResponse = TransferLeaderResponse<crate::types::TC>;

#[derive(Debug, PartialEq)]
pub enum Request {
    Vote(VoteRequest),
    PreVote(VoteRequest),
    Transfer(TransferRequest),
}

#[derive(Debug, PartialEq)]
pub enum Answer {
    Vote(VoteResponse),
    PreVote(VoteResponse),
    Transfer(TransferResponse),
    Failed(String),
}

/// What travels on a connection of class Log.
#[derive(Debug)]
pub enum LogMessage {
    Append { session: u64, request: AppendRequest },
    AppendAnswer { session: u64, result: AppendResult },
    Request { number: u64, request: Request },
    Answer { number: u64, answer: Answer },
}

/// Bytes of an entry in an append request.
pub fn entry_bytes(entry: &Entry) -> usize {
    ENTRY_BYTES_MIN
        + match &entry.payload {
            EntryPayload::Normal(payload) => payload.0.len(),
            EntryPayload::Blank => 0,
            EntryPayload::Membership(_) => 1024,
        }
}

pub fn encode_append(session: u64, request: &AppendRequest) -> Bytes {
    let bytes = 64 + request.entries.iter().map(entry_bytes).sum::<usize>();
    let mut out = BytesMut::with_capacity(bytes);
    out.put_u8(APPEND);
    out.put_u64_le(session);
    put_vote(&mut out, &request.vote);
    put_log_id_option(&mut out, &request.prev_log_id);
    put_log_id_option(&mut out, &request.leader_commit);
    out.put_u32_le(request.entries.len() as u32);
    for entry in &request.entries {
        put_wire_entry(&mut out, entry);
    }
    out.freeze()
}

pub fn encode_append_answer(session: u64, result: &AppendResult) -> Bytes {
    let mut out = BytesMut::with_capacity(32);
    out.put_u8(APPEND_ANSWER);
    out.put_u64_le(session);
    match result {
        Ok(matched) => {
            out.put_u8(0);
            put_log_id_option(&mut out, matched);
        }
        Err(StreamAppendError::Conflict(log_id)) => {
            out.put_u8(1);
            put_log_id(&mut out, log_id);
        }
        Err(StreamAppendError::HigherVote(vote)) => {
            out.put_u8(2);
            put_vote(&mut out, vote);
        }
    }
    out.freeze()
}

pub fn encode_request(number: u64, request: &Request) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u8(REQUEST);
    out.put_u64_le(number);
    match request {
        Request::Vote(vote) => put_vote_request(&mut out, KIND_VOTE, vote),
        Request::PreVote(vote) => put_vote_request(&mut out, KIND_PRE_VOTE, vote),
        Request::Transfer(transfer) => {
            out.put_u8(KIND_TRANSFER);
            put_vote(&mut out, transfer.from_leader());
            out.put_u64_le(*transfer.to_node_id());
            put_log_id_option(&mut out, &transfer.last_log_id().copied());
        }
    }
    out.freeze()
}

fn put_vote_request(out: &mut BytesMut, kind: u8, request: &VoteRequest) {
    out.put_u8(kind);
    put_vote(out, &request.vote);
    put_log_id_option(out, &request.last_log_id);
    out.put_u8(u8::from(request.leadership_transfer));
}

pub fn encode_answer(number: u64, answer: &Answer) -> Bytes {
    let mut out = BytesMut::with_capacity(64);
    out.put_u8(ANSWER);
    out.put_u64_le(number);
    match answer {
        Answer::Vote(response) => put_vote_response(&mut out, KIND_VOTE, response),
        Answer::PreVote(response) => put_vote_response(&mut out, KIND_PRE_VOTE, response),
        Answer::Transfer(response) => {
            out.put_u8(KIND_TRANSFER);
            put_transfer_response(&mut out, response);
        }
        Answer::Failed(text) => {
            out.put_u8(KIND_FAILED);
            put_text(&mut out, text, TEXT_BYTES_MAX);
        }
    }
    out.freeze()
}

fn put_vote_response(out: &mut BytesMut, kind: u8, response: &VoteResponse) {
    out.put_u8(kind);
    put_vote(out, &response.vote);
    out.put_u8(u8::from(response.vote_granted));
    put_log_id_option(out, &response.last_log_id);
}

fn put_transfer_response(out: &mut BytesMut, response: &TransferResponse) {
    match response {
        Ok(()) => out.put_u8(0),
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            out.put_u8(1);
            put_vote(out, expected);
            put_vote(out, actual);
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            out.put_u8(2);
            put_log_id_option(out, expected);
            put_log_id_option(out, actual);
        }
    }
}

/// Payloads of entries share `frame`'s memory.
pub fn decode_log_message(frame: Bytes) -> Result<LogMessage, Malformed> {
    let mut reader = Reader::new(frame);
    let message = match reader.u8("message")? {
        APPEND => {
            let session = reader.u64("session")?;
            LogMessage::Append { session, request: read_append(&mut reader)? }
        }
        APPEND_ANSWER => {
            let session = reader.u64("session")?;
            LogMessage::AppendAnswer { session, result: read_append_answer(&mut reader)? }
        }
        REQUEST => {
            let number = reader.u64("request number")?;
            LogMessage::Request { number, request: read_request(&mut reader)? }
        }
        ANSWER => {
            let number = reader.u64("request number")?;
            LogMessage::Answer { number, answer: read_answer(&mut reader)? }
        }
        _ => return Err(Malformed("message")),
    };
    reader.end("message length")?;
    Ok(message)
}

fn read_append(reader: &mut Reader) -> Result<AppendRequest, Malformed> {
    let vote = read_vote(reader)?;
    let prev_log_id = read_log_id_option(reader)?;
    let leader_commit = read_log_id_option(reader)?;
    let len = reader.u32("number of entries")?;
    if len > ENTRIES_MAX {
        return Err(Malformed("number of entries"));
    }
    let first = prev_log_id.map_or(Some(0), |prev| prev.index.checked_add(1));
    let first = first.filter(|first| first.checked_add(u64::from(len)).is_some());
    let first = first.ok_or(Malformed("log index"))?;
    let mut entries = Vec::with_capacity(len as usize);
    for index in first..first + u64::from(len) {
        entries.push(read_wire_entry(reader, index)?);
    }
    Ok(AppendRequest { vote, prev_log_id, entries, leader_commit })
}

fn read_append_answer(reader: &mut Reader) -> Result<AppendResult, Malformed> {
    Ok(match reader.u8("append outcome")? {
        0 => Ok(read_log_id_option(reader)?),
        1 => Err(StreamAppendError::Conflict(read_log_id(reader)?)),
        2 => Err(StreamAppendError::HigherVote(read_vote(reader)?)),
        _ => return Err(Malformed("append outcome")),
    })
}

fn read_request(reader: &mut Reader) -> Result<Request, Malformed> {
    Ok(match reader.u8("request kind")? {
        KIND_VOTE => Request::Vote(read_vote_request(reader)?),
        KIND_PRE_VOTE => Request::PreVote(read_vote_request(reader)?),
        KIND_TRANSFER => {
            let from = read_vote(reader)?;
            let to = reader.u64("next leader")?;
            Request::Transfer(TransferRequest::new(from, to, read_log_id_option(reader)?))
        }
        _ => return Err(Malformed("request kind")),
    })
}

fn read_vote_request(reader: &mut Reader) -> Result<VoteRequest, Malformed> {
    let vote = read_vote(reader)?;
    let mut request = VoteRequest::new(vote, read_log_id_option(reader)?);
    request.leadership_transfer = reader.flag("leadership transfer")?;
    Ok(request)
}

fn read_answer(reader: &mut Reader) -> Result<Answer, Malformed> {
    Ok(match reader.u8("answer kind")? {
        KIND_VOTE => Answer::Vote(read_vote_response(reader)?),
        KIND_PRE_VOTE => Answer::PreVote(read_vote_response(reader)?),
        KIND_TRANSFER => Answer::Transfer(read_transfer_response(reader)?),
        KIND_FAILED => Answer::Failed(reader.text(TEXT_BYTES_MAX, "failure")?),
        _ => return Err(Malformed("answer kind")),
    })
}

fn read_vote_response(reader: &mut Reader) -> Result<VoteResponse, Malformed> {
    let vote = read_vote(reader)?;
    let granted = reader.flag("vote granted")?;
    Ok(VoteResponse::new(vote, read_log_id_option(reader)?, granted))
}

fn read_transfer_response(reader: &mut Reader) -> Result<TransferResponse, Malformed> {
    Ok(match reader.u8("transfer outcome")? {
        0 => Ok(()),
        1 => {
            let expected = read_vote(reader)?;
            Err(TransferLeaderError::VoteChanged { expected, actual: read_vote(reader)? })
        }
        2 => {
            let expected = read_log_id_option(reader)?;
            Err(TransferLeaderError::LogNotFlushed { expected, actual: read_log_id_option(reader)? })
        }
        _ => return Err(Malformed("transfer outcome")),
    })
}

/// What travels on a connection of class Snapshot.
#[derive(Debug)]
pub enum SnapshotMessage {
    Begin { vote: Vote, head: SnapshotHead },
    Chunk(Bytes),
    End { chunks: u64 },
    Done(Result<Vote, String>),
}

pub fn encode_snapshot_message(message: &SnapshotMessage) -> Bytes {
    let mut out = BytesMut::new();
    match message {
        SnapshotMessage::Begin { vote, head } => {
            out.put_u8(SNAPSHOT_BEGIN);
            put_vote(&mut out, vote);
            out.put_slice(&encode_snapshot_head(head));
        }
        SnapshotMessage::Chunk(chunk) => {
            out.reserve(1 + chunk.len());
            out.put_u8(SNAPSHOT_CHUNK);
            out.put_slice(chunk);
        }
        SnapshotMessage::End { chunks } => {
            out.put_u8(SNAPSHOT_END);
            out.put_u64_le(*chunks);
        }
        SnapshotMessage::Done(result) => {
            out.put_u8(SNAPSHOT_DONE);
            out.put_u8(u8::from(result.is_err()));
            match result {
                Ok(vote) => put_vote(&mut out, vote),
                Err(text) => put_text(&mut out, text, TEXT_BYTES_MAX),
            }
        }
    }
    out.freeze()
}

pub fn decode_snapshot_message(frame: Bytes) -> Result<SnapshotMessage, Malformed> {
    let mut reader = Reader::new(frame);
    let message = match reader.u8("message")? {
        SNAPSHOT_BEGIN => {
            let vote = read_vote(&mut reader)?;
            return Ok(SnapshotMessage::Begin { vote, head: decode_snapshot_head(reader.rest())? });
        }
        SNAPSHOT_CHUNK => {
            let chunk = reader.rest();
            if chunk.is_empty() || chunk.len() > SNAPSHOT_CHUNK_BYTES_MAX {
                return Err(Malformed("snapshot chunk"));
            }
            return Ok(SnapshotMessage::Chunk(chunk));
        }
        SNAPSHOT_END => SnapshotMessage::End { chunks: reader.u64("number of chunks")? },
        SNAPSHOT_DONE => SnapshotMessage::Done(match reader.flag("snapshot outcome")? {
            false => Ok(read_vote(&mut reader)?),
            true => Err(reader.text(TEXT_BYTES_MAX, "failure")?),
        }),
        _ => return Err(Malformed("message")),
    };
    reader.end("message length")?;
    Ok(message)
}

#[cfg(test)]
mod tests;
