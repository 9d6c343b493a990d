//! Monotonic time, sleeping, and the wall clock.

use crate::sim_hook::{self, SleepFuture};
use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the monotonic clock stands when the process starts: openraft subtracts durations from early instants.
const START_NS: u64 = 3_600_000_000_000;

/// A point of this node's monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    pub fn elapsed(self) -> Duration {
        now() - self
    }

    pub fn as_nanos(self) -> u64 {
        self.0
    }

    pub fn saturating_duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(duration)))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

#[allow(clippy::disallowed_methods)]
fn process_start() -> std::time::Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    *START.get_or_init(std::time::Instant::now)
}

pub fn now() -> Instant {
    let ns =
        sim_hook::with(|sim| sim.now_ns()).unwrap_or_else(|| START_NS + nanos(process_start().elapsed()));
    Instant(ns)
}

/// Milliseconds since the Unix epoch by the wall clock.
#[allow(clippy::disallowed_methods)]
pub fn wall_ms() -> i64 {
    sim_hook::with(|sim| sim.wall_ms()).unwrap_or_else(|| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
    })
}

/// Completes at its deadline.
pub struct Sleep(Inner);

enum Inner {
    Tokio(Pin<Box<tokio::time::Sleep>>),
    Simulated(SleepFuture),
}

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.get_mut().0 {
            Inner::Tokio(sleep) => sleep.as_mut().poll(cx),
            Inner::Simulated(sleep) => sleep.as_mut().poll(cx),
        }
    }
}

pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(now() + duration)
}

#[allow(clippy::disallowed_methods)]
pub fn sleep_until(deadline: Instant) -> Sleep {
    match sim_hook::with(|sim| sim.sleep_until(deadline.0)) {
        Some(sleep) => Sleep(Inner::Simulated(sleep)),
        None => Sleep(Inner::Tokio(Box::pin(tokio::time::sleep(deadline - now())))),
    }
}

/// The deadline passed before the future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

/// Drives `future` until it is ready or `limit` has passed. A ready future wins over a passed deadline.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, Elapsed> {
    let mut future = std::pin::pin!(future);
    let mut sleep = sleep(limit);
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut sleep).poll(cx).map(|()| Err(Elapsed))
    })
    .await
}

/// Ticks at a fixed period, counted from the end of the last tick: a late tick is never made up for.
pub struct Interval {
    period: Duration,
}

pub fn interval(period: Duration) -> Interval {
    Interval { period }
}

impl Interval {
    pub async fn tick(&mut self) {
        sleep(self.period).await;
    }
}
