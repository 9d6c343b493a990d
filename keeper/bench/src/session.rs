//! One session of the run: sends what lanes plan and says how it ended. A session that expired is opened anew, as a real
//! client would.

use crate::events::Events;
use crate::limits::WATCHES_ARMED_MAX;
use crate::record::{Failure, Outcome, Recorder};
use crate::request::{Planned, Read, ReadKind, response_bytes};
use keeper_client::{
    Client, ClientError, Connector, ErrorCode, MultiResult, Options, Reply, Response, Watch, WatchEvent,
};
use keeper_rt::Instant;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two attempts at a new session.
const REOPEN_DELAY: Duration = Duration::from_millis(200);

/// What all lanes of a run record in.
pub struct Sink {
    pub recorder: Recorder,
    /// Only where the workload sets watches.
    pub events: Option<Events>,
}

pub struct Session<C> {
    host: String,
    connector: C,
    options: Options,
    client: Mutex<Client>,
    reopening: tokio::sync::Mutex<()>,
    /// Watches that have not fired.
    /// Invariant: at most `WATCHES_ARMED_MAX`.
    armed: Mutex<BTreeSet<(ReadKind, String)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Connector + Clone> Session<C> {
    pub async fn open(host: String, connector: C, options: Options) -> Result<Session<C>, ClientError> {
        let client = Client::connect_with(connector.clone(), &[&host], options.clone()).await?;
        Ok(Session {
            host,
            connector,
            options,
            client: Mutex::new(client),
            reopening: tokio::sync::Mutex::default(),
            armed: Mutex::default(),
        })
    }

    pub fn client(&self) -> Client {
        lock(&self.client).clone()
    }

    /// Sends and waits.
    pub async fn perform(self: &Arc<Self>, planned: &Planned, lane: usize, sink: &Arc<Sink>) -> Outcome {
        let client = self.client();
        let sent = keeper_rt::now();
        let answered = match planned {
            Planned::Read(read) if read.watch && self.arm(read) => {
                self.read_watching(&client, read, lane, sink).await
            }
            planned => ask(&client, planned).await,
        };
        match answered {
            Ok(Done { zxid, bytes }) => {
                if let (Some(events), false) = (&sink.events, planned.kind().is_read()) {
                    events.written(zxid, sent, &sink.recorder);
                }
                Outcome { bytes: planned.bytes() + bytes, failure: None }
            }
            Err(error) => {
                if client.state().is_ended() {
                    self.reopen().await;
                }
                Outcome { bytes: 0, failure: Some(failure(&error)) }
            }
        }
    }

    /// True when this read is the one that sets the watch and waits for it. The others ask the server for it too, and
    /// the server keeps one.
    fn arm(&self, read: &Read) -> bool {
        let mut armed = lock(&self.armed);
        armed.len() < WATCHES_ARMED_MAX && armed.insert((read.kind, read.path.clone()))
    }

    fn disarm(&self, kind: ReadKind, path: &str) {
        lock(&self.armed).remove(&(kind, path.to_owned()));
    }

    async fn read_watching(
        self: &Arc<Self>,
        client: &Client,
        read: &Read,
        lane: usize,
        sink: &Arc<Sink>,
    ) -> Result<Done, ClientError> {
        let result = match read.kind {
            ReadKind::Get => client
                .get_watch(&read.path)
                .await
                .map(|(reply, watch)| (done(&reply, reply.value.bytes().len()), watch)),
            ReadKind::List => client
                .children_watch(&read.path)
                .await
                .map(|(reply, watch)| (done(&reply, reply.value.names.iter().map(String::len).sum()), watch)),
            ReadKind::Exists => {
                client.exists_watch(&read.path).await.map(|(reply, watch)| (done(&reply, 0), watch))
            }
        };
        match result {
            Ok((done, watch)) => {
                let waiting =
                    Arc::clone(self).wait_for(read.kind, read.path.clone(), watch, lane, Arc::clone(sink));
                drop(keeper_rt::spawn("bench-watch", waiting));
                Ok(done)
            }
            Err(error) => {
                self.disarm(read.kind, &read.path);
                Err(error)
            }
        }
    }

    async fn wait_for(
        self: Arc<Self>,
        kind: ReadKind,
        path: String,
        watch: Watch,
        lane: usize,
        sink: Arc<Sink>,
    ) {
        let event: Result<Reply<WatchEvent>, ClientError> = watch.event().await;
        let arrived: Instant = keeper_rt::now();
        self.disarm(kind, &path);
        if let (Ok(event), Some(events)) = (event, &sink.events) {
            events.arrived(event.zxid, arrived, lane, &sink.recorder);
        }
    }

    /// Until there is a session again; the first lane to come opens it for all.
    async fn reopen(&self) {
        let _guard = self.reopening.lock().await;
        if !self.client().state().is_ended() {
            return;
        }
        match Client::connect_with(self.connector.clone(), &[&self.host], self.options.clone()).await {
            Ok(client) => *lock(&self.client) = client,
            Err(_) => keeper_rt::sleep(REOPEN_DELAY).await,
        }
    }
}

struct Done {
    zxid: i64,
    bytes: usize,
}

fn done<T>(reply: &Reply<T>, bytes: usize) -> Done {
    Done { zxid: reply.zxid, bytes }
}

async fn ask(client: &Client, planned: &Planned) -> Result<Done, ClientError> {
    let answer = client.call(&planned.request()).await?;
    let response = match answer.value {
        Ok(response) => response,
        // That there is no such node is what exists was asked.
        Err(ErrorCode::NoNode) if matches!(planned, Planned::Read(Read { kind: ReadKind::Exists, .. })) => {
            return Ok(Done { zxid: answer.zxid, bytes: 0 });
        }
        Err(code) => return Err(ClientError::Server(code)),
    };
    match &response {
        Response::Multi(results) => {
            let failed = results.iter().enumerate().find_map(|(index, result)| match result {
                MultiResult::Error(Some(code)) => Some((index, *code)),
                _ => None,
            });
            if let Some((index, code)) = failed {
                return Err(ClientError::MultiFailed { index, code });
            }
        }
        Response::MultiRead(results) => {
            let failed = results.iter().find_map(|result| match result {
                Err(code) => Some(*code),
                Ok((_, response)) => match response.as_ref() {
                    Response::Failed(code) => Some(*code),
                    _ => None,
                },
            });
            if let Some(code) = failed {
                return Err(ClientError::Server(code));
            }
        }
        _ => {}
    }
    Ok(Done { zxid: answer.zxid, bytes: response_bytes(&response) })
}

pub fn failure(error: &ClientError) -> Failure {
    let label = match error {
        ClientError::Server(code) | ClientError::MultiFailed { code, .. } => code.name(),
        ClientError::Expired => "SessionExpired",
        ClientError::UnknownOutcome { .. } => "unknown outcome",
        ClientError::NotSent { .. } => "not sent",
        ClientError::Timeout { .. } => "timeout",
        ClientError::Unreachable { .. } => "unreachable",
        ClientError::Closed => "closed",
        ClientError::AuthFailed => "AuthFailed",
        ClientError::Malformed(_) => "malformed answer",
        ClientError::Invalid(_) => "invalid request",
    };
    Failure { code: error.code(), label, text: error.to_string() }
}
