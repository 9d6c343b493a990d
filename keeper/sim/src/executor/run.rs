//! The loop: choose a ready task, poll it, let time pass.

use super::hook::Hook;
use super::panics;
use super::task::{BoxedTask, TaskId, lock};
use super::{Event, NodeId, OUTSIDE, Simulator};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A seeded choice among the ready tasks; without it the oldest task goes first.
    pub explore: bool,
    /// A poll takes up to so long.
    pub poll_cost_ns_max: u64,
    /// More polls than this are a livelock.
    pub polls_max: u64,
    /// Simulated time after which a run is given up.
    pub time_max: Duration,
    /// End the run at the first panic; else go on without the task.
    pub stop_on_panic: bool,
    /// The fault that is planted (`keeper_rt::planted!`), to see whether it is found.
    pub planted: Option<&'static str>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            explore: true,
            poll_cost_ns_max: 2_000,
            polls_max: 30_000_000,
            time_max: Duration::from_secs(3_600),
            stop_on_panic: true,
            planted: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePanic {
    pub node: NodeId,
    pub task: &'static str,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Completed,
    /// A task panicked.
    Panicked,
    /// No task is ready and no timer is set.
    Deadlock,
    /// Too many polls.
    Livelock,
    TimeUp,
}

/// What is left of a run.
#[derive(Debug)]
pub struct Finished<T> {
    pub output: Option<T>,
    pub ended: Ended,
    pub trace: u64,
    pub polls: u64,
    pub simulated: Duration,
    pub panics: Vec<NodePanic>,
}

/// Runs what `scenario` returns, as [`OUTSIDE`], until it ends; then drops everything that still runs.
pub fn run<T, F>(seed: u64, options: Options, scenario: impl FnOnce(Simulator) -> F) -> Finished<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let simulator = Simulator::new(seed, options.planted);
    let quiet = panics::keep_quiet(&simulator);
    let installed = keeper_rt::install(Rc::new(Hook(simulator.clone())));
    let output = Arc::new(Mutex::new(None));
    let main = scenario(simulator.clone());
    let slot = output.clone();
    simulator.spawn_on(OUTSIDE, "scenario", async move {
        let value = main.await;
        *lock(&slot) = Some(value);
    });
    let ended = simulator.turn_until(&options, || lock(&output).is_some());
    let trace = simulator.trace_hash();
    simulator.tear_down();
    drop(installed);
    drop(quiet);
    let output = lock(&output).take();
    Finished {
        output,
        ended,
        trace,
        polls: simulator.polls(),
        simulated: Duration::from_nanos(simulator.now_ns()),
        panics: std::mem::take(&mut lock(&simulator.0.state).panics),
    }
}

impl Simulator {
    fn turn_until(&self, options: &Options, done: impl Fn() -> bool) -> Ended {
        let time_max_ns = u64::try_from(options.time_max.as_nanos()).unwrap_or(u64::MAX);
        loop {
            self.fire_timers();
            let choice = self.0.ready.take(|count| self.choose(options, count));
            match choice {
                Some(id) => self.poll_task(id, options),
                None if !self.jump_to_next_timer() => return Ended::Deadlock,
                None => continue,
            }
            self.do_after_poll();
            if done() {
                return Ended::Completed;
            }
            if options.stop_on_panic && self.panicked() {
                return Ended::Panicked;
            }
            if self.polls() > options.polls_max {
                return Ended::Livelock;
            }
            if self.now_ns() > time_max_ns {
                return Ended::TimeUp;
            }
        }
    }

    fn choose(&self, options: &Options, count: usize) -> usize {
        if !options.explore || count == 1 {
            return 0;
        }
        usize::try_from(self.below(count as u64)).unwrap_or(0)
    }

    /// Wakes whatever waits for a time that has come.
    fn fire_timers(&self) {
        let now = self.now_ns();
        loop {
            let waker = {
                let mut state = lock(&self.0.state);
                match state.timers.first_entry() {
                    Some(timer) if timer.key().0 <= now => timer.remove(),
                    _ => return,
                }
            };
            waker.wake();
        }
    }

    fn jump_to_next_timer(&self) -> bool {
        let next = lock(&self.0.state).timers.first_key_value().map(|((deadline, _), _)| *deadline);
        let Some(deadline) = next else { return false };
        self.0.now_ns.store(deadline.max(self.now_ns()), Relaxed);
        true
    }

    fn poll_task(&self, id: TaskId, options: &Options) {
        let Some((mut future, waker, node, name)) = self.begin_poll(id) else { return };
        self.0.polls.fetch_add(1, Relaxed);
        self.trace(Event::Poll, id);
        self.0.node.store(node, Relaxed);
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
            future.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        let cost = self.below(options.poll_cost_ns_max + 1);
        self.0.now_ns.fetch_add(cost, Relaxed);
        match result {
            Ok(Poll::Pending) => self.put_back(id, future),
            Ok(Poll::Ready(())) => self.remove(id, future),
            Err(panic) => {
                let message = panics::describe(&*panic);
                lock(&self.0.state).panics.push(NodePanic { node, task: name, message });
                self.remove(id, future);
            }
        }
        self.0.node.store(OUTSIDE, Relaxed);
    }

    fn begin_poll(&self, id: TaskId) -> Option<(BoxedTask, Waker, NodeId, &'static str)> {
        let mut state = lock(&self.0.state);
        let task = state.tasks.get_mut(&id)?;
        task.readiness.taken();
        Some((task.future.take()?, task.waker.clone(), task.node, task.name))
    }

    fn put_back(&self, id: TaskId, future: BoxedTask) {
        let crashed = {
            let mut state = lock(&self.0.state);
            match state.tasks.get_mut(&id) {
                Some(task) => {
                    task.future = Some(future);
                    None
                }
                None => Some(future),
            }
        };
        // Its node crashed during the poll: it ends now, outside the lock.
        drop_quietly(crashed);
    }

    fn remove(&self, id: TaskId, future: BoxedTask) {
        drop_quietly(future);
        let task = lock(&self.0.state).tasks.remove(&id);
        drop(task);
    }

    /// Drops all tasks while the hook still answers: destructors may sleep, draw or spawn.
    fn tear_down(&self) {
        lock(&self.0.state).point_handler = None;
        lock(&self.0.state).after_poll.clear();
        loop {
            let tasks = self.take_tasks(|_| true);
            if tasks.is_empty() {
                break;
            }
            for task in tasks {
                self.0.node.store(task.node, Relaxed);
                drop_quietly(task);
            }
        }
        self.0.node.store(OUTSIDE, Relaxed);
    }
}

/// A destructor that panics after a panic must not end the simulation itself.
fn drop_quietly<T>(value: T) {
    let _ = std::panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
}
