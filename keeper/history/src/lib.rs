//! keeper-history: what clients asked and were answered, and whether a correct ZooKeeper could have answered so.
//!
//! A [`History`] is recorded by a checked loader (one JSON object a line) and judged by [`check`] in
//! O(n log n): every write's reply carries its zxid, so the order of writes is known and need not be searched
//! for. [`linearizable`] is the cross-check: a search over all orders, for small histories of one node.
//!
//! Pure: no clock, no network, no files. It never trusts the servers, only what the clients saw; and it never
//! assumes anything of an operation whose outcome the client did not learn.
#![forbid(unsafe_code)]

mod check;
mod facts;
mod history;
mod limits;
mod linearizable;
mod report;
mod rules;

pub use check::{Options, check, check_with};
pub use history::{History, Kind, Operation, Outcome, ParseError, Seen};
pub use limits::{SEARCH_OPERATIONS_MAX, SEARCH_STATES_MAX, VIOLATIONS_MAX};
pub use linearizable::{Answer, Ask, Call, Verdict, calls_of, linearizable};
pub use report::{Counts, Report, Rule, Violation};

#[cfg(test)]
mod tests;
