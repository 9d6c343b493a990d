//! Response bodies. The header (xid, zxid, error) is written beside them by `keeper-wire`.

use crate::{Acl, AclId, ErrorCode, OpCode, Stat};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    pub protocol_version: i32,
    /// 0 with session 0 tells the client that its session is gone.
    pub timeout_ms: i32,
    pub session_id: i64,
    pub password: Vec<u8>,
    /// Written only when the client sent its own read-only byte.
    pub read_only: Option<bool>,
}

/// One record of a multi's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiResult {
    Create {
        path: String,
    },
    /// create2, createContainer and createTTL, which ZooKeeper answers as create2.
    Create2 {
        path: String,
        stat: Stat,
    },
    CreateIfNotExists {
        path: String,
    },
    SetData {
        stat: Stat,
    },
    /// An operation whose success has no body: delete, check, tryRemove, removeRecursive and the other checks.
    Done(OpCode),
    /// `None` stands for err 0: an operation before the one that failed.
    Error(Option<ErrorCode>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// ping, delete, check, auth, setWatches, close and the like: a header alone.
    Empty,
    Create {
        path: String,
    },
    Create2 {
        path: String,
        stat: Stat,
    },
    Exists {
        stat: Stat,
    },
    GetData {
        data: Option<Vec<u8>>,
        stat: Stat,
    },
    SetData {
        stat: Stat,
    },
    GetAcl {
        acl: Vec<Acl>,
        stat: Stat,
    },
    SetAcl {
        stat: Stat,
    },
    GetChildren {
        names: Vec<String>,
    },
    GetChildren2 {
        names: Vec<String>,
        stat: Stat,
    },
    Sync {
        path: String,
    },
    Multi(Vec<MultiResult>),
    /// addWatch answers four bytes even on success.
    AddWatch {
        error: i32,
    },
    MultiRead(Vec<Result<(OpCode, Box<Response>), ErrorCode>>),
    /// A failed read inside a multiRead as ClickHouse's clients want it: of its own type, with the error and no body.
    Failed(ErrorCode),
    Sasl {
        token: Vec<u8>,
    },
    GetEphemerals {
        paths: Vec<String>,
    },
    GetAllChildrenNumber {
        count: i32,
    },
    WhoAmI {
        ids: Vec<AclId>,
    },
    FilteredListWithStatsAndData {
        names: Vec<String>,
        stat: Stat,
        stats: Vec<Stat>,
        data: Vec<Option<Vec<u8>>>,
    },
    ListRecursive {
        paths: Vec<String>,
    },
}
