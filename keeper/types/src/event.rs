//! Watch events (ZooKeeper `WatcherEvent`: int32 type, int32 state, ustring path).

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum EventKind {
    None = -1,
    Created = 1,
    Deleted = 2,
    DataChanged = 3,
    ChildrenChanged = 4,
    DataWatchRemoved = 5,
    ChildWatchRemoved = 6,
    PersistentWatchRemoved = 7,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum EventState {
    Disconnected = 0,
    SyncConnected = 3,
    AuthFailed = 4,
    ConnectedReadOnly = 5,
    SaslAuthenticated = 6,
    Expired = -112,
    Closed = 7,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    pub kind: EventKind,
    pub state: EventState,
    pub path: String,
}

impl EventKind {
    pub fn from_i32(value: i32) -> Option<EventKind> {
        use EventKind::*;
        [
            None,
            Created,
            Deleted,
            DataChanged,
            ChildrenChanged,
            DataWatchRemoved,
            ChildWatchRemoved,
            PersistentWatchRemoved,
        ]
        .into_iter()
        .find(|kind| *kind as i32 == value)
    }
}

impl EventState {
    pub fn from_i32(value: i32) -> Option<EventState> {
        use EventState::*;
        [Disconnected, SyncConnected, AuthFailed, ConnectedReadOnly, SaslAuthenticated, Expired, Closed]
            .into_iter()
            .find(|state| *state as i32 == value)
    }
}
