//! Large writes in turns. One of a megabyte keeps the log, the network and apply busy for many milliseconds, and a few
//! clients with several each would stand in front of everybody's small ones. So a member has few of their bytes under way
//! at a time; the others wait in order, each on its own connection, which is not read meanwhile.

use crate::limits::LARGE_WRITES_BYTES_MAX;
use crate::outbox::Outbox;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

#[derive(Default)]
pub struct LargeWrites(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Bytes of the permits that are out.
    bytes: usize,
    /// In the order in which they asked. Bounded by the connections: each has one at most.
    waiting: VecDeque<(Weak<Outbox>, usize)>,
}

/// Held by a write from its dispatch until it is applied, or until its connection is gone.
pub struct Permit {
    of: Arc<Mutex<State>>,
    bytes: usize,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LargeWrites {
    /// The permit comes into the outbox, now or later. The caller must not hold the outbox.
    pub fn ask(&self, outbox: &Arc<Outbox>, bytes: usize) {
        lock(&self.0).waiting.push_back((Arc::downgrade(outbox), bytes));
        grant(&self.0);
    }
}

impl State {
    /// The next that fits. A single larger one goes alone.
    fn next(&mut self) -> Option<(Arc<Outbox>, usize)> {
        while let Some((outbox, bytes)) = self.waiting.front() {
            if self.bytes > 0 && self.bytes + bytes > LARGE_WRITES_BYTES_MAX {
                return None;
            }
            let (outbox, bytes) = (outbox.upgrade(), *bytes);
            self.waiting.pop_front();
            // Else its connection has gone meanwhile.
            if let Some(outbox) = outbox {
                self.bytes += bytes;
                return Some((outbox, bytes));
            }
        }
        None
    }
}

/// No lock is held while an outbox takes its permit.
fn grant(of: &Arc<Mutex<State>>) {
    loop {
        let next = lock(of).next();
        let Some((outbox, bytes)) = next else { return };
        outbox.permit(Permit { of: of.clone(), bytes });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        lock(&self.of).bytes -= self.bytes;
        grant(&self.of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_permit(outbox: &Outbox) -> bool {
        outbox.lock().permit.is_some()
    }

    #[test]
    fn large_writes_take_turns_in_the_order_they_asked() {
        let large = LargeWrites::default();
        let [a, b, c] = [1, 2, 3].map(Outbox::new);
        large.ask(&a, LARGE_WRITES_BYTES_MAX * 2);
        large.ask(&b, LARGE_WRITES_BYTES_MAX);
        large.ask(&c, 1);
        assert!(has_permit(&a), "one that is larger than all together goes alone");
        assert!(!has_permit(&b) && !has_permit(&c), "a smaller one does not overtake");
        let permit = a.lock().permit.take();
        drop(permit);
        assert!(has_permit(&b) && !has_permit(&c));
        let permit = b.lock().permit.take();
        drop(permit);
        assert!(has_permit(&c));
    }

    #[test]
    fn a_connection_that_is_gone_neither_waits_nor_keeps_its_permit() {
        let large = LargeWrites::default();
        let [a, b, c] = [1, 2, 3].map(Outbox::new);
        for outbox in [&a, &b, &c] {
            large.ask(outbox, LARGE_WRITES_BYTES_MAX);
        }
        drop(b);
        drop(a);
        assert!(has_permit(&c));
    }
}
