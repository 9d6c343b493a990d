//! Multi and multiRead: records one after the other, each behind {int32 type, bool done, int32 error}, closed by
//! {-1, true, -1}.
//!
//! A failed multi has error 0 in the reply header; each of its records is of type -1 and carries its error twice:
//! in the record's header and as its body. So does each failed read of a multiRead, but for clients of ClickHouse: there
//! it keeps its type, and has no body.

use crate::jute::{Decoded, Reader, put_stat, put_string};
use crate::malformed::{Malformed, Problem};
use crate::reply::{put_response, read_response};
use crate::request::{
    put_check_stat, put_create, put_path_and_i32, put_recursive, put_request, put_set_data, read_check,
    read_check_stat, read_create, read_delete, read_recursive, read_request, read_set_data,
};
use bytes::{BufMut, BytesMut};
use keeper_types::{ErrorCode, MultiOp, MultiResult, OpCode, Request, Response};

/// The type of an error record and of the closing header.
const TYPE_ERROR: i32 = -1;

struct RecordHeader {
    kind: i32,
    done: bool,
    error: i32,
}

fn read_header(reader: &mut Reader<'_>) -> Decoded<RecordHeader> {
    Ok(RecordHeader {
        kind: reader.i32("multi type")?,
        done: reader.bool("multi done")?,
        error: reader.i32("multi error")?,
    })
}

#[inline]
fn put_header(kind: i32, error: i32, out: &mut BytesMut) {
    out.put_i32(kind);
    out.put_u8(0);
    out.put_i32(error);
}

fn put_closing(out: &mut BytesMut) {
    out.put_i32(TYPE_ERROR);
    out.put_u8(1);
    out.put_i32(-1);
}

fn unknown(value: i32) -> Malformed {
    Malformed::new("multi type", Problem::UnknownValue { value })
}

/// The number of operations is bounded by the frame: each has a header of nine bytes.
pub(crate) fn read_ops<'a>(reader: &mut Reader<'a>) -> Decoded<Vec<MultiOp<'a>>> {
    let mut ops = Vec::new();
    loop {
        let header = read_header(reader)?;
        if header.done {
            return Ok(ops);
        }
        let op = OpCode::from_i32(header.kind).ok_or(unknown(header.kind))?;
        ops.push(read_op(op, reader)?);
    }
}

fn read_op<'a>(op: OpCode, reader: &mut Reader<'a>) -> Decoded<MultiOp<'a>> {
    Ok(match op {
        OpCode::Create
        | OpCode::Create2
        | OpCode::CreateContainer
        | OpCode::CreateTtl
        | OpCode::CreateIfNotExists => MultiOp::Create(op, read_create(op, reader)?),
        OpCode::Delete => MultiOp::Delete(read_delete(reader)?),
        OpCode::SetData => MultiOp::SetData(read_set_data(reader)?),
        OpCode::Check => MultiOp::Check(read_check(reader)?),
        OpCode::CheckNotExists => MultiOp::CheckNotExists(read_check(reader)?),
        OpCode::CheckStat => MultiOp::CheckStat(read_check_stat(reader)?),
        OpCode::TryRemove => MultiOp::TryRemove(read_delete(reader)?),
        OpCode::RemoveRecursive => MultiOp::RemoveRecursive(read_recursive(reader)?),
        _ => return Err(unknown(op.as_i32())),
    })
}

pub(crate) fn put_ops(ops: &[MultiOp<'_>], out: &mut BytesMut) {
    for op in ops {
        put_header(op.op().as_i32(), -1, out);
        match op {
            MultiOp::Create(op, create) => put_create(*op, create, out),
            MultiOp::Delete(delete) | MultiOp::TryRemove(delete) => {
                put_path_and_i32(delete.path, delete.version, out);
            }
            MultiOp::SetData(set) => put_set_data(set, out),
            MultiOp::Check(check) | MultiOp::CheckNotExists(check) => {
                put_path_and_i32(check.path, check.version, out);
            }
            MultiOp::CheckStat(check) => put_check_stat(check, out),
            MultiOp::RemoveRecursive(remove) => put_recursive(remove, out),
        }
    }
    put_closing(out);
}

pub(crate) fn read_reads<'a>(reader: &mut Reader<'a>) -> Decoded<Vec<Request<'a>>> {
    let mut reads = Vec::new();
    loop {
        let header = read_header(reader)?;
        if header.done {
            return Ok(reads);
        }
        let op = OpCode::from_i32(header.kind).filter(|op| is_read(*op)).ok_or(unknown(header.kind))?;
        reads.push(read_request(op, reader)?);
    }
}

/// What a multiRead may hold: ZooKeeper has getData and getChildren, ClickHouse the others.
fn is_read(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::Exists
            | OpCode::GetData
            | OpCode::GetChildren
            | OpCode::GetChildren2
            | OpCode::FilteredList
            | OpCode::FilteredListWithStatsAndData
    )
}

pub(crate) fn put_reads(reads: &[Request<'_>], out: &mut BytesMut) {
    for read in reads {
        put_header(read.op().as_i32(), -1, out);
        put_request(read, out);
    }
    put_closing(out);
}

pub(crate) fn put_results(results: &[MultiResult], out: &mut BytesMut) {
    for result in results {
        match result {
            MultiResult::Create { path } => {
                put_header(OpCode::Create.as_i32(), 0, out);
                put_string(out, path);
            }
            MultiResult::Create2 { path, stat } => {
                put_header(OpCode::Create2.as_i32(), 0, out);
                put_string(out, path);
                put_stat(out, stat);
            }
            MultiResult::CreateIfNotExists { path } => {
                put_header(OpCode::CreateIfNotExists.as_i32(), 0, out);
                put_string(out, path);
            }
            MultiResult::Done(op) => put_header(op.as_i32(), 0, out),
            MultiResult::SetData { stat } => {
                put_header(OpCode::SetData.as_i32(), 0, out);
                put_stat(out, stat);
            }
            MultiResult::Error(code) => put_error(code.map_or(0, ErrorCode::as_i32), out),
        }
    }
    put_closing(out);
}

fn put_error(error: i32, out: &mut BytesMut) {
    put_header(TYPE_ERROR, error, out);
    out.put_i32(error);
}

/// The body of an error record: the same number again, which alone counts.
fn read_error(reader: &mut Reader<'_>) -> Decoded<Option<ErrorCode>> {
    let error = reader.i32("multi error")?;
    if error == 0 {
        return Ok(None);
    }
    let unknown = Malformed::new("multi error", Problem::UnknownValue { value: error });
    ErrorCode::from_i32(error).map(Some).ok_or(unknown)
}

pub(crate) fn read_results(reader: &mut Reader<'_>) -> Decoded<Vec<MultiResult>> {
    let mut results = Vec::new();
    loop {
        let header = read_header(reader)?;
        if header.done {
            return Ok(results);
        }
        results.push(read_result(header.kind, reader)?);
    }
}

fn read_result(kind: i32, reader: &mut Reader<'_>) -> Decoded<MultiResult> {
    if kind == TYPE_ERROR {
        return read_error(reader).map(MultiResult::Error);
    }
    Ok(match OpCode::from_i32(kind) {
        Some(OpCode::Create) => MultiResult::Create { path: reader.string("path")?.to_owned() },
        Some(OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl) => {
            MultiResult::Create2 { path: reader.string("path")?.to_owned(), stat: reader.stat()? }
        }
        Some(OpCode::CreateIfNotExists) => {
            MultiResult::CreateIfNotExists { path: reader.string("path")?.to_owned() }
        }
        Some(OpCode::SetData) => MultiResult::SetData { stat: reader.stat()? },
        Some(
            op @ (OpCode::Delete
            | OpCode::Check
            | OpCode::CheckNotExists
            | OpCode::CheckStat
            | OpCode::TryRemove
            | OpCode::RemoveRecursive),
        ) => MultiResult::Done(op),
        _ => return Err(unknown(kind)),
    })
}

type ReadResults = Vec<Result<(OpCode, Box<Response>), ErrorCode>>;

pub(crate) fn put_read_results(results: &ReadResults, out: &mut BytesMut) {
    for result in results {
        match result {
            Ok((op, response)) => {
                let error = if let Response::Failed(code) = &**response { code.as_i32() } else { 0 };
                put_header(op.as_i32(), error, out);
                put_response(response, out);
            }
            Err(code) => put_error(code.as_i32(), out),
        }
    }
    put_closing(out);
}

pub(crate) fn read_read_results(reader: &mut Reader<'_>) -> Decoded<ReadResults> {
    let mut results = Vec::new();
    loop {
        let header = read_header(reader)?;
        if header.done {
            return Ok(results);
        }
        if header.kind == TYPE_ERROR {
            let zero = Malformed::new("multi error", Problem::UnknownValue { value: header.error });
            results.push(Err(read_error(reader)?.ok_or(zero)?));
            continue;
        }
        let op = OpCode::from_i32(header.kind).filter(|op| is_read(*op)).ok_or(unknown(header.kind))?;
        let response = match header.error {
            0 => read_response(op, reader)?,
            error => {
                let value = Malformed::new("multi error", Problem::UnknownValue { value: error });
                Response::Failed(ErrorCode::from_i32(error).ok_or(value)?)
            }
        };
        results.push(Ok((op, Box::new(response))));
    }
}
