//! Peers turned away, by either side: counted by reason, and said in the log, but not over and over.

use crate::api::PeerRefusals;
use crate::limits::REFUSAL_SAID_EVERY;
use crate::peer::handshake::Refusal;
use keeper_rt::Instant;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts of [`PeerRefusals`].
#[derive(Default)]
pub struct Refusals {
    wrong_secret: AtomicU64,
    other_cluster: AtomicU64,
    wrong_server: AtomicU64,
    malformed: AtomicU64,
    said: Mutex<Vec<Said>>,
}

/// The last time that a reason was named in the log.
struct Said {
    by_us: bool,
    reason: Refusal,
    at: Instant,
}

impl Refusals {
    pub fn count(&self, reason: Refusal) {
        let counter = match reason {
            Refusal::WrongSecret => &self.wrong_secret,
            Refusal::OtherCluster => &self.other_cluster,
            Refusal::WrongServer | Refusal::EmptyDisk => &self.wrong_server,
            Refusal::Malformed | Refusal::Version => &self.malformed,
            Refusal::Busy | Refusal::NotServed => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether to name it in the log. A member that is refused dials again several times a second, which would bury
    /// all else; each reason and direction is said once in `REFUSAL_SAID_EVERY`.
    pub fn is_news(&self, by_us: bool, reason: Refusal) -> bool {
        let now = keeper_rt::now();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = said.iter_mut().find(|said| (said.by_us, said.reason) == (by_us, reason)) else {
            said.push(Said { by_us, reason, at: now });
            return true;
        };
        let is_news = REFUSAL_SAID_EVERY <= now.saturating_duration_since(last.at);
        if is_news {
            last.at = now;
        }
        is_news
    }

    pub fn read(&self) -> PeerRefusals {
        PeerRefusals {
            wrong_secret: self.wrong_secret.load(Ordering::Relaxed),
            other_cluster: self.other_cluster.load(Ordering::Relaxed),
            wrong_server: self.wrong_server.load(Ordering::Relaxed),
            malformed: self.malformed.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_and_direction_is_news_once() {
        let refusals = Refusals::default();
        assert!(refusals.is_news(true, Refusal::EmptyDisk));
        assert!(!refusals.is_news(true, Refusal::EmptyDisk));
        assert!(refusals.is_news(false, Refusal::EmptyDisk));
        assert!(refusals.is_news(true, Refusal::WrongSecret));
        assert!(!refusals.is_news(true, Refusal::WrongSecret));
        let long_ago = keeper_rt::now() - REFUSAL_SAID_EVERY;
        refusals.said.lock().unwrap().iter_mut().for_each(|said| said.at = long_ago);
        assert!(refusals.is_news(true, Refusal::EmptyDisk));
        assert!(!refusals.is_news(true, Refusal::EmptyDisk));
    }
}
