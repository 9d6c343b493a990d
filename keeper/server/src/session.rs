//! Stage Admitted: one connection's session. Keeps its requests in order: a read with no unfinished write before
//! it is answered here and now; anything else takes its place in the outbox's queue.

use crate::batch::{Kind, session_body};
use crate::dispatch::{Dispatch, Submission};
use crate::in_flight::Target;
use crate::limits::{IDENTITIES_MAX, IDENTITY_BYTES_MAX};
use crate::outbox::{CloseReason, Outbox, Pending};
use crate::read::Reader;
use crate::shared::Shared;
use crate::stage::Stage;
use bytes::{Bytes, BytesMut};
use keeper_rt::Instant;
use keeper_tree::{Applied, Outcome};
use keeper_types::{
    AclId, AuthRequest, ErrorCode, Generation, OpClass, OpCode, Request, Response, SessionId,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::oneshot;

/// xid of auth packets and their replies.
const AUTH_XID: i32 = -4;

/// Switches and secrets of authentication.
#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    /// `user:base64(sha1(user:password))` of the super user; none when unset.
    pub super_digest: Option<String>,
}

pub struct Session {
    shared: Arc<Shared>,
    dispatch: Dispatch,
    outbox: Arc<Outbox>,
    auth: AuthOptions,
    id: SessionId,
    generation: Generation,
    identities: Arc<[AclId]>,
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
    dispatch.submit(Submission {
        kind,
        session,
        generation: Generation(0),
        identities: Arc::from([]),
        op: None,
        body: Bytes::copy_from_slice(&session_body(timeout_ms, &password)),
        target: Target::Session(done),
        submitted: keeper_rt::now(),
    });
    outcome.await.ok()
}

impl Session {
    pub fn new(
        shared: Arc<Shared>,
        dispatch: Dispatch,
        outbox: Arc<Outbox>,
        auth: AuthOptions,
        opened: &Outcome,
        remote_ip: &str,
        proved: Vec<AclId>,
    ) -> Option<Session> {
        let Outcome::Session { id, generation, .. } = opened else { return None };
        outbox.set_session(*id, *generation);
        shared.sessions.attach(*id, &outbox);
        // The session may have moved on or ended between its command's apply and now.
        let current = shared.read_tree().session(*id).map(|session| session.generation);
        if current != Some(*generation) {
            let reason =
                if current.is_some() { CloseReason::SessionMoved } else { CloseReason::SessionEnded };
            outbox.close(reason);
        }
        let ip = AclId { scheme: "ip".into(), id: remote_ip.into() };
        Some(Session {
            shared,
            dispatch,
            outbox,
            auth,
            id: *id,
            generation: *generation,
            identities: std::iter::once(ip).chain(proved).collect(),
        })
    }

    pub fn id(&self) -> SessionId {
        self.id
    }

    /// One frame after the handshake.
    pub fn handle(&mut self, frame: Bytes, received: Instant) -> Result<OpCode, Refused> {
        let (header, body) = keeper_wire::decode_header(&frame)
            .map_err(|error| Refused(format!("request header: {error}")))?;
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
        let body_at = frame.len() - body.len();
        match (op.class(), &request) {
            (_, Request::Auth(auth)) => self.authenticate(auth),
            (_, Request::CloseSession) => {
                self.write(header.xid, op, Kind::CloseSession, Bytes::new(), received)
            }
            (_, Request::Sync(_)) => self.write(header.xid, op, Kind::Sync, frame.slice(body_at..), received),
            (OpClass::Write, _) => {
                self.admit_write(header.xid, op, &request, frame.slice(body_at..), received)
            }
            _ => self.read(header.xid, op, &request, frame.slice(body_at..)),
        }
        Ok(op)
    }

    fn read(&self, xid: i32, op: OpCode, request: &Request<'_>, body: Bytes) {
        // The tree's lock comes first and keeps apply away from this outbox meanwhile.
        let tree = self.shared.read_tree();
        let mut state = self.outbox.lock();
        if state.queue.is_empty() {
            let reader = Reader {
                tree: &tree,
                watches: &self.shared.watches,
                outbox: &self.outbox,
                identities: &self.identities,
            };
            reader.answer(xid, request, &mut state.out);
        } else {
            state.queue.push_back(Pending::Read { xid, op, body, identities: self.identities.clone() });
        }
    }

    fn admit_write(&self, xid: i32, op: OpCode, request: &Request<'_>, body: Bytes, received: Instant) {
        let grows = !matches!(request, Request::Delete(_) | Request::Check(_));
        if grows && self.shared.disk_full.load(Ordering::Relaxed) {
            // ClickHouse's clients know this code as "refused for want of room"; others see a failed request.
            self.reply_now(xid, Err(ErrorCode::OutOfMemory));
            return;
        }
        self.write(xid, op, Kind::Request, body, received);
    }

    fn write(&self, xid: i32, op: OpCode, kind: Kind, body: Bytes, received: Instant) {
        self.shared.metrics.observe(Stage::Received, received.elapsed());
        {
            let mut state = self.outbox.lock();
            state.queued_bytes += body.len();
            state.queue.push_back(Pending::Write { xid, op, bytes: body.len() });
        }
        self.shared.metrics.observe(Stage::Admitted, received.elapsed());
        self.dispatch.submit(Submission {
            kind,
            session: self.id,
            generation: self.generation,
            identities: self.identities.clone(),
            op: (kind == Kind::Request).then_some(op.as_i32()),
            body,
            target: Target::Request { outbox: self.outbox.clone(), xid, op, received },
            submitted: keeper_rt::now(),
        });
    }

    /// Adds an identity to the connection. An unknown scheme or bad data is answered, then the connection ends.
    fn authenticate(&mut self, request: &AuthRequest<'_>) {
        match self.identity_of(request) {
            Ok(identity) => {
                let known = identity.iter().all(|new| self.identities.contains(new));
                if !known && self.identities.len() < IDENTITIES_MAX {
                    self.identities = self.identities.iter().cloned().chain(identity).collect();
                }
                self.reply_auth(Ok(()));
            }
            Err(()) => {
                self.reply_auth(Err(ErrorCode::AuthFailed));
                self.outbox.close(CloseReason::AuthFailed);
            }
        }
    }

    fn identity_of(&self, request: &AuthRequest<'_>) -> Result<Vec<AclId>, ()> {
        match request.scheme {
            // The address is known from the connection already.
            "ip" => Ok(Vec::new()),
            // So is a certificate, if there was one.
            "x509" if self.identities.iter().any(|identity| identity.scheme == "x509") => Ok(Vec::new()),
            "digest" => {
                let text = std::str::from_utf8(request.auth).map_err(|_| ())?;
                if text.len() > IDENTITY_BYTES_MAX {
                    return Err(());
                }
                let identity = keeper_tree::digest_identity(text).ok_or(())?;
                let mut identities = Vec::with_capacity(2);
                if self.auth.super_digest.as_deref() == Some(identity.id.as_str()) {
                    identities.push(AclId { scheme: "super".into(), id: String::new() });
                }
                identities.push(identity);
                Ok(identities)
            }
            _ => Err(()),
        }
    }

    fn reply_auth(&self, result: Result<(), ErrorCode>) {
        let mut bytes = BytesMut::new();
        let result = result.as_ref().map(|()| &Response::Empty).map_err(|code| *code);
        keeper_wire::encode_reply(AUTH_XID, 0, result, &mut bytes);
        self.push_ready(bytes);
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
