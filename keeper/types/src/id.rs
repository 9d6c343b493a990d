//! Newtypes for every number that could be mistaken for another.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A member of the Raft cluster, for life: an id is never given out twice.
    ServerId(u64)
);
number!(
    /// Position of a write in the order of all writes. Replicated 64-bit counter without epochs, so it never
    /// rolls over; a failed write consumes one too, as in ZooKeeper.
    Zxid(i64)
);
number!(
    /// A client session. Zero is "no session".
    SessionId(i64)
);
number!(
    /// Counts the connections a session has lived on; a request of an older one answers `SessionMoved`.
    Generation(u32)
);
number!(
    /// One life of one server process, as the source of batches.
    Origin(u64)
);
number!(
    /// Position of a batch among those of its origin, from 0 without gaps.
    Seq(u64)
);

/// 128 random bits that name a cluster; a member of another cluster is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterId(pub [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for ClusterId {
    type Err = String;
    /// Reads 32 hexadecimal digits; dashes are skipped, so that a UUID works too.
    fn from_str(text: &str) -> Result<Self, String> {
        let digits: Vec<u8> = text.bytes().filter(|b| *b != b'-').collect();
        let wrong = || format!("cluster id `{text}` is not 32 hexadecimal digits");
        if digits.len() != 32 {
            return Err(wrong());
        }
        let mut id = [0; 16];
        for (i, pair) in digits.chunks(2).enumerate() {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            id[i] = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(ClusterId(id))
    }
}
