//! Requests: int32 xid, int32 operation, body. Paths and data borrow from the frame.

use crate::frame::write_frame;
use crate::jute::{Decoded, Reader, put_acls, put_bool, put_buffer, put_stat, put_string, put_strings};
use crate::limits::FRAME_BYTES_CEILING;
use crate::malformed::{Malformed, Problem};
use crate::multi;
use bytes::{BufMut, BytesMut};
use keeper_types::{
    AuthRequest, CheckRequest, CheckStatRequest, CreateRequest, DeleteRequest, ListRequest, OpCode,
    ReadRequest, ReconfigRequest, RecursiveRequest, Request, SetAclRequest, SetDataRequest,
    SetWatchesRequest, WatchTypeRequest,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    pub xid: i32,
    /// Raw: an unknown operation is answered with `Unimplemented`, not refused here.
    pub op: i32,
}

/// Splits a frame into its header and the body.
#[inline]
pub fn decode_header(frame: &[u8]) -> Decoded<(RequestHeader, &[u8])> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader { xid: reader.i32("xid")?, op: reader.i32("operation")? };
    Ok((header, reader.rest()))
}

/// Reads the body of an operation. Bytes after its end make it malformed.
pub fn decode_request(op: OpCode, body: &[u8]) -> Decoded<Request<'_>> {
    let mut reader = Reader::new(body);
    let request = read_request(op, &mut reader)?;
    reader.end(op.name())?;
    Ok(request)
}

/// How many bytes of `body` an operation's own are; what follows them is not looked at.
pub(crate) fn request_bytes(op: OpCode, body: &[u8]) -> Decoded<usize> {
    let mut reader = Reader::new(body);
    read_request(op, &mut reader)?;
    Ok(body.len() - reader.rest().len())
}

pub(crate) fn read_request<'a>(op: OpCode, reader: &mut Reader<'a>) -> Decoded<Request<'a>> {
    Ok(match op {
        OpCode::Create
        | OpCode::Create2
        | OpCode::CreateContainer
        | OpCode::CreateTtl
        | OpCode::CreateIfNotExists => Request::Create(op, read_create(op, reader)?),
        OpCode::Delete => Request::Delete(read_delete(reader)?),
        OpCode::Exists => Request::Exists(read_read(reader)?),
        OpCode::GetData => Request::GetData(read_read(reader)?),
        OpCode::SetData => Request::SetData(read_set_data(reader)?),
        OpCode::GetAcl => Request::GetAcl(reader.string("path")?),
        OpCode::SetAcl => Request::SetAcl(SetAclRequest {
            path: reader.string("path")?,
            acl: reader.acls()?,
            version: reader.i32("version")?,
        }),
        OpCode::GetChildren => Request::GetChildren(read_read(reader)?),
        OpCode::GetChildren2 => Request::GetChildren2(read_read(reader)?),
        OpCode::Sync => Request::Sync(reader.string("path")?),
        OpCode::Ping => Request::Ping,
        OpCode::Check => Request::Check(read_check(reader)?),
        OpCode::Multi => Request::Multi(multi::read_ops(reader)?),
        OpCode::Auth => Request::Auth(read_auth(reader)?),
        OpCode::SetWatches | OpCode::SetWatches2 => read_set_watches(op, reader)?,
        OpCode::CloseSession => Request::CloseSession,
        OpCode::Reconfig => Request::Reconfig(ReconfigRequest {
            joining: reader.string_or_null("joining servers")?,
            leaving: reader.string_or_null("leaving servers")?,
            new_members: reader.string_or_null("new members")?,
            config_id: reader.i64("config id")?,
        }),
        OpCode::CheckWatches => Request::CheckWatches(read_watch_type(reader)?),
        OpCode::RemoveWatches => Request::RemoveWatches(read_watch_type(reader)?),
        OpCode::AddWatch => Request::AddWatch(read_watch_type(reader)?),
        OpCode::MultiRead => Request::MultiRead(multi::read_reads(reader)?),
        OpCode::Sasl => Request::Sasl(reader.buffer("token")?.unwrap_or_default()),
        OpCode::GetEphemerals => Request::GetEphemerals(reader.string_or_null("prefix")?.unwrap_or_default()),
        OpCode::GetAllChildrenNumber => Request::GetAllChildrenNumber(reader.string("path")?),
        OpCode::WhoAmI => Request::WhoAmI,
        OpCode::FilteredList => Request::FilteredList(read_list(op, reader)?),
        OpCode::FilteredListWithStatsAndData => Request::FilteredListWithStatsAndData(read_list(op, reader)?),
        OpCode::CheckNotExists => Request::CheckNotExists(read_check(reader)?),
        OpCode::RemoveRecursive => Request::RemoveRecursive(read_recursive(reader)?),
        OpCode::CheckStat => Request::CheckStat(read_check_stat(reader)?),
        OpCode::TryRemove => Request::TryRemove(read_delete(reader)?),
        OpCode::ListRecursive => Request::ListRecursive(read_recursive(reader)?),
        OpCode::CreateSession | OpCode::DeleteContainer => {
            return Err(Malformed::new(op.name(), Problem::NotForClients { op: op.as_i32() }));
        }
    })
}

pub(crate) fn read_create<'a>(op: OpCode, reader: &mut Reader<'a>) -> Decoded<CreateRequest<'a>> {
    Ok(CreateRequest {
        path: reader.string("path")?,
        data: reader.buffer("data")?,
        acl: reader.acls()?,
        flags: reader.i32("flags")?,
        ttl_ms: if op == OpCode::CreateTtl { Some(reader.i64("ttl")?) } else { None },
    })
}

pub(crate) fn read_delete<'a>(reader: &mut Reader<'a>) -> Decoded<DeleteRequest<'a>> {
    Ok(DeleteRequest { path: reader.string("path")?, version: reader.i32("version")? })
}

pub(crate) fn read_set_data<'a>(reader: &mut Reader<'a>) -> Decoded<SetDataRequest<'a>> {
    Ok(SetDataRequest {
        path: reader.string("path")?,
        data: reader.buffer("data")?,
        version: reader.i32("version")?,
    })
}

pub(crate) fn read_check<'a>(reader: &mut Reader<'a>) -> Decoded<CheckRequest<'a>> {
    Ok(CheckRequest { path: reader.string("path")?, version: reader.i32("version")? })
}

pub(crate) fn read_check_stat<'a>(reader: &mut Reader<'a>) -> Decoded<CheckStatRequest<'a>> {
    Ok(CheckStatRequest {
        path: reader.string("path")?,
        version: reader.i32("version")?,
        stat: reader.stat()?,
    })
}

pub(crate) fn read_recursive<'a>(reader: &mut Reader<'a>) -> Decoded<RecursiveRequest<'a>> {
    Ok(RecursiveRequest { path: reader.string("path")?, nodes_max: reader.u32("limit")? })
}

pub(crate) fn read_read<'a>(reader: &mut Reader<'a>) -> Decoded<ReadRequest<'a>> {
    Ok(ReadRequest { path: reader.string("path")?, watch: reader.bool("watch")? })
}

fn read_auth<'a>(reader: &mut Reader<'a>) -> Decoded<AuthRequest<'a>> {
    // ZooKeeper's record begins with a type nobody uses.
    reader.i32("auth type")?;
    Ok(AuthRequest { scheme: reader.string("scheme")?, auth: reader.buffer("auth")?.unwrap_or_default() })
}

fn read_set_watches<'a>(op: OpCode, reader: &mut Reader<'a>) -> Decoded<Request<'a>> {
    let mut request = SetWatchesRequest {
        relative_zxid: reader.i64("relative zxid")?,
        data: reader.strings("data watches")?,
        exist: reader.strings("exist watches")?,
        child: reader.strings("child watches")?,
        persistent: Vec::new(),
        persistent_recursive: Vec::new(),
    };
    if op == OpCode::SetWatches {
        return Ok(Request::SetWatches(request));
    }
    request.persistent = reader.strings("persistent watches")?;
    request.persistent_recursive = reader.strings("persistent recursive watches")?;
    Ok(Request::SetWatches2(request))
}

fn read_watch_type<'a>(reader: &mut Reader<'a>) -> Decoded<WatchTypeRequest<'a>> {
    Ok(WatchTypeRequest { path: reader.string("path")?, kind: reader.i32("watch type")? })
}

pub(crate) fn read_list<'a>(op: OpCode, reader: &mut Reader<'a>) -> Decoded<ListRequest<'a>> {
    let with_more = op == OpCode::FilteredListWithStatsAndData;
    Ok(ListRequest {
        path: reader.string("path")?,
        watch: reader.bool("watch")?,
        filter: reader.u8("filter")?,
        with_stat: with_more && reader.bool("with stat")?,
        with_data: with_more && reader.bool("with data")?,
    })
}

/// Writes one request with its frame length. `Err` when no frame may have that many bytes; `out` is as before
/// then.
pub fn encode_request(xid: i32, request: &Request<'_>, out: &mut BytesMut) -> Decoded<()> {
    let before = out.len();
    let written = write_frame(out, |out| {
        out.put_i32(xid);
        out.put_i32(request.op().as_i32());
        put_request(request, out);
    });
    let length = out.len() - before;
    if written.is_some() && length <= FRAME_BYTES_CEILING {
        return Ok(());
    }
    out.truncate(before);
    let length = if written.is_some() { length } else { usize::MAX };
    Err(Malformed::new(request.op().name(), Problem::TooLong { length, limit: FRAME_BYTES_CEILING }))
}

pub(crate) fn put_request(request: &Request<'_>, out: &mut BytesMut) {
    match request {
        Request::Create(op, create) => put_create(*op, create, out),
        Request::Delete(delete) | Request::TryRemove(delete) => {
            put_path_and_i32(delete.path, delete.version, out);
        }
        Request::Exists(read)
        | Request::GetData(read)
        | Request::GetChildren(read)
        | Request::GetChildren2(read) => put_read(read, out),
        Request::SetData(set) => put_set_data(set, out),
        Request::SetAcl(set) => {
            put_string(out, set.path);
            put_acls(out, &set.acl);
            out.put_i32(set.version);
        }
        Request::GetAcl(path)
        | Request::Sync(path)
        | Request::GetEphemerals(path)
        | Request::GetAllChildrenNumber(path) => put_string(out, path),
        Request::Ping | Request::CloseSession | Request::WhoAmI => {}
        Request::Check(check) | Request::CheckNotExists(check) => {
            put_path_and_i32(check.path, check.version, out);
        }
        Request::Multi(ops) => multi::put_ops(ops, out),
        Request::Auth(auth) => {
            out.put_i32(0);
            put_string(out, auth.scheme);
            put_buffer(out, Some(auth.auth));
        }
        Request::SetWatches(watches) => put_set_watches(OpCode::SetWatches, watches, out),
        Request::SetWatches2(watches) => put_set_watches(OpCode::SetWatches2, watches, out),
        Request::Reconfig(reconfig) => {
            for members in [reconfig.joining, reconfig.leaving, reconfig.new_members] {
                put_buffer(out, members.map(str::as_bytes));
            }
            out.put_i64(reconfig.config_id);
        }
        Request::CheckWatches(watch) | Request::RemoveWatches(watch) | Request::AddWatch(watch) => {
            put_path_and_i32(watch.path, watch.kind, out);
        }
        Request::MultiRead(reads) => multi::put_reads(reads, out),
        Request::Sasl(token) => put_buffer(out, Some(token)),
        Request::FilteredList(list) => put_list(OpCode::FilteredList, list, out),
        Request::FilteredListWithStatsAndData(list) => {
            put_list(OpCode::FilteredListWithStatsAndData, list, out);
        }
        Request::RemoveRecursive(recursive) | Request::ListRecursive(recursive) => {
            put_recursive(recursive, out);
        }
        Request::CheckStat(check) => put_check_stat(check, out),
    }
}

pub(crate) fn put_create(op: OpCode, create: &CreateRequest<'_>, out: &mut BytesMut) {
    put_string(out, create.path);
    put_buffer(out, create.data);
    put_acls(out, &create.acl);
    out.put_i32(create.flags);
    if op == OpCode::CreateTtl {
        out.put_i64(create.ttl_ms.unwrap_or_default());
    }
}

#[inline]
pub(crate) fn put_path_and_i32(path: &str, number: i32, out: &mut BytesMut) {
    put_string(out, path);
    out.put_i32(number);
}

pub(crate) fn put_recursive(recursive: &RecursiveRequest<'_>, out: &mut BytesMut) {
    put_string(out, recursive.path);
    out.put_u32(recursive.nodes_max);
}

pub(crate) fn put_check_stat(check: &CheckStatRequest<'_>, out: &mut BytesMut) {
    put_path_and_i32(check.path, check.version, out);
    put_stat(out, &check.stat);
}

pub(crate) fn put_set_data(set: &SetDataRequest<'_>, out: &mut BytesMut) {
    put_string(out, set.path);
    put_buffer(out, set.data);
    out.put_i32(set.version);
}

pub(crate) fn put_read(read: &ReadRequest<'_>, out: &mut BytesMut) {
    put_string(out, read.path);
    put_bool(out, read.watch);
}

fn put_set_watches(op: OpCode, watches: &SetWatchesRequest<'_>, out: &mut BytesMut) {
    out.put_i64(watches.relative_zxid);
    for paths in [&watches.data, &watches.exist, &watches.child] {
        put_strings(out, paths.iter().copied());
    }
    if op == OpCode::SetWatches2 {
        for paths in [&watches.persistent, &watches.persistent_recursive] {
            put_strings(out, paths.iter().copied());
        }
    }
}

fn put_list(op: OpCode, list: &ListRequest<'_>, out: &mut BytesMut) {
    put_string(out, list.path);
    put_bool(out, list.watch);
    out.put_u8(list.filter);
    if op == OpCode::FilteredListWithStatsAndData {
        put_bool(out, list.with_stat);
        put_bool(out, list.with_data);
    }
}
