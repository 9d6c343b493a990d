//! The state machine written the obvious way: one map from path to node, copied whole before a multi. Slow and
//! plain; what the property tests compare the real one with.

use std::collections::BTreeMap;

use keeper_types::{
    Acl, AclId, CheckRequest, CreateRequest, DeleteRequest, ErrorCode, EventKind, Generation, MultiOp,
    MultiResult, OpCode, Perms, RecursiveRequest, Request, Response, SessionId, SetDataRequest, Stat, Zxid,
};

use super::harness::Told;
use crate::{Admission, Applied, BatchId, Command, CommandOp, Outcome};

#[derive(Clone, Debug)]
pub struct ModelNode {
    pub data: Option<Vec<u8>>,
    pub acl: Vec<Acl>,
    /// But for the fields that follow from the other nodes.
    stat: Stat,
    creates: i32,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// Or ephemeral: the Stat says that.
    Plain,
    Container,
    Ttl(i64),
}

const SPECIAL: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"];

fn not_system(path: &str) -> Result<(), ErrorCode> {
    let system = path == "/keeper" || path.starts_with("/keeper/");
    if system { Err(ErrorCode::BadArguments) } else { Ok(()) }
}

#[derive(Clone, Debug)]
pub struct Model {
    pub nodes: BTreeMap<String, ModelNode>,
    sessions: BTreeMap<SessionId, (Generation, i32, [u8; 16])>,
    sessions_created: i64,
    origins: BTreeMap<u64, (u64, u64)>,
    zxid: i64,
    time_ms: i64,
    told: Vec<Told>,
}

fn parent_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Enough for the paths that the tests make.
fn well_formed(path: &str) -> Result<(), ErrorCode> {
    let good = path == "/"
        || path.starts_with('/') && path[1..].split('/').all(|name| !["", ".", ".."].contains(&name));
    if good && !path.contains(|c: char| c.is_control()) { Ok(()) } else { Err(ErrorCode::BadArguments) }
}

fn version_after(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected == -1 || expected == current { Ok(current + 1) } else { Err(ErrorCode::BadVersion) }
}

/// Knows `world:anyone`, `auth`, and digests of the form `user:hash`.
fn resolve(acl: &[Acl], identities: &[AclId]) -> Result<Vec<Acl>, ErrorCode> {
    let mut resolved = Vec::new();
    for (at, one) in acl.iter().enumerate() {
        if acl[..at].contains(one) {
            continue;
        }
        match one.id.scheme.as_str() {
            "auth" => {
                let digests: Vec<&AclId> = identities.iter().filter(|id| id.scheme == "digest").collect();
                if digests.is_empty() {
                    return Err(ErrorCode::InvalidAcl);
                }
                resolved.extend(digests.into_iter().map(|id| Acl { perms: one.perms, id: id.clone() }));
            }
            "world" | "digest" => resolved.push(one.clone()),
            _ => return Err(ErrorCode::InvalidAcl),
        }
    }
    if resolved.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(resolved) }
}

fn allow(acl: &[Acl], wanted: Perms, identities: &[AclId]) -> Result<(), ErrorCode> {
    let is_super = identities.iter().any(|id| id.scheme == "super");
    let granted = acl
        .iter()
        .any(|one| one.perms.0 & wanted.0 != 0 && (one.id.scheme == "world" || identities.contains(&one.id)));
    if is_super || granted { Ok(()) } else { Err(ErrorCode::NoAuth) }
}

impl Model {
    pub fn new() -> Model {
        let node = |aversion, acl| ModelNode {
            data: Some(vec![]),
            acl,
            stat: Stat { aversion, ..Stat::default() },
            creates: 0,
            life: Life::Plain,
        };
        let mut nodes = BTreeMap::new();
        for path in ["/", "/zookeeper", "/zookeeper/quota"] {
            nodes.insert(path.to_string(), node(0, vec![Acl::open()]));
        }
        nodes.insert("/zookeeper/config".into(), node(-1, vec![Acl { perms: Perms::READ, ..Acl::open() }]));
        Model {
            nodes,
            sessions: BTreeMap::new(),
            sessions_created: 0,
            origins: BTreeMap::new(),
            zxid: 0,
            time_ms: 0,
            told: vec![],
        }
    }

    pub fn admit(&mut self, id: BatchId, time_ms: i64) -> Admission {
        let (epoch, next) = self.origins.get(&id.origin.0).copied().unwrap_or((0, 0));
        let expected = if id.epoch > epoch { 0 } else { next };
        if id.epoch < epoch || id.seq < expected {
            return Admission::Duplicate;
        }
        if id.seq > expected {
            return Admission::Gap { expected };
        }
        self.origins.insert(id.origin.0, (id.epoch, id.seq + 1));
        self.time_ms = self.time_ms.max(time_ms);
        Admission::Apply
    }

    pub fn stat(&self, path: &str) -> Option<Stat> {
        let node = self.nodes.get(path)?;
        let num_children = self.children(path).len() as i32;
        Some(Stat {
            num_children,
            cversion: 2 * node.creates - num_children,
            data_length: node.data.as_ref().map_or(0, |data| data.len() as i32),
            ..node.stat
        })
    }

    pub fn children(&self, path: &str) -> Vec<&str> {
        let below = self.nodes.keys().filter(|other| *other != "/" && parent_of(other) == path);
        below.map(|other| other.rsplit('/').next().unwrap()).collect()
    }

    pub fn apply(&mut self, command: &Command<'_>) -> (Applied, Vec<Told>) {
        if !matches!(command.op, CommandOp::Sync | CommandOp::AttachSession { .. }) {
            self.zxid += 1;
        }
        let mut result = self.outcome(command);
        let told = std::mem::take(&mut self.told);
        if !command.want_reply && matches!(result, Ok(Outcome::Response(_))) {
            result = Ok(Outcome::None);
        }
        (Applied { zxid: Zxid(self.zxid), result }, told)
    }

    fn outcome(&mut self, command: &Command<'_>) -> Result<Outcome, ErrorCode> {
        let id = command.session;
        match &command.op {
            CommandOp::CreateSession { timeout_ms, password } => {
                self.sessions_created += 1;
                let id = SessionId((1 << 56) + self.sessions_created);
                self.sessions.insert(id, (Generation(1), *timeout_ms, *password));
                return Ok(Outcome::Session { id, generation: Generation(1), timeout_ms: *timeout_ms });
            }
            CommandOp::AttachSession { password, timeout_ms } => {
                let session = self.sessions.get_mut(&id).filter(|session| session.2 == *password);
                let session = session.ok_or(ErrorCode::SessionExpired)?;
                session.0.0 += 1;
                session.1 = *timeout_ms;
                self.told.push(Told::Moved(id, session.0));
                return Ok(Outcome::Session { id, generation: session.0, timeout_ms: *timeout_ms });
            }
            CommandOp::CleanUp { path } => {
                self.clean_up(path);
                return Ok(Outcome::None);
            }
            _ => {}
        }
        let session = self.sessions.get(&id).ok_or(ErrorCode::SessionExpired)?;
        if session.0 != command.generation {
            return Err(ErrorCode::SessionMoved);
        }
        match &command.op {
            CommandOp::CloseSession | CommandOp::ExpireSession => {
                self.sessions.remove(&id);
                let owned = self.nodes.iter().filter(|(_, node)| node.stat.ephemeral_owner == id.0);
                for path in owned.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
                    self.remove(&path);
                }
                self.told.push(Told::Ended(id));
                Ok(Outcome::None)
            }
            CommandOp::Request(request) => self.request(command, request).map(Outcome::Response),
            _ => Ok(Outcome::None),
        }
    }

    fn request(&mut self, command: &Command<'_>, request: &Request<'_>) -> Result<Response, ErrorCode> {
        match request {
            Request::Create(op, request) => self.one(command, &MultiOp::Create(*op, request.clone())),
            Request::Delete(request) => self.one(command, &MultiOp::Delete(request.clone())),
            Request::TryRemove(request) => self.one(command, &MultiOp::TryRemove(request.clone())),
            Request::RemoveRecursive(request) => {
                self.one(command, &MultiOp::RemoveRecursive(request.clone()))
            }
            Request::SetData(request) => self.one(command, &MultiOp::SetData(request.clone())),
            Request::Check(request) => self.one(command, &MultiOp::Check(request.clone())),
            Request::CheckNotExists(request) => self.one(command, &MultiOp::CheckNotExists(request.clone())),
            Request::SetAcl(request) => {
                well_formed(request.path)?;
                not_system(request.path)?;
                let acl = resolve(&request.acl, command.identities)?;
                let node = self.nodes.get_mut(request.path).ok_or(ErrorCode::NoNode)?;
                allow(&node.acl, Perms::ADMIN, command.identities)?;
                node.stat.aversion = version_after(node.stat.aversion, request.version)?;
                node.acl = acl;
                Ok(Response::SetAcl { stat: self.stat(request.path).unwrap() })
            }
            Request::Multi(ops) => {
                let plain = [OpCode::Create, OpCode::Create2, OpCode::CreateContainer];
                let unreadable = |op: &MultiOp<'_>| match op {
                    MultiOp::Create(op, request) => {
                        plain.contains(op) && (request.flags < 0 || request.flags > 4)
                    }
                    _ => false,
                };
                if ops.iter().any(unreadable) {
                    return Err(ErrorCode::MarshallingError);
                }
                let before = self.clone();
                let mut results = Vec::new();
                for (at, op) in ops.iter().enumerate() {
                    match self.multi_op(command, op) {
                        Ok(result) => results.push(result),
                        Err(code) => {
                            *self = before;
                            results = vec![MultiResult::Error(None); at];
                            results.push(MultiResult::Error(Some(code)));
                            let rest = MultiResult::Error(Some(ErrorCode::RuntimeInconsistency));
                            results.resize(ops.len(), rest);
                            break;
                        }
                    }
                }
                Ok(Response::Multi(results))
            }
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    fn multi_op(&mut self, command: &Command<'_>, op: &MultiOp<'_>) -> Result<MultiResult, ErrorCode> {
        Ok(match op {
            MultiOp::Create(op, request) => {
                let path = self.create(command, *op, request)?;
                match op {
                    OpCode::Create => MultiResult::Create { path },
                    OpCode::CreateIfNotExists => MultiResult::CreateIfNotExists { path },
                    _ => MultiResult::Create2 { stat: self.stat(&path).unwrap(), path },
                }
            }
            MultiOp::Delete(request) => {
                self.delete(command, request)?;
                MultiResult::Done(OpCode::Delete)
            }
            MultiOp::TryRemove(request) => match self.delete(command, request) {
                Ok(()) | Err(ErrorCode::NoNode | ErrorCode::BadVersion | ErrorCode::NotEmpty) => {
                    MultiResult::Done(OpCode::TryRemove)
                }
                Err(code) => return Err(code),
            },
            MultiOp::RemoveRecursive(request) => {
                self.remove_recursive(command, request)?;
                MultiResult::Done(OpCode::RemoveRecursive)
            }
            MultiOp::SetData(request) => MultiResult::SetData { stat: self.set(command, request)? },
            MultiOp::Check(request) => {
                self.check(command, request)?;
                MultiResult::Done(OpCode::Check)
            }
            MultiOp::CheckNotExists(request) => {
                well_formed(request.path)?;
                not_system(request.path)?;
                if let Some(node) = self.nodes.get(request.path) {
                    allow(&node.acl, Perms::READ, command.identities)?;
                    if version_after(node.stat.version, request.version).is_ok() {
                        return Err(ErrorCode::NodeExists);
                    }
                }
                MultiResult::Done(OpCode::CheckNotExists)
            }
            MultiOp::CheckStat(_) => return Err(ErrorCode::Unimplemented),
        })
    }

    /// The answer to an operation outside a multi.
    fn one(&mut self, command: &Command<'_>, op: &MultiOp<'_>) -> Result<Response, ErrorCode> {
        Ok(match self.multi_op(command, op)? {
            MultiResult::Create { path } | MultiResult::CreateIfNotExists { path } => {
                Response::Create { path }
            }
            MultiResult::Create2 { path, stat } => Response::Create2 { path, stat },
            MultiResult::SetData { stat } => Response::SetData { stat },
            MultiResult::Done(_) | MultiResult::Error(_) => Response::Empty,
        })
    }

    fn remove_recursive(
        &mut self,
        command: &Command<'_>,
        request: &RecursiveRequest<'_>,
    ) -> Result<(), ErrorCode> {
        let path = request.path;
        if SPECIAL.contains(&path) || !path.contains('/') || path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        not_system(path)?;
        let Some(parent) = self.nodes.get(parent_of(path)) else { return Ok(()) };
        allow(&parent.acl, Perms::DELETE, command.identities)?;
        let is_below = |other: &str| other == path || other.starts_with(&format!("{path}/"));
        let all: Vec<String> = self.nodes.keys().filter(|other| is_below(other)).rev().cloned().collect();
        if all.len() > request.nodes_max as usize && !all.is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        for inner in all.iter().filter(|inner| !self.children(inner).is_empty()) {
            allow(&self.nodes[inner].acl, Perms::DELETE, command.identities)?;
        }
        all.iter().for_each(|path| self.remove(path));
        Ok(())
    }

    /// The end of a container or TTL node whose time has come.
    fn clean_up(&mut self, path: &str) {
        let Some(node) = self.nodes.get(path) else { return };
        let due = match node.life {
            Life::Plain => false,
            Life::Container => node.creates > 0,
            Life::Ttl(ttl_ms) => self.time_ms - node.stat.mtime > ttl_ms,
        };
        if due && self.children(path).is_empty() {
            self.remove(path);
        }
    }

    fn create(
        &mut self,
        command: &Command<'_>,
        op: OpCode,
        request: &CreateRequest<'_>,
    ) -> Result<String, ErrorCode> {
        let sequential = matches!(request.flags, 2 | 3 | 6);
        let life = match (op, request.flags, request.ttl_ms) {
            (OpCode::CreateTtl, 5 | 6, Some(ttl_ms @ 1..=0xff_ffff_ffff)) => Life::Ttl(ttl_ms),
            (OpCode::CreateTtl, ..) | (_, ..=-1 | 5.., _) => return Err(ErrorCode::BadArguments),
            (OpCode::CreateIfNotExists, ..) if sequential => return Err(ErrorCode::BadArguments),
            (OpCode::CreateContainer, ..) => Life::Container,
            _ => Life::Plain,
        };
        if !request.path.contains('/') || request.path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        not_system(parent_of(request.path))?;
        let acl = resolve(&request.acl, command.identities)?;
        let parent_path = parent_of(request.path).to_string();
        let parent = self.nodes.get(&parent_path).ok_or(ErrorCode::NoNode)?;
        allow(&parent.acl, Perms::CREATE, command.identities)?;
        let mut path = request.path.to_string();
        if sequential {
            path += &format!("{:010}", parent.creates);
        }
        well_formed(&path)?;
        not_system(&path)?;
        if self.nodes.contains_key(&path) {
            return if op == OpCode::CreateIfNotExists { Ok(path) } else { Err(ErrorCode::NodeExists) };
        }
        if parent.stat.ephemeral_owner != 0 {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let ephemeral = life == Life::Plain && (request.flags == 1 || request.flags == 3);
        let stat = Stat {
            czxid: self.zxid,
            mzxid: self.zxid,
            pzxid: self.zxid,
            ctime: self.time_ms,
            mtime: self.time_ms,
            ephemeral_owner: if ephemeral { command.session.0 } else { 0 },
            ..Stat::default()
        };
        let node = ModelNode { data: request.data.map(<[u8]>::to_vec), acl, stat, creates: 0, life };
        self.nodes.insert(path.clone(), node);
        let parent = self.nodes.get_mut(&parent_path).unwrap();
        parent.creates += 1;
        parent.stat.pzxid = self.zxid;
        self.told.push(Told::Event(EventKind::Created, path.clone()));
        self.told.push(Told::Event(EventKind::ChildrenChanged, parent_path));
        Ok(path)
    }

    fn delete(&mut self, command: &Command<'_>, request: &DeleteRequest<'_>) -> Result<(), ErrorCode> {
        let path = request.path;
        if SPECIAL.contains(&path) || !path.contains('/') || path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        not_system(path)?;
        let parent = self.nodes.get(parent_of(path)).ok_or(ErrorCode::NoNode)?;
        allow(&parent.acl, Perms::DELETE, command.identities)?;
        let node = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
        version_after(node.stat.version, request.version)?;
        if !self.children(path).is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        self.remove(path);
        Ok(())
    }

    fn remove(&mut self, path: &str) {
        self.nodes.remove(path).unwrap();
        let parent_path = parent_of(path);
        self.nodes.get_mut(parent_path).unwrap().stat.pzxid = self.zxid;
        self.told.push(Told::Event(EventKind::Deleted, path.into()));
        self.told.push(Told::Event(EventKind::ChildrenChanged, parent_path.into()));
    }

    fn set(&mut self, command: &Command<'_>, request: &SetDataRequest<'_>) -> Result<Stat, ErrorCode> {
        well_formed(request.path)?;
        not_system(request.path)?;
        let node = self.nodes.get_mut(request.path).ok_or(ErrorCode::NoNode)?;
        allow(&node.acl, Perms::WRITE, command.identities)?;
        node.stat.version = version_after(node.stat.version, request.version)?;
        node.stat.mzxid = self.zxid;
        node.stat.mtime = self.time_ms;
        node.data = request.data.map(<[u8]>::to_vec);
        self.told.push(Told::Event(EventKind::DataChanged, request.path.into()));
        Ok(self.stat(request.path).unwrap())
    }

    fn check(&self, command: &Command<'_>, request: &CheckRequest<'_>) -> Result<(), ErrorCode> {
        well_formed(request.path)?;
        not_system(request.path)?;
        let node = self.nodes.get(request.path).ok_or(ErrorCode::NoNode)?;
        allow(&node.acl, Perms::READ, command.identities)?;
        version_after(node.stat.version, request.version).map(drop)
    }
}
