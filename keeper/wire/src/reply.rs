//! Replies: int32 xid, int64 zxid, int32 error; a body follows only when the error is 0.

use crate::frame::write_frame;
use crate::jute::{
    Decoded, Reader, put_acl_id, put_acls, put_buffer, put_stat, put_string, put_strings, put_vector,
};
use crate::limits::{ACL_ID_BYTES_MIN, STAT_BYTES, STRING_BYTES_MIN};
use crate::malformed::{Malformed, Problem};
use crate::multi;
use bytes::{BufMut, BytesMut};
use keeper_types::{ErrorCode, OpCode, Response, Stat};

const HEADER_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    pub xid: i32,
    pub zxid: i64,
    /// Raw: 0, or a code this version may not know.
    pub error: i32,
}

#[inline]
pub(crate) fn put_reply_header(xid: i32, zxid: i64, error: i32, out: &mut BytesMut) {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&xid.to_be_bytes());
    bytes[4..12].copy_from_slice(&zxid.to_be_bytes());
    bytes[12..].copy_from_slice(&error.to_be_bytes());
    out.put_slice(&bytes);
}

/// Writes one reply with its frame length.
pub fn encode_reply(xid: i32, zxid: i64, result: Result<&Response, ErrorCode>, out: &mut BytesMut) {
    match result {
        Ok(response) => encode_with_body(xid, zxid, out, |out| put_response(response, out)),
        Err(code) => encode_reply_code(xid, zxid, code.as_i32(), out),
    }
}

/// A reply without a body: success for 0, else an error.
#[inline]
pub fn encode_reply_code(xid: i32, zxid: i64, error: i32, out: &mut BytesMut) {
    out.put_i32(HEADER_BYTES as i32);
    put_reply_header(xid, zxid, error, out);
}

/// The reply of getData, straight from the tree's memory.
#[inline]
pub fn encode_get_data_reply(xid: i32, zxid: i64, data: Option<&[u8]>, stat: &Stat, out: &mut BytesMut) {
    out.reserve(4 + HEADER_BYTES + 4 + data.map_or(0, <[u8]>::len) + STAT_BYTES);
    encode_with_body(xid, zxid, out, |out| {
        put_buffer(out, data);
        put_stat(out, stat);
    });
}

/// The reply of getChildren, or of getChildren2 with a Stat, straight from the tree's memory.
pub fn encode_children_reply<'n>(
    xid: i32,
    zxid: i64,
    names: impl ExactSizeIterator<Item = &'n str>,
    stat: Option<&Stat>,
    out: &mut BytesMut,
) {
    encode_with_body(xid, zxid, out, |out| {
        put_strings(out, names);
        stat.into_iter().for_each(|stat| put_stat(out, stat));
    });
}

/// A body that no frame can hold becomes the error ZooKeeper has for what it cannot write.
#[inline]
fn encode_with_body(xid: i32, zxid: i64, out: &mut BytesMut, body: impl FnOnce(&mut BytesMut)) {
    let written = write_frame(out, |out| {
        put_reply_header(xid, zxid, 0, out);
        body(out);
    });
    if written.is_none() {
        encode_reply_code(xid, zxid, ErrorCode::MarshallingError.as_i32(), out);
    }
}

pub(crate) fn put_response(response: &Response, out: &mut BytesMut) {
    match response {
        Response::Empty | Response::Failed(_) => {}
        Response::Create { path } | Response::Sync { path } => put_string(out, path),
        Response::Create2 { path, stat } => {
            put_string(out, path);
            put_stat(out, stat);
        }
        Response::Exists { stat } | Response::SetData { stat } | Response::SetAcl { stat } => {
            put_stat(out, stat);
        }
        Response::GetData { data, stat } => {
            put_buffer(out, data.as_deref());
            put_stat(out, stat);
        }
        Response::GetAcl { acl, stat } => {
            put_acls(out, acl);
            put_stat(out, stat);
        }
        Response::GetChildren { names } => put_strings(out, names.iter().map(String::as_str)),
        Response::GetChildren2 { names, stat } => {
            put_strings(out, names.iter().map(String::as_str));
            put_stat(out, stat);
        }
        Response::Multi(results) => multi::put_results(results, out),
        Response::AddWatch { error } => out.put_i32(*error),
        Response::MultiRead(results) => multi::put_read_results(results, out),
        Response::Sasl { token } => put_buffer(out, Some(token)),
        Response::GetEphemerals { paths } | Response::ListRecursive { paths } => {
            put_strings(out, paths.iter().map(String::as_str));
        }
        Response::GetAllChildrenNumber { count } => out.put_i32(*count),
        Response::WhoAmI { ids } => put_vector(out, ids, put_acl_id),
        Response::FilteredListWithStatsAndData { names, stat, stats, data } => {
            put_strings(out, names.iter().map(String::as_str));
            put_stat(out, stat);
            put_vector(out, stats, put_stat);
            put_vector(out, data, |out, data| put_buffer(out, data.as_deref()));
        }
    }
}

/// Splits a frame into the reply's header and the body.
#[inline]
pub fn decode_reply_header(frame: &[u8]) -> Decoded<(ReplyHeader, &[u8])> {
    let mut reader = Reader::new(frame);
    let header =
        ReplyHeader { xid: reader.i32("xid")?, zxid: reader.i64("zxid")?, error: reader.i32("error")? };
    Ok((header, reader.rest()))
}

/// Reads the body of a successful reply to `op`.
pub fn decode_response(op: OpCode, body: &[u8]) -> Decoded<Response> {
    let mut reader = Reader::new(body);
    let response = read_response(op, &mut reader)?;
    reader.end(op.name())?;
    Ok(response)
}

pub(crate) fn read_response(op: OpCode, reader: &mut Reader<'_>) -> Decoded<Response> {
    Ok(match op {
        OpCode::Create | OpCode::CreateIfNotExists => {
            Response::Create { path: reader.string("path")?.to_owned() }
        }
        OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
            Response::Create2 { path: reader.string("path")?.to_owned(), stat: reader.stat()? }
        }
        OpCode::Exists => Response::Exists { stat: reader.stat()? },
        OpCode::GetData | OpCode::Reconfig => {
            Response::GetData { data: reader.buffer("data")?.map(<[u8]>::to_vec), stat: reader.stat()? }
        }
        OpCode::SetData => Response::SetData { stat: reader.stat()? },
        OpCode::GetAcl => Response::GetAcl { acl: reader.acls()?, stat: reader.stat()? },
        OpCode::SetAcl => Response::SetAcl { stat: reader.stat()? },
        OpCode::GetChildren => Response::GetChildren { names: reader.owned_strings("names")? },
        OpCode::GetChildren2 | OpCode::FilteredList => {
            Response::GetChildren2 { names: reader.owned_strings("names")?, stat: reader.stat()? }
        }
        OpCode::Sync => Response::Sync { path: reader.string("path")?.to_owned() },
        OpCode::Multi => Response::Multi(multi::read_results(reader)?),
        OpCode::AddWatch => Response::AddWatch { error: reader.i32("error")? },
        OpCode::MultiRead => Response::MultiRead(multi::read_read_results(reader)?),
        OpCode::Sasl => Response::Sasl { token: reader.buffer("token")?.unwrap_or_default().to_vec() },
        OpCode::GetEphemerals => Response::GetEphemerals { paths: reader.owned_strings("paths")? },
        OpCode::ListRecursive => Response::ListRecursive { paths: reader.owned_strings("paths")? },
        OpCode::GetAllChildrenNumber => Response::GetAllChildrenNumber { count: reader.i32("count")? },
        OpCode::WhoAmI => {
            Response::WhoAmI { ids: reader.vector("identities", ACL_ID_BYTES_MIN, Reader::acl_id)? }
        }
        OpCode::FilteredListWithStatsAndData => Response::FilteredListWithStatsAndData {
            names: reader.owned_strings("names")?,
            stat: reader.stat()?,
            stats: reader.vector("stats", STAT_BYTES, Reader::stat)?,
            data: reader
                .vector("data", STRING_BYTES_MIN, |reader| Ok(reader.buffer("data")?.map(<[u8]>::to_vec)))?,
        },
        OpCode::Delete
        | OpCode::Ping
        | OpCode::Check
        | OpCode::Auth
        | OpCode::SetWatches
        | OpCode::SetWatches2
        | OpCode::CloseSession
        | OpCode::CheckWatches
        | OpCode::RemoveWatches
        | OpCode::CheckNotExists
        | OpCode::RemoveRecursive
        | OpCode::CheckStat
        | OpCode::TryRemove => Response::Empty,
        OpCode::CreateSession | OpCode::DeleteContainer => {
            return Err(Malformed::new(op.name(), Problem::NotForClients { op: op.as_i32() }));
        }
    })
}
