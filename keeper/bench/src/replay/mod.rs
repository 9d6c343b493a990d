//! Replays a request log: each of its sessions becomes one of ours, which sends the same requests in the same order.

mod log;
mod time;

#[cfg(test)]
mod tests;

pub use log::{Expected, Log, LogError, Recorded};

use crate::clock::Clock;
use crate::config::{Config, Endpoint};
use crate::events::Events;
use crate::lanes::Phase;
use crate::limits::{LOG_READ_AHEAD, LOG_SESSIONS_MAX, OPEN_IN_FLIGHT_MAX, OPERATION_TIMEOUT};
use crate::progress::{News, Watcher, follow};
use crate::record::{Failure, Outcome, Recorder};
use crate::report::{Offered, Report};
use crate::run::RunError;
use crate::session::{Session, Sink};
use crate::sessions;
use crate::setup::Tree;
use futures_util::future::{self, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use keeper_client::Connector;
use keeper_rt::{Instant, JoinHandle};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{Notify, mpsc};

#[derive(Clone, Debug)]
pub struct ReplayOptions {
    pub name: String,
    /// Only its connections, its set-up and its report_delay matter.
    pub config: Config,
    pub hosts: Vec<String>,
    pub identities: Vec<(String, Vec<u8>)>,
    /// `None`: each session sends its next request when the last one is answered.
    pub speed: Option<f64>,
    /// The replay has failed when a larger share of its requests ended otherwise than recorded.
    pub errors_max: f64,
    pub keep_tree: bool,
}

#[derive(Debug, Error)]
pub enum ReplayError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Sends all of `input`, or as much as comes before `interrupt`.
pub async fn replay<C: Connector + Clone>(
    options: &ReplayOptions,
    input: impl io::Read,
    connector: C,
    interrupt: impl Future<Output = ()>,
    watcher: Watcher<'_>,
) -> Result<Report, ReplayError> {
    if options.speed.is_some_and(|speed| !(speed > 0.0 && speed.is_finite())) {
        return Err(RunError::Options("the speed is to be above 0".to_owned()).into());
    }
    let mut log = Log::open(input)?;
    let hosts = hosts(options)?;
    let first = sessions::open(&hosts[..1], &connector, &options.identities).await?;
    let seed = keeper_rt::random_u64();
    let tree = Tree::draw(&options.config.setup, seed).map_err(RunError::Options)?;
    let client = first[0].client();
    let recursive = options.config.use_remove_recursive;
    let error = |what| move |error| RunError::Tree { what, error };
    watcher(News::Stage("making the tree"));
    tree.remove(&client, recursive).await.map_err(error("remove an earlier tree"))?;
    tree.create(&client).await.map_err(error("make the tree"))?;
    let replay = Replay { options, hosts, connector };
    let result = replay.run(&mut log, interrupt, watcher).await;
    let mut removed = Ok(());
    if !options.keep_tree {
        watcher(News::Stage("removing the tree"));
        removed = tree.remove(&client, recursive).await;
    }
    sessions::close(&first).await;
    let report = result?;
    removed.map_err(error("remove the tree"))?;
    Ok(report)
}

fn hosts(options: &ReplayOptions) -> Result<Vec<Endpoint>, RunError> {
    let connections = &options.config.connections;
    let hosts: Vec<Endpoint> = if options.hosts.is_empty() {
        connections.endpoints.clone()
    } else {
        let like = connections.endpoints.first().unwrap_or(&connections.defaults);
        options.hosts.iter().map(|host| Endpoint { host: host.clone(), ..like.clone() }).collect()
    };
    if hosts.is_empty() {
        return Err(RunError::Options("neither the configuration nor the caller names a host".to_owned()));
    }
    Ok(hosts)
}

struct Replay<'a, C> {
    options: &'a ReplayOptions,
    hosts: Vec<Endpoint>,
    connector: C,
}

/// A request and when it is due.
struct Due {
    recorded: Recorded,
    at: Option<Instant>,
}

impl<C: Connector + Clone> Replay<'_, C> {
    async fn run(
        &self,
        log: &mut Log<impl io::Read>,
        interrupt: impl Future<Output = ()>,
        watcher: Watcher<'_>,
    ) -> Result<Report, ReplayError> {
        let mut interrupt = std::pin::pin!(interrupt);
        let sink = Arc::new(Sink { recorder: Recorder::default(), events: Some(Events::default()) });
        let begin = keeper_rt::now();
        let phase = Arc::new(Phase {
            sink: Arc::clone(&sink),
            begin,
            end: begin + Duration::MAX / 4,
            grace: OPERATION_TIMEOUT,
            tickets: AtomicU64::new(u64::MAX),
            stopped: AtomicBool::new(false),
            stopping: Notify::new(),
            // What differs from the log is worth knowing in full.
            stop_on_error: false,
        });
        let offered = self.options.speed.map_or(Offered::Closed, |speed| Offered::Recorded { speed });
        watcher(News::Stage(&format!("{}: {}", self.options.name, offered.statement())));
        let all = async {
            let (handles, outcome) = self.read(log, &phase, begin).await;
            future::join_all(handles).await;
            outcome
        };
        let delay = self.options.config.report_delay;
        let (sessions, _) = follow(all, &phase, delay, &mut interrupt, watcher).await;
        let sessions = sessions?;
        let endpoints: Vec<Endpoint> =
            (0..sessions).map(|index| self.hosts[index % self.hosts.len()].clone()).collect();
        let totals = sink.recorder.totals();
        Ok(Report {
            name: self.options.name.clone(),
            hosts: sessions::spread(&endpoints),
            sessions,
            lanes: sessions,
            seed: None,
            offered,
            elapsed: begin.elapsed(),
            has_watches: totals.events_received > 0,
            totals,
            errors_max: self.options.errors_max,
            notes: self.options.config.notes.clone(),
        })
    }

    /// Hands each request to its session, a little ahead of its time. Returns the sessions' tasks, and how many they are
    /// or what is wrong with the log.
    async fn read(
        &self,
        log: &mut Log<impl io::Read>,
        phase: &Arc<Phase>,
        begin: Instant,
    ) -> (Vec<JoinHandle<()>>, Result<usize, ReplayError>) {
        let clock = Arc::new(Clock::start());
        let mut lanes: BTreeMap<i64, mpsc::Sender<Due>> = BTreeMap::new();
        let mut handles = Vec::new();
        let mut first_us = None;
        while !phase.is_stopped() {
            let recorded = match log.next_recorded() {
                Ok(Some(recorded)) => recorded,
                Ok(None) => break,
                Err(error) => return (handles, Err(error.into())),
            };
            let since = recorded.time_us - *first_us.get_or_insert(recorded.time_us);
            let since = Duration::from_micros(u64::try_from(since).unwrap_or(0));
            let at = self.options.speed.map(|speed| begin + since.div_f64(speed));
            if !lanes.contains_key(&recorded.session) {
                if lanes.len() >= LOG_SESSIONS_MAX {
                    let text = format!("the log has more than {LOG_SESSIONS_MAX} sessions");
                    return (handles, Err(RunError::Options(text).into()));
                }
                let (sender, receiver) = mpsc::channel(LOG_READ_AHEAD);
                handles.push(self.start(lanes.len(), receiver, phase, &clock));
                lanes.insert(recorded.session, sender);
            }
            if let Some(lane) = lanes.get(&recorded.session) {
                // A lane is gone only when the replay was stopped.
                let _ = lane.send(Due { recorded, at }).await;
            }
        }
        (handles, Ok(lanes.len()))
    }

    fn start(
        &self,
        lane: usize,
        requests: mpsc::Receiver<Due>,
        phase: &Arc<Phase>,
        clock: &Arc<Clock>,
    ) -> JoinHandle<()> {
        let endpoint = self.hosts[lane % self.hosts.len()].clone();
        let options = sessions::client_options(&endpoint, &self.options.identities);
        let (connector, phase, clock) = (self.connector.clone(), Arc::clone(phase), Arc::clone(clock));
        keeper_rt::spawn("bench-replay", async move {
            match Session::open(endpoint.host, connector, options).await {
                Ok(session) => play(lane, Arc::new(session), requests, phase, clock).await,
                Err(error) => refuse(lane, &crate::session::failure(&error), requests, &phase).await,
            }
        })
    }
}

/// One session's requests, in their order.
async fn play<C: Connector + Clone>(
    lane: usize,
    session: Arc<Session<C>>,
    mut requests: mpsc::Receiver<Due>,
    phase: Arc<Phase>,
    clock: Arc<Clock>,
) {
    let mut in_flight = FuturesUnordered::new();
    let shared = Arc::clone(&phase);
    while let Some(Due { recorded, at }) = requests.recv().await {
        let mut stopping = std::pin::pin!(shared.stopping.notified());
        if phase.is_stopped() {
            break;
        }
        let in_flight_max = if at.is_some() { OPEN_IN_FLIGHT_MAX } else { 1 };
        if let Some(at) = at {
            let mut wake = Box::pin(Arc::clone(&clock).at(at));
            loop {
                tokio::select! {
                    biased;
                    Some(()) = in_flight.next(), if !in_flight.is_empty() => {}
                    () = &mut stopping => break,
                    () = &mut wake => break,
                }
            }
            if phase.is_stopped() {
                break;
            }
        }
        while in_flight.len() >= in_flight_max {
            in_flight.next().await;
        }
        let (session, phase) = (Arc::clone(&session), Arc::clone(&phase));
        in_flight.push(async move {
            let from = at.unwrap_or_else(keeper_rt::now);
            let mut outcome = session.perform(&recorded.request, lane, &phase.sink).await;
            outcome.failure = compare(outcome.failure, recorded.expected);
            phase.record(lane, recorded.request.kind(), from, &outcome);
        });
        // Written now, and not when the next one comes.
        let _ = in_flight.next().now_or_never();
    }
    while in_flight.next().await.is_some() {}
    let _ = session.client().close().await;
}

/// There is no session: its requests failed.
async fn refuse(lane: usize, failure: &Failure, mut requests: mpsc::Receiver<Due>, phase: &Phase) {
    while let Some(Due { recorded, at }) = requests.recv().await {
        let outcome = Outcome { bytes: 0, failure: Some(failure.clone()) };
        phase.record(lane, recorded.request.kind(), at.unwrap_or_else(keeper_rt::now), &outcome);
    }
}

/// An error that the log has too is as it should be.
fn compare(failure: Option<Failure>, expected: Option<Expected>) -> Option<Failure> {
    let code = failure.as_ref().and_then(|failure| failure.code);
    match (failure, expected) {
        (None, Some(Expected::Error(code))) => {
            Some(Failure { code: None, label: "done, not refused", text: format!("the log has {code}") })
        }
        (Some(_), Some(Expected::Error(logged))) if code == Some(logged) => None,
        // The log does not know, so any answer is one.
        (Some(_), None) if code.is_some() => None,
        (failure, _) => failure,
    }
}
