//! The operator: runs clusters of keeper servers on Kubernetes, as `KeeperCluster` objects describe them.
//!
//! The walk of one reconcile is in `cluster`; around it stand the watches (`controller`), the election among
//! replicas (`lease`), health and metrics (`http`, `metrics`).
// It runs outside the simulator's reach: time and sockets are tokio's own.
#![allow(clippy::disallowed_methods)]

pub mod cluster;
pub mod controller;
pub mod http;
pub mod kind;
pub mod lease;
pub mod limits;
pub mod member;
pub mod metrics;
