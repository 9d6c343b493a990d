//! Which sessions live, by the leader's clock. Members send touches in batches, each with its age, so that a session ends
//! a timeout after its client's last sign of life and not after the batch. The leader proposes the end of a
//! session that was not touched within its timeout. A new leader starts all timeouts anew.

use keeper_rt::Instant;
use keeper_tree::Tree;
use keeper_types::{Generation, SessionId};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An expiry that was proposed but not applied is proposed again after this time.
const PROPOSE_AGAIN_AFTER: Duration = Duration::from_secs(2);

/// A session's sign of life, some time ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub session: SessionId,
    pub age: Duration,
}

struct Deadline {
    at: Instant,
    timeout: Duration,
}

#[derive(Default)]
struct Deadlines {
    /// The leadership the deadlines belong to.
    term: Option<u64>,
    sessions: BTreeMap<SessionId, Deadline>,
}

#[derive(Default)]
pub struct Expiry(Mutex<Deadlines>);

impl Expiry {
    fn lock(&self) -> MutexGuard<'_, Deadlines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signs of life, from this member's clients or another's.
    pub fn touch(&self, touches: impl IntoIterator<Item = Touch>) {
        let now = keeper_rt::now();
        let mut deadlines = self.lock();
        for Touch { session, age } in touches {
            if let Some(deadline) = deadlines.sessions.get_mut(&session) {
                // An old sign takes nothing back, and one older than the timeout is none.
                deadline.at = deadline.at.max(now + deadline.timeout.saturating_sub(age));
            }
        }
    }

    /// This member does not lead: deadlines mean nothing.
    pub fn forget(&self) {
        let mut deadlines = self.lock();
        deadlines.term = None;
        deadlines.sessions.clear();
    }

    /// The sessions whose time is over, while this member leads in `term`.
    pub fn overdue(&self, term: u64, tree: &Tree) -> Vec<(SessionId, Generation)> {
        let now = keeper_rt::now();
        let mut deadlines = self.lock();
        if deadlines.term != Some(term) {
            deadlines.term = Some(term);
            deadlines.sessions.clear();
        }
        let mut overdue = Vec::new();
        let mut previous = std::mem::take(&mut deadlines.sessions);
        for session in tree.sessions() {
            let timeout = Duration::from_millis(session.timeout_ms.max(0) as u64);
            let mut deadline =
                previous.remove(&session.id).unwrap_or(Deadline { at: now + timeout, timeout });
            deadline.timeout = timeout;
            if deadline.at <= now && !keeper_rt::planted!("sessions-never-expire") {
                overdue.push((session.id, session.generation));
                deadline.at = now + PROPOSE_AGAIN_AFTER;
            }
            deadlines.sessions.insert(session.id, deadline);
        }
        overdue
    }
}
