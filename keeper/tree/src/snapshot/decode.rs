//! Reads a tree from the format of `docs/formats/tree-snapshot.md`, checking every invariant that the rest of
//! the crate relies on before anything relies on it.

use keeper_types::{Acl, AclId, Generation, Perms, ServerId, SessionId, Zxid};
use xxhash_rust::xxh3::Xxh3;

use super::{MAGIC, NO_PARENT, NULL_DATA, SnapshotError, VERSION};
use crate::acl_table::AclRef;
use crate::digest;
use crate::limits::{FIELD_BYTES_MAX, NODES_MAX, RESERVE_BYTES_MAX};
use crate::node::{Facts, NewNode, NodeId, ROOT};
use crate::path::is_name;
use crate::session::{Session, number_of};
use crate::store::Store;
use crate::tree::{self, Position, Tree};

struct Header {
    zxid: i64,
    time_ms: i64,
    sessions_created: u64,
    digest: u64,
    origins: u32,
    acls: u32,
    sessions: u32,
    nodes: u32,
}

impl Tree {
    /// Reads what [`Tree::encode_snapshot`] wrote. Where the chunks are cut does not matter.
    pub fn decode_snapshot<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<Tree, SnapshotError> {
        let mut reader = Reader { chunks, rest: &[], offset: 0, hash: Xxh3::new() };
        let header = decode_header(&mut reader)?;
        let mut shell = Tree::with_store(Store::new(tree::root(None)));
        shell.zxid = Zxid(header.zxid);
        shell.time_ms = header.time_ms;
        shell.sessions_created = header.sessions_created;
        decode_origins(&mut reader, header.origins, &mut shell)?;
        let acls = decode_acls(&mut reader, header.acls)?;
        decode_sessions(&mut reader, header.sessions, &mut shell)?;
        decode_nodes(&mut reader, header.nodes, acls, &mut shell)?;
        let computed = reader.hash.digest();
        let stored = reader.u64()?;
        if computed != stored {
            return Err(reader.error(format!("checksum is {stored:016x}, the bytes give {computed:016x}")));
        }
        reader.end()?;
        if shell.digest() != header.digest {
            let (stored, made) = (header.digest, shell.digest());
            return Err(reader.error(format!("digest is {stored:016x}, the contents give {made:016x}")));
        }
        Ok(shell)
    }
}

fn decode_header<'a>(
    reader: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>,
) -> Result<Header, SnapshotError> {
    if reader.array::<8>()? != MAGIC {
        return Err(reader.error("this is not a tree snapshot".into()));
    }
    let version = reader.u32()?;
    if version != VERSION {
        return Err(reader.error(format!("version {version} is not known, only {VERSION}")));
    }
    let header = Header {
        zxid: reader.i64()?,
        time_ms: reader.i64()?,
        sessions_created: reader.u64()?,
        digest: reader.u64()?,
        origins: reader.u32()?,
        acls: reader.u32()?,
        sessions: reader.u32()?,
        nodes: reader.u32()?,
    };
    if header.nodes == 0 || header.nodes as usize > NODES_MAX {
        return Err(reader.error(format!("{} nodes", header.nodes)));
    }
    Ok(header)
}

fn decode_origins<'a>(
    reader: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>,
    count: u32,
    tree: &mut Tree,
) -> Result<(), SnapshotError> {
    for _ in 0..count {
        let id = ServerId(reader.u64()?);
        let position = Position { epoch: reader.u64()?, next: reader.u64()? };
        if tree.origins.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return Err(reader.error(format!("origin {id} is out of order")));
        }
        tree.origins.insert(id, position);
    }
    Ok(())
}

fn decode_acls<'a>(
    reader: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>,
    count: u32,
) -> Result<Vec<Vec<Acl>>, SnapshotError> {
    let mut lists = Vec::with_capacity((count as usize).min(RESERVE_BYTES_MAX / size_of::<Vec<Acl>>()));
    for _ in 0..count {
        let entries = reader.u32()?;
        if entries == 0 {
            return Err(reader.error("an empty ACL".into()));
        }
        let mut list = Vec::with_capacity((entries as usize).min(RESERVE_BYTES_MAX / size_of::<Acl>()));
        for _ in 0..entries {
            let perms = Perms(reader.i32()?);
            list.push(Acl { perms, id: AclId { scheme: reader.text()?, id: reader.text()? } });
        }
        lists.push(list);
    }
    Ok(lists)
}

fn decode_sessions<'a>(
    reader: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>,
    count: u32,
    tree: &mut Tree,
) -> Result<(), SnapshotError> {
    for _ in 0..count {
        let id = SessionId(reader.i64()?);
        let timeout_ms = reader.i32()?;
        let session =
            Session { timeout_ms, generation: Generation(reader.u32()?), password: reader.array()? };
        let given_out = number_of(id).is_some_and(|number| (1..=tree.sessions_created).contains(&number));
        if !given_out || tree.sessions.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return Err(reader.error(format!("session {:#x} was never given out or is out of order", id.0)));
        }
        tree.sessions_digest = tree.sessions_digest.wrapping_add(digest::session(id.0, &session));
        tree.sessions.insert(id, session);
    }
    Ok(())
}

fn decode_nodes<'a>(
    reader: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>,
    count: u32,
    acls: Vec<Vec<Acl>>,
    tree: &mut Tree,
) -> Result<(), SnapshotError> {
    let root = decode_node(reader)?;
    if root.parent != NO_PARENT || !root.name.is_empty() || root.facts.owner != 0 {
        return Err(reader.error("the first node is not the root".into()));
    }
    tree.store = Store::new(NewNode { facts: root.facts, ..tree::root(root.data.as_deref()) });
    // In the file's order; each list is interned once for all its nodes and released again at the end.
    let mut numbers: Vec<AclRef> = Vec::with_capacity(acls.len());
    numbers.extend(acls.into_iter().map(|list| tree.store.acls.intern(list)));
    let acl_of = |number: u32| numbers.get(number as usize).copied();
    let Some(root_acl) = acl_of(root.acl) else {
        return Err(reader.error(format!("there is no ACL {}", root.acl)));
    };
    tree.store.acls.retain(root_acl);
    tree.store.set_acl(ROOT, "/", root_acl, root.facts.aversion);
    for number in 1..count {
        let Record { parent, name, data, acl, facts } = decode_node(reader)?;
        if parent >= number {
            return Err(reader.error(format!("node {number} comes before its parent {parent}")));
        }
        let acl = acl_of(acl).ok_or_else(|| reader.error(format!("there is no ACL {acl}")))?;
        let node = NewNode { name: &name, data: data.as_deref(), parent: NodeId(parent), acl, facts };
        link(tree, node).map_err(|reason| reader.error(reason))?;
    }
    for acl in numbers {
        tree.store.acls.release(acl);
    }
    tree.find_quotas();
    Ok(())
}

/// Puts one node under its parent, which is there already.
fn link(tree: &mut Tree, node: NewNode<'_>) -> Result<(), String> {
    if !is_name(node.name) {
        return Err(format!("{:?} is not a name", node.name));
    }
    if tree.store.node(node.parent).lifetime().session().is_some() {
        return Err(format!("{:?} is the child of an ephemeral node", node.name));
    }
    let lifetime = node.facts.lifetime();
    if let Some(owner) = lifetime.session()
        && !tree.sessions.contains_key(&owner)
    {
        return Err(format!("{:?} belongs to session {:#x}, which is not there", node.name, owner.0));
    }
    let mut path = if node.parent == ROOT { String::new() } else { tree.store.path_of(node.parent) };
    path.push('/');
    path.push_str(node.name);
    let path_hash = digest::path_hash(&path);
    if tree.store.find_hashed(&path, path_hash).is_some() {
        return Err(format!("{path:?} is there twice"));
    }
    tree.store.acls.retain(node.acl);
    let id = tree.store.attach(node, &path, path_hash);
    tree.note_lifetime(lifetime, id);
    Ok(())
}

/// A node as it stands in the file.
struct Record {
    parent: u32,
    name: String,
    data: Option<Vec<u8>>,
    acl: u32,
    facts: Facts,
}

fn decode_node<'a>(reader: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>) -> Result<Record, SnapshotError> {
    let parent = reader.u32()?;
    let name = reader.text()?;
    let data = match reader.u32()? {
        NULL_DATA => None,
        length => Some(reader.bytes(length)?),
    };
    let acl = reader.u32()?;
    let facts = Facts {
        czxid: reader.i64()?,
        mzxid: reader.i64()?,
        pzxid: reader.i64()?,
        ctime: reader.i64()?,
        mtime: reader.i64()?,
        version: reader.i32()?,
        creates: reader.i32()?,
        aversion: reader.i32()?,
        owner: reader.i64()?,
    };
    Ok(Record { parent, name, data, acl, facts })
}

struct Reader<'a, C> {
    chunks: C,
    /// What is left of the current chunk.
    rest: &'a [u8],
    /// Bytes taken so far.
    offset: u64,
    /// Of the bytes taken so far.
    hash: Xxh3,
}

impl<'a, C: Iterator<Item = &'a [u8]>> Reader<'a, C> {
    fn error(&self, reason: String) -> SnapshotError {
        SnapshotError { offset: self.offset, reason }
    }

    /// Up to `length_max` bytes, at least one.
    fn some(&mut self, length_max: usize) -> Result<&'a [u8], SnapshotError> {
        while self.rest.is_empty() {
            self.rest = self.chunks.next().ok_or_else(|| self.error("the snapshot ends here".into()))?;
        }
        let (taken, rest) = self.rest.split_at(length_max.min(self.rest.len()));
        self.rest = rest;
        self.offset += taken.len() as u64;
        self.hash.update(taken);
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut array = [0; N];
        let mut filled = 0;
        while filled < N {
            let taken = self.some(N - filled)?;
            array[filled..filled + taken.len()].copy_from_slice(taken);
            filled += taken.len();
        }
        Ok(array)
    }

    fn bytes(&mut self, length: u32) -> Result<Vec<u8>, SnapshotError> {
        let length = length as usize;
        if length > FIELD_BYTES_MAX {
            return Err(self.error(format!("a field of {length} bytes")));
        }
        let mut bytes = Vec::with_capacity(length.min(RESERVE_BYTES_MAX));
        while bytes.len() < length {
            let taken = self.some(length - bytes.len())?;
            bytes.extend_from_slice(taken);
        }
        Ok(bytes)
    }

    fn text(&mut self) -> Result<String, SnapshotError> {
        let length = self.u32()?;
        let bytes = self.bytes(length)?;
        String::from_utf8(bytes).map_err(|_| self.error("a text is not UTF-8".into()))
    }

    fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn i32(&mut self) -> Result<i32, SnapshotError> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn i64(&mut self) -> Result<i64, SnapshotError> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Fails if anything is left.
    fn end(&mut self) -> Result<(), SnapshotError> {
        while self.rest.is_empty() {
            match self.chunks.next() {
                Some(chunk) => self.rest = chunk,
                None => return Ok(()),
            }
        }
        Err(self.error("there are bytes after the end".into()))
    }
}
