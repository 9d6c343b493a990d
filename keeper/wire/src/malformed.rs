//! What is wrong with bytes that are not the record they should be.

use thiserror::Error;

/// Bytes from outside do not hold the record they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed {field}: {problem}")]
pub struct Malformed {
    /// The field at which reading stopped.
    pub field: &'static str,
    pub problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    #[error("{missing} bytes are missing")]
    Truncated { missing: usize },
    #[error("{count} bytes too many")]
    TrailingBytes { count: usize },
    #[error("length {length} is negative")]
    NegativeLength { length: i32 },
    #[error("{length} bytes, but at most {limit} are allowed")]
    TooLong { length: usize, limit: usize },
    #[error("{count} elements cannot be in the {remaining} bytes left")]
    TooMany { count: usize, remaining: usize },
    #[error("not UTF-8")]
    NotUtf8,
    #[error("{value} has no meaning")]
    UnknownValue { value: i32 },
    #[error("operation {op} is never sent by a client")]
    NotForClients { op: i32 },
}

impl Malformed {
    pub(crate) fn new(field: &'static str, problem: Problem) -> Malformed {
        Malformed { field, problem }
    }
}
