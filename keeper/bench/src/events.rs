//! From a write to the event it causes: both carry its zxid, and either may arrive first.

use crate::limits::{EARLY_EVENTS_MAX, WATCHED_WRITES_MAX};
use crate::record::Recorder;
use keeper_rt::Instant;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub struct Events {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// When a write of that zxid was sent.
    /// Invariant: at most `WATCHED_WRITES_MAX`.
    sent: BTreeMap<i64, Instant>,
    /// Events whose write is not answered yet: zxid, arrival, lane.
    /// Invariant: `early_len` of them, at most `EARLY_EVENTS_MAX`.
    early: BTreeMap<i64, Vec<(Instant, usize)>>,
    early_len: usize,
}

impl Events {
    /// A write was answered.
    pub fn written(&self, zxid: i64, sent: Instant, recorder: &Recorder) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for (arrived, lane) in known.early.remove(&zxid).unwrap_or_default() {
            known.early_len -= 1;
            recorder.event(lane, arrived, Some(arrived - sent));
        }
        known.sent.insert(zxid, sent);
        if known.sent.len() > WATCHED_WRITES_MAX {
            known.sent.pop_first();
        }
    }

    /// An event arrived. Servers before ZooKeeper 3.9 give it no zxid: it is counted and not timed.
    pub fn arrived(&self, zxid: i64, arrived: Instant, lane: usize, recorder: &Recorder) {
        if zxid <= 0 {
            return recorder.event(lane, arrived, None);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sent) = known.sent.get(&zxid) {
            return recorder.event(lane, arrived, Some(arrived - *sent));
        }
        if known.early_len >= EARLY_EVENTS_MAX {
            return recorder.event(lane, arrived, None);
        }
        known.early_len += 1;
        known.early.entry(zxid).or_default().push((arrived, lane));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_event_is_timed_from_its_write_whichever_comes_first() {
        let (events, recorder) = (Events::default(), Recorder::default());
        let sent = keeper_rt::now();
        events.arrived(7, sent + Duration::from_millis(3), 0, &recorder);
        assert_eq!(recorder.totals().events_received, 0, "its write is not known yet");
        events.written(7, sent, &recorder);
        events.arrived(7, sent + Duration::from_millis(5), 1, &recorder);
        events.arrived(-1, sent, 1, &recorder);
        let totals = recorder.totals();
        let times = totals.events.unwrap();
        assert_eq!((totals.events_received, times.len()), (3, 2));
        assert!((3_000..=3_010).contains(&times.min()) && (5_000..=5_010).contains(&times.max()));
    }

    #[test]
    fn writes_without_events_are_forgotten() {
        let (events, recorder) = (Events::default(), Recorder::default());
        let sent = keeper_rt::now();
        (1..=WATCHED_WRITES_MAX as i64 + 10).for_each(|zxid| events.written(zxid, sent, &recorder));
        assert_eq!(events.known.lock().unwrap().sent.len(), WATCHED_WRITES_MAX);
    }
}
