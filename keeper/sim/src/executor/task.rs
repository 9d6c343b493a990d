//! Tasks and the set of those that are ready.
//!
//! The ready set is kept sorted by task number and the choice is drawn from it, so the order in which one poll
//! wakes several tasks (tokio's `watch` wakes in a random one) can never change a run.

use super::NodeId;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

pub(super) type TaskId = u64;
pub(super) type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Locks, whether or not a panic passed through: panics are caught and reported by the executor.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
pub(super) struct ReadySet(Mutex<Vec<TaskId>>);

impl ReadySet {
    fn add(&self, id: TaskId) {
        let mut ids = lock(&self.0);
        let place = ids.partition_point(|other| *other < id);
        ids.insert(place, id);
    }

    /// Takes the task at the place `choose` picks among so many.
    pub(super) fn take(&self, choose: impl FnOnce(usize) -> usize) -> Option<TaskId> {
        let mut ids = lock(&self.0);
        if ids.is_empty() {
            return None;
        }
        let place = choose(ids.len());
        Some(ids.remove(place))
    }
}

pub(super) struct Readiness {
    id: TaskId,
    /// In the ready set, or about to be put there.
    queued: AtomicBool,
    ready: Arc<ReadySet>,
}

impl Readiness {
    pub(super) fn taken(&self) {
        self.queued.store(false, Relaxed);
    }
}

impl Wake for Readiness {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Relaxed) {
            self.ready.add(self.id);
        }
    }
}

pub(super) struct Task {
    pub(super) node: NodeId,
    pub(super) name: &'static str,
    /// Absent while it is being polled.
    pub(super) future: Option<BoxedTask>,
    pub(super) waker: Waker,
    pub(super) readiness: Arc<Readiness>,
}

impl Task {
    pub(super) fn new(
        id: TaskId,
        node: NodeId,
        name: &'static str,
        future: BoxedTask,
        ready: Arc<ReadySet>,
    ) -> Task {
        let readiness = Arc::new(Readiness { id, queued: AtomicBool::new(false), ready });
        Task { node, name, future: Some(future), waker: Waker::from(readiness.clone()), readiness }
    }
}
