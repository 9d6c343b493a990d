//! Waking at a point in time, to some tens of microseconds. The runtime's own timers count whole milliseconds: more than
//! a read takes, and that would be measured with every request of an open loop.

use keeper_rt::Instant;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// One thread that wakes whoever waits. It ends with the last handle.
pub struct Clock(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    heap: BinaryHeap<Reverse<Waiter>>,
    ended: bool,
}

struct Waiter {
    due: Instant,
    wake: oneshot::Sender<()>,
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Waiter) -> bool {
        self.due == other.due
    }
}

impl Eq for Waiter {}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Waiter) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiter {
    fn cmp(&self, other: &Waiter) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

/// While nobody waits.
const IDLE: Duration = Duration::from_secs(1);

impl Clock {
    pub fn start() -> Clock {
        let shared = Arc::new(Shared::default());
        let ours = Arc::clone(&shared);
        drop(keeper_rt::thread("bench-clock", async move { ours.run() }));
        Clock(shared)
    }

    /// Completes at `due`. Each waiter costs a few bytes until then, even when it is dropped.
    pub async fn at(self: Arc<Clock>, due: Instant) {
        if due <= keeper_rt::now() {
            return;
        }
        let woken = self.wait_until(due);
        // The thread never ends before this handle does.
        let _ = woken.await;
    }
}

impl Clock {
    fn wait_until(&self, due: Instant) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        let mut waiting = self.0.lock();
        let is_next = waiting.heap.peek().is_none_or(|Reverse(next)| due < next.due);
        waiting.heap.push(Reverse(Waiter { due, wake }));
        if is_next {
            self.0.changed.notify_one();
        }
        woken
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut waiting = self.lock();
        while !waiting.ended {
            let now = keeper_rt::now();
            while waiting.heap.peek().is_some_and(|Reverse(next)| next.due <= now) {
                if let Some(Reverse(waiter)) = waiting.heap.pop() {
                    let _ = waiter.wake.send(());
                }
            }
            let pause = waiting.heap.peek().map_or(IDLE, |Reverse(next)| next.due - now);
            let waited = self.changed.wait_timeout(waiting, pause);
            waiting = waited.map(|(guard, _)| guard).unwrap_or_else(|poisoned| poisoned.into_inner().0);
        }
    }
}
