//! One session of the checked loader: a closed loop of creates, sets, reads, syncs, watches and sequential creates.
//!
//! Every value is unique. A write whose answer was lost is repeated in a form that shows whether the first attempt was
//! applied: a set names the version it replaces, a create names its node, a sequential create carries a name of its
//! own. It must never give up on a write of its own register or directory: at the end all of them are known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use keeper_client::{
    Client, ClientError, CreateMode, ErrorCode, NodeData, Options, Reply, SessionState, Stat, WatchEvent,
};
use tokio::sync::mpsc;

use keeper_history::{Kind, Operation, Outcome, Seen};

use super::record::{Clock, Record, Recorded, operation, seen};
use super::{Options as LoadOptions, Paths};
use crate::random::Random;

/// What all sessions share.
pub struct Shared {
    pub options: LoadOptions,
    pub paths: Paths,
    pub clock: Clock,
    pub stop: AtomicBool,
    /// Acknowledged writes of all sessions, for progress.
    pub acknowledged: AtomicU64,
}

/// Watches one session waits for at once.
const WATCHES_MAX: usize = 4;
/// Creates sent one behind the other before the first is answered.
const BURST: usize = 4;
/// Between two attempts at something that cannot be done now.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// A call that waits for so long gives up for this attempt.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(15);

pub struct Session {
    shared: Arc<Shared>,
    index: usize,
    random: Random,
    client: Client,
    record: Record,
    /// Makes values and names unique within the session.
    counter: u64,
    register_version: i32,
    watches_open: usize,
    fired: mpsc::Sender<Option<Reply<WatchEvent>>>,
    fired_receiver: mpsc::Receiver<Option<Reply<WatchEvent>>>,
    last_address: String,
}

/// How a repeated write ended.
enum Settled {
    Done(Reply<Stat>),
    /// The first attempt had been applied: the repetition met its effect.
    Before,
}

/// A write whose repetition shows whether it was applied before.
struct Write<'a> {
    path: &'a str,
    value: &'a str,
    /// The version a set replaces; `None` creates.
    replaces: Option<i32>,
}

impl Write<'_> {
    async fn attempt(&self, client: &Client) -> Result<Reply<Stat>, ClientError> {
        let Write { path, value, replaces } = self;
        match replaces {
            Some(version) => client.set(path, value.as_bytes(), *version).await,
            None => {
                let created = client.create(path, value.as_bytes(), CreateMode::Persistent).await?;
                Ok(created.map(|created| created.stat))
            }
        }
    }

    /// What a repetition is answered when the first attempt was applied.
    fn refused(&self) -> ErrorCode {
        match self.replaces {
            Some(_) => ErrorCode::BadVersion,
            None => ErrorCode::NodeExists,
        }
    }
}

impl Session {
    pub async fn start(shared: Arc<Shared>, index: usize) -> Result<Session> {
        let client = connect(&shared.options).await.with_context(|| format!("session {index}"))?;
        let random = Random::from_seed(shared.options.seed.wrapping_mul(1_000_003) + index as u64);
        let (fired, fired_receiver) = mpsc::channel(WATCHES_MAX);
        let mut session = Session {
            index,
            random,
            client,
            record: Record::default(),
            counter: 0,
            register_version: 0,
            watches_open: 0,
            fired,
            fired_receiver,
            last_address: String::new(),
            shared,
        };
        session.record.counts.sessions = 1;
        session.set_up().await?;
        Ok(session)
    }

    async fn set_up(&mut self) -> Result<()> {
        let directory = self.shared.paths.directory(self.index);
        self.create_once(&directory, &format!("directory-{}", self.index)).await?;
        let register = self.shared.paths.register(self.index);
        let value = self.unique();
        self.create_once(&register, &value).await?;
        self.record.register = (register, value, 0);
        self.create_ephemeral().await
    }

    async fn create_ephemeral(&mut self) -> Result<()> {
        // Each session gets a name of its own: the node of a lost one may not be gone yet.
        let session_id = self.client.session_id();
        let path = format!("{}/alive-{session_id:x}", self.shared.paths.directory(self.index));
        loop {
            match self.client.create(&path, b"", CreateMode::Ephemeral).await {
                Ok(_) | Err(ClientError::Server(ErrorCode::NodeExists)) => break,
                Err(error) => self.retry_or_fail(error).await?,
            }
        }
        self.record.ephemeral = (path, session_id);
        Ok(())
    }

    /// Runs until told to stop; returns everything done and seen.
    pub async fn run(mut self) -> Result<Record> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.step().await.with_context(|| format!("session {}", self.index))?;
            self.note_connection();
            self.note_events();
            if !self.shared.options.pause.is_zero() {
                tokio::time::sleep(self.shared.options.pause).await;
            }
        }
        // What the last writes of others fired is on its way.
        tokio::time::sleep(RETRY_PAUSE).await;
        self.note_events();
        self.record.end_client();
        Ok(self.record)
    }

    async fn step(&mut self) -> Result<()> {
        match self.random.below(100) {
            0..=29 => self.set_register().await,
            30..=39 => self.set_shared().await,
            40..=49 => self.compare_and_set_shared().await,
            50..=64 => self.read(false).await,
            65..=74 => self.read(true).await,
            75..=84 => self.create_burst().await,
            85..=91 => self.create_sequential().await,
            _ => self.watch().await,
        }
    }

    fn unique(&mut self) -> String {
        self.counter += 1;
        format!("v-{}-{}", self.index, self.counter)
    }

    fn violation(&mut self, text: String) {
        self.record.violations.push(format!("session {}: {text}", self.index));
    }

    fn push(&mut self, arrival: u64, operation: Operation) {
        let done = matches!(operation.outcome, Outcome::Ok(_));
        let counts = &mut self.record.counts;
        match operation.kind {
            Kind::Sync => counts.syncs += 1,
            Kind::Event => counts.events += 1,
            kind if kind.is_write() && done => {
                counts.writes += 1;
                self.shared.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            kind if kind.is_read() => counts.reads += 1,
            _ => {}
        }
        let (session, process) = (self.client.session_id(), self.index as u32);
        self.record
            .recorded
            .push(Recorded { arrival, operation: Operation { session, process, ..operation } });
    }

    /// A write that is known to have been done.
    fn push_done(&mut self, arrival: u64, operation: Operation, seen: Seen) {
        let returned_at_ns = Some(self.shared.clock.now_ns());
        self.push(arrival, Operation { returned_at_ns, outcome: Outcome::Ok(seen), ..operation });
    }

    fn begin(&self, kind: Kind, path: &str) -> Operation {
        operation(kind, path, self.shared.clock.now_ns())
    }

    /// Errors that pass: waits and returns. A lost session is counted and replaced. Anything else ends the run.
    async fn retry_or_fail(&mut self, error: ClientError) -> Result<()> {
        match error {
            ClientError::UnknownOutcome { .. }
            | ClientError::NotSent { .. }
            | ClientError::Timeout { .. }
            | ClientError::Unreachable { .. } => {
                tokio::time::sleep(RETRY_PAUSE).await;
                Ok(())
            }
            ClientError::Server(ErrorCode::OutOfMemory) if self.shared.options.full_disks => {
                self.record.counts.refused += 1;
                tokio::time::sleep(RETRY_PAUSE).await;
                Ok(())
            }
            ClientError::Expired | ClientError::Closed => {
                self.record.counts.sessions_lost += 1;
                self.record.counts.sessions += 1;
                self.record.end_client();
                self.client = connect(&self.shared.options).await?;
                self.last_address.clear();
                Box::pin(self.create_ephemeral()).await
            }
            error => Err(error).context("an answer that the load never provokes"),
        }
    }

    /// Repeats a write until it is answered.
    async fn settle(&mut self, write: &Write<'_>) -> Result<Settled> {
        let mut unknown = false;
        loop {
            let error = match write.attempt(&self.client).await {
                Ok(done) => {
                    self.record.counts.unknown_repeated += u64::from(unknown);
                    return Ok(Settled::Done(done));
                }
                Err(error) => error,
            };
            if unknown && error.code() == Some(write.refused()) {
                self.record.counts.unknown_applied += 1;
                return Ok(Settled::Before);
            }
            if error.maybe_applied() && !unknown {
                unknown = true;
                self.record.counts.unknown += 1;
            }
            self.retry_or_fail(error).await?;
        }
    }

    /// A read that is repeated until it is answered.
    async fn get(&mut self, path: &str) -> Result<(String, Reply<Stat>)> {
        loop {
            match self.client.get(path).await {
                Ok(reply) => {
                    let value = String::from_utf8_lossy(reply.value.bytes()).into_owned();
                    return Ok((value, reply.map(|node| node.stat)));
                }
                Err(error) => self.retry_or_fail(error).await.with_context(|| format!("get {path}"))?,
            }
        }
    }

    /// What a write that had been applied before its repetition left behind; its own reply was lost.
    async fn left_behind(&mut self, path: &str, value: &str) -> Result<(u64, Seen)> {
        let (found, reply) = self.get(path).await?;
        if found != value {
            self.violation(format!("{path} holds `{found}` where only `{value}` was written"));
        }
        // Of a lost reply only the zxid of the change is known, not where it came in the stream.
        Ok((0, Seen { zxid: reply.value.mzxid, ..seen(&reply) }))
    }

    async fn set_register(&mut self) -> Result<()> {
        let path = self.record.register.0.clone();
        let (value, version) = (self.unique(), self.register_version);
        let mut set = self.begin(Kind::Set, &path);
        set.value = Some(value.clone());
        set.expected_version = Some(version);
        let settled = self.settle(&Write { path: &path, value: &value, replaces: Some(version) }).await;
        let (arrival, seen) = match settled.with_context(|| format!("set {path} of version {version}"))? {
            Settled::Done(reply) => (reply.arrival, seen(&reply)),
            Settled::Before => self.left_behind(&path, &value).await?,
        };
        let now = seen.version.unwrap_or(version + 1);
        if now != version + 1 {
            self.violation(format!("{path} went from version {version} to {now} by one write"));
        }
        self.register_version = now;
        self.record.register = (path, value, now);
        self.push_done(arrival, set, seen);
        Ok(())
    }

    fn shared_path(&mut self) -> String {
        let key = self.random.below(self.shared.options.shared_keys);
        self.shared.paths.shared(key)
    }

    async fn set_shared(&mut self) -> Result<()> {
        let (path, value) = (self.shared_path(), self.unique());
        self.write_shared(path, value, keeper_client::ANY_VERSION).await
    }

    async fn compare_and_set_shared(&mut self) -> Result<()> {
        let (path, value) = (self.shared_path(), self.unique());
        let (_, reply) = self.get(&path).await?;
        self.write_shared(path, value, reply.value.version).await
    }

    /// Others write here too, so a lost answer stays unknown; only somebody's read can show it.
    async fn write_shared(&mut self, path: String, value: String, version: i32) -> Result<()> {
        let mut set = self.begin(Kind::Set, &path);
        set.value = Some(value.clone());
        set.expected_version = (version >= 0).then_some(version);
        match self.client.set(&path, value.as_bytes(), version).await {
            Ok(reply) => {
                self.push_done(reply.arrival, set, seen(&reply));
                Ok(())
            }
            Err(ClientError::Server(code @ ErrorCode::BadVersion)) if version >= 0 => {
                set.returned_at_ns = Some(self.shared.clock.now_ns());
                set.outcome = Outcome::Err { code: code.as_i32(), zxid: 0 };
                self.push(0, set);
                Ok(())
            }
            Err(error) => {
                if error.maybe_applied() {
                    self.record.counts.unknown += 1;
                    self.push(0, set);
                }
                self.retry_or_fail(error).await
            }
        }
    }

    async fn read(&mut self, after_sync: bool) -> Result<()> {
        let path = self.shared_path();
        if after_sync {
            let sync = self.begin(Kind::Sync, &path);
            match self.client.sync(&path).await {
                Ok(reply) => {
                    self.push_done(reply.arrival, sync, Seen { zxid: reply.zxid, ..Seen::default() });
                }
                Err(error) => return self.retry_or_fail(error).await,
            }
        }
        let get = self.begin(Kind::Get, &path);
        match self.client.get(&path).await {
            Ok(reply) => {
                self.push_read(get, reply);
                Ok(())
            }
            Err(error) => self.retry_or_fail(error).await,
        }
    }

    fn push_read(&mut self, get: Operation, reply: Reply<NodeData>) {
        let value = String::from_utf8_lossy(reply.value.bytes()).into_owned();
        let reply = reply.map(|node| node.stat);
        self.push_done(reply.arrival, get, Seen { value: Some(value), ..seen(&reply) });
    }

    /// Creates a node that nobody else creates, exactly once.
    async fn create_once(&mut self, path: &str, value: &str) -> Result<()> {
        let mut create = self.begin(Kind::Create, path);
        create.value = Some(value.into());
        self.settle_create(create, value).await
    }

    async fn settle_create(&mut self, create: Operation, value: &str) -> Result<()> {
        let path = create.path.clone();
        let settled = self.settle(&Write { path: &path, value, replaces: None }).await;
        let (arrival, seen) = match settled.with_context(|| format!("create {path}"))? {
            Settled::Done(reply) => (reply.arrival, seen(&reply)),
            Settled::Before => self.left_behind(&path, value).await?,
        };
        self.push_done(arrival, create, Seen { path: Some(path), ..seen });
        Ok(())
    }

    /// Several creates in flight at once; those whose answer was lost are settled one by one.
    async fn create_burst(&mut self) -> Result<()> {
        let directory = self.shared.paths.directory(self.index);
        let nodes: Vec<(String, String)> = (0..BURST)
            .map(|_| {
                let value = self.unique();
                (format!("{directory}/n{:08}", self.counter), value)
            })
            .collect();
        let begun = self.shared.clock.now_ns();
        let client = self.client.clone();
        let writes: Vec<Write<'_>> =
            nodes.iter().map(|(path, value)| Write { path, value, replaces: None }).collect();
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| writes[i].attempt(&client));
        let answers: [_; BURST] = tokio::join!(a, b, c, d).into();
        for ((path, value), answer) in nodes.into_iter().zip(answers) {
            let mut create = operation(Kind::Create, &path, begun);
            create.value = Some(value.clone());
            match answer {
                Ok(reply) => {
                    self.push_done(reply.arrival, create, Seen { path: Some(path.clone()), ..seen(&reply) })
                }
                Err(error) => self.finish_create(create, &value, error).await?,
            }
            self.record.created.push((path, value));
        }
        Ok(())
    }

    async fn finish_create(&mut self, create: Operation, value: &str, error: ClientError) -> Result<()> {
        let (path, unknown) = (create.path.clone(), error.maybe_applied());
        self.retry_or_fail(error).await?;
        if !unknown {
            return self.settle_create(create, value).await;
        }
        self.record.counts.unknown += 1;
        // The same session asks: either its old connection's write is applied by now, or it never will be.
        let found = loop {
            match self.client.exists(&path).await {
                Ok(reply) => break reply.value.is_some(),
                Err(error) => self.retry_or_fail(error).await?,
            }
        };
        if !found {
            self.record.counts.unknown_repeated += 1;
            return self.settle_create(create, value).await;
        }
        self.record.counts.unknown_applied += 1;
        let (arrival, seen) = self.left_behind(&path, value).await?;
        self.push_done(arrival, create, Seen { path: Some(path), ..seen });
        Ok(())
    }

    async fn create_sequential(&mut self) -> Result<()> {
        self.counter += 1;
        let prefix = format!("q-{}-{}-", self.index, self.counter);
        let parent = self.shared.paths.queue();
        let path = format!("{parent}/{prefix}");
        let mut create = self.begin(Kind::CreateSequential, &path);
        create.value = Some(prefix.clone());
        let mut unknown = false;
        loop {
            let error = match self
                .client
                .create(&path, prefix.as_bytes(), CreateMode::PersistentSequential)
                .await
            {
                Ok(reply) => {
                    self.record.counts.unknown_repeated += u64::from(unknown);
                    let name = reply.value.path.clone();
                    let reply = reply.map(|created| created.stat);
                    self.push_done(reply.arrival, create, Seen { path: Some(name.clone()), ..seen(&reply) });
                    self.record.sequential.push((name, prefix));
                    return Ok(());
                }
                Err(error) => error,
            };
            let maybe_applied = error.maybe_applied();
            self.retry_or_fail(error).await?;
            if maybe_applied {
                self.record.counts.unknown += u64::from(!unknown);
                unknown = true;
                if let Some(name) = self.find_sequential(&parent, &prefix).await? {
                    self.record.counts.unknown_applied += 1;
                    let name = format!("{parent}/{name}");
                    let (arrival, seen) = self.left_behind(&name, &prefix).await?;
                    self.push_done(arrival, create, Seen { path: Some(name.clone()), ..seen });
                    self.record.sequential.push((name, prefix));
                    return Ok(());
                }
            }
        }
    }

    /// The node that an unanswered sequential create made, if it did.
    async fn find_sequential(&mut self, parent: &str, prefix: &str) -> Result<Option<String>> {
        loop {
            match self.client.children(parent).await {
                Ok(reply) => {
                    let mut found = reply.value.into_iter().filter(|name| name.starts_with(prefix));
                    let first = found.next();
                    if let Some(second) = found.next() {
                        self.violation(format!("one sequential create made {first:?} and {second}"));
                    }
                    return Ok(first);
                }
                Err(error) => self.retry_or_fail(error).await?,
            }
        }
    }

    async fn watch(&mut self) -> Result<()> {
        if self.watches_open >= WATCHES_MAX {
            return self.read(false).await;
        }
        let path = self.shared_path();
        let mut get = self.begin(Kind::Get, &path);
        get.watch = true;
        let (reply, watch) = match self.client.get_watch(&path).await {
            Ok(answer) => answer,
            Err(error) => return self.retry_or_fail(error).await,
        };
        self.push_read(get, reply);
        self.watches_open += 1;
        let fired = self.fired.clone();
        tokio::spawn(async move {
            // A lost session takes its watches along: `None` gives the place back. The session may have stopped
            // already.
            let _ = fired.send(watch.event().await.ok()).await;
        });
        Ok(())
    }

    fn note_events(&mut self) {
        while let Ok(fired) = self.fired_receiver.try_recv() {
            self.watches_open -= 1;
            let Some(Reply { zxid, arrival, value }) = fired else { continue };
            let event = self.begin(Kind::Event, &value.path);
            self.push_done(arrival, event, Seen { zxid, ..Seen::default() });
        }
    }

    fn note_connection(&mut self) {
        if let SessionState::Connected { address, .. } = self.client.state()
            && self.last_address != address
        {
            self.record.counts.reconnects += u64::from(!self.last_address.is_empty());
            self.last_address = address;
        }
    }
}

pub async fn connect(options: &LoadOptions) -> Result<Client> {
    let client_options = Options {
        session_timeout_ms: options.session_timeout_ms,
        connect_timeout: options.connect_timeout,
        operation_timeout: Some(OPERATION_TIMEOUT),
        ..Options::default()
    };
    let mut tries = 0;
    loop {
        match Client::connect(&options.hosts, client_options.clone()).await {
            Ok(client) => return Ok(client),
            Err(error) if tries == options.connect_tries => {
                return Err(error).with_context(|| format!("cannot connect to {}", options.hosts.join(",")));
            }
            Err(_passing) => tries += 1,
        }
    }
}
