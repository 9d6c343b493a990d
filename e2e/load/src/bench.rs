//! The load generator: closed loop, raw frames, one thread, epoll; works on any server that speaks ZooKeeper's protocol.
//!
//! It shares the machine with the servers it measures, so it must never allocate or copy per request what it need
//! not. An error in any reply fails the row: a server that answers errors fast is not fast.

mod row;
pub mod session;
pub mod wire;

use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use rustix::event::epoll;

use crate::cpu::Meter;
use crate::random::Random;
pub use row::{Op, Row};
use session::{ANSWER_TIMEOUT, Session};

#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// Sessions are spread over them in turn.
    pub hosts: Vec<SocketAddr>,
    /// Load before the measured time.
    pub warm: Duration,
    pub measure: Duration,
    pub value_bytes: usize,
    /// Nodes each session reads and writes in the rows other than create.
    pub keys_per_session: u64,
    /// Servers whose processor time is counted.
    pub server_pids: Vec<u32>,
}

impl BenchOptions {
    pub fn new(hosts: Vec<SocketAddr>) -> BenchOptions {
        BenchOptions {
            hosts,
            warm: Duration::from_secs(2),
            measure: Duration::from_secs(5),
            value_bytes: 100,
            keys_per_session: 100,
            server_pids: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowResult {
    pub ops_per_second: f64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
    /// Requests answered inside the measured time.
    pub count: u64,
    /// Processor time of `server_pids` inside the measured time.
    pub server_cpu: Duration,
}

/// Parent of everything the generator writes.
const ROOT: &str = "/castellan-load";
/// Requests in flight while keys are made.
const SETUP_DEPTH: usize = 32;
const LATENCY_US_MAX: u64 = 120_000_000;
const EVENTS_MAX: usize = 256;
/// Of 100 requests of a mixed row.
const MIXED_GET_PERCENT: u64 = 80;

/// Runs one row and blocks until it is done. Not for an async task: give it a thread.
pub fn run_row(row: Row, options: &BenchOptions) -> Result<RowResult> {
    ensure!(!options.hosts.is_empty(), "no hosts to measure");
    let run_id = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let mut sessions = Vec::with_capacity(row.sessions);
    for index in 0..row.sessions {
        let host = options.hosts[index % options.hosts.len()];
        let mut session = Session::connect(host, None, ANSWER_TIMEOUT)?;
        session.ensure_node(ROOT)?;
        let directory = format!("{ROOT}/{run_id}-{index}");
        session.ensure_node(&directory)?;
        session.set_directory(&directory);
        session.stream.set_nonblocking(true)?;
        sessions.push(session);
    }
    let mut bench = Bench::new(sessions, options, run_id as u64)?;
    if row.op != Op::Create {
        bench.make_keys(options.keys_per_session)?;
    }
    bench.measure(row, options).with_context(|| format!("row {row} failed"))
}

struct Bench {
    sessions: Vec<Session>,
    epoll: std::os::fd::OwnedFd,
    base: Instant,
    value: Vec<u8>,
    random: Random,
    /// Next key of each session in a create row or while keys are made.
    next_key: Vec<u64>,
}

/// What a finished request is given to: when it was sent and answered, in nanoseconds since `base`, and the body.
type Done<'a> = &'a mut dyn FnMut(u64, u64, &[u8]) -> Result<()>;

impl Bench {
    fn new(sessions: Vec<Session>, options: &BenchOptions, seed: u64) -> Result<Bench> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (index, session) in sessions.iter().enumerate() {
            epoll::add(
                &epoll,
                &session.stream,
                epoll::EventData::new_u64(index as u64),
                epoll::EventFlags::IN,
            )?;
        }
        let next_key = vec![0; sessions.len()];
        let value = vec![b'x'; options.value_bytes];
        Ok(Bench { sessions, epoll, base: Instant::now(), value, random: Random::from_seed(seed), next_key })
    }

    fn now_ns(&self) -> u64 {
        self.base.elapsed().as_nanos() as u64
    }

    fn make_keys(&mut self, keys: u64) -> Result<()> {
        let mut push = |bench: &mut Bench, index: usize, now_ns: u64| {
            let key = bench.next_key[index];
            if key == keys {
                return false;
            }
            bench.next_key[index] += 1;
            bench.sessions[index].push_create(key, &bench.value, now_ns);
            true
        };
        self.drive(SETUP_DEPTH, &mut push, &mut |_, _, _| Ok(())).context("cannot make the keys")
    }

    fn measure(&mut self, row: Row, options: &BenchOptions) -> Result<RowResult> {
        let begin_ns = self.now_ns() + options.warm.as_nanos() as u64;
        let end_ns = begin_ns + options.measure.as_nanos() as u64;
        let mut latency: Histogram<u64> = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?;
        let keys = options.keys_per_session;
        let mut push = |bench: &mut Bench, index: usize, now_ns: u64| {
            if now_ns >= end_ns {
                return false;
            }
            bench.push(row.op, index, keys, now_ns);
            true
        };
        let mut cpu = Meter::new(&options.server_pids, begin_ns..=end_ns);
        let value = self.value.clone();
        self.drive(row.depth, &mut push, &mut |sent_ns, answered_ns, body| {
            // Behind the value's length.
            let got = body.get(4..4 + value.len());
            ensure!(row.op != Op::Get || got == Some(&value), "a get answered another value");
            cpu.see(answered_ns)?;
            if (begin_ns..=end_ns).contains(&answered_ns) {
                let us = (answered_ns - sent_ns).div_ceil(1000);
                latency.saturating_record(us.max(1));
            }
            Ok(())
        })?;
        ensure!(!latency.is_empty(), "no request was answered inside the measured time");
        Ok(RowResult {
            ops_per_second: latency.len() as f64 / options.measure.as_secs_f64(),
            p50_us: latency.value_at_quantile(0.5),
            p99_us: latency.value_at_quantile(0.99),
            max_us: latency.max(),
            count: latency.len(),
            server_cpu: cpu.finish()?,
        })
    }

    fn push(&mut self, op: Op, index: usize, keys: u64, now_ns: u64) {
        let random = self.random.next_u64();
        let session = &mut self.sessions[index];
        match op {
            Op::Create => {
                session.push_create(self.next_key[index], &self.value, now_ns);
                self.next_key[index] += 1;
            }
            Op::Set => session.push_set(random % keys, &self.value, now_ns),
            Op::Get => session.push_get(random % keys, now_ns),
            Op::Mixed if (random >> 32) % 100 < MIXED_GET_PERCENT => session.push_get(random % keys, now_ns),
            Op::Mixed => session.push_set(random % keys, &self.value, now_ns),
        }
    }

    /// The closed loop: keeps `depth` requests of each session in flight until `push` declines for all and the
    /// last reply is in.
    fn drive(
        &mut self,
        depth: usize,
        push: &mut dyn FnMut(&mut Bench, usize, u64) -> bool,
        done: Done<'_>,
    ) -> Result<()> {
        let mut in_flight = 0;
        for index in 0..self.sessions.len() {
            in_flight += self.fill(index, depth, push)?;
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let timeout = rustix::event::Timespec { tv_sec: ANSWER_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        while in_flight > 0 {
            events.clear();
            let count =
                epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
            ensure!(count > 0, "no answer for {} s", ANSWER_TIMEOUT.as_secs());
            for event in &events {
                let index = event.data.u64() as usize;
                in_flight -= self.receive(index, done)?;
                in_flight += self.fill(index, depth, push)?;
            }
        }
        Ok(())
    }

    /// Returns the number of replies.
    fn receive(&mut self, index: usize, done: Done<'_>) -> Result<usize> {
        let base = self.base;
        let mut answered_ns = None;
        let session = &mut self.sessions[index];
        let before = session.in_flight();
        session.receive(&mut |reply| {
            ensure!(reply.error == 0, "a request was answered with error {}", reply.error);
            // One clock reading for all replies of one read.
            let answered_ns = *answered_ns.get_or_insert_with(|| base.elapsed().as_nanos() as u64);
            done(reply.sent_ns, answered_ns, reply.body)
        })?;
        Ok(before - session.in_flight())
    }

    /// Returns the number of requests handed over.
    fn fill(
        &mut self,
        index: usize,
        depth: usize,
        push: &mut dyn FnMut(&mut Bench, usize, u64) -> bool,
    ) -> Result<usize> {
        let now_ns = self.now_ns();
        let before = self.sessions[index].in_flight();
        while self.sessions[index].in_flight() < depth && push(self, index, now_ns) {}
        let session = &mut self.sessions[index];
        let pushed = session.in_flight() - before;
        // A full socket is rare: only then is writability asked for, and it stays asked until all is gone.
        let interest = match session.flush()? {
            true if pushed == 0 => return Ok(0),
            true => epoll::EventFlags::IN,
            false => epoll::EventFlags::IN | epoll::EventFlags::OUT,
        };
        if interest.contains(epoll::EventFlags::OUT) || session.wants_out {
            session.wants_out = interest.contains(epoll::EventFlags::OUT);
            epoll::modify(&self.epoll, &session.stream, epoll::EventData::new_u64(index as u64), interest)?;
        }
        Ok(pushed)
    }
}
