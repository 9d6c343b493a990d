//! What can go wrong with a call. The variants differ in what the caller may conclude about the write.

use keeper_types::{ErrorCode, OpCode};
use std::time::Duration;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClientError {
    /// The server's own answer: the operation was not applied.
    #[error("the server answered {0}")]
    Server(ErrorCode),
    /// None of a multi's operations was applied.
    #[error("operation {index} of the multi was answered {code}; none was applied")]
    MultiFailed { index: usize, code: ErrorCode },
    #[error("the session has expired: its ephemeral nodes and watches are gone")]
    Expired,
    /// The write was sent and its answer never came.
    #[error(
        "outcome of {} {path} is unknown: {cause} after it was sent; it may or may not have been applied",
        op.name()
    )]
    UnknownOutcome { op: OpCode, path: String, cause: String },
    /// Safe to repeat.
    #[error("{} {path} was not sent: {cause}; it was not applied and may be repeated", op.name())]
    NotSent { op: OpCode, path: String, cause: String },
    /// No session was asked for yet: only `four_letter` answers this.
    #[error("{host} cannot be reached: {cause}")]
    Unreachable { host: String, cause: String },
    /// Only for what changes nothing.
    #[error("{what} took longer than {after:?}: {cause}")]
    Timeout { what: String, after: Duration, cause: String },
    #[error("the client is closed")]
    Closed,
    #[error("the server refused an identity; the session cannot be used any more")]
    AuthFailed,
    /// The server's bytes were not what the protocol says.
    #[error("the server's answer cannot be read: {0}")]
    Malformed(String),
    /// Refused by the client itself, nothing was sent.
    #[error("invalid request: {0}")]
    Invalid(String),
}

impl ClientError {
    /// The server's error code, when there is one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Server(code) | ClientError::MultiFailed { code, .. } => Some(*code),
            ClientError::Expired => Some(ErrorCode::SessionExpired),
            ClientError::AuthFailed => Some(ErrorCode::AuthFailed),
            _ => None,
        }
    }

    /// True when the operation may have been applied all the same.
    pub fn maybe_applied(&self) -> bool {
        match self {
            ClientError::UnknownOutcome { .. } | ClientError::Malformed(_) => true,
            ClientError::Server(_)
            | ClientError::MultiFailed { .. }
            | ClientError::Expired
            | ClientError::NotSent { .. }
            | ClientError::Unreachable { .. }
            | ClientError::Timeout { .. }
            | ClientError::Closed
            | ClientError::AuthFailed
            | ClientError::Invalid(_) => false,
        }
    }
}
