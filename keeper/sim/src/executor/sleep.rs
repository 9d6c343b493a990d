//! Sleeping until a point of true simulated time.

use super::Simulator;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Completes once simulated time has reached its deadline. Its timer goes when it is dropped.
pub struct SimSleep {
    simulator: Simulator,
    deadline_ns: u64,
    /// The place in the executor's timers, once polled.
    timer: Option<(u64, u64)>,
}

impl SimSleep {
    pub(super) fn new(simulator: Simulator, deadline_ns: u64) -> SimSleep {
        SimSleep { simulator, deadline_ns, timer: None }
    }
}

impl Future for SimSleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.simulator.now_ns() >= this.deadline_ns {
            return Poll::Ready(());
        }
        this.timer = Some(this.simulator.set_timer(this.timer, this.deadline_ns, cx.waker()));
        Poll::Pending
    }
}

impl Drop for SimSleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.simulator.clear_timer(timer);
        }
    }
}
