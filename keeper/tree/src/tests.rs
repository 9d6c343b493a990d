//! Tests of the state machine through its public interface.

mod clickhouse;
mod facts;
mod golden;
mod gradual;
mod harness;
mod lifetimes;
mod model;
mod quotas;
mod random;
mod snapshots;
