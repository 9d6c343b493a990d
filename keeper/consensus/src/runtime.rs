//! openraft's runtime over `keeper_rt`: the same Raft runs on tokio and inside the simulator. Channels and locks are
//! tokio's, which run on any executor. Must never spawn, sleep or draw random numbers in another way.

use openraft_rt::{AsyncRuntime, OptionalSend};
use openraft_rt_tokio::{TokioMpsc, TokioMutex, TokioOneshot, TokioWatch};
use std::future::Future;
use std::io;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Only `run`, for the conformance tests, makes a value of it.
#[derive(Debug)]
pub struct Rt(tokio::runtime::Runtime);

/// `keeper_rt::Instant` with openraft's trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RtInstant(keeper_rt::Instant);

impl RtInstant {
    pub fn into_inner(self) -> keeper_rt::Instant {
        self.0
    }
}

impl Add<Duration> for RtInstant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        RtInstant(self.0 + duration)
    }
}

impl AddAssign<Duration> for RtInstant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration;
    }
}

impl Sub<Duration> for RtInstant {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        RtInstant(self.0 - duration)
    }
}

impl SubAssign<Duration> for RtInstant {
    fn sub_assign(&mut self, duration: Duration) {
        self.0 -= duration;
    }
}

impl Sub<Self> for RtInstant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.0 - earlier.0
    }
}

impl openraft_rt::Instant for RtInstant {
    fn now() -> Self {
        RtInstant(keeper_rt::now())
    }
}

/// A future with a deadline. A ready future wins over a passed deadline.
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: keeper_rt::Sleep,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, keeper_rt::Elapsed>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut self.sleep).poll(cx).map(|()| Err(keeper_rt::Elapsed))
    }
}

impl AsyncRuntime for Rt {
    type JoinError = keeper_rt::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = keeper_rt::JoinHandle<T>;
    type Sleep = keeper_rt::Sleep;
    type Instant = RtInstant;
    type TimeoutError = keeper_rt::Elapsed;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Timeout<T>;
    type ThreadLocalRng = keeper_rt::Rng;
    type Mpsc = TokioMpsc;
    type Watch = TokioWatch;
    type Oneshot = TokioOneshot;
    type Mutex<T: OptionalSend + 'static> = TokioMutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        keeper_rt::spawn("raft", future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        keeper_rt::sleep(duration)
    }

    fn sleep_until(deadline: RtInstant) -> Self::Sleep {
        keeper_rt::sleep_until(deadline.0)
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(duration: Duration, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: keeper_rt::sleep(duration) }
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(deadline: RtInstant, future: F) -> Timeout<F> {
        Timeout { future: Box::pin(future), sleep: keeper_rt::sleep_until(deadline.0) }
    }

    /// A task of ours ends without a result only by a panic, or with its whole runtime.
    fn is_panic(_: &Self::JoinError) -> bool {
        true
    }

    fn thread_rng() -> keeper_rt::Rng {
        keeper_rt::rng()
    }

    fn new(threads: usize) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Rt(builder.worker_threads(threads).enable_all().build().expect("the operating system starts threads"))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }

    async fn spawn_blocking<F, T>(work: F) -> Result<T, io::Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        keeper_rt::blocking(work).await.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::Rt;

    #[test]
    fn the_runtime_passes_openrafts_conformance_suite() {
        openraft_rt::testing::Suite::<Rt>::test_all();
    }
}
