//! The numbers of one member under the names that ZooKeeper's and ClickHouse's tools look for: read once for each
//! question ([`Reading`]), named in one table ([`NUMBERS`]), written as `mntr`, `pfev` or a Prometheus page.
//!
//! A number that is not measured has no row: tools must never be told something made up.

mod page;
mod reading;
mod table;

pub use page::{page, value_text};
pub use reading::Reading;
pub use table::{Clickhouse, NUMBERS, Value};

#[cfg(test)]
mod tests;
