//! The checked loader: sessions that write, read, sync and watch while somebody breaks things, and a verdict after it.
//!
//! Nothing acknowledged may be lost, nothing may be applied twice, no session may end, and the history as a whole must
//! be one that a single ordered tree allows. It must never hide what it could not find out: a write whose outcome
//! stayed unknown is counted.

mod read_back;
pub mod record;
mod session;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use keeper_client::{ClientError, CreateMode, ErrorCode};
use tokio::task::JoinHandle;

pub use record::Counts;
use record::{Clock, Operation, Record};
use session::{Session, Shared};

#[derive(Clone, Debug)]
pub struct Options {
    /// `host:port` of all members, and of anything in front of them.
    pub hosts: Vec<String>,
    pub sessions: usize,
    pub session_timeout_ms: i32,
    /// Registers that all sessions write.
    pub shared_keys: usize,
    /// Of each session between two calls.
    pub pause: Duration,
    pub seed: u64,
    /// Repeated attempts to open a session, each as long as a call may wait.
    pub connect_tries: usize,
}

impl Options {
    pub fn new(hosts: Vec<String>, seed: u64) -> Options {
        Options {
            hosts,
            sessions: 12,
            session_timeout_ms: 30_000,
            shared_keys: 8,
            pause: Duration::from_millis(2),
            seed,
            connect_tries: 4,
        }
    }
}

/// Where the nodes of one run are.
#[derive(Clone, Debug)]
pub struct Paths {
    root: String,
}

impl Paths {
    fn directory(&self, session: usize) -> String {
        format!("{}/s{session}", self.root)
    }

    fn register(&self, session: usize) -> String {
        format!("{}/r{session}", self.root)
    }

    fn shared(&self, key: usize) -> String {
        format!("{}/shared{key}", self.root)
    }

    fn queue(&self) -> String {
        format!("{}/queue", self.root)
    }
}

/// A running load.
pub struct Load {
    shared: Arc<Shared>,
    sessions: Vec<JoinHandle<Result<Record>>>,
}

/// What a run showed.
#[derive(Debug)]
pub struct Verdict {
    pub counts: Counts,
    /// Empty when every promise was kept.
    pub violations: Vec<String>,
    /// Longest time in which no session got a write acknowledged.
    pub longest_gap: Duration,
    pub operations: usize,
}

const ROOT: &str = "/castellan-checked";
/// Sessions finish their last write within it, or the run has failed.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
const VIOLATIONS_SHOWN: usize = 20;

impl Load {
    /// Opens all sessions and begins.
    pub async fn start(options: Options) -> Result<Load> {
        let run =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_micros());
        let paths = Paths { root: format!("{ROOT}/{run}") };
        prepare(&options, &paths).await.context("cannot prepare the load")?;
        let shared = Arc::new(Shared {
            options,
            paths,
            clock: Clock::start(),
            stop: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
        });
        let mut sessions = Vec::new();
        for index in 0..shared.options.sessions {
            let session = Session::start(Arc::clone(&shared), index).await?;
            sessions.push(tokio::spawn(session.run()));
        }
        Ok(Load { shared, sessions })
    }

    /// Acknowledged writes up to now.
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until `more` further writes were acknowledged.
    pub async fn wait_writes(&self, more: u64, timeout: Duration) -> Result<()> {
        let goal = self.acknowledged() + more;
        let wait = async {
            while self.acknowledged() < goal {
                if self.sessions.iter().any(JoinHandle::is_finished) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(timeout, wait).await.is_err() {
            bail!("no {more} writes were acknowledged within {} s", timeout.as_secs());
        }
        Ok(())
    }

    /// Ends the load, reads everything back from `hosts` and judges.
    pub async fn finish(self, hosts: Vec<String>) -> Result<Verdict> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut records = Vec::new();
        for session in self.sessions {
            let record = tokio::time::timeout(STOP_TIMEOUT, session).await;
            records.push(record.context("a session cannot finish its last call")???);
        }
        let mut options = self.shared.options.clone();
        options.hosts = hosts;
        let mut violations = read_back::check(&options, &self.shared.paths, &records).await?;
        let mut counts = Counts::default();
        let mut operations = Vec::new();
        for record in records {
            counts.add(&record.counts);
            violations.extend(record.violations);
            operations.extend(record.operations);
        }
        if counts.sessions_lost > 0 {
            violations.push(format!("{} sessions were lost", counts.sessions_lost));
        }
        let longest_gap = longest_gap(&operations);
        Ok(Verdict { counts, violations, longest_gap, operations: operations.len() })
    }
}

impl Verdict {
    /// An error that lists what was broken.
    pub fn check(&self) -> Result<()> {
        if self.violations.is_empty() {
            return Ok(());
        }
        let shown: Vec<&str> = self.violations.iter().take(VIOLATIONS_SHOWN).map(String::as_str).collect();
        bail!("{} promises broken:\n{}", self.violations.len(), shown.join("\n"))
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let c = &self.counts;
        write!(
            f,
            "{} writes, {} reads, {} syncs, {} watch events; {} unknown outcomes ({} had been applied, {} applied by \
             the second attempt); {} reconnects, {} of {} sessions lost; longest time without a write {:.0} ms; \
             {} violations",
            c.writes,
            c.reads,
            c.syncs,
            c.events,
            c.unknown,
            c.unknown_applied,
            c.unknown_repeated,
            c.reconnects,
            c.sessions_lost,
            c.sessions,
            self.longest_gap.as_secs_f64() * 1000.0,
            self.violations.len()
        )
    }
}

async fn prepare(options: &Options, paths: &Paths) -> Result<()> {
    let client = session::connect(options).await?;
    let mut nodes = vec![ROOT.to_string(), paths.root.clone(), paths.queue()];
    nodes.extend((0..options.shared_keys).map(|key| paths.shared(key)));
    for node in nodes {
        match client.create(&node, b"first", CreateMode::Persistent).await {
            Ok(_) | Err(ClientError::Server(ErrorCode::NodeExists)) => {}
            Err(error) => return Err(error).with_context(|| format!("create {node}")),
        }
    }
    client.close().await.context("cannot close the preparing session")
}

fn longest_gap(operations: &[Operation]) -> Duration {
    let mut times: Vec<u64> = operations
        .iter()
        .filter(|operation| operation.zxid > 0)
        .map(|operation| operation.return_ns)
        .collect();
    times.sort_unstable();
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    Duration::from_nanos(gap)
}
