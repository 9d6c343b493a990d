//! The end of a log whose disk can no longer be trusted, and the crash points.

use crate::FatalHook;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

pub struct Stop {
    hook: FatalHook,
    is_called: AtomicBool,
}

impl Stop {
    pub fn new(hook: FatalHook) -> Stop {
        Stop { hook, is_called: AtomicBool::new(false) }
    }

    /// Tells the hook, once. In production it does not return.
    pub fn fatal(&self, message: &str) {
        if !self.is_called.swap(true, Ordering::Relaxed) {
            (self.hook)(message);
        }
    }
}

/// A crash point: in a simulation the power may fail here, before anybody hears of the durable step.
pub async fn crash_point(name: &'static str) {
    keeper_rt::point(name);
    if keeper_rt::in_simulation() {
        // A node's tasks are dropped at their next await: this is it.
        let mut has_yielded = false;
        poll_fn(|cx| {
            if has_yielded {
                return Poll::Ready(());
            }
            has_yielded = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
