//! One direction of a connection: takes what one end sends and gives it to the other end later, in order.

use super::SimNet;
use crate::executor::{Event, NodeId, SimSleep};
use crate::limits::FRAMES_UNDER_WAY_MAX;
use crate::random::{hash_bytes, hash_words};
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::watch;

/// How often a stalled connection looks whether the partition is over.
const STALL_CHECK_MS: u64 = 10;

/// Where the sending end's messages come from.
pub(crate) trait Source {
    /// `None` once the end is closed or its process is dead.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// Where the receiving end's messages go.
pub(crate) trait Sink {
    /// `false` once the receiving end is gone.
    fn put(&mut self, bytes: Bytes) -> impl Future<Output = bool> + Send;
}

enum Next {
    Sent(Bytes),
    Closed,
    Due,
}

/// One direction of a connection.
pub(crate) struct Link {
    net: SimNet,
    from: NodeId,
    to: NodeId,
    broken: watch::Sender<bool>,
    /// The sender's losses of power when the connection began.
    power_losses: u64,
    /// A message stalled for longer breaks the connection.
    patience_ns: u64,
    event: Event,
}

impl Link {
    pub(crate) fn new(net: &SimNet, from: NodeId, to: NodeId, broken: &watch::Sender<bool>) -> Link {
        let patience_ms = net.simulator.with_random(|random| match random.one_in(4) {
            true => 10_000 + random.below(20_000),
            false => 300 + random.below(2_500),
        });
        Link {
            net: net.clone(),
            from,
            to,
            broken: broken.clone(),
            power_losses: net.power_losses(from),
            patience_ns: patience_ms * 1_000_000,
            event: Event::Frame,
        }
    }

    pub(crate) fn of_client(mut self) -> Link {
        self.event = Event::ClientBytes;
        self
    }

    /// Runs until either end or the connection is gone; then the other direction ends too.
    pub(super) async fn run(self, source: impl Source + Send, sink: impl Sink + Send) {
        let mut breaks = self.broken.subscribe();
        {
            let carry = std::pin::pin!(self.carry(source, sink));
            let reset = std::pin::pin!(breaks.wait_for(|broken| *broken));
            tokio::select! {
                biased;
                _ = reset => {}
                () = carry => {}
            }
        }
        self.broken.send_replace(true);
    }

    async fn carry(&self, mut source: impl Source, mut sink: impl Sink) {
        let simulator = &self.net.simulator;
        let mut under_way: VecDeque<(u64, Bytes)> = VecDeque::new();
        let mut arrives_ns = 0;
        let mut open = true;
        loop {
            if !open && under_way.is_empty() {
                return self.close(arrives_ns).await;
            }
            match self.next(&mut source, &under_way, open).await {
                Next::Sent(bytes) => {
                    let delay_ns = u64::try_from(self.net.delay().as_nanos()).unwrap_or(0);
                    arrives_ns = arrives_ns.max(simulator.now_ns() + delay_ns);
                    under_way.push_back((arrives_ns, bytes));
                }
                Next::Closed => open = false,
                Next::Due => {
                    let Some((_, bytes)) = under_way.pop_front() else { continue };
                    if self.net.power_losses(self.from) != self.power_losses {
                        under_way.clear();
                        continue;
                    }
                    if !self.pass_partitions().await {
                        return;
                    }
                    let words = [u64::from(self.from), u64::from(self.to), hash_bytes(&bytes)];
                    simulator.trace(self.event, hash_words(&words));
                    if !sink.put(bytes).await {
                        return;
                    }
                }
            }
        }
    }

    /// The next thing to happen: a message due at the far end goes before one to be taken over.
    async fn next(&self, source: &mut impl Source, under_way: &VecDeque<(u64, Bytes)>, open: bool) -> Next {
        let mut due: Option<SimSleep> =
            under_way.front().map(|(arrives_ns, _)| self.net.simulator.sleep_until(*arrives_ns));
        let takes_more = open && under_way.len() < FRAMES_UNDER_WAY_MAX;
        std::future::poll_fn(move |cx| {
            if let Some(sleep) = &mut due
                && Pin::new(sleep).poll(cx).is_ready()
            {
                return Poll::Ready(Next::Due);
            }
            if takes_more && let Poll::Ready(next) = source.poll_next(cx) {
                return Poll::Ready(next.map_or(Next::Closed, Next::Sent));
            }
            Poll::Pending
        })
        .await
    }

    /// Waits while nothing passes. `false`: for too long, the connection breaks.
    async fn pass_partitions(&self) -> bool {
        let simulator = &self.net.simulator;
        let since = simulator.now_ns();
        while self.net.is_blocked(self.from, self.to) {
            if simulator.now_ns() - since > self.patience_ns {
                return false;
            }
            simulator.sleep_ms(STALL_CHECK_MS).await;
        }
        true
    }

    /// The end of the sender reaches the far end, unless its machine cannot tell.
    async fn close(&self, arrives_ns: u64) {
        let simulator = &self.net.simulator;
        let delay_ns = u64::try_from(self.net.delay().as_nanos()).unwrap_or(0);
        simulator.sleep_until(arrives_ns.max(simulator.now_ns() + delay_ns)).await;
        while self.net.is_silent(self.from) || self.net.is_blocked(self.from, self.to) {
            simulator.sleep_ms(STALL_CHECK_MS).await;
        }
    }
}

/// Starts both directions between two ends that read and write messages.
pub(crate) fn connect_streams<A, B>(
    net: &SimNet,
    from: NodeId,
    to: NodeId,
    near: A,
    far: B,
) -> watch::Sender<bool>
where
    A: SplitEnd,
    B: SplitEnd,
{
    let broken = net.register(from, to);
    let (near_source, near_sink) = near.split();
    let (far_source, far_sink) = far.split();
    net.start_pump(Link::new(net, from, to, &broken).of_client(), near_source, far_sink);
    net.start_pump(Link::new(net, to, from, &broken).of_client(), far_source, near_sink);
    broken
}

/// An end of a connection that falls into a reading and a writing half.
pub(crate) trait SplitEnd {
    type Source: Source + Send + 'static;
    type Sink: Sink + Send + 'static;
    fn split(self) -> (Self::Source, Self::Sink);
}
