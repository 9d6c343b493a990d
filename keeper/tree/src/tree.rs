//! The state as a whole: what it starts from, which batches it takes, and what can be read from it. Writes are
//! in `apply`, snapshots in `snapshot`.

use std::collections::{BTreeMap, BTreeSet};

use keeper_types::{Acl, AclId, CONFIG_PATH, ErrorCode, Perms, ServerId, SessionId, Stat, Zxid};

use crate::acl::redact;
use crate::acl_table::OPEN;
use crate::command::{Admission, BatchId, Counts, SessionView};
use crate::digest;
use crate::lifetime::Lifetime;
use crate::node::{Facts, NOWHERE, NewNode, Node, NodeId, ROOT};
use crate::order;
use crate::session::Session;
use crate::store::Store;

pub struct Tree {
    pub(crate) store: Store,
    /// By id, so that walking them has one order on every node.
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    /// Exactly the live ephemeral nodes; each owner is in `sessions`.
    pub(crate) ephemerals: BTreeSet<(SessionId, NodeId)>,
    /// Exactly the live containers and TTL nodes: what the clean-up looks at.
    pub(crate) perishable: BTreeSet<NodeId>,
    /// Paths that have limits under `/zookeeper/quota`.
    pub(crate) quotas: BTreeSet<String>,
    /// Sum of `digest::session` over `sessions`.
    pub(crate) sessions_digest: u64,
    /// Sessions ever created; the last one's number.
    pub(crate) sessions_created: u64,
    pub(crate) origins: BTreeMap<ServerId, Position>,
    pub(crate) zxid: Zxid,
    /// The leader's clock at the last batch; never goes back.
    pub(crate) time_ms: i64,
}

/// How far the batches of one server have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub epoch: u64,
    pub next: u64,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}

impl Tree {
    /// The state of a new cluster: `/`, `/zookeeper`, `/zookeeper/config` (read only, aversion -1) and
    /// `/zookeeper/quota`, none of them counted as a creation by its parent, as in ZooKeeper.
    pub fn new() -> Tree {
        let mut store = Store::new(root(Some(b"")));
        let zookeeper = add_system_node(&mut store, ROOT, "/zookeeper");
        add_system_node(&mut store, zookeeper, "/zookeeper/quota");
        let config = add_system_node(&mut store, zookeeper, "/zookeeper/config");
        let read_only = store.acls.intern(vec![Acl { perms: Perms::READ, ..Acl::open() }]);
        store.set_acl(config, CONFIG_PATH, read_only, -1);
        Tree::with_store(store)
    }

    pub(crate) fn with_store(store: Store) -> Tree {
        Tree {
            store,
            sessions: BTreeMap::new(),
            ephemerals: BTreeSet::new(),
            perishable: BTreeSet::new(),
            quotas: BTreeSet::new(),
            sessions_digest: 0,
            sessions_created: 0,
            origins: BTreeMap::new(),
            zxid: Zxid(0),
            time_ms: 0,
        }
    }

    /// Whether the next batch of the log is to be applied; every node decides the same. Only `Apply` changes
    /// anything: the origin's position, and the time if `time_ms` is later.
    pub fn admit(&mut self, id: BatchId, time_ms: i64) -> Admission {
        let expected = match self.origins.get(&id.origin) {
            Some(at) if id.epoch < at.epoch => return Admission::Duplicate,
            Some(at) if id.epoch == at.epoch => at.next,
            _ => 0,
        };
        if id.seq < expected {
            return Admission::Duplicate;
        }
        if id.seq > expected {
            return Admission::Gap { expected };
        }
        self.origins.insert(id.origin, Position { epoch: id.epoch, next: expected + 1 });
        self.time_ms = self.time_ms.max(time_ms);
        Admission::Apply
    }

    /// `(epoch, next sequence number)` of an origin that has had a batch applied.
    pub fn next_seq(&self, origin: ServerId) -> Option<(u64, u64)> {
        self.origins.get(&origin).map(|at| (at.epoch, at.next))
    }

    pub fn get_data(&self, path: &str, identities: &[AclId]) -> Result<(Option<&[u8]>, Stat), ErrorCode> {
        let node = self.readable(path, identities)?;
        Ok((node.data(), node.stat()))
    }

    /// Needs the Read permission, as in ZooKeeper 3.9.5. The only read that looks for NUL.
    pub fn exists(&self, path: &str, identities: &[AclId]) -> Result<Stat, ErrorCode> {
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        self.readable(path, identities).map(|node| node.stat())
    }

    /// Few names stand as in ZooKeeper (`order`), many in no particular order.
    pub fn children<'a>(
        &'a self,
        path: &str,
        identities: &[AclId],
    ) -> Result<(impl ExactSizeIterator<Item = &'a str> + use<'a>, Stat), ErrorCode> {
        let node = self.readable(path, identities)?;
        let ids = order::shown(&self.store, node.children());
        let names = (0..ids.len()).map(move |at| self.store.node(ids[at]).name());
        Ok((names, node.stat()))
    }

    /// Needs Read or Admin; without Admin the hashes of digests are hidden.
    pub fn get_acl(&self, path: &str, identities: &[AclId]) -> Result<(Vec<Acl>, Stat), ErrorCode> {
        let node = self.store.node(self.lookup(path)?);
        let acls = &self.store.acls;
        if !acls.allows(node.acl, Perms(Perms::READ.0 | Perms::ADMIN.0), identities) {
            return Err(ErrorCode::NoAuth);
        }
        let list = acls.list(node.acl);
        let open = acls.allows(node.acl, Perms::ADMIN, identities);
        Ok((if open { list.to_vec() } else { redact(list) }, node.stat()))
    }

    /// Whether these identities may change the data of a node.
    pub fn may_write(&self, path: &str, identities: &[AclId]) -> bool {
        let id = self.store.find(path);
        id.is_some_and(|id| self.store.acls.allows(self.store.node(id).acl, Perms::WRITE, identities))
    }

    /// As [`Tree::exists`] without a permission, for watches that are set again.
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.store.find(path).map(|id| self.store.node(id).stat())
    }

    pub fn session(&self, id: SessionId) -> Option<SessionView> {
        self.sessions.get(&id).map(|session| session.view(id))
    }

    /// By id.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> {
        self.sessions.iter().map(|(id, session)| session.view(*id))
    }

    /// Of the last write.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// The leader's clock at the last batch applied.
    pub fn time_ms(&self) -> i64 {
        self.time_ms
    }

    /// Equal on any two nodes that applied the same log. See the header of `digest`.
    pub fn digest(&self) -> u64 {
        let facts = [
            self.store.digest,
            self.sessions_digest,
            self.sessions_created,
            self.zxid.0 as u64,
            self.time_ms as u64,
        ];
        let origins = self.origins.iter().flat_map(|(id, at)| [id.0, at.epoch, at.next]);
        digest::total(facts.into_iter().chain(origins))
    }

    pub fn counts(&self) -> Counts {
        Counts {
            znodes: self.store.len() as u64,
            ephemerals: self.ephemerals.len() as u64,
            sessions: self.sessions.len() as u64,
            approximate_data_bytes: self.store.bytes,
        }
    }

    /// Keeps the sets of nodes that do not live for ever.
    pub(crate) fn note_lifetime(&mut self, lifetime: Lifetime, id: NodeId) {
        if let Some(session) = lifetime.session() {
            self.ephemerals.insert((session, id));
        } else if lifetime.is_perishable() {
            self.perishable.insert(id);
        }
    }

    pub(crate) fn forget_lifetime(&mut self, lifetime: Lifetime, id: NodeId) {
        if let Some(session) = lifetime.session() {
            self.ephemerals.remove(&(session, id));
        } else if lifetime.is_perishable() {
            self.perishable.remove(&id);
        }
    }

    pub(crate) fn readable(&self, path: &str, identities: &[AclId]) -> Result<Node<'_>, ErrorCode> {
        let node = self.store.node(self.lookup(path)?);
        if self.store.acls.allows(node.acl, Perms::READ, identities) {
            Ok(node)
        } else {
            Err(ErrorCode::NoAuth)
        }
    }

    /// For reads: any text that names no node is just absent, and the empty one is the root, as in ZooKeeper.
    pub(crate) fn lookup(&self, path: &str) -> Result<NodeId, ErrorCode> {
        if path.is_empty() {
            return Ok(ROOT);
        }
        self.store.find(path).ok_or(ErrorCode::NoNode)
    }
}

/// A root with a Stat of zeros and the open ACL.
pub(crate) fn root(data: Option<&[u8]>) -> NewNode<'_> {
    NewNode { name: "", data, parent: NOWHERE, acl: OPEN, facts: Facts::default() }
}

fn add_system_node(store: &mut Store, parent: NodeId, path: &str) -> NodeId {
    let name = keeper_types::base_name(path);
    store.acls.retain(OPEN);
    let node = NewNode { name, data: Some(b""), parent, acl: OPEN, facts: Facts::default() };
    store.attach(node, path, digest::path_hash(path))
}
