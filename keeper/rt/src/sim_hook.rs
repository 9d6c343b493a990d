//! The door through which a simulation takes over.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

pub type TaskFuture = Pin<Box<dyn Future<Output = ()> + Send>>;
pub type SleepFuture = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// What a simulation must offer. It runs on one thread; every call concerns the node whose task is being polled.
pub trait Simulation {
    /// Runs `task` as part of the current node.
    fn spawn(&self, name: &'static str, task: TaskFuture);
    /// Nanoseconds of the current node's monotonic clock. Must begin at an hour or more: openraft subtracts.
    fn now_ns(&self) -> u64;
    /// Milliseconds since the Unix epoch by the current node's wall clock, which may jump.
    fn wall_ms(&self) -> i64;
    /// Completes when the current node's clock reaches `deadline_ns`.
    fn sleep_until(&self, deadline_ns: u64) -> SleepFuture;
    fn random_u64(&self) -> u64;
    fn point(&self, name: &'static str);
    /// Whether this fault is planted. The name carries the mark that [`planted!`](crate::planted) gives it.
    fn is_planted(&self, _name: &'static str) -> bool {
        false
    }
}

thread_local! {
    static SIMULATION: RefCell<Option<Rc<dyn Simulation>>> = const { RefCell::new(None) };
}

/// Takes the simulation out again when dropped.
pub struct Installed(());

impl Drop for Installed {
    fn drop(&mut self) {
        SIMULATION.with_borrow_mut(|slot| *slot = None);
    }
}

/// Lets `simulation` decide on this thread until the guard is dropped.
pub fn install(simulation: Rc<dyn Simulation>) -> Installed {
    SIMULATION.with_borrow_mut(|slot| {
        assert!(slot.is_none(), "a simulation is already installed on this thread");
        *slot = Some(simulation);
    });
    Installed(())
}

pub fn in_simulation() -> bool {
    SIMULATION.with_borrow(|slot| slot.is_some())
}

/// Calls `f` with the installed simulation, if any. The borrow is released first, so `f` may come back here.
pub(crate) fn with<R>(f: impl FnOnce(&dyn Simulation) -> R) -> Option<R> {
    let simulation = SIMULATION.with_borrow(|slot| slot.clone());
    simulation.map(|sim| f(&*sim))
}
