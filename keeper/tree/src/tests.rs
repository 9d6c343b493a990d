//! Tests of the state machine through its public interface.

mod facts;
mod harness;
mod model;
mod random;
mod snapshots;
