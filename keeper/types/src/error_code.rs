//! Error codes as they stand in reply headers (ZooKeeper `KeeperException.Code`; -10 is ClickHouse's).

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum ErrorCode { $($(#[$doc])* $name = $value),* }

        impl ErrorCode {
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$name),*];

            pub fn from_i32(value: i32) -> Option<ErrorCode> {
                match value { $($value => Some(ErrorCode::$name),)* _ => None }
            }

            pub fn name(self) -> &'static str {
                match self { $(ErrorCode::$name => stringify!($name)),* }
            }
        }
    };
}

codes! {
    SystemError = -1,
    /// In a failed multi: an operation after the one that failed.
    RuntimeInconsistency = -2,
    DataInconsistency = -3,
    ConnectionLoss = -4,
    MarshallingError = -5,
    Unimplemented = -6,
    OperationTimeout = -7,
    BadArguments = -8,
    InvalidState = -9,
    /// ClickHouse: refused by the memory soft limit.
    OutOfMemory = -10,
    UnknownSession = -12,
    NewConfigNoQuorum = -13,
    ReconfigInProgress = -14,
    ApiError = -100,
    NoNode = -101,
    NoAuth = -102,
    BadVersion = -103,
    NoChildrenForEphemerals = -108,
    NodeExists = -110,
    NotEmpty = -111,
    SessionExpired = -112,
    InvalidCallback = -113,
    InvalidAcl = -114,
    AuthFailed = -115,
    Closing = -116,
    Nothing = -117,
    SessionMoved = -118,
    NotReadOnly = -119,
    EphemeralOnLocalSession = -120,
    NoWatcher = -121,
    RequestTimeout = -122,
    ReconfigDisabled = -123,
    SessionClosedRequireSasl = -124,
    QuotaExceeded = -125,
    ThrottledOp = -127,
}

impl ErrorCode {
    pub fn as_i32(self) -> i32 {
        self as i32
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.as_i32())
    }
}

impl std::error::Error for ErrorCode {}
