//! Short ways to drive a tree: one session at a time, events collected.

use keeper_types::{
    Acl, AclId, CheckRequest, CreateRequest, DeleteRequest, ErrorCode, EventKind, Generation, MultiOp,
    MultiResult, OpCode, Request, Response, SessionId, SetAclRequest, SetDataRequest, Stat, Zxid,
};

use crate::{Applied, Command, CommandOp, Outcome, Readers, Sink, Tree};

pub const PASSWORD: [u8; 16] = *b"0123456789abcdef";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Event(EventKind, String),
    Ended(SessionId),
    Moved(SessionId, Generation),
}

#[derive(Default)]
pub struct Ear(pub Vec<Told>);

impl Sink for Ear {
    fn event(&mut self, kind: EventKind, path: &str, _zxid: Zxid, _readers: &Readers) {
        self.0.push(Told::Event(kind, path.into()));
    }
    fn session_ended(&mut self, id: SessionId) {
        self.0.push(Told::Ended(id));
    }
    fn session_moved(&mut self, id: SessionId, generation: Generation) {
        self.0.push(Told::Moved(id, generation));
    }
}

/// A tree with one client in front of it.
pub struct Client {
    pub tree: Tree,
    pub session: SessionId,
    pub generation: Generation,
    pub identities: Vec<AclId>,
    pub enforce_quota: bool,
    pub told: Vec<Told>,
}

pub fn identity(scheme: &str, id: &str) -> AclId {
    AclId { scheme: scheme.into(), id: id.into() }
}

pub fn create(path: &str, flags: i32) -> CreateRequest<'_> {
    CreateRequest { path, data: Some(b"data"), acl: vec![Acl::open()], flags, ttl_ms: None }
}

pub fn delete(path: &str, version: i32) -> DeleteRequest<'_> {
    DeleteRequest { path, version }
}

pub fn set<'a>(path: &'a str, data: &'a str, version: i32) -> SetDataRequest<'a> {
    SetDataRequest { path, data: Some(data.as_bytes()), version }
}

pub fn check(path: &str, version: i32) -> CheckRequest<'_> {
    CheckRequest { path, version }
}

impl Client {
    pub fn new() -> Client {
        let mut client = Client {
            tree: Tree::new(),
            session: SessionId(0),
            generation: Generation(0),
            identities: vec![],
            enforce_quota: false,
            told: vec![],
        };
        client.open_session();
        client
    }

    /// Goes on as a new session.
    pub fn open_session(&mut self) -> SessionId {
        let applied = self.apply(CommandOp::CreateSession { timeout_ms: 4000, password: PASSWORD });
        let Ok(Outcome::Session { id, generation, .. }) = applied.result else {
            panic!("no session: {applied:?}")
        };
        (self.session, self.generation) = (id, generation);
        id
    }

    pub fn apply(&mut self, op: CommandOp<'_>) -> Applied {
        let mut ear = Ear::default();
        let command = Command {
            session: self.session,
            generation: self.generation,
            identities: &self.identities,
            op,
            enforce_quota: self.enforce_quota,
            want_reply: true,
        };
        let applied = self.tree.apply(&command, &mut ear);
        self.told = ear.0;
        applied
    }

    pub fn request(&mut self, request: Request<'_>) -> Result<Response, ErrorCode> {
        match self.apply(CommandOp::Request(&request)).result? {
            Outcome::Response(response) => Ok(response),
            other => panic!("{other:?} is no response"),
        }
    }

    /// The path made.
    pub fn create(&mut self, path: &str, flags: i32) -> Result<String, ErrorCode> {
        match self.request(Request::Create(OpCode::Create, create(path, flags)))? {
            Response::Create { path } => Ok(path),
            other => panic!("{other:?} does not answer a create"),
        }
    }

    pub fn create_with(&mut self, path: &str, acl: Vec<Acl>) -> Result<String, ErrorCode> {
        let request = CreateRequest { acl, ..create(path, 0) };
        match self.request(Request::Create(OpCode::Create, request))? {
            Response::Create { path } => Ok(path),
            other => panic!("{other:?} does not answer a create"),
        }
    }

    pub fn delete(&mut self, path: &str, version: i32) -> Result<(), ErrorCode> {
        self.request(Request::Delete(delete(path, version))).map(drop)
    }

    pub fn set(&mut self, path: &str, data: &str, version: i32) -> Result<Stat, ErrorCode> {
        match self.request(Request::SetData(set(path, data, version)))? {
            Response::SetData { stat } => Ok(stat),
            other => panic!("{other:?} does not answer a setData"),
        }
    }

    pub fn set_acl(&mut self, path: &str, acl: Vec<Acl>, version: i32) -> Result<Stat, ErrorCode> {
        match self.request(Request::SetAcl(SetAclRequest { path, acl, version }))? {
            Response::SetAcl { stat } => Ok(stat),
            other => panic!("{other:?} does not answer a setACL"),
        }
    }

    pub fn check(&mut self, path: &str, version: i32) -> Result<(), ErrorCode> {
        self.request(Request::Check(check(path, version))).map(drop)
    }

    pub fn multi(&mut self, ops: Vec<MultiOp<'_>>) -> Result<Vec<MultiResult>, ErrorCode> {
        match self.request(Request::Multi(ops))? {
            Response::Multi(results) => Ok(results),
            other => panic!("{other:?} does not answer a multi"),
        }
    }

    pub fn stat(&self, path: &str) -> Stat {
        self.tree.stat(path).unwrap_or_else(|| panic!("{path} is not there"))
    }

    pub fn names(&self, path: &str) -> Vec<String> {
        let (names, _) = self.tree.children(path, &self.identities).expect("listed");
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    }
}
