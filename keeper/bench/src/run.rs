//! One run from its sessions to its report: open, set up, warm up, measure, clean up.

use crate::clock::Clock;
use crate::config::{Config, Endpoint, GeneratorConfig};
use crate::events::Events;
use crate::generate::{Lane, Plan, plan};
use crate::lanes::{self, Phase};
use crate::limits::{CALIBRATED_SHARE, CALIBRATION_MIN, LANES_MAX, RATE_MAX, TIME_LIMIT};
use crate::progress::{News, Watcher, follow};
use crate::record::Recorder;
use crate::report::{Offered, Report};
use crate::request::{Planned, Read, ReadKind};
use crate::schedule::{Arrivals, Schedule};
use crate::session::{Session, Sink};
use crate::sessions;
use crate::setup::{self, Tree};
use futures_util::future;
use keeper_client::{ClientError, Connector};
use keeper_rt::JoinHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::Notify;

/// What a caller decides. `None` leaves it to the configuration.
#[derive(Clone, Debug)]
pub struct Options {
    /// For the report.
    pub name: String,
    pub config: Config,
    /// Instead of the configuration's; its sessions are spread over them.
    pub hosts: Vec<String>,
    pub identities: Vec<(String, Vec<u8>)>,
    pub sessions: Option<usize>,
    pub concurrency: Option<usize>,
    pub load: Load,
    pub time: Option<Duration>,
    pub warmup: Option<Duration>,
    pub seed: Option<u64>,
    /// The run has failed when a larger share of its requests failed.
    pub errors_max: Option<f64>,
    pub keep_tree: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    Closed,
    /// Without a rate: a share of what a closed loop reaches first.
    Open {
        rate: Option<f64>,
        arrivals: Arrivals,
    },
}

#[derive(Debug, Error)]
pub enum RunError {
    #[error("{0}")]
    Options(String),
    #[error("no session at {host}: {error}")]
    Connect { host: String, error: ClientError },
    #[error("cannot {what}: {error}")]
    Tree { what: &'static str, error: ClientError },
}

/// Runs until its time is over, the requests are all made, an error stops it or `interrupt` completes. The tree goes in
/// every case.
pub async fn run<C: Connector + Clone>(
    options: &Options,
    connector: C,
    interrupt: impl Future<Output = ()>,
    watcher: Watcher<'_>,
) -> Result<Report, RunError> {
    let config = &options.config;
    let generator = config.generator.as_ref();
    let generator =
        generator.ok_or_else(|| RunError::Options("the configuration has no generator".into()))?;
    let endpoints = sessions::places(options)?;
    let lanes = lanes_of(options)?;
    let seed = options.seed.or(generator.seed).unwrap_or_else(keeper_rt::random_u64);
    watcher(News::Stage(&format!("opening {} sessions", endpoints.len())));
    let sessions = sessions::open(&endpoints, &connector, &options.identities).await?;
    let tree = Tree::draw(&config.setup, seed).map_err(RunError::Options)?;
    watcher(News::Stage("making the tree"));
    let result = prepare(options, generator, &tree, &sessions).await;
    let result = match result {
        Ok(plan) => {
            let driver = Driver { options, plan, sessions: &sessions, lanes, seed };
            driver.run(generator, &endpoints, interrupt, watcher).await
        }
        Err(error) => Err(error),
    };
    let mut removed = Ok(());
    if !options.keep_tree {
        watcher(News::Stage("removing the tree"));
        removed = tree.remove(&sessions[0].client(), config.use_remove_recursive).await;
    }
    sessions::close(&sessions).await;
    // What went wrong first is what to say.
    let report = result?;
    removed.map_err(|error| RunError::Tree { what: "remove the tree", error })?;
    Ok(report)
}

/// Makes the tree anew and looks up what the requests name in it.
async fn prepare<C: Connector + Clone>(
    options: &Options,
    generator: &GeneratorConfig,
    tree: &Tree,
    sessions: &[Arc<Session<C>>],
) -> Result<Arc<Plan>, RunError> {
    let client = sessions[0].client();
    let error = |what| move |error| RunError::Tree { what, error };
    let recursive = options.config.use_remove_recursive;
    tree.remove(&client, recursive).await.map_err(error("remove an earlier tree"))?;
    tree.create(&client).await.map_err(error("make the tree"))?;
    // Whoever reads at another member is to see it.
    let syncs = sessions.iter().map(|session| async { session.client().sync("/").await });
    future::try_join_all(syncs).await.map_err(error("bring all servers up to date"))?;
    let parents = plan::parents(&generator.requests);
    let known = setup::look_up(&client, tree, &parents).await.map_err(error("list the tree"))?;
    if generator.has_multi_read() {
        let read = Read { kind: ReadKind::Get, path: "/".to_owned(), watch: false };
        let answer = client.call(&Planned::MultiRead(vec![read]).request()).await;
        answer.and_then(|answer| answer.value.map_err(ClientError::Server)).map_err(error(
            "send a multiRead, which this workload is made of (ZooKeeper has it from 3.6 on)",
        ))?;
    }
    Plan::new(generator, &known).map(Arc::new).map_err(RunError::Options)
}

/// The phases of a run whose tree stands.
struct Driver<'a, C> {
    options: &'a Options,
    plan: Arc<Plan>,
    sessions: &'a [Arc<Session<C>>],
    lanes: usize,
    seed: u64,
}

impl<C: Connector + Clone> Driver<'_, C> {
    async fn run(
        &self,
        generator: &GeneratorConfig,
        endpoints: &[Endpoint],
        interrupt: impl Future<Output = ()>,
        watcher: Watcher<'_>,
    ) -> Result<Report, RunError> {
        let config = &self.options.config;
        let mut interrupt = std::pin::pin!(interrupt);
        let warmup = self.options.warmup.unwrap_or(config.warmup);
        let time = self.options.time.or(config.time_limit);
        // A run that ends by its number of requests has no other end.
        let unlimited = config.iterations > 0 && time.is_none();
        let time = if unlimited { Duration::MAX / 4 } else { time.unwrap_or(TIME_LIMIT) };
        let events = generator.watches().then(Events::default);
        let sink = Arc::new(Sink { recorder: Recorder::default(), events });
        let errors_max = self.options.errors_max.unwrap_or(if config.continue_on_error { 1.0 } else { 0.0 });
        let mut warmup_left = warmup;
        let mut lanes: Vec<Lane> = (0..self.lanes)
            .map(|lane| Lane::new(Arc::clone(&self.plan), self.seed, lane, self.lanes))
            .collect();
        let offered = match self.options.load {
            Load::Closed => Offered::Closed,
            Load::Open { rate: Some(rate), arrivals } => Offered::Open { rate, arrivals, calibrated: None },
            Load::Open { rate: None, arrivals } => {
                watcher(News::Stage("finding a rate with a closed loop"));
                let length = warmup.max(CALIBRATION_MIN);
                let phase = self.phase(&sink, Duration::ZERO, length, errors_max);
                let begin = phase.begin;
                let interrupted;
                (lanes, interrupted) =
                    self.drive(lanes, &phase, &Offered::Closed, &mut interrupt, watcher).await;
                let reached = sink.recorder.counts().0 as f64 / begin.elapsed().min(length).as_secs_f64();
                if interrupted || phase.is_stopped() || reached < 1.0 {
                    // Nothing to go on with: what there is is the report.
                    let elapsed = begin.elapsed();
                    return Ok(self.report(Offered::Closed, endpoints, elapsed, &sink, errors_max));
                }
                warmup_left = Duration::ZERO;
                let rate = (reached * CALIBRATED_SHARE).max(1.0);
                Offered::Open { rate, arrivals, calibrated: Some(reached) }
            }
        };
        if let Offered::Open { rate, .. } = offered
            && !(rate > 0.0 && rate <= RATE_MAX)
        {
            return Err(RunError::Options(format!("the rate is to be above 0 and up to {RATE_MAX}")));
        }
        watcher(News::Stage(&format!("{}: {}", self.options.name, offered.statement())));
        let phase = self.phase(&sink, warmup_left, time, errors_max);
        sink.recorder.measure_from(phase.begin);
        self.drive(lanes, &phase, &offered, &mut interrupt, watcher).await;
        let end = phase.end.min(keeper_rt::now());
        Ok(self.report(offered, endpoints, end - phase.begin, &sink, errors_max))
    }

    fn phase(&self, sink: &Arc<Sink>, warmup: Duration, time: Duration, errors_max: f64) -> Arc<Phase> {
        let config = &self.options.config;
        let begin = keeper_rt::now() + warmup;
        let grace = config.connections.defaults.operation_timeout.unwrap_or(crate::limits::OPERATION_TIMEOUT);
        Arc::new(Phase {
            sink: Arc::clone(sink),
            begin,
            end: begin + time,
            grace,
            tickets: AtomicU64::new(if config.iterations == 0 { u64::MAX } else { config.iterations }),
            stopped: AtomicBool::new(false),
            stopping: Notify::new(),
            stop_on_error: errors_max == 0.0,
        })
    }

    /// Runs all lanes to their end and gives them back; true when the caller interrupted.
    async fn drive(
        &self,
        lanes: Vec<Lane>,
        phase: &Arc<Phase>,
        offered: &Offered,
        interrupt: &mut (impl Future<Output = ()> + Unpin),
        watcher: Watcher<'_>,
    ) -> (Vec<Lane>, bool) {
        let seed = self.seed;
        let clock = Arc::new(Clock::start());
        let start = keeper_rt::now();
        let handles: Vec<JoinHandle<Lane>> = lanes
            .into_iter()
            .enumerate()
            .map(|(lane, requests)| {
                let session = Arc::clone(&self.sessions[lane % self.sessions.len()]);
                let phase = Arc::clone(phase);
                match *offered {
                    Offered::Closed | Offered::Recorded { .. } => {
                        keeper_rt::spawn("bench-lane", lanes::closed(lane, requests, session, phase))
                    }
                    Offered::Open { rate, arrivals, .. } => {
                        let schedule = Schedule::new(start, arrivals, rate, lane, self.lanes, seed);
                        let clock = Arc::clone(&clock);
                        let open = lanes::open(lane, requests, session, phase, schedule, clock);
                        keeper_rt::spawn("bench-lane", open)
                    }
                }
            })
            .collect();
        let joined = future::join_all(handles);
        let delay = self.options.config.report_delay;
        let (lanes, interrupted) = follow(joined, phase, delay, interrupt, watcher).await;
        // A lane is missing only when it panicked, which has been said.
        (lanes.into_iter().flatten().collect(), interrupted)
    }

    fn report(
        &self,
        offered: Offered,
        endpoints: &[Endpoint],
        elapsed: Duration,
        sink: &Sink,
        errors_max: f64,
    ) -> Report {
        Report {
            name: self.options.name.clone(),
            hosts: sessions::spread(endpoints),
            sessions: endpoints.len(),
            lanes: self.lanes,
            seed: Some(self.seed),
            offered,
            elapsed,
            totals: sink.recorder.totals(),
            has_watches: sink.events.is_some(),
            errors_max,
            notes: self.options.config.notes.clone(),
        }
    }
}

fn lanes_of(options: &Options) -> Result<usize, RunError> {
    let config = &options.config;
    let workers = options.concurrency.unwrap_or(config.concurrency);
    // In an open loop the rate decides how much is in flight.
    let depth = match options.load {
        Load::Closed => config.pipeline_depth,
        Load::Open { .. } => 1,
    };
    let lanes = workers.saturating_mul(depth);
    if !(1..=LANES_MAX).contains(&lanes) {
        return Err(RunError::Options(format!("concurrency times depth is to be from 1 to {LANES_MAX}")));
    }
    Ok(lanes)
}
