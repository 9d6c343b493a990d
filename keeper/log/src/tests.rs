//! Tests of the whole log on a faulty disk, in one thread and from seeds.

mod crash_cases;
mod damage;
pub mod executor;
mod full_disk;
pub mod harness;
mod model;
mod threads;
