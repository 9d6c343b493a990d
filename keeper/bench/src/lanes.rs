//! The two loops. Closed: a lane's next request goes when its last one is answered, so a slow server is asked less and
//! its stalls are seen by few. Open: requests are due at times that nobody's answers move, and each is measured from the
//! time it was due: a stall is seen by everything that was due during it.

use crate::clock::Clock;
use crate::generate::Lane;
use crate::limits::OPEN_IN_FLIGHT_MAX;
use crate::record::{Failure, Outcome};
use crate::request::Kind;
use crate::schedule::Schedule;
use crate::session::{Session, Sink};
use futures_util::stream::{FuturesUnordered, StreamExt};
use keeper_client::Connector;
use keeper_rt::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// What all lanes of a phase look at.
pub struct Phase {
    pub sink: Arc<Sink>,
    /// Requests that began (or were due) earlier are the warm-up.
    pub begin: Instant,
    /// Nothing begins (or is due) at or after this.
    pub end: Instant,
    /// How long after `end` an open loop still sends what was due before.
    pub grace: Duration,
    /// Requests that may still begin.
    pub tickets: AtomicU64,
    pub stopped: AtomicBool,
    /// Wakes lanes that wait for their next request when the phase is stopped.
    pub stopping: Notify,
    /// Stop at the first error.
    pub stop_on_error: bool,
}

impl Phase {
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.stopping.notify_waiters();
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn take_ticket(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.tickets.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }

    pub fn record(&self, lane: usize, kind: Kind, from: Instant, outcome: &Outcome) {
        if self.begin <= from {
            self.sink.recorder.request(lane, kind, from.elapsed(), outcome);
        }
        if outcome.failure.is_some() && self.stop_on_error {
            self.stop();
        }
    }
}

pub async fn closed<C: Connector + Clone>(
    lane: usize,
    mut requests: Lane,
    session: Arc<Session<C>>,
    phase: Arc<Phase>,
) -> Lane {
    while !phase.is_stopped() && keeper_rt::now() < phase.end && phase.take_ticket() {
        let planned = requests.next();
        let from = keeper_rt::now();
        let outcome = session.perform(&planned, lane, &phase.sink).await;
        phase.record(lane, planned.kind(), from, &outcome);
    }
    requests
}

pub async fn open<C: Connector + Clone>(
    lane: usize,
    mut requests: Lane,
    session: Arc<Session<C>>,
    phase: Arc<Phase>,
    mut schedule: Schedule,
    clock: Arc<Clock>,
) -> Lane {
    let shared = Arc::clone(&phase);
    let mut in_flight = FuturesUnordered::new();
    let mut due = schedule.due();
    let mut wake = Box::pin(Arc::clone(&clock).at(due));
    let last = phase.end + phase.grace;
    loop {
        // Made before the look at `stopped`, so that no stop falls between the two.
        let mut stopping = std::pin::pin!(shared.stopping.notified());
        let now = keeper_rt::now();
        let more = due < phase.end && now < last && !phase.is_stopped();
        if !more && in_flight.is_empty() {
            break;
        }
        let has_room = in_flight.len() < OPEN_IN_FLIGHT_MAX;
        if more && has_room && due <= now {
            if !phase.take_ticket() {
                phase.stop();
                continue;
            }
            let (planned, from) = (requests.next(), due);
            let (session, phase) = (Arc::clone(&session), Arc::clone(&phase));
            in_flight.push(async move {
                let outcome = session.perform(&planned, lane, &phase.sink).await;
                phase.record(lane, planned.kind(), from, &outcome);
            });
            schedule.advance();
            due = schedule.due();
            wake = Box::pin(Arc::clone(&clock).at(due));
            // The request is written when it is polled: not before the clock is looked at again.
            if due <= now {
                continue;
            }
        }
        tokio::select! {
            biased;
            Some(()) = in_flight.next(), if !in_flight.is_empty() => {}
            () = &mut stopping, if more => {}
            () = &mut wake, if more && has_room => {}
            () = keeper_rt::sleep_until(last), if more && !has_room => {}
        }
    }
    give_up(lane, &mut requests, &phase, schedule);
    requests
}

/// What was due and never sent is no less late than what was sent.
fn give_up(lane: usize, requests: &mut Lane, phase: &Phase, mut schedule: Schedule) {
    let reason = Failure {
        code: None,
        label: "never sent",
        text: format!("due, and not sent within {:?} after the run's end", phase.grace),
    };
    let outcome = Outcome { bytes: 0, failure: Some(reason) };
    while !phase.is_stopped() && schedule.due() < phase.end {
        phase.record(lane, requests.next().kind(), schedule.due(), &outcome);
        schedule.advance();
    }
}
