//! A story: clients, named by a letter, and what each does in turn. One step ends before the next begins.

use bytes::BytesMut;
use keeper_types::{
    Acl, AclId, AuthRequest, CheckRequest, CreateRequest, DeleteRequest, MultiOp, OpCode, Perms, ReadRequest,
    Request, SetAclRequest, SetDataRequest, SetWatchesRequest, WatchTypeRequest,
};

/// In a request's zxid: the one that the story began at, plus what is added.
pub const STORY_BEGAN: i64 = 1 << 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Open(Opening),
    /// Bytes as they are, but for zxids from [`STORY_BEGAN`] on. One reply is waited for each operation; without any,
    /// the end of the connection.
    Send {
        client: char,
        ops: Vec<i32>,
        bytes: Vec<u8>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub client: char,
    pub session: Asked,
    pub timeout_ms: i32,
    /// `None` leaves the byte out, as clients before 3.4.
    pub read_only: Option<bool>,
    pub seen_zxid: i64,
}

/// The session that a handshake asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    New,
    /// That client's, with its password.
    Of(char),
    WrongPasswordOf(char),
    Unknown,
}

pub struct Story {
    pub name: &'static str,
    /// In the head of its file.
    pub about: &'static str,
    pub steps: Vec<Step>,
    xid: i32,
}

impl Story {
    pub fn new(name: &'static str, about: &'static str) -> Story {
        Story { name, about, steps: Vec::new(), xid: 0 }
    }

    /// A new session.
    pub fn open(&mut self, client: char) {
        self.open_as(client, Asked::New, 10_000, Some(false), 0);
    }

    pub fn open_as(
        &mut self,
        client: char,
        session: Asked,
        timeout_ms: i32,
        read_only: Option<bool>,
        seen_zxid: i64,
    ) {
        self.steps.push(Step::Open(Opening { client, session, timeout_ms, read_only, seen_zxid }));
    }

    pub fn ask(&mut self, client: char, request: &Request<'_>) {
        self.ask_together(client, std::slice::from_ref(request));
    }

    /// In one write, so that the server has all of them before it answers one.
    pub fn ask_together(&mut self, client: char, requests: &[Request<'_>]) {
        let mut bytes = BytesMut::new();
        for request in requests {
            self.xid += 1;
            let xid = match request.op() {
                OpCode::Ping => -2,
                OpCode::Auth => -4,
                OpCode::SetWatches | OpCode::SetWatches2 => -8,
                _ => self.xid,
            };
            keeper_wire::encode_request(xid, request, &mut bytes).expect("encodes");
        }
        let ops = requests.iter().map(|request| request.op().as_i32()).collect();
        self.steps.push(Step::Send { client, ops, bytes: bytes.to_vec() });
    }

    pub fn raw(&mut self, client: char, ops: &[i32], bytes: &[u8]) {
        self.steps.push(Step::Send { client, ops: ops.to_vec(), bytes: bytes.to_vec() });
    }
}

pub fn open_acl() -> Vec<Acl> {
    vec![Acl::open()]
}

pub fn acl(perms: Perms, scheme: &str, id: &str) -> Acl {
    Acl { perms, id: AclId { scheme: scheme.into(), id: id.into() } }
}

pub fn making(path: &str, flags: i32) -> CreateRequest<'_> {
    CreateRequest { path, data: Some(b"data"), acl: open_acl(), flags, ttl_ms: None }
}

pub fn create(path: &str, flags: i32) -> Request<'_> {
    Request::Create(OpCode::Create, making(path, flags))
}

pub fn create_by(op: OpCode, path: &str, flags: i32, ttl_ms: Option<i64>) -> Request<'_> {
    Request::Create(op, CreateRequest { ttl_ms, ..making(path, flags) })
}

pub fn create_with(path: &str, acl: Vec<Acl>) -> Request<'_> {
    Request::Create(OpCode::Create, CreateRequest { acl, ..making(path, 0) })
}

pub fn delete(path: &str, version: i32) -> Request<'_> {
    Request::Delete(DeleteRequest { path, version })
}

pub fn set<'a>(path: &'a str, data: &'a str, version: i32) -> Request<'a> {
    Request::SetData(SetDataRequest { path, data: Some(data.as_bytes()), version })
}

pub fn set_acl(path: &str, acl: Vec<Acl>, version: i32) -> Request<'_> {
    Request::SetAcl(SetAclRequest { path, acl, version })
}

pub fn reading(path: &str, watch: bool) -> ReadRequest<'_> {
    ReadRequest { path, watch }
}

pub fn exists(path: &str, watch: bool) -> Request<'_> {
    Request::Exists(reading(path, watch))
}

pub fn get(path: &str, watch: bool) -> Request<'_> {
    Request::GetData(reading(path, watch))
}

pub fn children(path: &str, watch: bool) -> Request<'_> {
    Request::GetChildren(reading(path, watch))
}

pub fn children2(path: &str, watch: bool) -> Request<'_> {
    Request::GetChildren2(reading(path, watch))
}

pub fn auth<'a>(scheme: &'a str, proof: &'a str) -> Request<'a> {
    Request::Auth(AuthRequest { scheme, auth: proof.as_bytes() })
}

pub fn add_watch(path: &str, mode: i32) -> Request<'_> {
    Request::AddWatch(WatchTypeRequest { path, kind: mode })
}

pub fn check_watches(path: &str, kind: i32) -> Request<'_> {
    Request::CheckWatches(WatchTypeRequest { path, kind })
}

pub fn remove_watches(path: &str, kind: i32) -> Request<'_> {
    Request::RemoveWatches(WatchTypeRequest { path, kind })
}

/// Data, exist, child, persistent and recursive watches, set again.
pub fn set_watches<'a>(since: i64, paths: [&[&'a str]; 5]) -> Request<'a> {
    let [data, exist, child, persistent, persistent_recursive] = paths.map(<[&str]>::to_vec);
    let two = !persistent.is_empty() || !persistent_recursive.is_empty();
    let again =
        SetWatchesRequest { relative_zxid: since, data, exist, child, persistent, persistent_recursive };
    if two { Request::SetWatches2(again) } else { Request::SetWatches(again) }
}

pub fn m_create(path: &str, flags: i32) -> MultiOp<'_> {
    MultiOp::Create(OpCode::Create, making(path, flags))
}

pub fn m_create_by(op: OpCode, path: &str, flags: i32, ttl_ms: Option<i64>) -> MultiOp<'_> {
    MultiOp::Create(op, CreateRequest { ttl_ms, ..making(path, flags) })
}

pub fn m_delete(path: &str, version: i32) -> MultiOp<'_> {
    MultiOp::Delete(DeleteRequest { path, version })
}

pub fn m_set<'a>(path: &'a str, data: &'a str, version: i32) -> MultiOp<'a> {
    MultiOp::SetData(SetDataRequest { path, data: Some(data.as_bytes()), version })
}

pub fn m_check(path: &str, version: i32) -> MultiOp<'_> {
    MultiOp::Check(CheckRequest { path, version })
}
