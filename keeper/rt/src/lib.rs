//! The runtime facade: the only crate that spawns, sleeps, draws random numbers, reads a clock or asks the system about
//! this process.
//!
//! Each call looks at one thread-local: where a [`Simulation`] is installed it decides, else tokio does. So the
//! whole server runs unchanged in one thread from one seed. tokio's channels and locks run on any executor and
//! may be used directly. The facade must never hold state of the server itself.

mod process;
mod quiet;
mod random;
mod sim_hook;
mod task;
mod time;

pub use process::{OpenFiles, host_name, memory_limit, open_files, os_release, resident_bytes};
pub use quiet::Quiet;
pub use random::{Rng, random_bytes, random_u64, rng};
pub use sim_hook::{Installed, Simulation, SleepFuture, TaskFuture, in_simulation, install};
pub use task::{JoinError, JoinHandle, Pool, block_on, blocking, spawn, thread, yield_now};
pub use time::{Elapsed, Instant, Interval, Sleep, interval, now, sleep, sleep_until, timeout, wall_ms};

/// A crash point: stands after each durable step. A no-op in production; a simulation may cut this node's power
/// here. The call returns; the node's tasks are dropped at their next await.
pub fn point(name: &'static str) {
    sim_hook::with(|sim| sim.point(name));
}
