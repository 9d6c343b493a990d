//! Tasks, threads and blocking work.

use crate::sim_hook::{self, TaskFuture};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use tokio::sync::oneshot;

/// The task panicked, or its runtime ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinError;

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the task ended without a result")
    }
}

impl std::error::Error for JoinError {}

/// Waits for a task's output. Dropping it lets the task run on.
pub struct JoinHandle<T>(oneshot::Receiver<T>);

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|_| JoinError)
    }
}

fn wrap<F>(future: F) -> (TaskFuture, JoinHandle<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (done, output) = oneshot::channel();
    let task = Box::pin(async move {
        // Nobody waiting for the output is not an error.
        let _ = done.send(future.await);
    });
    (task, JoinHandle(output))
}

/// Runs `future` on the current runtime; `name` labels it in traces.
#[allow(clippy::disallowed_methods)]
pub fn spawn<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (task, handle) = wrap(future);
    let mut task = Some(task);
    sim_hook::with(|sim| {
        if let Some(task) = task.take() {
            sim.spawn(name, task);
        }
    });
    if let Some(task) = task {
        tokio::spawn(task);
    }
    handle
}

/// A set of threads that tasks can be sent to: consensus has one apart from the clients', so that heavy client
/// work cannot delay heartbeats. In a simulation every pool is the one thread.
#[derive(Clone)]
pub struct Pool(Option<tokio::runtime::Handle>);

impl Pool {
    /// The runtime this is called on.
    pub fn current() -> Pool {
        Pool(if sim_hook::in_simulation() { None } else { Some(tokio::runtime::Handle::current()) })
    }

    pub fn of(handle: tokio::runtime::Handle) -> Pool {
        Pool(Some(handle))
    }

    #[allow(clippy::disallowed_methods)]
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match &self.0 {
            None => spawn(name, future),
            Some(runtime) => {
                let (task, handle) = wrap(future);
                runtime.spawn(task);
                handle
            }
        }
    }
}

/// Drives `future` on a thread of its own in production (for work that blocks, such as fsync), as a task in a
/// simulation. The future must not use tokio's timers or sockets.
#[allow(clippy::disallowed_methods)]
pub fn thread<F>(name: &'static str, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    if sim_hook::in_simulation() {
        return spawn(name, future);
    }
    let (task, handle) = wrap(future);
    std::thread::Builder::new()
        .name(name.into())
        .spawn(move || block_on(task))
        .expect("the operating system starts a thread");
    handle
}

/// Lets other tasks run before this one goes on.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs blocking work off the runtime's threads; at once, in line, in a simulation.
#[allow(clippy::disallowed_methods)]
pub async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, JoinError> {
    if sim_hook::in_simulation() {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|_| JoinError)
}

/// Drives one future on this thread, sleeping between its wake-ups. Knows no timers and no sockets.
#[allow(clippy::disallowed_methods)]
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        std::thread::park();
    }
}
