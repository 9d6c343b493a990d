//! The one-shot watches of this member's clients. They belong to connections and are never replicated.
//!
//! A data watch (left by getData or exists) fires on Created, DataChanged and Deleted of its path; a child watch
//! (left by getChildren) on ChildrenChanged and Deleted. Both on one deleted node make one event.

use crate::outbox::{ConnectionId, Outbox};
use hashbrown::HashMap;
use keeper_types::{EventKind, EventState, WatchEvent, Zxid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    Data,
    Child,
}

/// Ordered by connection, so that a simulation repeats itself.
type Watchers = BTreeMap<ConnectionId, Arc<Outbox>>;

#[derive(Default)]
struct PathWatches {
    data: Watchers,
    child: Watchers,
}

impl PathWatches {
    fn of(&mut self, kind: WatchKind) -> &mut Watchers {
        match kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Child => &mut self.child,
        }
    }

    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.child.is_empty()
    }
}

#[derive(Default)]
struct Tables {
    paths: HashMap<String, PathWatches>,
    /// The same watches by connection. Invariant: mirrors `paths`.
    connections: BTreeMap<ConnectionId, BTreeSet<(WatchKind, Box<str>)>>,
}

#[derive(Default)]
pub struct Watches {
    tables: Mutex<Tables>,
    /// Watches in all, so that a write without any need not take the lock.
    count: AtomicUsize,
}

/// Numbers for `wchs`.
pub struct WatchSummary {
    pub connections: usize,
    pub paths: usize,
    pub watches: usize,
}

impl Watches {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a watch. Repeating it changes nothing. False when the connection has `limit` watches already.
    pub fn add(&self, outbox: &Arc<Outbox>, kind: WatchKind, path: &str, limit: usize) -> bool {
        let mut tables = self.lock();
        let own = tables.connections.entry(outbox.id).or_default();
        if own.len() >= limit {
            return own.contains(&(kind, Box::from(path)));
        }
        if own.insert((kind, path.into())) {
            tables.paths.entry_ref(path).or_default().of(kind).insert(outbox.id, outbox.clone());
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Takes the watches that `kind` on `path` fires, and returns their connections in order.
    pub fn fire(&self, kind: EventKind, path: &str) -> Vec<Arc<Outbox>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut tables = self.lock();
        let Some(watches) = tables.paths.get_mut(path) else { return Vec::new() };
        let kinds: &[WatchKind] = match kind {
            EventKind::Created | EventKind::DataChanged => &[WatchKind::Data],
            EventKind::ChildrenChanged => &[WatchKind::Child],
            EventKind::Deleted => &[WatchKind::Data, WatchKind::Child],
            _ => &[],
        };
        let mut fired = Watchers::new();
        let mut taken = Vec::new();
        for kind in kinds {
            for (id, outbox) in std::mem::take(watches.of(*kind)) {
                taken.push((id, *kind));
                fired.insert(id, outbox);
            }
        }
        if watches.is_empty() {
            tables.paths.remove(path);
        }
        for (id, kind) in &taken {
            if let Some(own) = tables.connections.get_mut(id) {
                own.remove(&(*kind, Box::from(path)));
            }
        }
        self.count.fetch_sub(taken.len(), Ordering::Relaxed);
        fired.into_values().collect()
    }

    /// The connection is gone.
    pub fn remove_connection(&self, id: ConnectionId) {
        let mut tables = self.lock();
        let Some(own) = tables.connections.remove(&id) else { return };
        self.count.fetch_sub(own.len(), Ordering::Relaxed);
        for (kind, path) in own {
            if let Some(watches) = tables.paths.get_mut(&*path) {
                watches.of(kind).remove(&id);
                if watches.is_empty() {
                    tables.paths.remove(&*path);
                }
            }
        }
    }

    pub fn summary(&self) -> WatchSummary {
        let tables = self.lock();
        WatchSummary {
            connections: tables.connections.values().filter(|own| !own.is_empty()).count(),
            paths: tables.paths.len(),
            watches: self.count.load(Ordering::Relaxed),
        }
    }
}

/// What is watched, for people.
impl Watches {
    /// Calls `visit` with each connection's watched paths, a path once whatever kinds of watch there are on it, until it
    /// returns false. Holds the lock meanwhile: `visit` must be quick and end early.
    pub fn list(&self, visit: &mut dyn FnMut(ConnectionId, &str) -> bool) {
        let tables = self.lock();
        for (id, own) in &tables.connections {
            for (kind, path) in own {
                let has_data_watch = || tables.paths.get(&**path).is_some_and(|on| on.data.contains_key(id));
                let told = *kind != WatchKind::Data && has_data_watch();
                if !told && !visit(*id, path) {
                    return;
                }
            }
        }
    }

    /// As [`list`](Self::list), by path, in no particular order.
    pub fn list_by_path(&self, visit: &mut dyn FnMut(&str, &BTreeSet<ConnectionId>) -> bool) {
        let tables = self.lock();
        for (path, watches) in &tables.paths {
            let connections = watches.data.keys().chain(watches.child.keys()).copied().collect();
            if !visit(path, &connections) {
                return;
            }
        }
    }
}

/// Writes one event packet. ZooKeeper 3.9 puts the change's zxid into its header.
pub fn encode_event(kind: EventKind, path: &str, zxid: Zxid, out: &mut bytes::BytesMut) {
    let event = WatchEvent { kind, state: EventState::SyncConnected, path: path.into() };
    keeper_wire::encode_watch_event(&event, zxid.0, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 100;

    #[test]
    fn a_data_and_a_child_watch_on_a_deleted_node_make_one_event() {
        let watches = Watches::default();
        let outbox = Outbox::new(1);
        assert!(watches.add(&outbox, WatchKind::Data, "/a", MANY));
        assert!(watches.add(&outbox, WatchKind::Child, "/a", MANY));
        assert_eq!(watches.fire(EventKind::Deleted, "/a").len(), 1);
        assert_eq!(watches.summary().watches, 0);
    }

    #[test]
    fn a_watch_fires_once_and_only_for_its_kind_of_change() {
        let watches = Watches::default();
        let outbox = Outbox::new(1);
        watches.add(&outbox, WatchKind::Child, "/a", MANY);
        watches.add(&outbox, WatchKind::Child, "/a", MANY);
        assert!(watches.fire(EventKind::DataChanged, "/a").is_empty());
        assert_eq!(watches.fire(EventKind::ChildrenChanged, "/a").len(), 1);
        assert!(watches.fire(EventKind::ChildrenChanged, "/a").is_empty());
    }

    #[test]
    fn watches_end_with_their_connection() {
        let watches = Watches::default();
        let (one, two) = (Outbox::new(1), Outbox::new(2));
        watches.add(&one, WatchKind::Data, "/a", MANY);
        watches.add(&two, WatchKind::Data, "/a", MANY);
        watches.remove_connection(1);
        let left: Vec<u64> = watches.fire(EventKind::Created, "/a").iter().map(|outbox| outbox.id).collect();
        assert_eq!(left, [2]);
    }

    #[test]
    fn a_connection_cannot_leave_more_watches_than_its_limit() {
        let watches = Watches::default();
        let outbox = Outbox::new(1);
        assert!(watches.add(&outbox, WatchKind::Data, "/a", 1));
        assert!(!watches.add(&outbox, WatchKind::Data, "/b", 1));
        assert!(watches.add(&outbox, WatchKind::Data, "/a", 1), "the watch it has may be repeated");
    }
}
