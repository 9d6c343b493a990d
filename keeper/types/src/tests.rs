//! The numbers that go over the wire, written a second time: a renumbered table does not pass.

use crate::{ErrorCode, EventKind, EventState, OpCode};

/// ZooKeeper `KeeperException.Code`, and ClickHouse's -10.
#[test]
fn error_codes_have_their_numbers() {
    let numbers: Vec<i32> = ErrorCode::ALL.iter().map(|code| code.as_i32()).collect();
    let expected: Vec<i32> = [-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -12, -13, -14, -100, -101, -102, -103]
        .into_iter()
        .chain([-108, -110, -111, -112, -113, -114, -115, -116, -117, -118, -119])
        .chain([-120, -121, -122, -123, -124, -125, -127])
        .collect();
    assert_eq!(numbers, expected);
    for code in ErrorCode::ALL {
        assert_eq!(ErrorCode::from_i32(code.as_i32()), Some(*code));
    }
    assert_eq!([0, -11, -15, -104, -126].map(ErrorCode::from_i32), [None; 5]);
    let named = [
        (ErrorCode::NoNode, -101),
        (ErrorCode::NoAuth, -102),
        (ErrorCode::BadVersion, -103),
        (ErrorCode::NoChildrenForEphemerals, -108),
        (ErrorCode::NodeExists, -110),
        (ErrorCode::NotEmpty, -111),
        (ErrorCode::SessionExpired, -112),
        (ErrorCode::InvalidAcl, -114),
        (ErrorCode::AuthFailed, -115),
        (ErrorCode::SessionMoved, -118),
        (ErrorCode::NotReadOnly, -119),
        (ErrorCode::NoWatcher, -121),
        (ErrorCode::ReconfigDisabled, -123),
        (ErrorCode::QuotaExceeded, -125),
        (ErrorCode::Unimplemented, -6),
        (ErrorCode::BadArguments, -8),
        (ErrorCode::OutOfMemory, -10),
        (ErrorCode::RuntimeInconsistency, -2),
    ];
    assert!(named.iter().all(|(code, number)| code.as_i32() == *number));
}

/// ZooKeeper `ZooDefs.OpCode`, and ClickHouse's from 500 on.
#[test]
fn operations_have_their_numbers() {
    use OpCode::*;
    let expected = [
        (CloseSession, -11),
        (CreateSession, -10),
        (Create, 1),
        (Delete, 2),
        (Exists, 3),
        (GetData, 4),
        (SetData, 5),
        (GetAcl, 6),
        (SetAcl, 7),
        (GetChildren, 8),
        (Sync, 9),
        (Ping, 11),
        (GetChildren2, 12),
        (Check, 13),
        (Multi, 14),
        (Create2, 15),
        (Reconfig, 16),
        (CheckWatches, 17),
        (RemoveWatches, 18),
        (CreateContainer, 19),
        (DeleteContainer, 20),
        (CreateTtl, 21),
        (MultiRead, 22),
        (Auth, 100),
        (SetWatches, 101),
        (Sasl, 102),
        (GetEphemerals, 103),
        (GetAllChildrenNumber, 104),
        (SetWatches2, 105),
        (AddWatch, 106),
        (WhoAmI, 107),
        (FilteredList, 500),
        (CheckNotExists, 501),
        (CreateIfNotExists, 502),
        (RemoveRecursive, 503),
        (CheckStat, 504),
        (TryRemove, 505),
        (FilteredListWithStatsAndData, 506),
        (ListRecursive, 507),
    ];
    assert_eq!(expected.map(|(op, _)| op), OpCode::ALL);
    for (op, number) in expected {
        assert_eq!((op.as_i32(), OpCode::from_i32(number)), (number, Some(op)));
    }
    assert_eq!([0, -1, 10, 23, 99, 108, 508, 997].map(OpCode::from_i32), [None; 8]);
}

/// ZooKeeper `Watcher.Event`.
#[test]
fn events_have_their_numbers() {
    use EventKind::*;
    let kinds = [
        (None, -1),
        (Created, 1),
        (Deleted, 2),
        (DataChanged, 3),
        (ChildrenChanged, 4),
        (DataWatchRemoved, 5),
        (ChildWatchRemoved, 6),
        (PersistentWatchRemoved, 7),
    ];
    for (kind, number) in kinds {
        assert_eq!((kind as i32, EventKind::from_i32(number)), (number, Some(kind)));
    }
    let states = [
        (EventState::Disconnected, 0),
        (EventState::SyncConnected, 3),
        (EventState::AuthFailed, 4),
        (EventState::ConnectedReadOnly, 5),
        (EventState::SaslAuthenticated, 6),
        (EventState::Expired, -112),
        (EventState::Closed, 7),
    ];
    for (state, number) in states {
        assert_eq!((state as i32, EventState::from_i32(number)), (number, Some(state)));
    }
    assert_eq!((EventKind::from_i32(0), EventState::from_i32(1)), (Option::None, Option::None));
}
