//! Stage Dispatched: the origin's writes into batches, and the batches to the leader, in order.
//!
//! No timer: a batch leaves as soon as a slot is free, and what waits meanwhile makes the next one larger. Every
//! batch stays here until it is applied; after a refusal, a broken connection or a new leader all of them are sent
//! again from the first unapplied (go-back-N). The tree's `next_seq` makes repetitions harmless.

use crate::batch::{BatchBuilder, Kind};
use crate::expiry::Touch;
use crate::in_flight::{Flight, Target};
use crate::leader;
use crate::limits::{BATCH_BYTES_MAX, BATCH_REQUESTS_MAX, RESEND_PAUSE, RESEND_STALL, TOUCHES_PER_FRAME_MAX};
use crate::shared::Shared;
use crate::stage::Stage;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use keeper_consensus::{Conn, Consensus, Proposed, Status};
use keeper_rt::Instant;
use keeper_tree::BatchId;
use keeper_types::{AclId, Generation, ServerId, SessionId};
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// One command on its way into a batch.
pub struct Submission {
    pub kind: Kind,
    pub session: SessionId,
    pub generation: Generation,
    pub identities: Arc<[AclId]>,
    /// Operation code (int32, big-endian) of a request, then its body; see `batch.rs` for the other kinds.
    pub op: Option<i32>,
    pub body: Bytes,
    pub target: Target,
    pub submitted: Instant,
}

impl Submission {
    /// A command of no client's request: nobody's identities, no operation code.
    pub fn command(
        kind: Kind,
        (session, generation): (SessionId, Generation),
        body: Bytes,
        target: Target,
    ) -> Submission {
        let identities = Arc::from([]);
        Submission {
            kind,
            session,
            generation,
            identities,
            op: None,
            body,
            target,
            submitted: keeper_rt::now(),
        }
    }

    /// What it counts against the ingress bound.
    pub fn cost(&self) -> usize {
        self.body.len() + 128
    }
}

/// The way in: ordered per caller.
#[derive(Clone)]
pub struct Dispatch {
    shared: Arc<Shared>,
    queue: mpsc::UnboundedSender<Submission>,
    touches: mpsc::Sender<Vec<Touch>>,
    consensus: Consensus,
}

impl Dispatch {
    /// Never blocks: callers bound themselves by `Shared::ingress` before they read more.
    pub fn submit(&self, submission: Submission) {
        self.shared.ingress.add(submission.cost());
        if let Err(closed) = self.queue.send(submission) {
            self.shared.ingress.remove(closed.0.cost());
            closed.0.target.lose();
        }
    }

    pub fn consensus(&self) -> &Consensus {
        &self.consensus
    }

    /// Signs of life for the leader; dropped when the last ones are still on their way.
    pub fn touch(&self, touches: Vec<Touch>) {
        for part in touches.chunks(TOUCHES_PER_FRAME_MAX) {
            let _ = self.touches.try_send(part.to_vec());
        }
    }
}

/// How batches reach the leader now.
enum Link {
    None,
    /// This member leads.
    Local,
    Remote(Conn),
}

pub struct Dispatcher {
    shared: Arc<Shared>,
    consensus: Consensus,
    queue: mpsc::UnboundedReceiver<Submission>,
    touches: mpsc::Receiver<Vec<Touch>>,
    status: watch::Receiver<Status>,
    link: Link,
    /// The leadership `link` leads to.
    leadership: Option<(u64, ServerId)>,
    /// Batches in flight from this seq on have not been sent over `link`.
    unsent_from: u64,
    /// A submission that did not fit into the last batch.
    held: Option<Submission>,
    /// Own proposals on their way to commit, in order.
    proposed: FuturesOrdered<Proposed>,
    /// Progress as last seen, to tell a stall.
    applied_seen: u64,
    progress_at: Instant,
}

/// What woke the dispatcher.
enum Event {
    Status,
    Submitted(Submission),
    Touches(Vec<Touch>),
    Changed,
    /// The leader refused, or its connection broke.
    Refused,
    Committed,
    Stalled,
    Closed,
}

pub fn create(shared: Arc<Shared>, consensus: Consensus) -> (Dispatch, Dispatcher) {
    let (queue_in, queue) = mpsc::unbounded_channel();
    let (touches_in, touches) = mpsc::channel(16);
    let status = consensus.watch_status();
    let dispatch = Dispatch {
        shared: shared.clone(),
        queue: queue_in,
        touches: touches_in,
        consensus: consensus.clone(),
    };
    let dispatcher = Dispatcher {
        shared,
        consensus,
        queue,
        touches,
        status,
        link: Link::None,
        leadership: None,
        unsent_from: 0,
        held: None,
        proposed: FuturesOrdered::new(),
        applied_seen: 0,
        progress_at: keeper_rt::now(),
    };
    (dispatch, dispatcher)
}

impl Dispatcher {
    pub async fn run(mut self) {
        loop {
            self.follow_leader().await;
            self.note_progress();
            while self.fill().is_some() {}
            if !self.send_unsent().await {
                self.refused().await;
                continue;
            }
            match self.next_event().await {
                Event::Status | Event::Changed | Event::Committed => {}
                Event::Submitted(submission) => self.held = Some(submission),
                Event::Touches(touches) => self.send_touches(touches).await,
                Event::Refused => self.refused().await,
                Event::Stalled => {
                    tracing::debug!("batches make no progress; sending them again");
                    self.refused().await;
                }
                Event::Closed => return,
            }
        }
    }

    /// Opens a new link when leadership has changed.
    async fn follow_leader(&mut self) {
        let (leadership, identity) = {
            let status = self.status.borrow_and_update();
            (status.leader.map(|leader| (status.term, leader)), status.identity)
        };
        let Some(identity) = identity else { return };
        {
            let mut flights = self.shared.in_flight.lock();
            let origin = (identity.server_id, identity.boot);
            if flights.origin != Some(origin) {
                assert!(flights.batches.is_empty(), "an identity appears once in a process's life");
                flights.origin = Some(origin);
            }
        }
        if leadership == self.leadership && !matches!(self.link, Link::None) {
            return;
        }
        self.unlink();
        self.leadership = leadership;
        let Some((_, leader)) = leadership else { return };
        if leader == identity.server_id {
            self.link = Link::Local;
            return;
        }
        let dial = self.consensus.dial_dispatch(leader);
        tokio::select! {
            biased;
            _ = self.status.changed() => {}
            dialed = dial => match dialed {
                Ok(conn) => self.link = Link::Remote(conn),
                Err(error) => {
                    tracing::debug!(%leader, ?error, "cannot reach the leader's dispatcher");
                    keeper_rt::sleep(RESEND_PAUSE).await;
                }
            },
        }
    }

    /// Everything unapplied has to be sent again over the next link.
    fn unlink(&mut self) {
        self.link = Link::None;
        self.proposed = FuturesOrdered::new();
        let mut flights = self.shared.in_flight.lock();
        flights.gap = false;
        if keeper_rt::planted!("resend-forgotten") {
            return;
        }
        self.unsent_from = flights.batches.front().map_or(flights.next_seq, |flight| flight.seq);
    }

    async fn refused(&mut self) {
        self.unlink();
        self.progress_at = keeper_rt::now();
        keeper_rt::sleep(RESEND_PAUSE).await;
    }

    fn note_progress(&mut self) {
        let flights = self.shared.in_flight.lock();
        let (gap, applied, idle) = (flights.gap, flights.applied_total, flights.batches.is_empty());
        drop(flights);
        if applied != self.applied_seen || idle {
            self.applied_seen = applied;
            self.progress_at = keeper_rt::now();
        }
        if gap {
            self.unlink();
        }
    }

    /// Packs what is waiting into the next batch, if a slot is free. Without a way to the leader it waits unpacked: who
    /// gives up meanwhile takes it along.
    fn fill(&mut self) -> Option<()> {
        if matches!(self.link, Link::None) {
            return None;
        }
        let shared = self.shared.clone();
        let mut flights = shared.in_flight.lock();
        let (origin, epoch) = flights.origin?;
        if !flights.has_room() {
            return None;
        }
        let mut next = self.held.take().or_else(|| self.queue.try_recv().ok());
        next.as_ref()?;
        let seq = flights.next_seq;
        let mut builder = BatchBuilder::new(BatchId { origin, epoch, seq }, keeper_rt::wall_ms());
        let mut targets = Vec::new();
        let now = keeper_rt::now();
        while let Some(submission) = next.take() {
            let full = builder.count() >= BATCH_REQUESTS_MAX
                || builder.byte_count() + submission.body.len() > BATCH_BYTES_MAX && builder.count() > 0;
            if full {
                self.held = Some(submission);
                break;
            }
            shared.ingress.remove(submission.cost());
            if submission.target.has_given_up() {
                // Carried out later, an attach would take the session away from the connection it has found since.
                next = self.queue.try_recv().ok();
                continue;
            }
            shared.metrics.observe(Stage::Dispatched, now.saturating_duration_since(submission.submitted));
            push(&mut builder, &submission);
            targets.push(submission.target);
            next = self.queue.try_recv().ok();
        }
        shared.metrics.observe_batch(builder.count(), builder.byte_count());
        let bytes = builder.finish();
        flights.next_seq += 1;
        flights.bytes += bytes.len();
        flights.batches.push_back(Flight { seq, bytes, targets, dispatched: now });
        Some(())
    }

    /// Sends the batches that the link has not seen. False when the link is no good any more.
    async fn send_unsent(&mut self) -> bool {
        loop {
            if matches!(self.link, Link::None) {
                return true;
            }
            let next = {
                let flights = self.shared.in_flight.lock();
                let first = flights.batches.front().map_or(flights.next_seq, |flight| flight.seq);
                self.unsent_from = self.unsent_from.max(first);
                flights
                    .batches
                    .get((self.unsent_from - first) as usize)
                    .map(|flight| (flight.bytes.clone(), flight.dispatched))
            };
            let Some((bytes, dispatched)) = next else { return true };
            let sent = match &self.link {
                Link::None => return true,
                Link::Local => match self.consensus.propose(bytes.clone()).await {
                    Ok(proposed) => {
                        self.shared.stats.proposal_bytes.add(bytes.len() as u64, 1);
                        self.proposed.push_back(proposed);
                        true
                    }
                    Err(_) => false,
                },
                Link::Remote(conn) => {
                    let frame = leader::batch_frame(&bytes);
                    tokio::select! {
                        biased;
                        sent = conn.sender.send(frame) => sent.is_ok(),
                        _ = self.status.changed() => { self.status.mark_changed(); return true }
                    }
                }
            };
            if !sent {
                return false;
            }
            self.unsent_from += 1;
            self.shared.metrics.observe(Stage::Proposed, dispatched.elapsed());
        }
    }

    async fn send_touches(&mut self, touches: Vec<Touch>) {
        match &self.link {
            Link::None => {}
            Link::Local => self.shared.expiry.touch(touches),
            Link::Remote(conn) => {
                // A full connection is busy with batches: the next touch comes soon enough.
                let _ = conn.sender.try_send(leader::touch_frame(&touches));
            }
        }
    }

    async fn next_event(&mut self) -> Event {
        let (takes_more, waiting) = {
            let flights = self.shared.in_flight.lock();
            let takes_more = self.held.is_none() && flights.origin.is_some() && flights.has_room();
            (takes_more, !flights.batches.is_empty())
        };
        let retry_at = match (&self.link, self.leadership) {
            (Link::None, Some(_)) => keeper_rt::now() + RESEND_PAUSE,
            _ => self.progress_at + RESEND_STALL,
        };
        let timed = waiting || matches!((&self.link, self.leadership), (Link::None, Some(_)));
        let remote = match &mut self.link {
            Link::Remote(conn) => Some(&mut conn.receiver),
            Link::None | Link::Local => None,
        };
        tokio::select! {
            biased;
            changed = self.status.changed() => if changed.is_ok() { Event::Status } else { Event::Closed },
            frame = receive(remote) => {
                tracing::debug!(refused = frame.is_some(), "the leader's dispatcher sent us away");
                Event::Refused
            }
            Some(outcome) = self.proposed.next(), if !self.proposed.is_empty() => match outcome {
                Ok(_) => Event::Committed,
                Err(_) => Event::Refused,
            },
            () = self.shared.in_flight.changed.notified() => Event::Changed,
            Some(touches) = self.touches.recv() => Event::Touches(touches),
            submission = self.queue.recv(), if takes_more => match submission {
                Some(submission) => Event::Submitted(submission),
                None => Event::Closed,
            },
            () = keeper_rt::sleep_until(retry_at), if timed => Event::Stalled,
        }
    }
}

/// The only frame a leader sends is a refusal; `None` is the end of the connection.
async fn receive(remote: Option<&mut mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match remote {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}

fn push(builder: &mut BatchBuilder, submission: &Submission) {
    builder.push(
        submission.kind,
        submission.session,
        submission.generation,
        &submission.identities,
        submission.op,
        &submission.body,
    );
}
