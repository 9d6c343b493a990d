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
    /// Changes who is a member, through consensus.
    Membership,
    /// Known, but never from a client: answered with `Unimplemented`.
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
    Reconfig = 16 Membership,
    CheckWatches = 17 Read,
    RemoveWatches = 18 Read,
    CreateContainer = 19 Write,
    /// Internal in ZooKeeper too: the leader's clean-up.
    DeleteContainer = 20 Unserved,
    CreateTtl = 21 Write,
    MultiRead = 22 Read,
    Auth = 100 Session,
    SetWatches = 101 Session,
    Sasl = 102 Session,
    GetEphemerals = 103 Read,
    GetAllChildrenNumber = 104 Read,
    SetWatches2 = 105 Session,
    AddWatch = 106 Read,
    WhoAmI = 107 Read,
    FilteredList = 500 Read,
    CheckNotExists = 501 Write,
    CreateIfNotExists = 502 Write,
    RemoveRecursive = 503 Write,
    CheckStat = 504 Write,
    TryRemove = 505 Write,
    FilteredListWithStatsAndData = 506 Read,
    ListRecursive = 507 Read,
}

impl OpCode {
    pub fn as_i32(self) -> i32 {
        self as i32
    }
}
