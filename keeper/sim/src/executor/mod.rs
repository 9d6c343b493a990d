//! The deterministic executor: one thread, simulated time, and tasks that belong to nodes.
//!
//! Which of the ready tasks runs next, and how long its poll takes, comes from the seed; when none is ready, time
//! moves to the next timer. It must never read a real clock or let anything but the seed decide.

mod clock;
mod hook;
mod panics;
mod run;
mod sleep;
mod task;

#[cfg(test)]
mod tests;

use crate::random::{Stream, hash_words};
use clock::Clocks;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;
use task::{ReadySet, Task, TaskId};

pub use panics::position;
pub use run::{Ended, Finished, NodePanic, Options, run};
pub use sleep::SimSleep;
pub(crate) use task::lock;

/// A simulated process. [`OUTSIDE`] stands for everything that never crashes: network, clients, oracle.
pub type NodeId = u32;
pub const OUTSIDE: NodeId = 0;

/// What a trace line is about; the first word of what is hashed.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub enum Event {
    Poll = 1,
    Crash,
    Point,
    Frame,
    ClientBytes,
    DiskSync,
    PowerLoss,
    Apply,
    Reply,
    Misfortune,
}

/// What happens to a node that reaches a crash point (`keeper_rt::point`).
type PointHandler = Arc<dyn Fn(NodeId, &'static str) + Send + Sync>;

struct State {
    tasks: BTreeMap<TaskId, Task>,
    next_task: TaskId,
    /// Ordered by deadline, then by creation.
    timers: BTreeMap<(u64, u64), Waker>,
    next_timer: u64,
    clocks: Clocks,
    random: Stream,
    trace: u64,
    panics: Vec<NodePanic>,
    /// Chance of a power cut at a point: one in so many; 0 for never.
    point_cut_one_in: u64,
    /// How often each point was reached.
    points_reached: BTreeMap<&'static str, u64>,
    point_handler: Option<PointHandler>,
    /// What the current poll asked for, to be done before any other task runs.
    after_poll: Vec<Box<dyn FnOnce() + Send>>,
    planted: Option<&'static str>,
}

struct Shared {
    state: Mutex<State>,
    ready: Arc<ReadySet>,
    now_ns: AtomicU64,
    node: AtomicU32,
    polls: AtomicU64,
}

/// A handle on the running simulation. Cheap to clone; usable only on the simulation's own thread.
#[derive(Clone)]
pub struct Simulator(Arc<Shared>);

impl Simulator {
    fn new(seed: u64, planted: Option<&'static str>) -> Simulator {
        let state = State {
            tasks: BTreeMap::new(),
            next_task: 1,
            timers: BTreeMap::new(),
            next_timer: 1,
            clocks: Clocks::default(),
            random: Stream::from_seed(seed),
            trace: 0,
            panics: Vec::new(),
            point_cut_one_in: 0,
            points_reached: BTreeMap::new(),
            point_handler: None,
            after_poll: Vec::new(),
            planted,
        };
        Simulator(Arc::new(Shared {
            state: Mutex::new(state),
            ready: Arc::default(),
            now_ns: AtomicU64::new(0),
            node: AtomicU32::new(OUTSIDE),
            polls: AtomicU64::new(0),
        }))
    }

    /// True simulated time since the beginning.
    pub fn now_ns(&self) -> u64 {
        self.0.now_ns.load(Relaxed)
    }

    pub fn current_node(&self) -> NodeId {
        self.0.node.load(Relaxed)
    }

    pub fn polls(&self) -> u64 {
        self.0.polls.load(Relaxed)
    }

    pub fn random_u64(&self) -> u64 {
        lock(&self.0.state).random.next_u64()
    }

    /// Uniform in `0..bound`; 0 where `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        lock(&self.0.state).random.below(bound)
    }

    pub fn one_in(&self, chances: u64) -> bool {
        lock(&self.0.state).random.one_in(chances)
    }

    /// Lets the seed's own stream decide something longer.
    pub fn with_random<R>(&self, decide: impl FnOnce(&mut Stream) -> R) -> R {
        decide(&mut lock(&self.0.state).random)
    }

    /// Makes something that happened part of the trace hash.
    pub fn trace(&self, event: Event, value: u64) {
        let mut state = lock(&self.0.state);
        state.trace = hash_words(&[state.trace, self.now_ns(), event as u64, value]);
    }

    pub fn trace_hash(&self) -> u64 {
        lock(&self.0.state).trace
    }

    pub fn panicked(&self) -> bool {
        !lock(&self.0.state).panics.is_empty()
    }

    pub fn spawn_on(
        &self,
        node: NodeId,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let waker = {
            let mut state = lock(&self.0.state);
            let id = state.next_task;
            state.next_task += 1;
            let task = Task::new(id, node, name, Box::pin(task), self.0.ready.clone());
            let waker = task.waker.clone();
            state.tasks.insert(id, task);
            waker
        };
        waker.wake();
    }

    /// Ends every task of `node` at whatever await point it stands.
    pub fn crash(&self, node: NodeId) {
        self.trace(Event::Crash, u64::from(node));
        let polled = self.0.node.swap(node, Relaxed);
        // Destructors run as the dead node; whatever they spawn goes too.
        loop {
            let dead = self.take_tasks(|task| task.node == node);
            if dead.is_empty() {
                break;
            }
            drop(dead);
        }
        self.0.node.store(polled, Relaxed);
    }

    fn take_tasks(&self, chosen: impl Fn(&Task) -> bool) -> Vec<Task> {
        let mut state = lock(&self.0.state);
        state.tasks.extract_if(.., |_, task| chosen(task)).map(|(_, task)| task).collect()
    }

    /// Sleeps in true time, whatever the node's clock says.
    pub fn sleep(&self, duration: Duration) -> SimSleep {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sleep_until(self.now_ns().saturating_add(ns))
    }

    pub fn sleep_ms(&self, ms: u64) -> SimSleep {
        self.sleep(Duration::from_millis(ms))
    }

    pub fn sleep_until(&self, true_ns: u64) -> SimSleep {
        SimSleep::new(self.clone(), true_ns)
    }

    fn sleep_until_local(&self, node: NodeId, local_ns: u64) -> SimSleep {
        let deadline = lock(&self.0.state).clocks.true_ns(node, local_ns);
        self.sleep_until(deadline)
    }

    fn set_timer(&self, old: Option<(u64, u64)>, deadline_ns: u64, waker: &Waker) -> (u64, u64) {
        // Wakers are dropped outside the lock: a combinator's waker may own more than it seems.
        let (timer, replaced) = {
            let mut state = lock(&self.0.state);
            let timer = old.unwrap_or_else(|| {
                state.next_timer += 1;
                (deadline_ns, state.next_timer)
            });
            (timer, state.timers.insert(timer, waker.clone()))
        };
        drop(replaced);
        timer
    }

    fn clear_timer(&self, timer: (u64, u64)) {
        let removed = lock(&self.0.state).timers.remove(&timer);
        drop(removed);
    }

    /// A new process of `node` begins: its monotonic clock starts anew at up to 2 % off the true speed.
    pub fn restart_clock(&self, node: NodeId) {
        let mut state = lock(&self.0.state);
        let rate_ppm = 980_000 + state.random.below(40_001);
        state.clocks.restart(node, self.now_ns(), rate_ppm);
    }

    pub fn jump_wall_clock(&self, node: NodeId, by_ms: i64) {
        lock(&self.0.state).clocks.jump_wall(node, by_ms);
    }

    pub fn node_monotonic_ns(&self, node: NodeId) -> u64 {
        lock(&self.0.state).clocks.monotonic_ns(node, self.now_ns())
    }

    pub fn node_wall_ms(&self, node: NodeId) -> i64 {
        lock(&self.0.state).clocks.wall_ms(node, self.now_ns())
    }

    /// From now on one in `one_in` crash points, fewer of those reached often, costs the node its power: `handler` is called right after the
    /// poll that reached it, before any other task runs. 0 turns it off.
    pub fn cut_power_at_points(
        &self,
        one_in: u64,
        handler: impl Fn(NodeId, &'static str) + Send + Sync + 'static,
    ) {
        let mut state = lock(&self.0.state);
        state.point_cut_one_in = one_in;
        state.point_handler = Some(Arc::new(handler));
    }

    pub fn spare_points(&self) {
        lock(&self.0.state).point_cut_one_in = 0;
    }

    /// Whether the fault of this name is planted in this run.
    pub fn is_planted(&self, name: &str) -> bool {
        lock(&self.0.state).planted == Some(name)
    }

    fn reached_point(&self, name: &'static str) {
        let node = self.current_node();
        let mut state = lock(&self.0.state);
        if node == OUTSIDE || state.point_cut_one_in == 0 {
            return;
        }
        let reached = state.points_reached.entry(name).or_insert(0);
        *reached += 1;
        // A point that stands in every write would else cost the power all the time.
        let one_in = (*reached / 2).max(state.point_cut_one_in);
        if !state.random.one_in(one_in) {
            return;
        }
        if let Some(handler) = state.point_handler.clone() {
            let simulator = self.clone();
            state.after_poll.push(Box::new(move || {
                simulator.trace(Event::Point, u64::from(node));
                handler(node, name);
            }));
        }
    }

    /// Does `work` right after the current poll, before any other task runs: for what ends the process that asks.
    pub fn after_this_poll(&self, work: impl FnOnce() + Send + 'static) {
        lock(&self.0.state).after_poll.push(Box::new(work));
    }

    fn do_after_poll(&self) {
        let work = std::mem::take(&mut lock(&self.0.state).after_poll);
        work.into_iter().for_each(|work| work());
    }
}
