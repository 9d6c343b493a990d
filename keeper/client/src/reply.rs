//! What calls return, and how a reply's bytes become it. Runs on the caller's task, never on the session's.

use crate::call::RawAnswer;
use crate::error::ClientError;
use keeper_types::{ErrorCode, MultiResult, OpCode, Response, Stat};

/// A value with its place in the order of things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<T> {
    /// Of a write: its own. Of a read: the last one applied where it was read. Of an event: that of the change,
    /// or -1 from servers before 3.9.
    pub zxid: i64,
    /// Counts all replies and events of this client in the order in which they came.
    pub arrival: u64,
    pub value: T,
}

impl<T> Reply<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reply<U> {
        Reply { zxid: self.zxid, arrival: self.arrival, value: change(self.value) }
    }
}

/// A reply whose error is a value too: it also has a zxid.
pub type Answer = Reply<Result<Response, ErrorCode>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// With its sequence number, for a sequential node.
    pub path: String,
    pub stat: Stat,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeData {
    /// `None` is ZooKeeper's null data.
    pub data: Option<Vec<u8>>,
    pub stat: Stat,
}

impl NodeData {
    pub fn bytes(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Children {
    pub names: Vec<String>,
    pub stat: Stat,
}

pub(crate) fn decode(op: OpCode, raw: RawAnswer) -> Result<Answer, ClientError> {
    let malformed = |what: String| ClientError::Malformed(what);
    let value = if raw.error == 0 {
        Ok(keeper_wire::decode_response(op, &raw.body).map_err(|error| malformed(error.to_string()))?)
    } else {
        let unknown = || malformed(format!("{} was answered the unknown error {}", op.name(), raw.error));
        Err(ErrorCode::from_i32(raw.error).ok_or_else(unknown)?)
    };
    Ok(Reply { zxid: raw.zxid, arrival: raw.arrival, value })
}

pub(crate) fn server_error(code: ErrorCode) -> ClientError {
    match code {
        ErrorCode::SessionExpired => ClientError::Expired,
        code => ClientError::Server(code),
    }
}

pub(crate) fn unexpected() -> ClientError {
    ClientError::Malformed("a reply of another operation".to_owned())
}

pub(crate) fn select<T>(
    reply: Reply<Response>,
    pick: impl FnOnce(Response) -> Option<T>,
) -> Result<Reply<T>, ClientError> {
    let Reply { zxid, arrival, value } = reply;
    pick(value).map(|value| Reply { zxid, arrival, value }).ok_or_else(unexpected)
}

/// The operation that failed. Those before it have no error, those after it `RuntimeInconsistency`.
pub(crate) fn first_error(results: &[MultiResult]) -> Option<(usize, ErrorCode)> {
    results.iter().enumerate().find_map(|(index, result)| match result {
        MultiResult::Error(Some(code)) => Some((index, *code)),
        _ => None,
    })
}
