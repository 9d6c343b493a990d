//! Tests of the state machine through its public interface.

mod facts;
mod harness;
