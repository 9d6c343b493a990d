//! Numbers of one port's TLS, and how much of its trouble may go to the log.

use crate::limits::{REFUSALS_LOGGED_MAX, REFUSALS_LOGGED_PERIOD};
use crate::refusal::Reason;
use keeper_rt::Quiet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

pub struct Counts {
    handshakes: AtomicU64,
    refused: [AtomicU64; Reason::ALL.len()],
    reloads: AtomicU64,
    reload_failures: AtomicU64,
    stale: AtomicBool,
    not_after_s: AtomicI64,
    /// 0 where there are no lists.
    lists_due_s: AtomicI64,
    quiet: Quiet,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            handshakes: AtomicU64::default(),
            refused: Default::default(),
            reloads: AtomicU64::default(),
            reload_failures: AtomicU64::default(),
            stale: AtomicBool::default(),
            not_after_s: AtomicI64::default(),
            lists_due_s: AtomicI64::default(),
            quiet: Quiet::new(REFUSALS_LOGGED_MAX, REFUSALS_LOGGED_PERIOD),
        }
    }
}

/// What the log may be told about a refusal.
pub(crate) enum Share {
    /// Show it; so many were not shown in the period before.
    Shown {
        suppressed_before: u64,
    },
    Suppressed,
}

impl Counts {
    /// Handshakes that were completed.
    pub fn handshakes(&self) -> u64 {
        self.handshakes.load(Ordering::Relaxed)
    }

    pub fn refused(&self, reason: Reason) -> u64 {
        self.refused[reason as usize].load(Ordering::Relaxed)
    }

    /// New files taken over.
    pub fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    /// New files that could not be used.
    pub fn reload_failures(&self) -> u64 {
        self.reload_failures.load(Ordering::Relaxed)
    }

    /// The files cannot be used, and what they held before still is.
    pub fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Relaxed)
    }

    /// When the certificate in use expires: seconds since 1970.
    pub fn not_after_s(&self) -> i64 {
        self.not_after_s.load(Ordering::Relaxed)
    }

    /// When the first revocation list is out of date, in seconds since 1970; from then on nobody is let in whose
    /// authority it is of.
    pub fn lists_due_s(&self) -> Option<i64> {
        Some(self.lists_due_s.load(Ordering::Relaxed)).filter(|due| *due != 0)
    }

    pub(crate) fn complete(&self) {
        self.handshakes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refuse(&self, reason: Reason) -> Share {
        self.refused[reason as usize].fetch_add(1, Ordering::Relaxed);
        if !reason.is_loud() {
            return Share::Suppressed;
        }
        self.quiet.admit().map_or(Share::Suppressed, |suppressed_before| Share::Shown { suppressed_before })
    }

    pub(crate) fn loaded(&self, not_after_s: i64, lists_due_s: Option<i64>) {
        self.lists_due_s.store(lists_due_s.unwrap_or(0), Ordering::Relaxed);
        self.not_after_s.store(not_after_s, Ordering::Relaxed);
        self.stale.store(false, Ordering::Relaxed);
    }

    pub(crate) fn reloaded(&self) {
        self.reloads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reload_failed(&self) {
        self.reload_failures.fetch_add(1, Ordering::Relaxed);
        self.stale.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_counted_but_not_logged() {
        let counts = Counts::default();
        let shown = (0..1_000).filter(|_| matches!(counts.refuse(Reason::PlainText), Share::Shown { .. }));
        // Ten, and ten more for each ten seconds that this might take.
        assert!(shown.count() <= 100);
        assert_eq!(counts.refused(Reason::PlainText), 1_000);
    }

    #[test]
    fn every_reason_has_a_name_of_its_own_and_advice() {
        let names: std::collections::BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        for (place, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
            assert!(!reason.advice().is_empty());
        }
    }
}
