//! Reads, answered from the local tree: on the connection's task under the reader lock, or on the apply task right
//! after the write they stand behind. Encodes straight from the tree into the outbox.

use crate::limits::WATCHES_PER_CONNECTION_MAX;
use crate::outbox::Outbox;
use crate::watch::{WatchKind, Watches, encode_event};
use bytes::BytesMut;
use keeper_tree::Tree;
use keeper_types::{AclId, ErrorCode, EventKind, Request, Response, SetWatchesRequest, Stat, Zxid};
use std::sync::Arc;

/// What a read needs to know of its connection.
pub struct Reader<'a> {
    pub tree: &'a Tree,
    pub watches: &'a Watches,
    pub outbox: &'a Arc<Outbox>,
    pub identities: &'a [AclId],
}

impl Reader<'_> {
    /// Appends the reply (events of setWatches before it) to `out`. Requests that are no reads answer
    /// `Unimplemented`.
    pub fn answer(&self, xid: i32, request: &Request<'_>, out: &mut BytesMut) {
        let zxid = self.tree.zxid().0;
        let result = match request {
            Request::Ping => Ok(Response::Empty),
            Request::GetData(read) => {
                let path = trim(read.path);
                match self.tree.get_data(path, self.identities) {
                    Ok((data, stat)) => match self.leave(read.watch, WatchKind::Data, path) {
                        Ok(()) => return keeper_wire::encode_get_data_reply(xid, zxid, data, &stat, out),
                        Err(code) => Err(code),
                    },
                    Err(code) => Err(code),
                }
            }
            Request::Exists(read) => self.exists(trim(read.path), read.watch),
            Request::GetChildren(read) => return self.children(xid, trim(read.path), read.watch, false, out),
            Request::GetChildren2(read) => return self.children(xid, trim(read.path), read.watch, true, out),
            Request::GetAcl(path) => self
                .tree
                .get_acl(trim(path), self.identities)
                .map(|(acl, stat)| Response::GetAcl { acl, stat }),
            Request::SetWatches(request) => self.set_watches(request, out),
            _ => Err(ErrorCode::Unimplemented),
        };
        // ZooKeeper's answer to an operation it does not know carries zxid -1.
        let zxid = if result == Err(ErrorCode::Unimplemented) { -1 } else { zxid };
        keeper_wire::encode_reply(xid, zxid, result.as_ref().map_err(|code| *code), out);
    }

    fn leave(&self, wanted: bool, kind: WatchKind, path: &str) -> Result<(), ErrorCode> {
        if !wanted || self.watches.add(self.outbox, kind, path, WATCHES_PER_CONNECTION_MAX) {
            return Ok(());
        }
        Err(ErrorCode::SystemError)
    }

    /// The only read whose watch is left although the node is missing: it waits for the creation.
    fn exists(&self, path: &str, watch: bool) -> Result<Response, ErrorCode> {
        let found = self.tree.exists(path);
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

    /// Sets a moved client's watches again. What it missed since `relative_zxid` is sent at once, before the reply.
    fn set_watches(
        &self,
        request: &SetWatchesRequest<'_>,
        out: &mut BytesMut,
    ) -> Result<Response, ErrorCode> {
        let since = request.relative_zxid;
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
        Ok(Response::Empty)
    }

    fn again(
        &self,
        kind: WatchKind,
        path: &str,
        out: &mut BytesMut,
        missed: impl Fn(Option<Stat>) -> Option<EventKind>,
    ) -> Result<(), ErrorCode> {
        match missed(self.tree.stat(trim(path))) {
            Some(event) => {
                // Measured on ZooKeeper 3.9.5: events caught up here carry zxid -1.
                encode_event(event, path, Zxid(-1), out);
                Ok(())
            }
            None => self.leave(true, kind, trim(path)),
        }
    }
}

/// A trailing slash names the node without it, as in ZooKeeper's server.
fn trim(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some(rest) if !rest.is_empty() => rest,
        _ => path,
    }
}
