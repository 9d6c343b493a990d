//! The watches of this member's clients. They belong to connections and are never replicated.
//!
//! A data watch (left by getData or exists) fires once on Created, DataChanged and Deleted of its path; a child watch
//! (left by getChildren) once on ChildrenChanged and Deleted. A persistent watch (addWatch) stays and gets what both
//! get; a persistent recursive one also gets Created, DataChanged and Deleted of every node below, but no
//! ChildrenChanged. However many watches of a connection one event meets, it makes one packet.

use crate::limits::{WATCH_SHARDS, WATCHES_AT_A_TIME};
use crate::outbox::{ConnectionId, Outbox};
use hashbrown::{DefaultHashBuilder, HashMap};
use keeper_types::{EventKind, EventState, WatchEvent, Zxid};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    Data,
    Child,
    Persistent,
    PersistentRecursive,
}

impl WatchKind {
    pub const ALL: [WatchKind; 4] =
        [WatchKind::Data, WatchKind::Child, WatchKind::Persistent, WatchKind::PersistentRecursive];

    /// Gone once it has fired.
    fn is_one_shot(self) -> bool {
        matches!(self, WatchKind::Data | WatchKind::Child)
    }

    /// Whether an event of its own path concerns it.
    fn wants(self, event: EventKind) -> bool {
        match event {
            EventKind::Created | EventKind::DataChanged => self != WatchKind::Child,
            EventKind::Deleted => true,
            EventKind::ChildrenChanged => matches!(self, WatchKind::Child | WatchKind::Persistent),
            _ => false,
        }
    }
}

/// Ordered by connection, so that a simulation repeats itself.
type Watchers = BTreeMap<ConnectionId, Arc<Outbox>>;

/// By kind.
#[derive(Default)]
struct PathWatches([Watchers; WatchKind::ALL.len()]);

impl PathWatches {
    fn of(&mut self, kind: WatchKind) -> &mut Watchers {
        &mut self.0[kind as usize]
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(Watchers::is_empty)
    }
}

/// By path. In shards, since a table that grows moves all it holds, and every write waits meanwhile.
struct Paths {
    hasher: DefaultHashBuilder,
    shards: Vec<HashMap<String, PathWatches>>,
}

impl Default for Paths {
    fn default() -> Paths {
        let shards = (0..WATCH_SHARDS).map(|_| HashMap::new()).collect();
        Paths { hasher: DefaultHashBuilder::default(), shards }
    }
}

impl Paths {
    /// The shard that the path belongs to.
    fn of(&mut self, path: &str) -> &mut HashMap<String, PathWatches> {
        // Other bits than the table itself takes.
        let at = (self.hasher.hash_one(path) >> 32) as usize % self.shards.len();
        &mut self.shards[at]
    }

    fn len(&self) -> usize {
        self.shards.iter().map(HashMap::len).sum()
    }

    fn iter(&self) -> impl Iterator<Item = (&String, &PathWatches)> {
        self.shards.iter().flatten()
    }
}

#[derive(Default)]
struct Tables {
    paths: Paths,
    /// The same watches by connection. Invariant: mirrors `paths`.
    connections: BTreeMap<ConnectionId, BTreeSet<(WatchKind, Box<str>)>>,
    /// Persistent recursive watches: without any, no event looks at the nodes above its own.
    recursive: usize,
}

impl Tables {
    /// The watches of one path that an event meets; one-shot ones are taken out.
    fn meet(&mut self, path: &str, event: EventKind, kinds: &[WatchKind], met: &mut Met) {
        let Some(watches) = self.paths.of(path).get_mut(path) else { return };
        for kind in kinds.iter().copied().filter(|kind| kind.wants(event)) {
            if !kind.is_one_shot() {
                met.fired.extend(watches.of(kind).iter().map(|(id, outbox)| (*id, outbox.clone())));
                continue;
            }
            for (id, outbox) in std::mem::take(watches.of(kind)) {
                if let Some(own) = self.connections.get_mut(&id) {
                    own.remove(&(kind, Box::from(path)));
                }
                met.taken += 1;
                met.fired.insert(id, outbox);
            }
        }
        if watches.is_empty() {
            self.paths.of(path).remove(path);
        }
    }

    fn remove(&mut self, id: ConnectionId, kind: WatchKind, path: &str) {
        if kind == WatchKind::PersistentRecursive {
            self.recursive -= 1;
        }
        if let Some(watches) = self.paths.of(path).get_mut(path) {
            watches.of(kind).remove(&id);
            if watches.is_empty() {
                self.paths.of(path).remove(path);
            }
        }
    }
}

/// Whom an event concerns, and how many watches it used up.
#[derive(Default)]
struct Met {
    fired: Watchers,
    taken: usize,
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
            tables.paths.of(path).entry_ref(path).or_default().of(kind).insert(outbox.id, outbox.clone());
            if kind == WatchKind::PersistentRecursive {
                tables.recursive += 1;
            }
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// The connections that an event concerns, in order. One-shot watches that it meets are gone afterwards.
    pub fn fire(&self, event: EventKind, path: &str) -> Vec<Arc<Outbox>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut tables = self.lock();
        let mut met = Met::default();
        tables.meet(path, event, &WatchKind::ALL, &mut met);
        if tables.recursive > 0 && event != EventKind::ChildrenChanged {
            let mut above = keeper_types::parent(path);
            while let Some(at) = above {
                tables.meet(at, event, &[WatchKind::PersistentRecursive], &mut met);
                above = keeper_types::parent(at);
            }
        }
        self.count.fetch_sub(met.taken, Ordering::Relaxed);
        met.fired.into_values().collect()
    }

    /// Whether the connection has a watch of one of these kinds on the path.
    pub fn has(&self, id: ConnectionId, kinds: &[WatchKind], path: &str) -> bool {
        let tables = self.lock();
        let Some(own) = tables.connections.get(&id) else { return false };
        kinds.iter().any(|kind| own.contains(&(*kind, Box::from(path))))
    }

    /// Takes watches of these kinds away; false when there was none.
    pub fn remove(&self, id: ConnectionId, kinds: &[WatchKind], path: &str) -> bool {
        let mut tables = self.lock();
        let mut removed = 0;
        for kind in kinds {
            let own = tables.connections.get_mut(&id);
            if own.is_some_and(|own| own.remove(&(*kind, Box::from(path)))) {
                tables.remove(id, *kind, path);
                removed += 1;
            }
        }
        self.count.fetch_sub(removed, Ordering::Relaxed);
        removed > 0
    }

    /// The connection is gone. Its watches go part by part: every write waits for the lock.
    pub async fn remove_connection(&self, id: ConnectionId) {
        while self.remove_some(id) {
            keeper_rt::yield_now().await;
        }
    }

    /// False when the connection has no watches any more.
    fn remove_some(&self, id: ConnectionId) -> bool {
        let mut tables = self.lock();
        let Some(own) = tables.connections.get_mut(&id) else { return false };
        let some: Vec<_> = std::iter::from_fn(|| own.pop_first()).take(WATCHES_AT_A_TIME).collect();
        let is_empty = own.is_empty();
        if is_empty {
            tables.connections.remove(&id);
        }
        self.count.fetch_sub(some.len(), Ordering::Relaxed);
        for (kind, path) in some {
            tables.remove(id, kind, &path);
        }
        !is_empty
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
                let told = WatchKind::ALL.iter().take_while(|earlier| *earlier != kind);
                let told = told.into_iter().any(|earlier| own.contains(&(*earlier, path.clone())));
                if !told && !visit(*id, path) {
                    return;
                }
            }
        }
    }

    /// As [`list`](Self::list), by path, in no particular order.
    pub fn list_by_path(&self, visit: &mut dyn FnMut(&str, &BTreeSet<ConnectionId>) -> bool) {
        let tables = self.lock();
        for (path, watches) in tables.paths.iter() {
            let connections = watches.0.iter().flat_map(BTreeMap::keys).copied().collect();
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

    /// For docs/memory.md: `cargo test -p keeper-server --lib -- --ignored --nocapture memory_of_a_watch`.
    #[test]
    #[ignore = "a measurement: prints what a watch costs, and needs this process for itself"]
    #[allow(clippy::disallowed_methods, reason = "a measurement of this process, outside of any server")]
    fn memory_of_a_watch() {
        let resident = || {
            let text = std::fs::read("/proc/self/statm").expect("Linux");
            let text = String::from_utf8(text).expect("text");
            4096 * text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number")
        };
        let outboxes: Vec<_> = (0..1000).map(Outbox::new).collect();
        for sharers in [1, 10] {
            let watches = Watches::default();
            let before = resident();
            for (number, outbox) in outboxes.iter().enumerate() {
                for path in 0..300 {
                    let path = format!("/{:090}/{:025}", number / sharers, path);
                    assert!(watches.add(outbox, WatchKind::Data, &path, 1000));
                }
            }
            let each = (resident() - before) / 300_000;
            println!("{each} bytes a watch, path of 117 bytes, {sharers} watchers a path");
            // Else the next round would lie in the memory of this one.
            std::mem::forget(watches);
        }
    }

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
    fn watches_of_every_kind_end_with_their_connection() {
        let watches = Watches::default();
        let (one, two) = (Outbox::new(1), Outbox::new(2));
        for kind in WatchKind::ALL {
            watches.add(&one, kind, "/a", MANY);
            watches.add(&two, kind, "/a", MANY);
        }
        assert_eq!(watches.summary().watches, 8);
        keeper_rt::block_on(watches.remove_connection(1));
        assert_eq!(watches.summary().watches, 4);
        let left: Vec<u64> = watches.fire(EventKind::Deleted, "/a").iter().map(|outbox| outbox.id).collect();
        assert_eq!(left, [2]);
        keeper_rt::block_on(watches.remove_connection(2));
        let left = watches.summary();
        assert_eq!((left.connections, left.paths, left.watches), (0, 0, 0));
    }

    #[test]
    fn a_persistent_watch_stays_and_sees_data_and_children() {
        let watches = Watches::default();
        let outbox = Outbox::new(1);
        watches.add(&outbox, WatchKind::Persistent, "/a", MANY);
        use EventKind::*;
        for event in [Created, DataChanged, ChildrenChanged, Deleted, Created] {
            assert_eq!(watches.fire(event, "/a").len(), 1, "{event:?}");
            assert!(watches.fire(event, "/a/b").is_empty(), "{event:?} below");
        }
        assert!(watches.remove(1, &[WatchKind::Persistent], "/a"));
        assert!(!watches.remove(1, &[WatchKind::Persistent], "/a"));
        assert!(watches.fire(DataChanged, "/a").is_empty());
        assert_eq!(watches.summary().watches, 0);
    }

    #[test]
    fn a_recursive_watch_sees_every_node_below_but_no_change_of_children() {
        let watches = Watches::default();
        let outbox = Outbox::new(1);
        watches.add(&outbox, WatchKind::PersistentRecursive, "/a", MANY);
        use EventKind::*;
        for path in ["/a", "/a/b", "/a/b/c"] {
            for event in [Created, DataChanged, Deleted] {
                assert_eq!(watches.fire(event, path).len(), 1, "{event:?} {path}");
            }
            assert!(watches.fire(ChildrenChanged, path).is_empty(), "{path}");
        }
        assert!(watches.fire(Created, "/ab").is_empty());
        watches.add(&outbox, WatchKind::PersistentRecursive, "/", MANY);
        assert_eq!(watches.fire(Created, "/ab").len(), 1);
        assert_eq!(watches.fire(Created, "/a/b").len(), 1, "two watches, one packet");
        keeper_rt::block_on(watches.remove_connection(1));
        assert!(watches.fire(Created, "/a").is_empty());
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
