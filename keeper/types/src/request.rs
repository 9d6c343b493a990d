//! Requests, borrowed from the frame they arrived in: no payload is copied to decode one.

use crate::{Acl, OpCode};

/// The first packet of a connection (zookeeper.jute, `ConnectRequest`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    pub protocol_version: i32,
    pub last_zxid_seen: i64,
    pub timeout_ms: i32,
    /// 0 asks for a new session.
    pub session_id: i64,
    pub password: Vec<u8>,
    /// `None` when the client (before 3.4) sent no such byte; the reply then has none either.
    pub read_only: Option<bool>,
    /// Of ClickHouse's newer clients: how they go on after the handshake.
    pub dialect: Option<DialectOptions>,
}

/// What one of ClickHouse's newer clients asked for in its handshake (protocol versions 10 to 12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DialectOptions {
    /// Both directions in compressed blocks.
    pub compressed: bool,
    /// Transaction ids of 64 bits.
    pub long_xids: bool,
    /// A trace context behind each request.
    pub tracing: bool,
}

/// createMode flags of a create; other values are `BadArguments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum CreateMode {
    Persistent = 0,
    Ephemeral = 1,
    PersistentSequential = 2,
    EphemeralSequential = 3,
    Container = 4,
    PersistentTtl = 5,
    PersistentSequentialTtl = 6,
}

impl CreateMode {
    pub fn from_i32(value: i32) -> Option<CreateMode> {
        use CreateMode::*;
        [
            Persistent,
            Ephemeral,
            PersistentSequential,
            EphemeralSequential,
            Container,
            PersistentTtl,
            PersistentSequentialTtl,
        ]
        .into_iter()
        .find(|mode| *mode as i32 == value)
    }

    pub fn is_ephemeral(self) -> bool {
        matches!(self, CreateMode::Ephemeral | CreateMode::EphemeralSequential)
    }

    pub fn is_sequential(self) -> bool {
        matches!(
            self,
            CreateMode::PersistentSequential
                | CreateMode::EphemeralSequential
                | CreateMode::PersistentSequentialTtl
        )
    }
}

/// Body of create, create2, createContainer, createTTL and createIfNotExists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRequest<'a> {
    pub path: &'a str,
    /// `None` is ZooKeeper's null data (length -1), kept apart from empty data.
    pub data: Option<&'a [u8]>,
    pub acl: Vec<Acl>,
    /// Raw createMode: checked where it is applied, since an unknown one is an answer, not a malformed frame.
    pub flags: i32,
    /// Milliseconds; only createTTL carries it.
    pub ttl_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest<'a> {
    pub path: &'a str,
    /// -1 matches any.
    pub version: i32,
}

/// Body of the reads that name a path and may leave a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest<'a> {
    pub path: &'a str,
    pub watch: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetDataRequest<'a> {
    pub path: &'a str,
    pub data: Option<&'a [u8]>,
    pub version: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAclRequest<'a> {
    pub path: &'a str,
    pub acl: Vec<Acl>,
    pub version: i32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRequest<'a> {
    pub path: &'a str,
    pub version: i32,
}

/// ClickHouse 504: a field of -1 is not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckStatRequest<'a> {
    pub path: &'a str,
    pub version: i32,
    pub stat: crate::Stat,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconfigRequest<'a> {
    pub joining: Option<&'a str>,
    pub leaving: Option<&'a str>,
    pub new_members: Option<&'a str>,
    pub config_id: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRequest<'a> {
    pub scheme: &'a str,
    pub auth: &'a [u8],
}

/// Watches a client sets again after it moved; events missed since `relative_zxid` are sent at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetWatchesRequest<'a> {
    pub relative_zxid: i64,
    pub data: Vec<&'a str>,
    pub exist: Vec<&'a str>,
    pub child: Vec<&'a str>,
    /// Only SetWatches2.
    pub persistent: Vec<&'a str>,
    pub persistent_recursive: Vec<&'a str>,
}

/// checkWatches, removeWatches (watcher type) and addWatch (mode).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchTypeRequest<'a> {
    pub path: &'a str,
    pub kind: i32,
}

/// ClickHouse 500 and 506.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListRequest<'a> {
    pub path: &'a str,
    pub watch: bool,
    /// 0 all, 1 persistent only, 2 ephemeral only.
    pub filter: u8,
    pub with_stat: bool,
    pub with_data: bool,
}

/// ClickHouse 503 and 507: a node with all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecursiveRequest<'a> {
    pub path: &'a str,
    /// More than so many nodes are an error (503) or left out (507).
    pub nodes_max: u32,
}

/// One operation inside a multi.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiOp<'a> {
    /// create, create2, createContainer, createTTL or createIfNotExists.
    Create(OpCode, CreateRequest<'a>),
    Delete(DeleteRequest<'a>),
    SetData(SetDataRequest<'a>),
    Check(CheckRequest<'a>),
    CheckNotExists(CheckRequest<'a>),
    CheckStat(CheckStatRequest<'a>),
    TryRemove(DeleteRequest<'a>),
    RemoveRecursive(RecursiveRequest<'a>),
}

impl MultiOp<'_> {
    pub fn op(&self) -> OpCode {
        match self {
            MultiOp::Create(op, _) => *op,
            MultiOp::Delete(_) => OpCode::Delete,
            MultiOp::SetData(_) => OpCode::SetData,
            MultiOp::Check(_) => OpCode::Check,
            MultiOp::CheckNotExists(_) => OpCode::CheckNotExists,
            MultiOp::CheckStat(_) => OpCode::CheckStat,
            MultiOp::TryRemove(_) => OpCode::TryRemove,
            MultiOp::RemoveRecursive(_) => OpCode::RemoveRecursive,
        }
    }

    pub fn path(&self) -> &str {
        match self {
            MultiOp::Create(_, create) => create.path,
            MultiOp::Delete(delete) | MultiOp::TryRemove(delete) => delete.path,
            MultiOp::SetData(set) => set.path,
            MultiOp::Check(check) | MultiOp::CheckNotExists(check) => check.path,
            MultiOp::CheckStat(check) => check.path,
            MultiOp::RemoveRecursive(remove) => remove.path,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// create, create2, createContainer, createTTL or createIfNotExists.
    Create(OpCode, CreateRequest<'a>),
    Delete(DeleteRequest<'a>),
    Exists(ReadRequest<'a>),
    GetData(ReadRequest<'a>),
    SetData(SetDataRequest<'a>),
    GetAcl(&'a str),
    SetAcl(SetAclRequest<'a>),
    GetChildren(ReadRequest<'a>),
    GetChildren2(ReadRequest<'a>),
    Sync(&'a str),
    Ping,
    Check(CheckRequest<'a>),
    Multi(Vec<MultiOp<'a>>),
    Auth(AuthRequest<'a>),
    SetWatches(SetWatchesRequest<'a>),
    CloseSession,
    Reconfig(ReconfigRequest<'a>),
    CheckWatches(WatchTypeRequest<'a>),
    RemoveWatches(WatchTypeRequest<'a>),
    AddWatch(WatchTypeRequest<'a>),
    /// Each one of exists, getData, getChildren, getChildren2, filteredList and 506.
    MultiRead(Vec<Request<'a>>),
    Sasl(&'a [u8]),
    GetEphemerals(&'a str),
    GetAllChildrenNumber(&'a str),
    SetWatches2(SetWatchesRequest<'a>),
    WhoAmI,
    FilteredList(ListRequest<'a>),
    FilteredListWithStatsAndData(ListRequest<'a>),
    CheckNotExists(CheckRequest<'a>),
    RemoveRecursive(RecursiveRequest<'a>),
    CheckStat(CheckStatRequest<'a>),
    TryRemove(DeleteRequest<'a>),
    ListRecursive(RecursiveRequest<'a>),
}

impl Request<'_> {
    pub fn op(&self) -> OpCode {
        match self {
            Request::Create(op, _) => *op,
            Request::Delete(_) => OpCode::Delete,
            Request::Exists(_) => OpCode::Exists,
            Request::GetData(_) => OpCode::GetData,
            Request::SetData(_) => OpCode::SetData,
            Request::GetAcl(_) => OpCode::GetAcl,
            Request::SetAcl(_) => OpCode::SetAcl,
            Request::GetChildren(_) => OpCode::GetChildren,
            Request::GetChildren2(_) => OpCode::GetChildren2,
            Request::Sync(_) => OpCode::Sync,
            Request::Ping => OpCode::Ping,
            Request::Check(_) => OpCode::Check,
            Request::Multi(_) => OpCode::Multi,
            Request::Auth(_) => OpCode::Auth,
            Request::SetWatches(_) => OpCode::SetWatches,
            Request::CloseSession => OpCode::CloseSession,
            Request::Reconfig(_) => OpCode::Reconfig,
            Request::CheckWatches(_) => OpCode::CheckWatches,
            Request::RemoveWatches(_) => OpCode::RemoveWatches,
            Request::AddWatch(_) => OpCode::AddWatch,
            Request::MultiRead(_) => OpCode::MultiRead,
            Request::Sasl(_) => OpCode::Sasl,
            Request::GetEphemerals(_) => OpCode::GetEphemerals,
            Request::GetAllChildrenNumber(_) => OpCode::GetAllChildrenNumber,
            Request::SetWatches2(_) => OpCode::SetWatches2,
            Request::WhoAmI => OpCode::WhoAmI,
            Request::FilteredList(_) => OpCode::FilteredList,
            Request::FilteredListWithStatsAndData(_) => OpCode::FilteredListWithStatsAndData,
            Request::CheckNotExists(_) => OpCode::CheckNotExists,
            Request::RemoveRecursive(_) => OpCode::RemoveRecursive,
            Request::CheckStat(_) => OpCode::CheckStat,
            Request::TryRemove(_) => OpCode::TryRemove,
            Request::ListRecursive(_) => OpCode::ListRecursive,
        }
    }
}
