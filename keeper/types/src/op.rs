//! Every operation code of ZooKeeper 3.9 and of ClickHouse Keeper, in one table.

/// What an operation does to the order of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpClass {
    /// Answered from the local tree.
    Read,
    /// Goes through the log.
    Write,
    /// Concerns the connection or the session itself.
    Session,
    /// Known, but answered with `Unimplemented` by this version.
    Unserved,
}

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident = $value:literal $class:ident),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum OpCode { $($(#[$doc])* $name = $value),* }

        impl OpCode {
            pub const ALL: &[OpCode] = &[$(OpCode::$name),*];

            pub fn from_i32(value: i32) -> Option<OpCode> {
                match value { $($value => Some(OpCode::$name),)* _ => None }
            }

            pub fn class(self) -> OpClass {
                match self { $(OpCode::$name => OpClass::$class),* }
            }

            pub fn name(self) -> &'static str {
                match self { $(OpCode::$name => stringify!($name)),* }
            }
        }
    };
}

ops! {
    CloseSession = -11 Session,
    /// Internal: never accepted from a client.
    CreateSession = -10 Session,
    Create = 1 Write,
    Delete = 2 Write,
    Exists = 3 Read,
    GetData = 4 Read,
    SetData = 5 Write,
    GetAcl = 6 Read,
    SetAcl = 7 Write,
    GetChildren = 8 Read,
    Sync = 9 Session,
    Ping = 11 Session,
    GetChildren2 = 12 Read,
    Check = 13 Write,
    Multi = 14 Write,
    Create2 = 15 Write,
    Reconfig = 16 Unserved,
    CheckWatches = 17 Unserved,
    RemoveWatches = 18 Unserved,
    CreateContainer = 19 Unserved,
    DeleteContainer = 20 Unserved,
    CreateTtl = 21 Unserved,
    MultiRead = 22 Unserved,
    Auth = 100 Session,
    SetWatches = 101 Session,
    Sasl = 102 Session,
    GetEphemerals = 103 Unserved,
    GetAllChildrenNumber = 104 Unserved,
    SetWatches2 = 105 Unserved,
    AddWatch = 106 Unserved,
    WhoAmI = 107 Unserved,
    FilteredList = 500 Unserved,
    CheckNotExists = 501 Unserved,
    CreateIfNotExists = 502 Unserved,
    RemoveRecursive = 503 Unserved,
    CheckStat = 504 Unserved,
    TryRemove = 505 Unserved,
    FilteredListWithStatsAndData = 506 Unserved,
    ListRecursive = 507 Unserved,
}

impl OpCode {
    pub fn as_i32(self) -> i32 {
        self as i32
    }
}
