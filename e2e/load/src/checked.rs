//! The checked loader: sessions that write, read, sync and watch while somebody breaks things, and a verdict after it.
//!
//! Nothing acknowledged may be lost, nothing may be applied twice, no session may end, and the history as a whole must
//! be one that a single ordered tree allows. It must never hide what it could not find out: a write whose outcome
//! stayed unknown is counted.

mod read_back;
pub mod record;
mod session;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use keeper_client::{ClientError, CreateMode, ErrorCode};
use keeper_history::{History, Kind, Operation, Outcome, Report, Seen};
use tokio::task::JoinHandle;

pub use record::Counts;
use record::{Clock, Record};
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
    /// For one attempt at one host.
    pub connect_timeout: Duration,
    pub seed: u64,
    /// Repeated attempts to open a session, each as long as a call may wait.
    pub connect_tries: usize,
    /// Hold reads to the zxid in their reply's header; real ZooKeeper does not promise it.
    pub read_at_its_zxid: bool,
    /// Disks fill: writes may be refused for want of room, and are tried again.
    pub full_disks: bool,
}

impl Options {
    pub fn new(hosts: Vec<String>, seed: u64) -> Options {
        Options {
            hosts,
            sessions: 12,
            session_timeout_ms: 30_000,
            shared_keys: 8,
            pause: Duration::from_millis(2),
            connect_timeout: Duration::from_secs(2),
            seed,
            connect_tries: 4,
            read_at_its_zxid: true,
            full_disks: false,
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
    prepared: Vec<Operation>,
}

/// What a run showed.
#[derive(Debug)]
pub struct Verdict {
    pub counts: Counts,
    /// Broken promises that the loader saw itself. Empty when all were kept.
    pub violations: Vec<String>,
    /// What the checker says of the whole history.
    pub report: Report,
    pub history: History,
    /// Longest time in which no session got a write acknowledged.
    pub longest_gap: Duration,
}

const ROOT: &str = "/castellan-checked";
/// Sessions finish their last write within it, or the run has failed.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
const VIOLATIONS_SHOWN: usize = 20;
/// Numbers of the workers that are no load sessions: those of the read-back follow.
const PREPARING_PROCESS: u32 = 1 << 20;
const READING_PROCESS: u32 = PREPARING_PROCESS + 1;

impl Load {
    /// Opens all sessions and begins.
    pub async fn start(options: Options) -> Result<Load> {
        let run =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_micros());
        let paths = Paths { root: format!("{ROOT}/{run}") };
        let clock = Clock::start();
        let prepared = prepare(&options, &paths, clock).await.context("cannot prepare the load")?;
        let shared = Arc::new(Shared {
            options,
            paths,
            clock,
            stop: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
        });
        let mut sessions = Vec::new();
        for index in 0..shared.options.sessions {
            let session = Session::start(Arc::clone(&shared), index).await?;
            sessions.push(tokio::spawn(session.run()));
        }
        Ok(Load { shared, sessions, prepared })
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
        self.stop().await?.judge(hosts).await
    }

    /// Ends the load: each session finishes the call it is in.
    pub async fn stop(self) -> Result<Stopped> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut records = Vec::new();
        for session in self.sessions {
            let record = tokio::time::timeout(STOP_TIMEOUT, session).await;
            records.push(record.context("a session cannot finish its last call")???);
        }
        Ok(Stopped { shared: self.shared, records, prepared: self.prepared })
    }
}

/// A load that has ended and was not judged yet.
pub struct Stopped {
    shared: Arc<Shared>,
    records: Vec<Record>,
    prepared: Vec<Operation>,
}

impl Stopped {
    /// Nodes that were created once and never changed.
    pub fn created(&self) -> impl Iterator<Item = &str> {
        self.records.iter().flat_map(|record| &record.created).map(|(path, _)| path.as_str())
    }

    pub async fn judge(self, hosts: Vec<String>) -> Result<Verdict> {
        let mut options = self.shared.options.clone();
        options.hosts = hosts;
        let clock = self.shared.clock;
        let (mut violations, final_reads) =
            read_back::check(&options, &self.shared.paths, &self.records, clock).await?;
        let mut counts = Counts::default();
        let mut history = History { operations: self.prepared };
        for record in self.records {
            counts.add(&record.counts);
            violations.extend(record.violations);
            history.operations.extend(record.operations);
        }
        history.operations.extend(final_reads);
        if counts.sessions_lost > 0 {
            violations.push(format!("{} sessions were lost", counts.sessions_lost));
        }
        let check = keeper_history::Options { read_at_its_zxid: options.read_at_its_zxid };
        let report = keeper_history::check_with(&history, check);
        let longest_gap = longest_gap(&history);
        Ok(Verdict { counts, violations, report, history, longest_gap })
    }
}

impl Verdict {
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.report.is_clean()
    }

    /// An error that lists what was broken. The history goes into `folder` then.
    pub fn check(&self, folder: &Path) -> Result<()> {
        if self.is_clean() {
            return Ok(());
        }
        let path = folder.join("history.jsonl");
        let file =
            std::fs::File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        self.history.write_jsonl(&mut std::io::BufWriter::new(file))?;
        let count = self.violations.len() as u64 + self.report.violations_found;
        let shown: Vec<&str> = self.violations.iter().take(VIOLATIONS_SHOWN).map(String::as_str).collect();
        bail!(
            "{count} promises broken; history in {}:\n{}\n{}",
            path.display(),
            shown.join("\n"),
            self.report
        )
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let c = &self.counts;
        write!(
            f,
            "{} writes, {} reads, {} syncs, {} watch events; {} unknown outcomes ({} had been applied, {} applied by \
             the second attempt); {} reconnects, {} of {} sessions lost; longest time without a write {:.0} ms; \
             history of {} operations; {} violations",
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
            self.history.operations.len(),
            self.violations.len() as u64 + self.report.violations_found
        )?;
        match c.refused {
            0 => Ok(()),
            refused => write!(f, "; {refused} writes refused for want of room"),
        }
    }
}

/// Makes the nodes that all sessions share; returns what it did as part of the history.
async fn prepare(options: &Options, paths: &Paths, clock: Clock) -> Result<Vec<Operation>> {
    let client = session::connect(options).await?;
    let mut nodes = vec![ROOT.to_string(), paths.root.clone(), paths.queue()];
    nodes.extend((0..options.shared_keys).map(|key| paths.shared(key)));
    let mut operations = Vec::new();
    for node in nodes {
        let value = format!("first of {node}");
        let mut create = record::operation(Kind::Create, &node, clock.now_ns());
        match client.create(&node, value.as_bytes(), CreateMode::Persistent).await {
            Ok(reply) => {
                create.session = client.session_id();
                create.process = PREPARING_PROCESS;
                create.value = Some(value);
                create.returned_at_ns = Some(clock.now_ns());
                let reply = reply.map(|created| created.stat);
                create.outcome = Outcome::Ok(Seen { path: Some(node), ..record::seen(&reply) });
                operations.push(create);
            }
            Err(ClientError::Server(ErrorCode::NodeExists)) if node == ROOT => {}
            Err(error) => return Err(error).with_context(|| format!("create {node}")),
        }
    }
    client.close().await.context("cannot close the preparing session")?;
    Ok(operations)
}

fn longest_gap(history: &History) -> Duration {
    let written = |operation: &&Operation| operation.kind.is_write() && operation.seen().is_some();
    let mut times: Vec<u64> =
        history.operations.iter().filter(written).filter_map(|operation| operation.returned_at_ns).collect();
    times.sort_unstable();
    let gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
    Duration::from_nanos(gap)
}
