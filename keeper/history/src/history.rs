//! The record of a run: one operation after another, as a client saw it, and its form as lines of JSON.

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

/// What was asked of the server, or seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Create,
    /// A create whose server appends a number; `Seen::path` is the whole name.
    CreateSequential,
    Set,
    Delete,
    Get,
    Exists,
    Sync,
    /// A data watch fired: `returned_at_ns` is when the client read it from the connection.
    Event,
}

impl Kind {
    pub fn is_write(self) -> bool {
        matches!(self, Kind::Create | Kind::CreateSequential | Kind::Set | Kind::Delete)
    }

    pub fn is_read(self) -> bool {
        matches!(self, Kind::Get | Kind::Exists)
    }
}

/// What a successful reply showed. Everything it had is to be recorded: what is missing is not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seen {
    /// Of the reply's header; 0 where there was none.
    pub zxid: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub czxid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mzxid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    /// The data a get returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The path a create answered with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Ok(Seen),
    /// The server answered with this error: the operation was not done.
    Err {
        code: i32,
        /// Of the reply's header; 0 where there was none.
        #[serde(default)]
        zxid: i64,
    },
    /// No answer (connection lost, session lost, time over): done or not, now or later.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// The session's id, kept across reconnects.
    pub session: i64,
    /// The client's worker: it gets its replies in the order of its requests.
    pub process: u32,
    pub kind: Kind,
    /// As asked for: of a sequential create without the number.
    pub path: String,
    /// What a create or set wrote; no two operations of a history write the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Of a set or delete; absent for "any" (-1 on the wire).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<i32>,
    /// Of a read: it left a data watch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub watch: bool,
    /// Of a read: made after everything else had ended, to see what is left.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_final: bool,
    pub invoked_at_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned_at_ns: Option<u64>,
    pub outcome: Outcome,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Operation {
    pub fn seen(&self) -> Option<&Seen> {
        match &self.outcome {
            Outcome::Ok(seen) => Some(seen),
            _ => None,
        }
    }

    /// The zxid in the header of the reply, whatever the answer was.
    pub fn zxid_of_reply(&self) -> Option<i64> {
        let zxid = match &self.outcome {
            Outcome::Ok(seen) if self.kind != Kind::Event => seen.zxid,
            Outcome::Err { zxid, .. } => *zxid,
            _ => 0,
        };
        (zxid > 0).then_some(zxid)
    }

    /// The node it concerns: of a sequential create the one that was made, if that is known.
    pub fn node(&self) -> &str {
        self.seen().and_then(|seen| seen.path.as_deref()).unwrap_or(&self.path)
    }
}

/// In any order; what happened first is in the times. It has to hold every write of the nodes it names: no
/// ephemeral nodes that vanish with a session, no other writers. A multi with one write of a node is recorded as
/// that write; one with several has no place in it, since they share a zxid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pub operations: Vec<Operation>,
}

/// A line that is not an operation.
#[derive(Debug, thiserror::Error)]
#[error("history, line {line}: {reason}")]
pub struct ParseError {
    pub line: usize,
    pub reason: String,
}

impl History {
    /// One JSON object a line.
    pub fn write_jsonl(&self, to: &mut dyn Write) -> io::Result<()> {
        for operation in &self.operations {
            serde_json::to_writer(&mut *to, operation)?;
            to.write_all(b"\n")?;
        }
        Ok(())
    }

    pub fn to_jsonl(&self) -> String {
        let mut bytes = Vec::new();
        self.write_jsonl(&mut bytes).expect("writing to memory does not fail");
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }

    /// Reads what [`History::write_jsonl`] wrote; empty lines are skipped.
    pub fn read_jsonl(from: &mut dyn BufRead) -> Result<History, ParseError> {
        let mut history = History::default();
        for (number, line) in from.lines().enumerate() {
            let wrong = |reason: String| ParseError { line: number + 1, reason };
            let line = line.map_err(|error| wrong(error.to_string()))?;
            if !line.trim().is_empty() {
                history
                    .operations
                    .push(serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?);
            }
        }
        Ok(history)
    }

    pub fn from_jsonl(text: &str) -> Result<History, ParseError> {
        History::read_jsonl(&mut text.as_bytes())
    }
}
