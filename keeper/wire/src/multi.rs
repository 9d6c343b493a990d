//! Multi and multiRead: records one after the other, each behind {int32 type, bool done, int32 error}, closed by
//! {-1, true, -1}.
//!
//! A failed multi has error 0 in the reply header; each of its records is of type -1 and carries its error twice:
//! in the record's header and as its body. So does each failed read of a multiRead.

use crate::jute::{Decoded, Reader, put_stat, put_string};
use crate::malformed::{Malformed, Problem};
use crate::reply::{put_response, read_response};
use crate::request::{
    put_create, put_path_and_i32, put_read, put_set_data, read_check, read_create, read_delete, read_list,
    read_read, read_set_data,
};
use bytes::{BufMut, BytesMut};
use keeper_types::{ErrorCode, MultiOp, MultiResult, OpCode, ReadRequest, Response};

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
    match op {
        OpCode::Create | OpCode::Create2 => return Ok(MultiOp::Create(op, read_create(op, reader)?)),
        OpCode::Delete => return Ok(MultiOp::Delete(read_delete(reader)?)),
        OpCode::SetData => return Ok(MultiOp::SetData(read_set_data(reader)?)),
        OpCode::Check => return Ok(MultiOp::Check(read_check(reader)?)),
        // The rest is read only to find where it ends.
        OpCode::CreateContainer | OpCode::CreateTtl | OpCode::CreateIfNotExists => {
            read_create(op, reader)?;
        }
        OpCode::TryRemove | OpCode::CheckNotExists => {
            read_check(reader)?;
        }
        OpCode::RemoveRecursive => {
            reader.string("path")?;
            reader.u32("limit")?;
        }
        OpCode::CheckStat => {
            read_check(reader)?;
            reader.stat()?;
        }
        OpCode::Exists | OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2 => {
            read_read(reader)?;
        }
        OpCode::FilteredList | OpCode::FilteredListWithStatsAndData => {
            read_list(op, reader)?;
        }
        _ => return Err(unknown(op.as_i32())),
    }
    Ok(MultiOp::Unserved(op))
}

pub(crate) fn put_ops(ops: &[MultiOp<'_>], out: &mut BytesMut) {
    for op in ops {
        let kind = match op {
            MultiOp::Create(op, _) | MultiOp::Unserved(op) => *op,
            MultiOp::Delete(_) => OpCode::Delete,
            MultiOp::SetData(_) => OpCode::SetData,
            MultiOp::Check(_) => OpCode::Check,
        };
        put_header(kind.as_i32(), -1, out);
        match op {
            MultiOp::Create(op, create) => put_create(*op, create, out),
            MultiOp::Delete(delete) => put_path_and_i32(delete.path, delete.version, out),
            MultiOp::SetData(set) => put_set_data(set, out),
            MultiOp::Check(check) => put_path_and_i32(check.path, check.version, out),
            MultiOp::Unserved(op) => put_unserved(*op, out),
        }
    }
    put_closing(out);
}

/// The value has lost its body: the shortest one that reads back as the same operation stands for it.
fn put_unserved(op: OpCode, out: &mut BytesMut) {
    let zeros = match op {
        OpCode::CreateTtl => 4 + 4 + 4 + 8,
        OpCode::CreateContainer | OpCode::CreateIfNotExists => 4 + 4 + 4,
        OpCode::CheckStat => 4 + crate::limits::STAT_BYTES,
        OpCode::Exists | OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2 => 1,
        OpCode::FilteredList => 2,
        OpCode::FilteredListWithStatsAndData => 4,
        _ => 4,
    };
    put_string(out, "/");
    out.put_bytes(0, zeros);
}

/// multiRead reads data or names; a list with a filter is ClickHouse's and not yet a value of `ReadRequest`.
pub(crate) fn read_reads<'a>(reader: &mut Reader<'a>) -> Decoded<Vec<(OpCode, ReadRequest<'a>)>> {
    let mut reads = Vec::new();
    loop {
        let header = read_header(reader)?;
        if header.done {
            return Ok(reads);
        }
        let op = OpCode::from_i32(header.kind).filter(|op| is_read(*op)).ok_or(unknown(header.kind))?;
        reads.push((op, read_read(reader)?));
    }
}

fn is_read(op: OpCode) -> bool {
    matches!(op, OpCode::Exists | OpCode::GetData | OpCode::GetChildren | OpCode::GetChildren2)
}

pub(crate) fn put_reads(reads: &[(OpCode, ReadRequest<'_>)], out: &mut BytesMut) {
    for (op, read) in reads {
        put_header(op.as_i32(), -1, out);
        put_read(read, out);
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
            MultiResult::Delete => put_header(OpCode::Delete.as_i32(), 0, out),
            MultiResult::SetData { stat } => {
                put_header(OpCode::SetData.as_i32(), 0, out);
                put_stat(out, stat);
            }
            MultiResult::Check => put_header(OpCode::Check.as_i32(), 0, out),
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
        Some(OpCode::Delete) => MultiResult::Delete,
        Some(OpCode::SetData) => MultiResult::SetData { stat: reader.stat()? },
        Some(OpCode::Check) => MultiResult::Check,
        _ => return Err(unknown(kind)),
    })
}

type ReadResults = Vec<Result<(OpCode, Box<Response>), ErrorCode>>;

pub(crate) fn put_read_results(results: &ReadResults, out: &mut BytesMut) {
    for result in results {
        match result {
            Ok((op, response)) => {
                put_header(op.as_i32(), 0, out);
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
        results.push(Ok((op, Box::new(read_response(op, reader)?))));
    }
}
