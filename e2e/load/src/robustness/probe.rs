//! The well-behaved clients: reads and writes at a fixed moderate rate, open loop, so that a server that stands still
//! is charged for every request that was due meanwhile.
//!
//! They live on a thread of their own: the attackers' work in this process must not be measured as the server's. An
//! error or a lost connection of one of them is a failure of the server: none has done anything wrong.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::io::AsyncWriteExt;

use super::frame;
use super::raw::{RawSession, Reply};
use crate::bench::wire::i64_at;
use crate::failover::quantile;

const ROOT: &str = "/castellan-probe";
const TIMEOUT_MS: i32 = 30_000;
/// Requests a second of one client, reads and writes in turn.
const RATE: u32 = 20;
const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / RATE as u64);
/// Bytes of a value: a counter and filling.
const VALUE_BYTES: usize = 100;
/// What was asked in a window is answered within this time after it, or never.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

/// Latencies of the requests that were due in one window, microseconds.
#[derive(Clone, Debug, Default)]
pub struct Window {
    pub reads_us: Vec<u64>,
    pub writes_us: Vec<u64>,
    /// Asked and not answered yet.
    open: usize,
}

impl Window {
    /// p50, p99 and the greatest of reads and writes together.
    pub fn quantiles_us(&self) -> [u64; 3] {
        let all: Vec<u64> = self.reads_us.iter().chain(&self.writes_us).copied().collect();
        [0.5, 0.99, 1.0].map(|at| quantile(&all, at))
    }
}

#[derive(Default)]
struct Shared {
    windows: Mutex<Vec<Window>>,
    stop: AtomicBool,
    connected: AtomicUsize,
}

impl Shared {
    fn current<R>(&self, of: impl FnOnce(usize, &mut Window) -> R) -> Option<R> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let at = windows.len().checked_sub(1)?;
        Some(of(at, &mut windows[at]))
    }
}

/// A client's last acknowledged value.
#[derive(Clone, Debug)]
pub struct Acknowledged {
    node: String,
    counter: i64,
}

pub struct Probe {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Vec<Acknowledged>>>>,
}

impl Probe {
    /// `clients` of them, spread over `hosts`; returns when all are connected.
    pub async fn start(hosts: Vec<SocketAddr>, clients: usize) -> Result<Probe> {
        let mut first = RawSession::new(hosts[0], TIMEOUT_MS).await?;
        first.call(&frame::create(1, ROOT, b"", 0)).await?;
        let shared = Arc::new(Shared::default());
        let for_thread = shared.clone();
        let thread = std::thread::Builder::new().name("probe".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let start = |index: usize| {
                    let client = Client::start(hosts[index % hosts.len()], index, clients);
                    tokio::spawn(client_task(client, for_thread.clone()))
                };
                let tasks: Vec<_> = (0..clients).map(start).collect();
                let mut acknowledged = Vec::new();
                for task in tasks {
                    acknowledged.push(task.await??);
                }
                Ok(acknowledged)
            })
        })?;
        let mut probe = Probe { shared, thread: Some(thread) };
        let end = Instant::now() + ANSWER_WITHIN;
        while probe.shared.connected.load(Ordering::Relaxed) < clients {
            probe.check().await?;
            ensure!(Instant::now() < end, "the well-behaved clients cannot connect");
            tokio::time::sleep(POLL).await;
        }
        Ok(probe)
    }

    /// An error once one of the clients has failed.
    async fn check(&mut self) -> Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return self.join().map(drop);
        }
        Ok(())
    }

    fn join(&mut self) -> Result<Vec<Acknowledged>> {
        let thread = self.thread.take().context("the well-behaved clients have failed before")?;
        let ended = thread.join().map_err(|_| anyhow!("the thread of the well-behaved clients panicked"))?;
        ended.context("a well-behaved client failed")
    }

    /// Requests due from now on belong to a new window.
    pub fn begin_window(&self) {
        self.shared.windows.lock().unwrap_or_else(PoisonError::into_inner).push(Window::default());
    }

    /// Ends the window, waits until all that was due in it is answered, and returns it.
    pub async fn end_window(&mut self) -> Result<Window> {
        let at = self.shared.current(|at, _| at).context("no window was begun")?;
        self.begin_window();
        let end = Instant::now() + ANSWER_WITHIN;
        loop {
            {
                let mut windows = self.shared.windows.lock().unwrap_or_else(PoisonError::into_inner);
                if windows[at].open == 0 {
                    return Ok(std::mem::take(&mut windows[at]));
                }
            }
            self.check().await?;
            ensure!(Instant::now() < end, "a well-behaved client has waited {} s", ANSWER_WITHIN.as_secs());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Stops the clients; their last acknowledged values must be on every member.
    pub async fn finish(mut self, hosts: &[SocketAddr]) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let acknowledged = tokio::task::spawn_blocking(move || self.join()).await??;
        for host in hosts {
            let mut session = RawSession::new(*host, TIMEOUT_MS).await?;
            session.call(&frame::sync(1, ROOT)).await?;
            for Acknowledged { node, counter } in &acknowledged {
                let reply = session.call(&frame::get(2, node)).await?;
                let found = i64_at(&reply.body, 4);
                ensure!(found == Some(*counter), "LOST: {node} on {host} holds {found:?} after {counter}");
            }
        }
        Ok(())
    }
}

struct Request {
    xid: i32,
    due: Instant,
    /// `None`: no window was open.
    window: Option<usize>,
    /// The value of a write.
    writes: Option<i64>,
}

struct Client {
    session: RawSession,
    node: String,
    waiting: VecDeque<Request>,
    next_due: Instant,
    xid: i32,
    counter: i64,
    acknowledged: i64,
}

async fn client_task(
    client: impl Future<Output = Result<Client>>,
    shared: Arc<Shared>,
) -> Result<Acknowledged> {
    let mut client = client.await?;
    shared.connected.fetch_add(1, Ordering::Relaxed);
    loop {
        let stopping = shared.stop.load(Ordering::Relaxed);
        if stopping && client.waiting.is_empty() {
            return Ok(Acknowledged { node: client.node, counter: client.acknowledged });
        }
        tokio::select! {
            reply = client.session.next_reply() => {
                let reply = reply.with_context(|| format!("the connection of {} has ended", client.node))?;
                client.answered(&reply, &shared)?;
            }
            () = tokio::time::sleep_until(client.next_due.into()), if !stopping => client.ask(&shared).await?,
        }
    }
}

impl Client {
    async fn start(host: SocketAddr, index: usize, clients: usize) -> Result<Client> {
        let mut session = RawSession::new(host, TIMEOUT_MS).await?;
        let node = format!("{ROOT}/p{index:03}");
        session.call(&frame::sync(1, ROOT)).await?;
        let created = session.call(&frame::create(2, &node, &value(0), 0)).await?;
        ensure!(created.error == 0, "cannot create {node}: error {}", created.error);
        // Spread over the period, so that they do not come together.
        let next_due = Instant::now() + PERIOD * index as u32 / clients as u32;
        Ok(Client { session, node, waiting: VecDeque::new(), next_due, xid: 10, counter: 0, acknowledged: 0 })
    }

    async fn ask(&mut self, shared: &Shared) -> Result<()> {
        let due = self.next_due;
        self.next_due += PERIOD;
        self.xid += 1;
        let writes = (self.xid % 2 == 0).then(|| {
            self.counter += 1;
            self.counter
        });
        let request = match writes {
            Some(counter) => frame::set(self.xid, &self.node, &value(counter)),
            None => frame::get(self.xid, &self.node),
        };
        let window = shared.current(|at, window| {
            window.open += 1;
            at
        });
        self.waiting.push_back(Request { xid: self.xid, due, window, writes });
        self.session.stream.write_all(&request).await?;
        Ok(())
    }

    fn answered(&mut self, reply: &Reply, shared: &Shared) -> Result<()> {
        let Some(request) = self.waiting.pop_front().filter(|request| request.xid == reply.xid) else {
            bail!("{} got an answer to nothing that it asked: xid {}", self.node, reply.xid);
        };
        ensure!(reply.error == 0, "{} was answered error {}", self.node, reply.error);
        self.acknowledged = request.writes.unwrap_or(self.acknowledged);
        if let Some(at) = request.window {
            let took_us = u64::try_from(request.due.elapsed().as_micros()).unwrap_or(u64::MAX);
            let mut windows = shared.windows.lock().unwrap_or_else(PoisonError::into_inner);
            let window = &mut windows[at];
            window.open -= 1;
            if request.writes.is_some() { &mut window.writes_us } else { &mut window.reads_us }.push(took_us);
        }
        Ok(())
    }
}

fn value(counter: i64) -> Vec<u8> {
    let mut value = counter.to_be_bytes().to_vec();
    value.resize(VALUE_BYTES, b'.');
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_over_reads_and_writes_together() {
        let window = Window { reads_us: vec![1; 98], writes_us: vec![5, 9], open: 0 };
        assert_eq!(window.quantiles_us(), [1, 5, 9]);
    }
}
