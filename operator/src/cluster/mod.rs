//! The walk of one reconcile, a file a step:
//!
//! `observe` asks Kubernetes and the members → `decide` (pure) makes a plan with at most one membership step →
//! `build` (pure) renders the objects → `apply` writes what differs and takes the step → `report` (pure) says what holds.
//!
//! State is derived again at each pass. Only the Raft log changes membership; nothing here deletes a volume's data.

pub mod apply;
pub mod build;
pub mod decide;
pub mod difference;
pub mod names;
pub mod observe;
pub mod report;
