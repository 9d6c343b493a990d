//! What a client does in one session, each with the check of what it is told.

use super::history::{History, Observed, WriteId};
use super::record::{Asked, Record};
use crate::executor::lock;
use crate::world::World;
use futures_util::future::join_all;
use keeper_client::{
    ANY_VERSION, Client, ClientError, CreateMode, ErrorCode, MultiOp, MultiResult, NodeData, Reply,
    SetDataRequest, Stat, Watch, WatchEvent,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The nodes all clients write, one at a time.
pub(super) const KEYS: [&str; 4] = ["/keys/a", "/keys/b", "/keys/c", "/keys/d"];
/// And those written in one transaction.
pub(super) const PAIR: [&str; 2] = ["/keys/left", "/keys/right"];
pub(super) const QUEUE: &str = "/queue";
pub(super) const EPHEMERALS: &str = "/ephemerals";

/// How long an event that is on this client's side already may take to reach whoever waits for it.
const EVENT_HANDOVER_MS: u64 = 100;

/// What all clients of a run found out together.
#[derive(Default)]
pub(super) struct Knowledge {
    pub(super) history: History,
    pub(super) record: Record,
    /// Number of a sequential node → zxid of its creation.
    sequential: BTreeMap<u64, i64>,
}

pub(super) type SharedKnowledge = Arc<Mutex<Knowledge>>;

/// An event, once it came.
type EventSlot = Arc<Mutex<Option<Reply<WatchEvent>>>>;

struct Watched {
    /// The state of the node that the watch was set with.
    mzxid: i64,
    event: EventSlot,
}

/// One session, as its client sees it.
pub(super) struct Session {
    pub(super) world: World,
    pub(super) knowledge: SharedKnowledge,
    pub(super) client: Client,
    /// The newest arrival of which the zxid is known.
    newest: (u64, i64),
    /// The latest change of each key that this session was shown.
    shown: BTreeMap<&'static str, i64>,
    watched: BTreeMap<&'static str, Watched>,
    ephemeral: Option<String>,
}

/// The data of a write: its number, then filler.
fn data_of(id: WriteId, filler: usize) -> Vec<u8> {
    let mut data = format!("{id} ").into_bytes();
    data.resize(data.len() + filler, b'.');
    data
}

/// What stands before the filler: the write's number, or what the node was created with.
pub(super) fn label(data: &[u8]) -> String {
    let label = data.split(|byte| *byte == b' ').next().unwrap_or_default();
    String::from_utf8_lossy(label).into_owned()
}

fn write_of(data: &[u8]) -> Option<WriteId> {
    label(data).parse().ok()
}

/// What a common node is created with.
pub(super) fn first_data(path: &str) -> String {
    format!("made{path}")
}

pub(super) fn observed(data: Option<&[u8]>, stat: &Stat) -> Observed {
    Observed { write: write_of(data.unwrap_or_default()), version: stat.version, mzxid: stat.mzxid }
}

impl Session {
    pub(super) fn new(world: &World, knowledge: &SharedKnowledge, client: Client) -> Session {
        Session {
            world: world.clone(),
            knowledge: knowledge.clone(),
            client,
            newest: (0, 0),
            shown: BTreeMap::new(),
            watched: BTreeMap::new(),
            ephemeral: None,
        }
    }

    fn now_ns(&self) -> u64 {
        self.world.simulator().now_ns()
    }

    fn check(&self, result: Result<(), String>) {
        if let Err(what) = result {
            let session = self.client.session_id();
            self.world.oracle().found(format!("session {session:x}: {what}"));
        }
    }

    /// Replies of one session never go back in time.
    fn arrived<T>(&mut self, reply: &Reply<T>) {
        let (arrival, zxid) = self.newest;
        if reply.zxid <= 0 || reply.arrival < arrival {
            return;
        }
        if reply.zxid < zxid {
            let what = format!("a reply of zxid {} came after one of zxid {zxid}", reply.zxid);
            self.check(Err(what));
        }
        self.newest = (reply.arrival, reply.zxid);
    }

    /// A session is never shown an older state of a node than before.
    fn show(&mut self, key: &'static str, mzxid: i64) {
        let before = self.shown.insert(key, mzxid).unwrap_or(0);
        if mzxid < before {
            self.check(Err(format!("{key} went back from zxid {before} to {mzxid}")));
        }
    }

    fn asked(&self, key: &'static str) -> Asked {
        Asked { session: self.client.session_id(), key, at_ns: self.now_ns() }
    }

    fn ask(&self, key: &'static str, version: i32) -> WriteId {
        let asked = self.asked(key);
        let mut knowledge = lock(&self.knowledge);
        let id = knowledge.history.ask(key, asked.at_ns);
        knowledge.record.asks(id, asked, version);
        id
    }

    /// Takes note of a write's answer; true if it took effect.
    fn settle(&mut self, key: &'static str, id: WriteId, answer: &Result<Reply<Stat>, ClientError>) -> bool {
        let now = self.now_ns();
        lock(&self.knowledge).record.answers(id, answer, now);
        match answer {
            Ok(reply) => {
                self.arrived(reply);
                if reply.zxid != reply.value.mzxid {
                    let what = format!("{key}: a write of zxid {} made {:?}", reply.zxid, reply.value);
                    self.check(Err(what));
                }
                let done =
                    lock(&self.knowledge).history.done(id, reply.value.version, reply.value.mzxid, now);
                self.world.oracle().answered(done);
                self.show(key, reply.value.mzxid);
                true
            }
            Err(error) if error.maybe_applied() => false,
            Err(_) => {
                let refused = lock(&self.knowledge).history.refused(id);
                self.check(refused);
                false
            }
        }
    }

    pub(super) async fn set(&mut self, key: &'static str, version: i32) -> bool {
        let id = self.ask(key, version);
        let filler =
            if self.world.simulator().one_in(20) { self.world.simulator().below(20_000) } else { 10 };
        let answer = self.client.set(key, &data_of(id, filler as usize), version).await;
        self.settle(key, id, &answer)
    }

    /// Reads the version, then writes only if it is still the same.
    pub(super) async fn compare_and_set(&mut self, key: &'static str) -> bool {
        match self.get(key).await {
            Some(stat) => self.set(key, stat.version).await,
            None => false,
        }
    }

    /// Writes and reads at once, in turn: they take effect in the order they were asked for.
    pub(super) async fn pipeline(&mut self, key: &'static str) {
        let client = self.client.clone();
        let ids: Vec<WriteId> = (0..4).map(|_| self.ask(key, ANY_VERSION)).collect();
        let asked = self.asked(key);
        let pairs = ids.iter().map(|id| {
            let (client, data) = (client.clone(), data_of(*id, 0));
            async move { tokio::join!(biased; client.set(key, &data, ANY_VERSION), client.get(key)) }
        });
        let answers = join_all(pairs).await;
        let mut last = 0;
        for (id, (write, _)) in ids.iter().zip(&answers) {
            if self.settle(key, *id, write)
                && let Ok(reply) = write
            {
                if reply.zxid <= last {
                    self.check(Err(format!("{key}: write {id} of zxid {} overtook {last}", reply.zxid)));
                }
                last = reply.zxid;
            }
        }
        for (write, read) in &answers {
            let Ok(read) = read else { continue };
            lock(&self.knowledge).record.reads(asked, read, self.now_ns());
            let seen = observed(read.value.data.as_deref(), &read.value.stat);
            let explained = lock(&self.knowledge).history.observe(key, seen);
            self.check(explained);
            if let Ok(write) = write
                && seen.mzxid < write.zxid
            {
                let what = format!("{key}: a read behind the write of zxid {} showed {seen:?}", write.zxid);
                self.check(Err(what));
            }
        }
    }

    /// Two nodes in one transaction.
    pub(super) async fn set_two(&mut self) {
        let [first, second] = PAIR;
        let ids = PAIR.map(|key| self.ask(key, ANY_VERSION));
        let data = ids.map(|id| data_of(id, 0));
        let set =
            |path, data| MultiOp::SetData(SetDataRequest { path, data: Some(data), version: ANY_VERSION });
        let answer = self.client.multi(vec![set(first, &data[0]), set(second, &data[1])]).await;
        for (place, (key, id)) in [first, second].into_iter().zip(ids).enumerate() {
            let each = answer.clone().and_then(|reply| match reply.value.get(place) {
                Some(MultiResult::SetData { stat }) => {
                    Ok(Reply { zxid: reply.zxid, arrival: reply.arrival, value: *stat })
                }
                other => Err(ClientError::Malformed(format!("{other:?} in a multi"))),
            });
            self.settle(key, id, &each);
        }
    }

    /// Checks what a read showed.
    async fn took(&mut self, asked: Asked, reply: &Reply<NodeData>) {
        let key = asked.key;
        lock(&self.knowledge).record.reads(asked, reply, self.now_ns());
        self.arrived(reply);
        let seen = observed(reply.value.data.as_deref(), &reply.value.stat);
        let explained = lock(&self.knowledge).history.observe(key, seen);
        self.check(explained);
        self.show(key, seen.mzxid);
        self.event_came_before(key, reply.arrival, seen.mzxid).await;
    }

    pub(super) async fn get(&mut self, key: &'static str) -> Option<Stat> {
        let asked = self.asked(key);
        let reply = self.client.get(key).await.ok()?;
        self.took(asked, &reply).await;
        Some(reply.value.stat)
    }

    pub(super) async fn sync_and_get(&mut self, key: &'static str) {
        let sync_asked = self.asked(key);
        let Ok(reply) = self.client.sync(key).await else { return };
        self.arrived(&reply);
        lock(&self.knowledge).record.syncs(sync_asked, reply.zxid, self.now_ns());
        let asked = self.asked(key);
        let Ok(reply) = self.client.get(key).await else { return };
        self.took(asked, &reply).await;
        let seen = observed(reply.value.data.as_deref(), &reply.value.stat);
        let fresh = lock(&self.knowledge).history.observe_synced(key, seen, sync_asked.at_ns);
        self.check(fresh);
    }

    /// Watches a key, once at a time.
    pub(super) async fn watch(&mut self, key: &'static str) {
        if self.watched.contains_key(key) {
            return;
        }
        let asked = self.asked(key);
        let Ok((reply, watch)) = self.client.get_watch(key).await else { return };
        self.took(asked, &reply).await;
        let event = EventSlot::default();
        self.wait_for_event(watch, event.clone());
        self.watched.insert(key, Watched { mzxid: reply.value.stat.mzxid, event });
    }

    fn wait_for_event(&self, watch: Watch, slot: EventSlot) {
        keeper_rt::spawn("watch", async move {
            if let Ok(event) = watch.event().await {
                *lock(&slot) = Some(event);
            }
        });
    }

    /// Whoever is shown a change that it watches for has had the event before.
    async fn event_came_before(&mut self, key: &'static str, arrival: u64, mzxid: i64) {
        if self.watched.get(key).is_none_or(|watched| watched.mzxid >= mzxid) {
            return;
        }
        let Some(watched) = self.watched.remove(key) else { return };
        if lock(&watched.event).is_none() {
            keeper_rt::sleep(Duration::from_millis(EVENT_HANDOVER_MS)).await;
        }
        let event = lock(&watched.event).clone();
        match event {
            Some(event) if event.arrival < arrival => {}
            _ if self.client.state().is_ended() => {}
            late => {
                let what = format!("{key}: a read showed zxid {mzxid} before the watch's event ({late:?})");
                self.check(Err(what));
            }
        }
    }

    /// Creates this session's ephemeral node; or, if there is one, sees that it is still there.
    pub(super) async fn ephemeral(&mut self, name: &str) {
        if let Some(path) = self.ephemeral.clone() {
            let found = self.client.exists(&path).await;
            if let Ok(reply) = &found
                && reply.value.is_none()
            {
                self.check(Err(format!("{path} is gone, but its session lives")));
            }
            return;
        }
        let session = self.client.session_id();
        let path = format!("{EPHEMERALS}/{name}-{session:x}");
        match self.client.create(&path, b"", CreateMode::Ephemeral).await {
            Ok(reply) => {
                if reply.value.stat.ephemeral_owner != session {
                    self.check(Err(format!("{path} belongs to {:x}", reply.value.stat.ephemeral_owner)));
                }
                self.ephemeral = Some(path);
            }
            // The second attempt after one whose outcome was not known.
            Err(ClientError::Server(ErrorCode::NodeExists)) => self.ephemeral = Some(path),
            Err(_) => {}
        }
    }

    /// Numbers of sequential nodes are given once and rise with time.
    pub(super) async fn enqueue(&mut self) {
        let path = format!("{QUEUE}/n-");
        let Ok(reply) = self.client.create(&path, b"", CreateMode::PersistentSequential).await else {
            return;
        };
        self.arrived(&reply);
        let number = reply.value.path.strip_prefix(&path).and_then(|digits| digits.parse().ok());
        let Some(number) = number else {
            return self.check(Err(format!("sequential node {}", reply.value.path)));
        };
        let zxid = reply.value.stat.czxid;
        let fits = {
            let mut knowledge = lock(&self.knowledge);
            let before = knowledge.sequential.range(..number).next_back().map_or(0, |(_, zxid)| *zxid);
            let after = knowledge.sequential.range(number..).next().map_or(i64::MAX, |(_, zxid)| *zxid);
            knowledge.sequential.insert(number, zxid);
            before < zxid && zxid < after
        };
        if !fits {
            self.check(Err(format!("sequential number {number} with zxid {zxid} is out of order or taken")));
        }
        self.world.oracle().answered(Ok(()));
    }
}
