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

/// `planted!("name")` stands where the simulation may plant a fault, to see whether it is found: true only where the
/// installed simulation plants that one.
///
/// Without debug assertions it is the constant `false`, so a released binary has neither the question nor the fault.
/// A Cargo feature would not do: features unify in a workspace, and the binary that is built beside `keeper-sim` would
/// have it.
#[macro_export]
macro_rules! planted {
    ($name:literal) => {
        cfg!(debug_assertions) && $crate::is_planted(concat!("planted-fault: ", $name))
    };
}

/// Stands before each name in [`planted!`], and so in every binary that has a fault in it, and in no other.
pub const PLANTED_MARK: &str = "planted-fault: ";

/// What [`planted!`] asks.
#[doc(hidden)]
pub fn is_planted(name: &'static str) -> bool {
    sim_hook::with(|sim| sim.is_planted(name)).unwrap_or(false)
}

/// A crash point: stands after each durable step. A no-op in production; a simulation may cut this node's power
/// here. The call returns; the node's tasks are dropped at their next await.
pub fn point(name: &'static str) {
    sim_hook::with(|sim| sim.point(name));
}
