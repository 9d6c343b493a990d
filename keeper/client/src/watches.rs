//! Watches of a session: set by the server with a read, fired at most once, set again on the next server after
//! the connection is lost.

use crate::error::ClientError;
use crate::limits::{SET_WATCHES_BYTES_MAX, WATCHES_MAX};
use crate::reply::Reply;
use crate::session::SessionState;
use bytes::BytesMut;
use keeper_types::{ErrorCode, EventKind, OpCode, Request, SetWatchesRequest, WatchEvent};
use keeper_wire::xid;
use std::collections::BTreeMap;
use tokio::sync::{oneshot, watch};

/// One event to come.
pub struct Watch {
    event: oneshot::Receiver<Reply<WatchEvent>>,
    state: watch::Receiver<SessionState>,
}

impl Watch {
    /// Waits for the event. Lost connections do not matter; `Err` says why the session ended.
    pub async fn event(self) -> Result<Reply<WatchEvent>, ClientError> {
        let Watch { event, state } = self;
        event.await.map_err(|_| state.borrow().end())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Data,
    /// Set by exists on a node that is not there.
    Exist,
    Child,
}

type EventSender = oneshot::Sender<Reply<WatchEvent>>;

/// Goes with a read and becomes a watch when the server answers it.
pub(crate) struct WatchRequest {
    event: EventSender,
}

pub(crate) fn request(state: watch::Receiver<SessionState>) -> (WatchRequest, Watch) {
    let (sender, event) = oneshot::channel();
    (WatchRequest { event: sender }, Watch { event, state })
}

#[derive(Default)]
pub(crate) struct Watches {
    /// Invariant: no list is empty.
    set: BTreeMap<(Kind, String), Vec<EventSender>>,
    /// Invariant: the sum of the lists' lengths, at most `WATCHES_MAX` plus the requests in flight.
    count: usize,
}

impl Watches {
    pub fn is_full(&self) -> bool {
        self.count >= WATCHES_MAX
    }

    /// The server answered a read that asked for a watch.
    pub fn answered(&mut self, op: OpCode, path: String, error: i32, request: WatchRequest) {
        let kind = match (op, error) {
            (OpCode::GetChildren | OpCode::GetChildren2, 0) => Kind::Child,
            (_, 0) => Kind::Data,
            (OpCode::Exists, error) if error == ErrorCode::NoNode.as_i32() => Kind::Exist,
            _ => return,
        };
        let watchers = self.set.entry((kind, path)).or_default();
        // Whoever dropped its watch leaves when somebody else comes.
        let before = watchers.len();
        watchers.retain(|watcher| !watcher.is_closed());
        self.count -= before - watchers.len();
        watchers.push(request.event);
        self.count += 1;
    }

    /// Hands an event to everyone who watches for it.
    pub fn fire(&mut self, event: &Reply<WatchEvent>) {
        let kinds: &[Kind] = match event.value.kind {
            EventKind::Created | EventKind::DataChanged => &[Kind::Data, Kind::Exist],
            EventKind::Deleted => &[Kind::Data, Kind::Exist, Kind::Child],
            EventKind::ChildrenChanged => &[Kind::Child],
            EventKind::DataWatchRemoved => &[Kind::Data, Kind::Exist],
            EventKind::ChildWatchRemoved => &[Kind::Child],
            // Events of the session reach the caller as its state.
            EventKind::None | EventKind::PersistentWatchRemoved => &[],
        };
        for kind in kinds {
            let watchers = self.set.remove(&(*kind, event.value.path.clone())).unwrap_or_default();
            self.count -= watchers.len();
            for watcher in watchers {
                let _ = watcher.send(event.clone());
            }
        }
    }

    /// Writes setWatches frames for a new connection: as many as it takes to keep each one small.
    pub fn set_again(&mut self, relative_zxid: i64, out: &mut BytesMut) {
        self.set.retain(|_, watchers| {
            watchers.retain(|watcher| !watcher.is_closed());
            !watchers.is_empty()
        });
        self.count = self.set.values().map(Vec::len).sum();
        let empty = SetWatchesRequest {
            relative_zxid,
            data: vec![],
            exist: vec![],
            child: vec![],
            persistent: vec![],
            persistent_recursive: vec![],
        };
        let (mut request, mut bytes) = (empty.clone(), 0);
        for (kind, path) in self.set.keys() {
            if bytes + path.len() > SET_WATCHES_BYTES_MAX && bytes > 0 {
                put(std::mem::replace(&mut request, empty.clone()), out);
                bytes = 0;
            }
            bytes += path.len() + 4;
            match kind {
                Kind::Data => request.data.push(path),
                Kind::Exist => request.exist.push(path),
                Kind::Child => request.child.push(path),
            }
        }
        if bytes > 0 {
            put(request, out);
        }
    }
}

fn put(request: SetWatchesRequest<'_>, out: &mut BytesMut) {
    let written = keeper_wire::encode_request(xid::SET_WATCHES, &Request::SetWatches(request), out);
    // A path came in a request of at most 64 MiB, and the others were kept within SET_WATCHES_BYTES_MAX.
    written.expect("a setWatches frame is not too long");
}
