//! A recorded log: ClickHouse keeper-bench's columns as `CSVWithNames`. Its other formats are refused by what they begin
//! with, and a row that cannot be replayed by its line.

use super::time;
use crate::limits::{LOG_RECORD_BYTES_MAX, MULTI_OPS_MAX};
use crate::request::{Planned, Read, ReadKind, Write};
use csv::ByteRecord;
use keeper_types::ErrorCode;
use std::io;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum LogError {
    #[error(
        "the log is not read: {0}. Write it as uncompressed CSVWithNames, with the columns that docs/bench.md lists"
    )]
    Format(String),
    #[error("the log cannot be read: {0}")]
    Csv(#[from] csv::Error),
    #[error("line {line} of the log: {what}")]
    Row { line: u64, what: String },
}

/// A request as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    pub session: i64,
    pub time_us: i64,
    pub request: Planned,
    /// `None` where the log does not know how it ended.
    pub expected: Option<Expected>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    Done,
    Error(ErrorCode),
}

/// Columns that a log must have; it may have more, such as `hostname`, `xid` and `thread_id`.
const COLUMNS: [&str; 11] = [
    "session_id",
    "request_event_time",
    "op_num",
    "path",
    "data",
    "has_watch",
    "is_ephemeral",
    "is_sequential",
    "error",
    "requests_size",
    "version",
];

pub struct Log<R> {
    reader: csv::Reader<R>,
    /// Where each of `COLUMNS` stands in a row.
    columns: [usize; COLUMNS.len()],
    row: ByteRecord,
}

/// One row's fields by name.
struct Row<'a> {
    columns: &'a [usize; COLUMNS.len()],
    record: &'a ByteRecord,
    line: u64,
}

impl<R: io::Read> Log<R> {
    pub fn open(input: R) -> Result<Log<R>, LogError> {
        let mut reader = csv::ReaderBuilder::new().has_headers(true).from_reader(input);
        let header = reader.byte_headers()?.clone();
        let first = header.get(0).unwrap_or_default();
        if first.iter().any(|byte| !(0x20..0x7f).contains(byte)) || first.starts_with(b"{") {
            return Err(LogError::Format("it begins with something else than column names".to_owned()));
        }
        let mut columns = [0; COLUMNS.len()];
        for (column, name) in columns.iter_mut().zip(COLUMNS) {
            let place = header.iter().position(|header| header == name.as_bytes());
            *column =
                place.ok_or_else(|| LogError::Format(format!("its first line names no column {name}")))?;
        }
        Ok(Log { reader, columns, row: ByteRecord::new() })
    }

    /// `None` at the end.
    pub fn next_recorded(&mut self) -> Result<Option<Recorded>, LogError> {
        let Some(first) = self.read()? else { return Ok(None) };
        let session = first.number("session_id")?;
        let time = first.text("request_event_time")?;
        let time_us = time::microseconds(time).ok_or_else(|| first.error(format!("`{time}` is no time")))?;
        let expected = first.expected()?;
        let op = first.op()?;
        let request = match op {
            Op::Multi | Op::MultiRead => {
                let size: usize = first.number("requests_size")?;
                if size == 0 || size > MULTI_OPS_MAX {
                    return Err(first.error(format!("a multi of {size} operations")));
                }
                self.multi(session, size, op == Op::MultiRead)?
            }
            Op::Single => first.single()?,
        };
        Ok(Some(Recorded { session, time_us, request, expected }))
    }

    /// The operations are the rows behind the multi's own.
    fn multi(&mut self, session: i64, size: usize, reads: bool) -> Result<Planned, LogError> {
        let (mut writes, mut read_list) = (Vec::new(), Vec::new());
        for _ in 0..size {
            let row = self.read()?;
            let row = row.ok_or_else(|| LogError::Format("it ends inside a multi".to_owned()))?;
            if row.number::<i64>("session_id")? != session {
                return Err(row.error("an operation of a multi has another session".to_owned()));
            }
            match (row.op()?, reads) {
                (Op::Single, true) => match row.single()? {
                    Planned::Read(read) => read_list.push(read),
                    other => return Err(row.error(format!("{} inside a multiRead", other.kind().name()))),
                },
                (Op::Single, false) => match row.single()? {
                    Planned::Write(write) => writes.push(write),
                    other => return Err(row.error(format!("{} inside a multi", other.kind().name()))),
                },
                (Op::Multi | Op::MultiRead, _) => return Err(row.error("a multi inside a multi".to_owned())),
            }
        }
        Ok(if reads { Planned::MultiRead(read_list) } else { Planned::Multi(writes) })
    }

    fn read(&mut self) -> Result<Option<Row<'_>>, LogError> {
        if !self.reader.read_byte_record(&mut self.row)? {
            return Ok(None);
        }
        let line = self.row.position().map_or(0, csv::Position::line);
        let row = Row { columns: &self.columns, record: &self.row, line };
        if self.row.as_slice().len() > LOG_RECORD_BYTES_MAX {
            return Err(row.error(format!("longer than {LOG_RECORD_BYTES_MAX} bytes")));
        }
        Ok(Some(row))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Single,
    Multi,
    MultiRead,
}

impl Row<'_> {
    fn error(&self, what: String) -> LogError {
        LogError::Row { line: self.line, what }
    }

    fn bytes(&self, name: &str) -> &[u8] {
        let index = COLUMNS.iter().position(|column| *column == name).expect("a column of the list");
        self.record.get(self.columns[index]).unwrap_or_default()
    }

    fn text(&self, name: &str) -> Result<&str, LogError> {
        std::str::from_utf8(self.bytes(name)).map_err(|_| self.error(format!("{name} is not UTF-8")))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, LogError> {
        let text = self.text(name)?;
        text.parse().map_err(|_| self.error(format!("{name}: `{text}` is no number")))
    }

    fn is_set(&self, name: &str) -> Result<bool, LogError> {
        match self.text(name)? {
            "1" | "true" => Ok(true),
            "0" | "false" | "" | "\\N" => Ok(false),
            other => Err(self.error(format!("{name}: `{other}` is neither 0 nor 1"))),
        }
    }

    fn op(&self) -> Result<Op, LogError> {
        Ok(match self.text("op_num")? {
            "Multi" | "14" => Op::Multi,
            "MultiRead" | "22" => Op::MultiRead,
            _ => Op::Single,
        })
    }

    fn expected(&self) -> Result<Option<Expected>, LogError> {
        let text = self.text("error")?;
        if matches!(text, "" | "\\N" | "NULL") {
            return Ok(None);
        }
        if matches!(text, "ZOK" | "0") {
            return Ok(Some(Expected::Done));
        }
        // ClickHouse's names are ZooKeeper's C names: ZNONODE.
        let by_name = ErrorCode::ALL
            .iter()
            .copied()
            .find(|code| text.strip_prefix('Z').is_some_and(|name| name.eq_ignore_ascii_case(code.name())));
        let code = by_name.or_else(|| text.parse().ok().and_then(ErrorCode::from_i32));
        code.map(|code| Some(Expected::Error(code)))
            .ok_or_else(|| self.error(format!("`{text}` is no error")))
    }

    /// Versions of another tree mean nothing here: one that did not match is kept as one that cannot.
    fn version(&self) -> Result<i32, LogError> {
        let refused = self.expected()? == Some(Expected::Error(ErrorCode::BadVersion));
        Ok(if refused { i32::MAX } else { -1 })
    }

    fn single(&self) -> Result<Planned, LogError> {
        let path = self.text("path")?.to_owned();
        let read = |kind| -> Result<Planned, LogError> {
            Ok(Planned::Read(Read { kind, path: path.clone(), watch: self.is_set("has_watch")? }))
        };
        let data = || self.bytes("data").to_vec();
        let write = match self.text("op_num")? {
            "Create" | "1" => {
                let flags =
                    i32::from(self.is_set("is_ephemeral")?) + 2 * i32::from(self.is_set("is_sequential")?);
                Write::Create { path, data: data(), flags }
            }
            "Remove" | "2" => Write::Remove { path, version: self.version()? },
            "Set" | "5" => Write::Set { path, data: data(), version: self.version()? },
            "Check" | "13" => Write::Check { path, version: self.version()? },
            "Exists" | "3" => return read(ReadKind::Exists),
            "Get" | "4" => return read(ReadKind::Get),
            "SimpleList" | "8" | "List" | "12" | "FilteredList" | "500" => return read(ReadKind::List),
            "Sync" | "9" => return Ok(Planned::Sync { path }),
            other => return Err(self.error(format!("operation {other} cannot be replayed"))),
        };
        Ok(Planned::Write(write))
    }
}
