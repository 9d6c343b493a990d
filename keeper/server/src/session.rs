//! Stage Admitted: one connection's session. Keeps its requests in order: a read with no unfinished write before
//! it is answered here and now; anything else takes its place in the outbox's queue.

use crate::auth::{Answer, Auth, AuthOptions, identity_bytes};
use crate::batch::{Kind, session_body};
use crate::dispatch::{Dispatch, Submission};
use crate::in_flight::Target;
use crate::large_writes::Permit;
use crate::limits::{
    LARGE_IDENTITIES_BYTES, LARGE_WRITE_BYTES, MULTI_READ_BYTES_MAX, MULTI_READS_AT_A_TIME,
    READ_BEHIND_REQUESTS_MAX, READ_BEHIND_WRITE_BYTES_MAX, WATCHES_AT_A_TIME,
};
use crate::outbox::{CloseReason, Outbox, Pending};
use crate::read::{self, Reader, in_parts};
use crate::reconfig::Reconfiguring;
use crate::shared::Shared;
use crate::stage::Stage;
use bytes::{Bytes, BytesMut};
use keeper_rt::Instant;
use keeper_tree::{Applied, Outcome, Tree};
use keeper_types::{
    AclId, ErrorCode, Generation, OpClass, OpCode, Request, Response, SessionId, SetWatchesRequest,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;

/// Refused on a read-only session, as in ZooKeeper (`ReadOnlyRequestProcessor`).
fn is_write(op: OpCode) -> bool {
    op == OpCode::Sync || matches!(op.class(), OpClass::Write | OpClass::Membership)
}

/// Too many small steps for one go, wherever it stands.
fn takes_turns(request: &Request<'_>) -> bool {
    match request {
        Request::SetWatches(watches) | Request::SetWatches2(watches) => {
            read::watches_in(watches) > WATCHES_AT_A_TIME
        }
        Request::MultiRead(reads) => reads.len() > MULTI_READS_AT_A_TIME,
        _ => false,
    }
}

/// Too long for the task that applies writes.
fn is_long(tree: &Tree, request: &Request<'_>) -> bool {
    read::estimated_bytes(tree, request).is_none_or(|bytes| bytes > READ_BEHIND_WRITE_BYTES_MAX)
}

/// Far from the ids of the log's sessions, so that no member takes one for the other.
fn new_local_id() -> i64 {
    const LOCAL_ID_HIGH: i64 = 2 << 56;
    LOCAL_ID_HIGH | (i64::from_le_bytes(keeper_rt::random_bytes::<8>()) & (LOCAL_ID_HIGH - 1) >> 1)
}

/// What this member lets its clients do, beyond who they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Hard limits of quotas are held (ZooKeeper `enforceQuota`).
    pub enforce_quota: bool,
    /// Clients with the right to write `/zookeeper/config` change the membership (ZooKeeper `reconfigEnabled`).
    pub reconfig: bool,
    /// Without a quorum, clients that ask for it may read (ZooKeeper `readonlymode.enabled`).
    pub read_only: bool,
}

pub struct Session {
    shared: Arc<Shared>,
    dispatch: Dispatch,
    outbox: Arc<Outbox>,
    auth: Auth,
    rules: Rules,
    /// There is no quorum: writes answer `NotReadOnly`.
    read_only: bool,
    id: SessionId,
    generation: Generation,
    identities: Arc<[AclId]>,
    /// A request that takes long: answered by [`resume`](Session::resume), not among others' work. No further one is
    /// read meanwhile.
    deferred: Option<Deferred>,
}

enum Deferred {
    /// Waits until nothing is before it.
    Read { xid: i32, op: OpCode, body: Bytes },
    /// Waits for its permit.
    Write { xid: i32, op: OpCode, kind: Kind, body: Bytes, received: Instant },
}

/// The connection cannot go on: not a request of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Asks for a new session, or for one back. `None`: no leader took it in time, or this member stops.
pub async fn open(
    dispatch: &Dispatch,
    kind: Kind,
    session: SessionId,
    timeout_ms: i32,
    password: [u8; 16],
) -> Option<Applied> {
    let (done, outcome) = oneshot::channel();
    let body = Bytes::copy_from_slice(&session_body(timeout_ms, &password));
    dispatch.submit(Submission::command(kind, (session, Generation(0)), body, Target::Session(done)));
    outcome.await.ok()
}

/// What a session is made of: the member it is on, and the connection it lives on.
pub struct Client {
    pub shared: Arc<Shared>,
    pub dispatch: Dispatch,
    pub outbox: Arc<Outbox>,
    pub auth: Arc<AuthOptions>,
    pub rules: Rules,
    pub ip: String,
    /// Who it is by what carries its bytes: a verified certificate.
    pub proved: Vec<AclId>,
}

impl Client {
    fn session(self, id: SessionId, generation: Generation, read_only: bool) -> Session {
        let Client { shared, dispatch, outbox, auth, rules, ip, proved } = self;
        let identities = auth.first_identities(&ip, proved);
        outbox.show_digests(auth.unredacted_acl);
        outbox.lock().identities = identities.clone();
        let auth = Auth::new(auth);
        let deferred = None;
        Session { shared, dispatch, outbox, auth, rules, read_only, id, generation, identities, deferred }
    }
}

impl Session {
    pub fn new(client: Client, opened: &Outcome) -> Option<Session> {
        let Outcome::Session { id, generation, .. } = opened else { return None };
        let (shared, outbox) = (&client.shared, &client.outbox);
        outbox.set_session(*id, *generation);
        shared.sessions.attach(*id, outbox);
        // The session may have moved on or ended between its command's apply and now.
        let current = shared.read_tree().session(*id).map(|session| session.generation);
        if current != Some(*generation) {
            let reason =
                if current.is_some() { CloseReason::SessionMoved } else { CloseReason::SessionEnded };
            outbox.close(reason);
        }
        Some(client.session(*id, *generation, false))
    }

    /// A new session without a quorum: it lives on this connection only.
    pub fn new_read_only(client: Client) -> Session {
        let (id, generation) = (SessionId(new_local_id()), Generation(0));
        client.outbox.set_session(id, generation);
        client.shared.read_only_clients.attach(id, &client.outbox);
        client.session(id, generation, true)
    }

    pub fn id(&self) -> SessionId {
        self.id
    }

    /// One frame after the handshake.
    pub fn handle(&mut self, frame: Bytes, received: Instant) -> Result<OpCode, Refused> {
        let (header, body) = keeper_wire::decode_header(&frame)
            .map_err(|error| Refused(format!("request header: {error}")))?;
        if let Some(refusal) = self.auth.refusal(header.xid, header.op, &self.identities) {
            self.give(refusal);
            return Ok(OpCode::Ping);
        }
        let Some(op) = OpCode::from_i32(header.op).filter(|op| *op != OpCode::CreateSession) else {
            self.reply_now(header.xid, Err(ErrorCode::Unimplemented));
            return Ok(OpCode::Ping);
        };
        if op.class() == OpClass::Unserved {
            self.reply_now(header.xid, Err(ErrorCode::Unimplemented));
            return Ok(op);
        }
        let request = keeper_wire::decode_request(op, body)
            .map_err(|error| Refused(format!("request {} (xid {}): {error}", op.name(), header.xid)))?;
        if self.shared.features.refuse(&request) {
            self.reply_now(header.xid, Err(ErrorCode::Unimplemented));
            return Ok(op);
        }
        let body_at = frame.len() - body.len();
        if self.read_only && is_write(op) {
            self.reply_now(header.xid, Err(ErrorCode::NotReadOnly));
            return Ok(op);
        }
        match (op.class(), &request) {
            (_, Request::Auth(auth)) => {
                let answer = self.auth.authenticate(header.xid, auth, &mut self.identities);
                self.outbox.lock().identities = self.identities.clone();
                self.give(answer);
            }
            (_, Request::Sasl(token)) => {
                let answer = self.auth.login(header.xid, token, &mut self.identities);
                self.outbox.lock().identities = self.identities.clone();
                self.give(answer);
            }
            (_, Request::CloseSession) if self.read_only => {
                self.reply_now(header.xid, Ok(()));
                self.outbox.close(CloseReason::ClosedByClient);
            }
            (_, Request::Reconfig(_)) => self.reconfigure(header.xid, frame.slice(body_at..)),
            (_, Request::CloseSession) => {
                self.write(header.xid, op, Kind::CloseSession, Bytes::new(), received, None)
            }
            (_, Request::Sync(path)) if keeper_rt::planted!("sync-not-awaited") => {
                let (mut bytes, zxid) = (BytesMut::new(), self.shared.read_tree().zxid().0);
                let response = Response::Sync { path: (*path).into() };
                keeper_wire::encode_reply(header.xid, zxid, Ok(&response), &mut bytes);
                self.push_ready(bytes);
            }
            (_, Request::Sync(_)) => {
                self.write(header.xid, op, Kind::Sync, frame.slice(body_at..), received, None)
            }
            (OpClass::Write, _) => {
                self.admit_write(header.xid, op, &request, frame.slice(body_at..), received)
            }
            _ => self.read(header.xid, op, &request, frame.slice(body_at..)),
        }
        Ok(op)
    }

    fn read(&mut self, xid: i32, op: OpCode, request: &Request<'_>, body: Bytes) {
        // The tree's lock comes first and keeps apply away from this outbox meanwhile.
        let tree = self.shared.read_tree();
        let mut state = self.outbox.lock();
        let waiting = state.queue.len();
        let waits = waiting > READ_BEHIND_REQUESTS_MAX || waiting > 0 && is_long(&tree, request);
        if waits || takes_turns(request) {
            state.held = true;
            self.deferred = Some(Deferred::Read { xid, op, body });
        } else if state.queue.is_empty() {
            self.reader(&tree).answer(xid, request, &mut state.out);
        } else if keeper_rt::planted!("read-before-own-write") {
            let mut early = BytesMut::new();
            self.reader(&tree).answer(xid, request, &mut early);
            state.queue.push_back(Pending::Ready(early.freeze()));
        } else {
            state.queue.push_back(Pending::Read { xid, op, body, identities: self.identities.clone() });
        }
    }

    fn reader<'a>(&'a self, tree: &'a Tree) -> Reader<'a> {
        Reader {
            tree,
            watches: &self.shared.watches,
            features: self.shared.features,
            outbox: &self.outbox,
            identities: &self.identities,
        }
    }

    /// The deferred request's turn has come.
    pub fn can_resume(&self) -> bool {
        match &self.deferred {
            None => false,
            Some(Deferred::Read { .. }) => self.outbox.lock().queue.is_empty(),
            Some(Deferred::Write { .. }) => self.outbox.lock().permit.is_some(),
        }
    }

    /// Goes on with the deferred request, if its turn has come.
    pub async fn resume(&mut self) {
        if !self.can_resume() {
            return;
        }
        match self.deferred.take() {
            None => return,
            Some(Deferred::Read { xid, op, body }) => self.answer_deferred(xid, op, &body).await,
            Some(Deferred::Write { xid, op, kind, body, received }) => {
                let permit = self.outbox.lock().permit.take();
                self.write(xid, op, kind, body, received, permit);
            }
        }
        self.outbox.lock().held = false;
    }

    async fn answer_deferred(&self, xid: i32, op: OpCode, body: &[u8]) {
        match keeper_wire::decode_request(op, body) {
            Ok(Request::SetWatches(watches) | Request::SetWatches2(watches)) => {
                self.set_watches(xid, &watches).await;
            }
            Ok(Request::MultiRead(reads)) => self.multi_read(xid, &reads).await,
            Ok(request) => {
                let tree = self.shared.read_tree();
                self.reader(&tree).answer(xid, &request, &mut self.outbox.lock().out);
            }
            // It decoded when it was admitted.
            Err(_) => self.reply_now(xid, Err(ErrorCode::MarshallingError)),
        }
    }

    /// Part by part, with room for writes and for other clients between: as in ZooKeeper, a change may come in the middle.
    async fn set_watches(&self, xid: i32, watches: &SetWatchesRequest<'_>) {
        for part in in_parts(watches) {
            let set = {
                let tree = self.shared.read_tree();
                self.reader(&tree).set_watches(&part, &mut self.outbox.lock().out)
            };
            if let Err(code) = set {
                return self.reply_now(xid, Err(code));
            }
            keeper_rt::yield_now().await;
        }
        self.reply_now(xid, Ok(()));
    }

    async fn multi_read(&self, xid: i32, reads: &[Request<'_>]) {
        // Known beforehand, so that nobody makes us gather what we will not send.
        let estimate: usize = {
            let tree = self.shared.read_tree();
            reads.iter().filter_map(|read| read::estimated_bytes(&tree, read)).sum()
        };
        let too_much = (estimate > MULTI_READ_BYTES_MAX).then_some(ErrorCode::SystemError);
        let mut outcome = too_much.map_or(Ok(()), Err);
        let (mut results, mut bytes) = (Vec::with_capacity(reads.len()), 0);
        while outcome.is_ok() && results.len() < reads.len() {
            outcome = self.reader(&self.shared.read_tree()).multi_read(reads, &mut bytes, &mut results);
            keeper_rt::yield_now().await;
        }
        if let Err(code) = outcome {
            return self.reply_now(xid, Err(code));
        }
        let zxid = self.shared.read_tree().zxid().0;
        let mut state = self.outbox.lock();
        keeper_wire::encode_reply(xid, zxid, Ok(&Response::MultiRead(results)), &mut state.out);
    }

    fn admit_write(&mut self, xid: i32, op: OpCode, request: &Request<'_>, body: Bytes, received: Instant) {
        let grows = !matches!(
            request,
            Request::Delete(_)
                | Request::TryRemove(_)
                | Request::RemoveRecursive(_)
                | Request::Check(_)
                | Request::CheckNotExists(_)
                | Request::CheckStat(_)
        );
        // Asked of the log itself: between two looks at it more could come in than its reserve holds, and wait for room
        // without an answer.
        let memory_full = self.shared.memory_full.load(Ordering::Relaxed);
        if grows && (memory_full || self.dispatch.consensus().log_is_full()) {
            if memory_full {
                self.shared.memory_refusals.fetch_add(1, Ordering::Relaxed);
            }
            // ClickHouse's clients know this code as "refused for want of room"; others see a failed request.
            self.reply_now(xid, Err(ErrorCode::OutOfMemory));
            return;
        }
        let kind = if self.rules.enforce_quota { Kind::QuotaRequest } else { Kind::Request };
        let carried: usize = self.identities.iter().map(identity_bytes).sum();
        if body.len() < LARGE_WRITE_BYTES && carried < LARGE_IDENTITIES_BYTES {
            return self.write(xid, op, kind, body, received, None);
        }
        self.outbox.lock().held = true;
        self.shared.large_writes.ask(&self.outbox, body.len() + carried);
        self.deferred = Some(Deferred::Write { xid, op, kind, body, received });
    }

    fn write(
        &self,
        xid: i32,
        op: OpCode,
        kind: Kind,
        body: Bytes,
        received: Instant,
        permit: Option<Permit>,
    ) {
        self.shared.metrics.observe(Stage::Received, received.elapsed());
        {
            let mut state = self.outbox.lock();
            state.queued_bytes += body.len();
            state.queue.push_back(Pending::Write { xid, op, bytes: body.len(), permit });
        }
        self.shared.metrics.observe(Stage::Admitted, received.elapsed());
        let is_request = matches!(kind, Kind::Request | Kind::QuotaRequest);
        self.dispatch.submit(Submission {
            kind,
            session: self.id,
            generation: self.generation,
            // Nothing else asks who may do it.
            identities: if is_request { self.identities.clone() } else { Arc::default() },
            op: is_request.then_some(op.as_i32()),
            body,
            target: Target::Request { outbox: self.outbox.clone(), xid, op, received },
            submitted: keeper_rt::now(),
        });
    }

    /// A change of the membership takes several entries of the log, and its client waits: no further request of the
    /// connection is read until it is answered.
    fn reconfigure(&self, xid: i32, body: Bytes) {
        self.outbox.lock().held = true;
        keeper_rt::spawn(
            "reconfig",
            Reconfiguring {
                shared: self.shared.clone(),
                dispatch: self.dispatch.clone(),
                outbox: self.outbox.clone(),
                identities: self.identities.clone(),
                enabled: self.rules.reconfig,
                barrier: (self.id, self.generation),
                xid,
            }
            .run(body),
        );
    }

    /// What authentication says: in its turn, or at once when it ends the connection, since nothing else is answered
    /// after that.
    fn give(&self, answer: Answer) {
        let Some(reason) = answer.close else { return self.push_ready(answer.reply) };
        let mut state = self.outbox.lock();
        if state.accepts_bytes() {
            state.out.extend_from_slice(&answer.reply);
        }
        drop(state);
        self.outbox.close(reason);
    }

    fn reply_now(&self, xid: i32, result: Result<(), ErrorCode>) {
        let mut bytes = BytesMut::new();
        let zxid =
            if result == Err(ErrorCode::Unimplemented) { -1 } else { self.shared.read_tree().zxid().0 };
        let result = result.as_ref().map(|()| &Response::Empty).map_err(|code| *code);
        keeper_wire::encode_reply(xid, zxid, result, &mut bytes);
        self.push_ready(bytes);
    }

    /// An answer that needs no tree, in its turn.
    fn push_ready(&self, bytes: BytesMut) {
        let mut state = self.outbox.lock();
        if state.queue.is_empty() {
            state.out.extend_from_slice(&bytes);
        } else {
            state.queue.push_back(Pending::Ready(bytes.freeze()));
        }
    }
}
