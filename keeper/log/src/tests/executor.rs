//! A small simulation: one thread, tasks in a random but repeatable order, a clock that jumps. Dropping it is a
//! crash of the process.

use keeper_rt::{Installed, Simulation, SleepFuture, TaskFuture};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Task {
    future: TaskFuture,
    is_ready: Arc<Flag>,
}

type Timers = Arc<Mutex<BTreeMap<(u64, u64), Waker>>>;

pub struct Sim {
    spawned: RefCell<Vec<Task>>,
    timers: Timers,
    now_ns: Arc<Mutex<u64>>,
    random: Cell<u64>,
    /// The crash point to stop at, and how many times it is passed first.
    stop_at: RefCell<Option<(&'static str, u64)>>,
    is_stopped: Cell<bool>,
    pub points: RefCell<BTreeMap<&'static str, u64>>,
}

impl Simulation for Sim {
    fn spawn(&self, _name: &'static str, future: TaskFuture) {
        let is_ready = Arc::new(Flag(AtomicBool::new(true)));
        self.spawned.borrow_mut().push(Task { future, is_ready });
    }

    fn now_ns(&self) -> u64 {
        *self.now_ns.lock().unwrap()
    }

    fn wall_ms(&self) -> i64 {
        0
    }

    fn sleep_until(&self, deadline_ns: u64) -> SleepFuture {
        let (timers, now_ns, key) = (self.timers.clone(), self.now_ns.clone(), self.random_u64());
        Box::pin(std::future::poll_fn(move |cx| {
            if deadline_ns <= *now_ns.lock().unwrap() {
                return Poll::Ready(());
            }
            timers.lock().unwrap().insert((deadline_ns, key), cx.waker().clone());
            Poll::Pending
        }))
    }

    fn random_u64(&self) -> u64 {
        let mut state = self.random.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn point(&self, name: &'static str) {
        *self.points.borrow_mut().entry(name).or_default() += 1;
        let stop_at = &mut *self.stop_at.borrow_mut();
        if let Some((stop_name, passes)) = stop_at
            && *stop_name == name
        {
            if *passes == 0 {
                self.is_stopped.set(true);
            }
            *passes = passes.saturating_sub(1);
        }
    }
}

/// One life of a process.
pub struct Executor {
    pub sim: Rc<Sim>,
    tasks: Vec<Task>,
    _installed: Installed,
}

impl Executor {
    pub fn new(seed: u64) -> Executor {
        let sim = Rc::new(Sim {
            spawned: RefCell::default(),
            timers: Timers::default(),
            now_ns: Arc::new(Mutex::new(3_600_000_000_000)),
            random: Cell::new(seed.wrapping_mul(2).wrapping_add(0x9e37_79b9)),
            stop_at: RefCell::new(None),
            is_stopped: Cell::new(false),
            points: RefCell::default(),
        });
        Executor { sim: sim.clone(), tasks: Vec::new(), _installed: keeper_rt::install(sim) }
    }

    /// Ends the next `run` when this crash point is reached, after it was passed so many times.
    pub fn stop_at(&self, name: &'static str, passes: u64) {
        *self.sim.stop_at.borrow_mut() = Some((name, passes));
    }

    /// Drives `future` and all spawned tasks until it is done. `None` after so many polls, or at a crash point.
    /// Panics if nothing can go on any more.
    pub fn run<F: Future>(&mut self, polls_max: u64, future: F) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let root = Arc::new(Flag(AtomicBool::new(true)));
        for _ in 0..polls_max {
            self.tasks.append(&mut self.sim.spawned.borrow_mut());
            let mut ready: Vec<Option<usize>> = (0..self.tasks.len())
                .filter(|at| self.tasks[*at].is_ready.0.load(Ordering::Relaxed))
                .map(Some)
                .collect();
            if root.0.load(Ordering::Relaxed) {
                ready.push(None);
            }
            if ready.is_empty() {
                self.fire_timer();
                continue;
            }
            let chosen = ready[(self.sim.random_u64() % ready.len() as u64) as usize];
            match chosen {
                None => {
                    root.0.store(false, Ordering::Relaxed);
                    let waker = Waker::from(root.clone());
                    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                        return Some(output);
                    }
                }
                Some(at) => self.poll_task(at),
            }
            if self.sim.is_stopped.get() {
                return None;
            }
        }
        None
    }

    /// Runs `future` to its end.
    pub fn finish<F: Future>(&mut self, future: F) -> F::Output {
        self.run(1_000_000, future).expect("it ends")
    }

    fn poll_task(&mut self, at: usize) {
        let task = &mut self.tasks[at];
        task.is_ready.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(task.is_ready.clone());
        let future: Pin<&mut _> = task.future.as_mut();
        if future.poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(self.tasks.remove(at));
        }
    }

    fn fire_timer(&mut self) {
        let first = self.sim.timers.lock().unwrap().pop_first();
        let ((deadline_ns, _), waker) = first.expect("deadlock: nothing is ready and no timer runs");
        let mut now_ns = self.sim.now_ns.lock().unwrap();
        *now_ns = (*now_ns).max(deadline_ns);
        waker.wake();
    }
}
