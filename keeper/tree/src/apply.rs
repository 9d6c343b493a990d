//! Writes: one command at a time, checked in ZooKeeper's order, so that a request with several faults gets the
//! error a ZooKeeper would give. Every command but Sync and AttachSession consumes a zxid, failed ones too.

use std::borrow::Cow;

use keeper_types::{
    AclId, CONFIG_PATH, CheckRequest, CreateMode, CreateRequest, DeleteRequest, ErrorCode, EventKind, OpCode,
    Perms, Request, Response, SessionId, SetAclRequest, SetDataRequest, Stat, Zxid,
};

use crate::acl::resolve;
use crate::acl_table::{AclRef, OPEN};
use crate::command::{Applied, Command, CommandOp, Outcome, Sink};
use crate::lifetime::{Lifetime, TTL_MS_MAX};
use crate::multi::Journal;
use crate::node::{Facts, NewNode, NodeId, ROOT};
use crate::readers::{FamilyReaders, Readers};
use crate::session::{Session, id_of};
use crate::tree::Tree;
use crate::{digest, path};

/// Who writes: what every check needs of a command.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub session: SessionId,
    pub identities: &'a [AclId],
    /// Hard limits of quotas are held.
    pub enforce_quota: bool,
}

/// A change that was made, for telling the sink once the whole command has succeeded.
pub(crate) enum Change<'a> {
    Created { path: Cow<'a, str>, readers: FamilyReaders },
    Deleted { path: Cow<'a, str>, readers: FamilyReaders },
    DataSet { path: &'a str, readers: Readers },
}

impl Change<'_> {
    pub fn tell(&self, sink: &mut dyn Sink, zxid: Zxid) {
        match self {
            Change::Created { path, readers } => {
                sink.event(EventKind::Created, path, zxid, &readers.node);
                tell_parent(path, sink, zxid, &readers.parent);
            }
            Change::Deleted { path, readers } => {
                sink.event(EventKind::Deleted, path, zxid, &readers.node);
                tell_parent(path, sink, zxid, &readers.parent);
            }
            Change::DataSet { path, readers } => sink.event(EventKind::DataChanged, path, zxid, readers),
        }
    }
}

fn tell_parent(path: &str, sink: &mut dyn Sink, zxid: Zxid, readers: &Readers) {
    if let Some(parent) = keeper_types::parent(path) {
        sink.event(EventKind::ChildrenChanged, parent, zxid, readers);
    }
}

impl Tree {
    /// Applies one command. On an error nothing has changed but the zxid, and the sink was told nothing.
    pub fn apply(&mut self, command: &Command<'_>, sink: &mut dyn Sink) -> Applied {
        let result = match &command.op {
            CommandOp::Sync => self.check_session(command).map(|()| Outcome::None),
            CommandOp::AttachSession { password, timeout_ms } => {
                self.attach_session(command.session, *password, *timeout_ms, sink)
            }
            CommandOp::CreateSession { timeout_ms, password } => {
                self.zxid.0 += 1;
                Ok(self.create_session(*timeout_ms, *password))
            }
            CommandOp::CloseSession | CommandOp::ExpireSession => {
                self.zxid.0 += 1;
                self.check_session(command).map(|()| self.end_session(command.session, sink))
            }
            CommandOp::CleanUp { path } => {
                self.zxid.0 += 1;
                self.clean_up(path, sink);
                Ok(Outcome::None)
            }
            CommandOp::SetConfig { text } => {
                self.zxid.0 += 1;
                self.set_config(text, sink);
                Ok(Outcome::None)
            }
            CommandOp::Request(request) => {
                self.zxid.0 += 1;
                self.check_session(command).and_then(|()| self.write(command, request, sink))
            }
        };
        Applied { zxid: self.zxid, result }
    }

    fn check_session(&self, command: &Command<'_>) -> Result<(), ErrorCode> {
        match self.sessions.get(&command.session) {
            None => Err(ErrorCode::SessionExpired),
            Some(session) if session.generation != command.generation => Err(ErrorCode::SessionMoved),
            Some(_) => Ok(()),
        }
    }

    fn write(
        &mut self,
        command: &Command<'_>,
        request: &Request<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Outcome, ErrorCode> {
        let writer = Writer {
            session: command.session,
            identities: command.identities,
            enforce_quota: command.enforce_quota,
        };
        let mut journal = Journal::off();
        let (change, response) = match request {
            Request::Create(op, request) => {
                let (id, path) = self.create(writer, *op, request, &mut journal)?;
                let response = command.want_reply.then(|| self.created(*op, id, &path));
                let change = id.map(|id| Change::Created { path, readers: self.family_readers(id) });
                (change, response)
            }
            Request::Delete(request) => {
                let readers = self.delete(writer, request, &mut journal)?;
                (Some(Change::Deleted { path: request.path.into(), readers }), Some(Response::Empty))
            }
            Request::TryRemove(request) => {
                let removed = self.try_remove(writer, request, &mut journal)?;
                let change = removed.map(|readers| Change::Deleted { path: request.path.into(), readers });
                (change, Some(Response::Empty))
            }
            Request::RemoveRecursive(request) => {
                for (path, readers) in self.remove_recursive(writer, request, &mut journal)? {
                    Change::Deleted { path: path.into(), readers }.tell(sink, self.zxid);
                }
                (None, Some(Response::Empty))
            }
            Request::SetData(request) => {
                let (stat, readers) = self.set_data(writer, request, &mut journal)?;
                (Some(Change::DataSet { path: request.path, readers }), Some(Response::SetData { stat }))
            }
            Request::SetAcl(request) => {
                (None, Some(Response::SetAcl { stat: self.set_acl(writer, request)? }))
            }
            Request::Check(request) => {
                self.check(writer, request)?;
                (None, Some(Response::Empty))
            }
            Request::CheckNotExists(request) => {
                self.check_not_exists(writer, request)?;
                (None, Some(Response::Empty))
            }
            Request::CheckStat(request) => {
                self.check_stat(writer, request)?;
                (None, Some(Response::Empty))
            }
            Request::Multi(ops) => return self.multi(writer, ops, command.want_reply, sink),
            _ => return Err(ErrorCode::Unimplemented),
        };
        if let Some(change) = change {
            change.tell(sink, self.zxid);
        }
        Ok(match response {
            Some(response) if command.want_reply => Outcome::Response(response),
            _ => Outcome::None,
        })
    }

    fn created(&self, op: OpCode, id: Option<NodeId>, path: &str) -> Response {
        match id {
            Some(id) if answers_stat(op) => {
                Response::Create2 { path: path.into(), stat: self.store.node(id).stat() }
            }
            _ => Response::Create { path: path.into() },
        }
    }

    /// No id: createIfNotExists found the node.
    pub(crate) fn create<'a>(
        &mut self,
        writer: Writer<'_>,
        op: OpCode,
        request: &CreateRequest<'a>,
        journal: &mut Journal,
    ) -> Result<(Option<NodeId>, Cow<'a, str>), ErrorCode> {
        let mode = CreateMode::from_i32(request.flags).ok_or(ErrorCode::BadArguments)?;
        let lifetime = lifetime(op, mode, request.ttl_ms, writer.session)?;
        let parent_path = path::parent_of_new(request.path)?;
        let resolved =
            if is_open(&request.acl) { None } else { Some(resolve(&request.acl, writer.identities)?) };
        let parent = if parent_path.is_empty() { ROOT } else { self.find(parent_path)? };
        let parent_node = self.store.node(parent);
        self.allow(parent_node.acl, Perms::CREATE, writer)?;
        let path = if mode.is_sequential() {
            Cow::Owned(format!("{}{:010}", request.path, parent_node.creates))
        } else {
            Cow::Borrowed(request.path)
        };
        path::check_writable(&path)?;
        if self.store.find(&path).is_some() {
            let fine = op == OpCode::CreateIfNotExists;
            return if fine { Ok((None, path)) } else { Err(ErrorCode::NodeExists) };
        }
        if parent_node.lifetime().session().is_some() {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        self.check_quota(writer, &path, request.data.map_or(0, <[u8]>::len) as i64, 1)?;
        if !self.store.has_room() {
            return Err(ErrorCode::OutOfMemory);
        }
        let acl = self.intern(resolved);
        let id = self.place_new(parent, &path, request.data, acl, lifetime, journal);
        Ok((Some(id), path))
    }

    fn place_new(
        &mut self,
        parent: NodeId,
        path: &str,
        data: Option<&[u8]>,
        acl: AclRef,
        lifetime: Lifetime,
        journal: &mut Journal,
    ) -> NodeId {
        let name = keeper_types::base_name(path);
        let facts = Facts { owner: lifetime.owner(), ..Facts::fresh(self.zxid.0, self.time_ms) };
        let (id, before) = self.store.insert(NewNode { name, data, parent, acl, facts }, path);
        self.note_lifetime(lifetime, id);
        journal.created(id, before);
        self.count_created(path, data.map_or(0, <[u8]>::len) as i64, journal);
        id
    }

    pub(crate) fn delete(
        &mut self,
        writer: Writer<'_>,
        request: &DeleteRequest<'_>,
        journal: &mut Journal,
    ) -> Result<FamilyReaders, ErrorCode> {
        let parent_path = path::parent_of_deleted(request.path)?;
        let parent = if parent_path.is_empty() { ROOT } else { self.find(parent_path)? };
        self.allow(self.store.node(parent).acl, Perms::DELETE, writer)?;
        let id = self.find(request.path)?;
        let node = self.store.node(id);
        next_version(node.version, request.version)?;
        if !node.children().is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        Ok(self.remove_node(id, request.path, journal))
    }

    pub(crate) fn remove_node(&mut self, id: NodeId, path: &str, journal: &mut Journal) -> FamilyReaders {
        let readers = self.family_readers(id);
        let node = self.store.node(id);
        let (lifetime, bytes) = (node.lifetime(), node.data_length() as i64);
        let (removed, before) = self.store.remove(id, path, self.zxid.0);
        self.forget_lifetime(lifetime, id);
        if let Some(removed) = journal.removed(id, removed, lifetime, before) {
            self.store.forget(removed);
        }
        self.count_removed(path, bytes, journal);
        readers
    }

    pub(crate) fn set_data(
        &mut self,
        writer: Writer<'_>,
        request: &SetDataRequest<'_>,
        journal: &mut Journal,
    ) -> Result<(Stat, Readers), ErrorCode> {
        path::check_writable(request.path)?;
        let id = self.find(request.path)?;
        let node = self.store.node(id);
        self.allow(node.acl, Perms::WRITE, writer)?;
        let version = next_version(node.version, request.version)?;
        let more = request.data.map_or(0, <[u8]>::len) as i64 - node.data_length() as i64;
        self.check_quota(writer, request.path, more, 0)?;
        let node = self.store.node(id);
        let (version_before, mzxid_before, mtime_before) = (node.version, node.mzxid, node.mtime);
        let now = (version, self.zxid.0, self.time_ms);
        let old = self.store.set_data(id, request.path, request.data, now);
        if let Some(old) = journal.data_set(id, old, version_before, mzxid_before, mtime_before) {
            self.store.forget_data(old);
        }
        self.count_change(request.path, more, 0, journal);
        Ok((self.store.node(id).stat(), self.readers(id)))
    }

    fn set_acl(&mut self, writer: Writer<'_>, request: &SetAclRequest<'_>) -> Result<Stat, ErrorCode> {
        path::check_writable(request.path)?;
        let resolved = resolve(&request.acl, writer.identities)?;
        let id = self.find(request.path)?;
        let node = self.store.node(id);
        self.allow(node.acl, Perms::ADMIN, writer)?;
        let aversion = next_version(node.aversion, request.version)?;
        let acl = self.intern(Some(resolved));
        self.store.set_acl(id, request.path, acl, aversion);
        Ok(self.store.node(id).stat())
    }

    pub(crate) fn check(&self, writer: Writer<'_>, request: &CheckRequest<'_>) -> Result<(), ErrorCode> {
        path::check_writable(request.path)?;
        let node = self.store.node(self.find(request.path)?);
        self.allow(node.acl, Perms::READ, writer)?;
        next_version(node.version, request.version).map(drop)
    }

    /// The committed membership, where clients look for it: ZooKeeper's node, and ClickHouse's under `/keeper`, which
    /// the member shows in its place.
    fn set_config(&mut self, text: &str, sink: &mut dyn Sink) {
        let Some(id) = self.store.find(CONFIG_PATH) else { return };
        let Ok(version) = next_version(self.store.node(id).version, -1) else { return };
        let now = (version, self.zxid.0, self.time_ms);
        let old = self.store.set_data(id, CONFIG_PATH, Some(text.as_bytes()), now);
        self.store.forget_data(old);
        let of_node = self.readers(id);
        for (path, readers) in [(CONFIG_PATH, of_node), (path::KEEPER_CONFIG, Readers::EVERYBODY)] {
            Change::DataSet { path, readers }.tell(sink, self.zxid);
        }
    }

    fn create_session(&mut self, timeout_ms: i32, password: [u8; 16]) -> Outcome {
        self.sessions_created += 1;
        let id = id_of(self.sessions_created);
        let session = Session { timeout_ms, generation: keeper_types::Generation(1), password };
        let generation = session.generation;
        self.sessions_digest = self.sessions_digest.wrapping_add(digest::session(id.0, &session));
        self.sessions.insert(id, session);
        Outcome::Session { id, generation, timeout_ms }
    }

    fn attach_session(
        &mut self,
        id: SessionId,
        password: [u8; 16],
        timeout_ms: i32,
        sink: &mut dyn Sink,
    ) -> Result<Outcome, ErrorCode> {
        let session = self.sessions.get_mut(&id).filter(|session| session.password == password);
        let session = session.ok_or(ErrorCode::SessionExpired)?;
        let before = digest::session(id.0, session);
        session.generation.0 = session.generation.0.wrapping_add(1);
        session.timeout_ms = timeout_ms;
        let generation = session.generation;
        self.sessions_digest =
            self.sessions_digest.wrapping_sub(before).wrapping_add(digest::session(id.0, session));
        sink.session_moved(id, generation);
        Ok(Outcome::Session { id, generation, timeout_ms })
    }

    /// Removes the session and its ephemeral nodes under the command's one zxid, the nodes in order of path.
    fn end_session(&mut self, id: SessionId, sink: &mut dyn Sink) -> Outcome {
        if let Some(session) = self.sessions.remove(&id) {
            self.sessions_digest = self.sessions_digest.wrapping_sub(digest::session(id.0, &session));
        }
        let owned = self.ephemerals.range((id, NodeId(0))..=(id, NodeId(u32::MAX)));
        let mut nodes: Vec<(String, NodeId)> =
            owned.map(|(_, node)| (self.store.path_of(*node), *node)).collect();
        nodes.sort_unstable();
        let removed: Vec<Change<'_>> = nodes
            .iter()
            .map(|(path, node)| {
                let readers = self.remove_node(*node, path, &mut Journal::off());
                Change::Deleted { path: path.into(), readers }
            })
            .collect();
        for change in &removed {
            change.tell(sink, self.zxid);
        }
        sink.session_ended(id);
        Outcome::None
    }

    fn find(&self, path: &str) -> Result<NodeId, ErrorCode> {
        self.store.find(path).ok_or(ErrorCode::NoNode)
    }

    pub(crate) fn allow(&self, acl: AclRef, wanted: Perms, writer: Writer<'_>) -> Result<(), ErrorCode> {
        if self.store.acls.allows(acl, wanted, writer.identities) { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// One use of an ACL; `None` stands for the open one.
    fn intern(&mut self, resolved: Option<Vec<keeper_types::Acl>>) -> AclRef {
        match resolved {
            Some(list) => self.store.acls.intern(list),
            None => {
                self.store.acls.retain(OPEN);
                OPEN
            }
        }
    }
}

/// How long the new node is to live. ZooKeeper looks at the operation for containers and at the mode for the rest: a
/// plain create with the container flag makes a plain node. A time to live belongs to exactly the TTL modes.
fn lifetime(
    op: OpCode,
    mode: CreateMode,
    ttl_ms: Option<i64>,
    session: SessionId,
) -> Result<Lifetime, ErrorCode> {
    let is_ttl = matches!(mode, CreateMode::PersistentTtl | CreateMode::PersistentSequentialTtl);
    match (op, ttl_ms) {
        (OpCode::CreateTtl, Some(ttl_ms)) if is_ttl && (1..=TTL_MS_MAX).contains(&ttl_ms) => {
            Ok(Lifetime::Ttl(ttl_ms))
        }
        (OpCode::CreateTtl, _) => Err(ErrorCode::BadArguments),
        _ if is_ttl => Err(ErrorCode::BadArguments),
        (OpCode::CreateIfNotExists, _) if mode.is_sequential() => Err(ErrorCode::BadArguments),
        (OpCode::CreateContainer, _) => Ok(Lifetime::Container),
        _ if mode.is_ephemeral() => Ok(Lifetime::Ephemeral(session)),
        _ => Ok(Lifetime::Persistent),
    }
}

/// ZooKeeper answers these with a Stat.
pub(crate) fn answers_stat(op: OpCode) -> bool {
    matches!(op, OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl)
}

/// The usual ACL, recognised without hashing it.
fn is_open(acl: &[keeper_types::Acl]) -> bool {
    matches!(acl, [one] if one.perms == Perms::ALL && one.id.scheme == "world" && one.id.id == "anyone")
}

/// The version after a change, or `BadVersion`. Wraps, but leaves -1 out: a client could not ask for it,
/// since as an expected version it means "any".
fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected != -1 && expected != current {
        return Err(ErrorCode::BadVersion);
    }
    Ok(match current.wrapping_add(1) {
        -1 => 0,
        next => next,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_wraps_without_ever_becoming_minus_one() {
        assert_eq!(next_version(0, -1), Ok(1));
        assert_eq!(next_version(i32::MAX, i32::MAX), Ok(i32::MIN));
        assert_eq!(next_version(-2, -2), Ok(0));
        assert_eq!(next_version(3, 2), Err(ErrorCode::BadVersion));
    }
}
