//! What goes into the state machine and what comes out of it. Plain values, no behaviour.

use keeper_types::{AclId, ErrorCode, EventKind, Generation, Request, Response, ServerId, SessionId, Zxid};

use crate::readers::Readers;

/// Position of a batch among those of one life (`epoch`) of one server (`origin`), from 0 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchId {
    pub origin: ServerId,
    pub epoch: u64,
    pub seq: u64,
}

/// What to do with a batch that the log delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The next one of its origin: apply its commands.
    Apply,
    /// Applied before, or of an earlier life of its origin: skip it.
    Duplicate,
    /// An earlier batch of its origin is missing: skip it, the origin sends again from `expected`.
    Gap { expected: u64 },
}

#[derive(Clone, Debug)]
pub struct Command<'a> {
    pub session: SessionId,
    /// Of the connection the command came over.
    pub generation: Generation,
    /// Who the connection has proved to be; the `ip` identity among them.
    pub identities: &'a [AclId],
    pub op: CommandOp<'a>,
    /// The hard limits of quotas are held for this command.
    pub enforce_quota: bool,
    /// False on the nodes that do not answer the client: no string is built then, and the outcome of a
    /// success is `Outcome::None` (a session's is always given).
    pub want_reply: bool,
}

#[derive(Clone, Debug)]
pub enum CommandOp<'a> {
    /// A request of the class `OpClass::Write`; others answer `Unimplemented`.
    Request(&'a Request<'a>),
    /// Changes nothing and consumes no zxid: its place in the order is all it is for.
    Sync,
    CreateSession {
        timeout_ms: i32,
        password: [u8; 16],
    },
    /// Moves `Command::session` to a new connection under the next generation. Consumes no zxid.
    AttachSession {
        password: [u8; 16],
        timeout_ms: i32,
    },
    CloseSession,
    /// Ends the session if `Command::generation` is still its current one.
    ExpireSession,
    /// Removes a container or TTL node whose time has come, and nothing else. Of no session.
    CleanUp {
        path: &'a str,
    },
    /// The data of `/zookeeper/config`. Of no session.
    SetConfig {
        text: &'a str,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Response(Response),
    Session { id: SessionId, generation: Generation, timeout_ms: i32 },
    None,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The command's own zxid, or the last one for the commands that consume none.
    pub zxid: Zxid,
    /// A failed multi is `Ok` with its `Response::Multi` of errors, as on the wire.
    pub result: Result<Outcome, ErrorCode>,
}

/// Told what happened, after the whole command succeeded, in the order ZooKeeper fires watches.
pub trait Sink {
    /// Nobody but `readers` may hear of it.
    fn event(&mut self, kind: EventKind, path: &str, zxid: Zxid, readers: &Readers);
    /// Closed or expired; its ephemeral nodes are gone, their events have been given.
    fn session_ended(&mut self, id: SessionId);
    /// The session now lives on another connection.
    fn session_moved(&mut self, id: SessionId, generation: Generation);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    pub id: SessionId,
    pub timeout_ms: i32,
    pub generation: Generation,
    pub password: [u8; 16],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nodes that exist, the root once.
    pub znodes: u64,
    pub ephemerals: u64,
    pub sessions: u64,
    /// Bytes of all paths and data, as ZooKeeper counts `approximate_data_size`.
    pub approximate_data_bytes: u64,
}
