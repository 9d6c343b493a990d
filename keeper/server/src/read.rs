//! Reads, answered from the local tree: on the connection's task under the reader lock, or on the apply task right
//! after the write they stand behind. Encodes straight from the tree into the outbox.

use crate::limits::{
    MULTI_READ_BYTES_AT_A_TIME, MULTI_READ_BYTES_MAX, MULTI_READS_AT_A_TIME, WATCHES_AT_A_TIME,
    WATCHES_PER_CONNECTION_MAX,
};
use crate::outbox::Outbox;
use crate::system;
use crate::watch::{WatchKind, Watches, encode_event};
use bytes::BytesMut;
use keeper_tree::{ChildFilter, Tree};
use keeper_types::{
    AclId, ErrorCode, EventKind, Features, ListRequest, OpCode, ReadRequest, Request, Response,
    SetWatchesRequest, Stat, WatchTypeRequest, Zxid, is_keeper_path,
};
use std::sync::Arc;

/// What a read needs to know of its connection.
pub struct Reader<'a> {
    pub tree: &'a Tree,
    pub watches: &'a Watches,
    pub features: Features,
    pub outbox: &'a Arc<Outbox>,
    pub identities: &'a [AclId],
}

type Answer = Result<Response, ErrorCode>;

/// What each read of a multiRead came to.
type Reads = Vec<Result<(OpCode, Box<Response>), ErrorCode>>;

/// What a child's name takes in a reply at least, more or less.
const CHILD_BYTES: usize = 8;

/// Bytes of the reply, estimated without making it; `None` where that would take as long.
pub fn estimated_bytes(tree: &Tree, request: &Request<'_>) -> Option<usize> {
    let of = |path: &str, number: fn(&Stat) -> i32| {
        let stat = tree.stat(path).unwrap_or_default();
        usize::try_from(number(&stat)).unwrap_or_default()
    };
    match request {
        Request::GetData(read) => Some(of(read.path, |stat| stat.data_length)),
        Request::GetChildren(ReadRequest { path, .. })
        | Request::GetChildren2(ReadRequest { path, .. })
        | Request::FilteredList(ListRequest { path, .. }) => {
            Some(of(path, |stat| stat.num_children).saturating_mul(CHILD_BYTES))
        }
        Request::MultiRead(reads) => reads.iter().map(|read| estimated_bytes(tree, read)).sum(),
        // They look at any number of nodes.
        Request::FilteredListWithStatsAndData(_)
        | Request::GetAllChildrenNumber(_)
        | Request::ListRecursive(_)
        | Request::GetEphemerals(_) => None,
        _ => Some(0),
    }
}

pub fn watches_in(watches: &SetWatchesRequest<'_>) -> usize {
    let SetWatchesRequest { relative_zxid: _, data, exist, child, persistent, persistent_recursive } =
        watches;
    [data, exist, child, persistent, persistent_recursive].iter().map(|paths| paths.len()).sum()
}

/// Puts paths into the list they belong to.
type Put<'a> = fn(&mut SetWatchesRequest<'a>, Vec<&'a str>);

/// The same watches in requests of [`WATCHES_AT_A_TIME`] at most, in the same order.
pub fn in_parts<'a>(watches: &SetWatchesRequest<'a>) -> Vec<SetWatchesRequest<'a>> {
    let SetWatchesRequest { relative_zxid, data, exist, child, persistent, persistent_recursive } = watches;
    let lists: [(&Vec<&'a str>, Put<'a>); 5] = [
        (data, |part, paths| part.data = paths),
        (exist, |part, paths| part.exist = paths),
        (child, |part, paths| part.child = paths),
        (persistent, |part, paths| part.persistent = paths),
        (persistent_recursive, |part, paths| part.persistent_recursive = paths),
    ];
    let mut parts = Vec::new();
    for (paths, put) in lists {
        for paths in paths.chunks(WATCHES_AT_A_TIME) {
            let mut part = SetWatchesRequest {
                relative_zxid: *relative_zxid,
                data: Vec::new(),
                exist: Vec::new(),
                child: Vec::new(),
                persistent: Vec::new(),
                persistent_recursive: Vec::new(),
            };
            put(&mut part, paths.to_vec());
            parts.push(part);
        }
    }
    parts
}

impl Reader<'_> {
    /// Appends the reply (events of setWatches before it) to `out`. Requests that are no reads answer
    /// `Unimplemented`.
    pub fn answer(&self, xid: i32, request: &Request<'_>, out: &mut BytesMut) {
        let zxid = self.tree.zxid().0;
        match request {
            // The frequent ones go from the tree's memory to the socket's buffer without a copy between.
            Request::GetData(read) if !is_keeper_path(read.path) => {
                let path = read.path;
                let found = self.tree.get_data(path, self.identities);
                let found =
                    found.and_then(|found| self.leave(read.watch, WatchKind::Data, path).map(|()| found));
                match found {
                    Ok((data, stat)) => keeper_wire::encode_get_data_reply(xid, zxid, data, &stat, out),
                    Err(code) => keeper_wire::encode_reply(xid, zxid, Err(code), out),
                }
            }
            Request::GetChildren(read) | Request::GetChildren2(read) if !is_keeper_path(read.path) => {
                let with_stat = request.op() == OpCode::GetChildren2;
                self.children(xid, read.path, read.watch, with_stat, out);
            }
            request => {
                let answer = match request {
                    Request::SetWatches(watches) | Request::SetWatches2(watches) => {
                        self.set_watches(watches, out)
                    }
                    request => self.value(request),
                };
                // ZooKeeper's answer to an operation it does not know carries zxid -1.
                let zxid = if answer == Err(ErrorCode::Unimplemented) { -1 } else { zxid };
                keeper_wire::encode_reply(xid, zxid, answer.as_ref().map_err(|code| *code), out);
            }
        }
    }

    fn value(&self, request: &Request<'_>) -> Answer {
        match request {
            Request::Ping => Ok(Response::Empty),
            Request::Exists(read) => self.exists(read.path, read.watch),
            Request::GetData(read) => self.get_data(read.path, read.watch),
            Request::GetChildren(read) => {
                let (names, _) = self.names(read.path, read.watch)?;
                Ok(Response::GetChildren { names })
            }
            Request::GetChildren2(read) => {
                let (names, stat) = self.names(read.path, read.watch)?;
                Ok(Response::GetChildren2 { names, stat })
            }
            Request::GetAcl(path) => {
                if let Some(node) = system::node(path, self.tree, self.features) {
                    return Ok(Response::GetAcl { acl: system::acl(), stat: node.stat });
                }
                let (acl, stat) = match self.outbox.shows_digests() {
                    true => self.tree.get_acl_unredacted(path, self.identities)?,
                    false => self.tree.get_acl(path, self.identities)?,
                };
                Ok(Response::GetAcl { acl, stat })
            }
            Request::FilteredList(list) | Request::FilteredListWithStatsAndData(list) => {
                self.list(list, request.op())
            }
            Request::MultiRead(reads) => {
                let (mut results, mut bytes) = (Vec::with_capacity(reads.len()), 0);
                while results.len() < reads.len() {
                    self.multi_read(reads, &mut bytes, &mut results)?;
                }
                Ok(Response::MultiRead(results))
            }
            Request::AddWatch(watch) => self.add_watch(watch),
            Request::CheckWatches(watch) => {
                let found = self.watches.has(self.outbox.id, watch_kinds(watch.kind)?, watch.path);
                if found { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
            }
            Request::RemoveWatches(watch) => {
                let removed = self.watches.remove(self.outbox.id, watch_kinds(watch.kind)?, watch.path);
                if removed { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
            }
            Request::GetEphemerals(prefix) => {
                let (session, _) = self.outbox.session();
                Ok(Response::GetEphemerals { paths: self.tree.ephemerals_of(session, prefix) })
            }
            Request::GetAllChildrenNumber(path) => {
                let count = self.tree.count_below(path, self.identities)?;
                Ok(Response::GetAllChildrenNumber { count: i32::try_from(count).unwrap_or(i32::MAX) })
            }
            Request::ListRecursive(list) => {
                let max = list.nodes_max as usize;
                Ok(Response::ListRecursive { paths: self.tree.list_below(list.path, self.identities, max)? })
            }
            Request::WhoAmI => {
                Ok(Response::WhoAmI { ids: self.identities.iter().map(shown_to_owner).collect() })
            }
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    /// The next reads of a multiRead, as many as one go may have; `results` has those before. The same large node a
    /// thousand times would be a reply that no memory holds, so `bytes` counts what the results take; too much is an error
    /// for the whole.
    pub fn multi_read(
        &self,
        reads: &[Request<'_>],
        bytes: &mut usize,
        results: &mut Reads,
    ) -> Result<(), ErrorCode> {
        let before = *bytes;
        for read in reads.iter().skip(results.len()).take(MULTI_READS_AT_A_TIME) {
            let value = match self.value(read) {
                Err(code) if self.outbox.is_clickhouse() => Ok(Response::Failed(code)),
                value => value,
            };
            *bytes += value.as_ref().map_or(0, value_bytes);
            if *bytes > MULTI_READ_BYTES_MAX {
                return Err(ErrorCode::SystemError);
            }
            results.push(value.map(|value| (reply_op(read.op()), Box::new(value))));
            if *bytes - before > MULTI_READ_BYTES_AT_A_TIME {
                break;
            }
        }
        Ok(())
    }

    fn leave(&self, wanted: bool, kind: WatchKind, path: &str) -> Result<(), ErrorCode> {
        if !wanted || self.watches.add(self.outbox, kind, path, WATCHES_PER_CONNECTION_MAX) {
            return Ok(());
        }
        Err(ErrorCode::SystemError)
    }

    fn get_data(&self, path: &str, watch: bool) -> Answer {
        let (data, stat) = match system::node(path, self.tree, self.features) {
            Some(node) => {
                self.outbox.note_clickhouse();
                (Some(node.data), node.stat)
            }
            None => {
                let (data, stat) = self.tree.get_data(path, self.identities)?;
                (data.map(<[u8]>::to_vec), stat)
            }
        };
        self.leave(watch, WatchKind::Data, path)?;
        Ok(Response::GetData { data, stat })
    }

    /// The only read whose watch is left although the node is missing: it waits for the creation.
    fn exists(&self, path: &str, watch: bool) -> Answer {
        let found = match system::node(path, self.tree, self.features) {
            Some(node) => Ok(node.stat),
            None => self.tree.exists(path, self.identities),
        };
        if matches!(found, Ok(_) | Err(ErrorCode::NoNode)) {
            self.leave(watch, WatchKind::Data, path)?;
        }
        found.map(|stat| Response::Exists { stat })
    }

    fn children(&self, xid: i32, path: &str, watch: bool, with_stat: bool, out: &mut BytesMut) {
        let zxid = self.tree.zxid().0;
        let found = self
            .tree
            .children(path, self.identities)
            .and_then(|found| self.leave(watch, WatchKind::Child, path).map(|()| found));
        match found {
            Ok((names, stat)) => {
                keeper_wire::encode_children_reply(xid, zxid, names, with_stat.then_some(&stat), out);
            }
            Err(code) => keeper_wire::encode_reply(xid, zxid, Err(code), out),
        }
    }

    fn names(&self, path: &str, watch: bool) -> Result<(Vec<String>, Stat), ErrorCode> {
        let found = match system::node(path, self.tree, self.features) {
            Some(node) => (node.children.iter().map(|name| (*name).to_owned()).collect(), node.stat),
            None => {
                let (names, stat) = self.tree.children(path, self.identities)?;
                (names.map(str::to_owned).collect(), stat)
            }
        };
        self.leave(watch, WatchKind::Child, path)?;
        Ok(found)
    }

    /// ClickHouse's lists: by kind of child, and with their Stats and data.
    fn list(&self, list: &ListRequest<'_>, op: OpCode) -> Answer {
        let path = list.path;
        let filter = ChildFilter::from_u8(list.filter).ok_or(ErrorCode::BadArguments)?;
        let with_more = op == OpCode::FilteredListWithStatsAndData;
        if is_keeper_path(path) {
            let (names, stat) = self.names(path, list.watch)?;
            return Ok(match with_more {
                false => Response::GetChildren2 { names, stat },
                true => Response::FilteredListWithStatsAndData { names, stat, stats: vec![], data: vec![] },
            });
        }
        let read_each = filter != ChildFilter::All || list.with_stat || list.with_data;
        let (children, stat) = self.tree.list(path, self.identities, filter, read_each)?;
        self.leave(list.watch, WatchKind::Child, path)?;
        let names = children.iter().map(|child| child.name.to_owned()).collect();
        if !with_more {
            return Ok(Response::GetChildren2 { names, stat });
        }
        let wanted = |wanted: bool| if wanted { &children[..] } else { &[] };
        Ok(Response::FilteredListWithStatsAndData {
            names,
            stat,
            stats: wanted(list.with_stat).iter().map(|child| child.stat).collect(),
            data: wanted(list.with_data).iter().map(|child| child.data.map(<[u8]>::to_vec)).collect(),
        })
    }

    fn add_watch(&self, watch: &WatchTypeRequest<'_>) -> Answer {
        let kind = match watch.kind {
            0 => WatchKind::Persistent,
            1 => WatchKind::PersistentRecursive,
            // ZooKeeper fails to read such a request.
            _ => return Err(ErrorCode::MarshallingError),
        };
        self.leave(true, kind, watch.path)?;
        Ok(Response::AddWatch { error: 0 })
    }

    /// Sets a moved client's watches again. What it missed since `relative_zxid` is sent at once, before the reply.
    pub fn set_watches(&self, request: &SetWatchesRequest<'_>, out: &mut BytesMut) -> Answer {
        let since = match keeper_rt::planted!("missed-changes-untold") {
            true => i64::MAX,
            false => request.relative_zxid,
        };
        for path in &request.data {
            self.again(WatchKind::Data, path, out, |stat| match stat {
                None => Some(EventKind::Deleted),
                Some(stat) if stat.mzxid > since => Some(EventKind::DataChanged),
                Some(_) => None,
            })?;
        }
        for path in &request.exist {
            self.again(WatchKind::Data, path, out, |stat| stat.map(|_| EventKind::Created))?;
        }
        for path in &request.child {
            self.again(WatchKind::Child, path, out, |stat| match stat {
                None => Some(EventKind::Deleted),
                Some(stat) if stat.pzxid > since => Some(EventKind::ChildrenChanged),
                Some(_) => None,
            })?;
        }
        // Persistent ones are only set again: as in ZooKeeper, what happened meanwhile is not told.
        for path in &request.persistent {
            self.leave(true, WatchKind::Persistent, path)?;
        }
        for path in &request.persistent_recursive {
            self.leave(true, WatchKind::PersistentRecursive, path)?;
        }
        Ok(Response::Empty)
    }

    fn again(
        &self,
        kind: WatchKind,
        path: &str,
        out: &mut BytesMut,
        missed: impl Fn(Option<Stat>) -> Option<EventKind>,
    ) -> Result<(), ErrorCode> {
        let stat = match system::node(path, self.tree, self.features) {
            Some(node) => Some(node.stat),
            None => self.tree.stat(path),
        };
        match missed(stat) {
            Some(event) => {
                // Measured on ZooKeeper 3.9.5: events caught up here carry zxid -1.
                encode_event(event, path, Zxid(-1), out);
                Ok(())
            }
            None => self.leave(true, kind, path),
        }
    }
}

/// What is large in the result of a read inside a multiRead.
fn value_bytes(value: &Response) -> usize {
    let lengths = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
    match value {
        Response::GetData { data, .. } => data.as_ref().map_or(0, Vec::len),
        Response::GetChildren { names } | Response::GetChildren2 { names, .. } => lengths(names),
        Response::FilteredListWithStatsAndData { names, data, .. } => {
            lengths(names) + data.iter().flatten().map(Vec::len).sum::<usize>()
        }
        _ => 0,
    }
}

/// Inside a multiRead ClickHouse's filtered list is answered as getChildren2.
fn reply_op(op: OpCode) -> OpCode {
    if op == OpCode::FilteredList { OpCode::GetChildren2 } else { op }
}

/// Watcher types of checkWatches and removeWatches (ZooKeeper `Watcher.WatcherType`).
fn watch_kinds(number: i32) -> Result<&'static [WatchKind], ErrorCode> {
    Ok(match number {
        1 => &[WatchKind::Child],
        2 => &[WatchKind::Data],
        3 => &WatchKind::ALL,
        4 => &[WatchKind::Persistent],
        5 => &[WatchKind::PersistentRecursive],
        // ZooKeeper fails to read such a request.
        _ => return Err(ErrorCode::MarshallingError),
    })
}

/// ZooKeeper's whoAmI names the user of a digest without the hash.
fn shown_to_owner(identity: &AclId) -> AclId {
    let user = match identity.scheme.as_str() {
        "digest" => identity.id.split(':').next().unwrap_or_default(),
        _ => &identity.id,
    };
    AclId { scheme: identity.scheme.clone(), id: user.to_owned() }
}
