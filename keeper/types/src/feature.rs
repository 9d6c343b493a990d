//! ClickHouse Keeper's feature flags: what a ClickHouse client may ask for beyond ZooKeeper's operations. It reads
//! them from `/keeper/feature_flags` right after it has connected.

use crate::op::OpCode;
use crate::request::Request;

macro_rules! features {
    ($($(#[$doc:meta])* $name:ident = $bit:literal $key:literal),* $(,)?) => {
        /// The discriminant is the bit's position; ClickHouse never reorders them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Feature { $($(#[$doc])* $name = $bit),* }

        impl Feature {
            /// In the order of their bits.
            pub const ALL: &[Feature] = &[$(Feature::$name),*];

            /// As in ClickHouse's configuration and in the word `ftfl`.
            pub fn key(self) -> &'static str {
                match self { $(Feature::$name => $key),* }
            }
        }
    };
}

features! {
    FilteredList = 0 "filtered_list",
    MultiRead = 1 "multi_read",
    CheckNotExists = 2 "check_not_exists",
    CreateIfNotExists = 3 "create_if_not_exists",
    RemoveRecursive = 4 "remove_recursive",
    MultiWatches = 5 "multi_watches",
    CheckStat = 6 "check_stat",
    PersistentWatches = 7 "persistent_watches",
    CreateWithStats = 8 "create_with_stats",
    TryRemove = 9 "try_remove",
    ListWithStatAndData = 10 "list_with_stat_and_data",
    CreateTtl = 11 "create_ttl",
}

impl Feature {
    pub fn from_key(key: &str) -> Option<Feature> {
        Feature::ALL.iter().copied().find(|feature| feature.key() == key)
    }

    /// The operation a client uses once it has seen the flag, if ZooKeeper has no such operation. ZooKeeper's own are
    /// served to everybody, whatever ClickHouse's clients are told.
    pub fn own_operation(self) -> Option<OpCode> {
        match self {
            Feature::FilteredList => Some(OpCode::FilteredList),
            Feature::CheckNotExists => Some(OpCode::CheckNotExists),
            Feature::CreateIfNotExists => Some(OpCode::CreateIfNotExists),
            Feature::RemoveRecursive => Some(OpCode::RemoveRecursive),
            Feature::CheckStat => Some(OpCode::CheckStat),
            Feature::TryRemove => Some(OpCode::TryRemove),
            Feature::ListWithStatAndData => Some(OpCode::FilteredListWithStatsAndData),
            Feature::MultiRead
            | Feature::MultiWatches
            | Feature::PersistentWatches
            | Feature::CreateWithStats
            | Feature::CreateTtl => None,
        }
    }
}

/// A set of features: those that a member offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    off: u32,
}

impl Features {
    pub const ALL: Features = Features { off: 0 };

    #[must_use]
    pub fn without(self, feature: Feature) -> Features {
        Features { off: self.off | 1 << feature as u8 }
    }

    pub fn has(self, feature: Feature) -> bool {
        self.off & (1 << feature as u8) == 0
    }

    /// Whether `request`, or an operation of its multi, belongs to a feature that is switched off.
    pub fn refuse(self, request: &Request<'_>) -> bool {
        if self == Features::ALL {
            return false;
        }
        let refused = |op: OpCode| {
            Feature::ALL.iter().any(|feature| feature.own_operation() == Some(op) && !self.has(*feature))
        };
        match request {
            Request::Multi(ops) => ops.iter().any(|op| refused(op.op())),
            Request::MultiRead(reads) => reads.iter().any(|read| refused(read.op())),
            request => refused(request.op()),
        }
    }

    /// The data of `/keeper/feature_flags`. Flag n is bit `7 - n % 8` of byte `n / 8`. Two bytes at least, since older
    /// clients look one byte too far.
    pub fn flags(self) -> Vec<u8> {
        let mut bytes = vec![0; Feature::ALL.len().div_ceil(8).max(2)];
        for feature in Feature::ALL.iter().filter(|feature| self.has(**feature)) {
            let bit = *feature as usize;
            bytes[bit / 8] |= 0x80 >> (bit % 8);
        }
        bytes
    }

    /// `/keeper/api_version`, for clients older than the flags: 1 promises `FILTERED_LIST`, 2 `MULTI_READ` as well,
    /// and what came later is told by flags only.
    pub fn api_version(self) -> &'static str {
        match (self.has(Feature::FilteredList), self.has(Feature::MultiRead)) {
            (true, true) => "2",
            (true, false) => "1",
            (false, _) => "0",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::MultiOp;

    #[test]
    fn flags_are_counted_from_the_highest_bit() {
        assert_eq!(Features::ALL.flags(), [0xff, 0xf0]);
        assert!(Feature::ALL.iter().enumerate().all(|(at, feature)| *feature as usize == at));
        let some = Features::ALL.without(Feature::MultiRead).without(Feature::ListWithStatAndData);
        assert_eq!(some.flags(), [0b1011_1111, 0b1101_0000]);
    }

    #[test]
    fn the_version_for_old_clients_follows_the_flags() {
        let version = |off: &[Feature]| {
            off.iter().fold(Features::ALL, |features, feature| features.without(*feature)).api_version()
        };
        assert_eq!(version(&[Feature::CreateTtl]), "2");
        assert_eq!(version(&[Feature::MultiRead]), "1");
        assert_eq!(version(&[Feature::FilteredList]), "0");
    }

    #[test]
    fn what_is_switched_off_is_refused_inside_a_multi_too_and_zookeepers_own_operations_never_are() {
        let check = || MultiOp::CheckNotExists(crate::request::CheckRequest { path: "/a", version: -1 });
        let all = Feature::ALL.iter().fold(Features::ALL, |features, feature| features.without(*feature));
        let one = Features::ALL.without(Feature::CheckNotExists);
        let multi = Request::Multi(vec![check()]);
        assert!(all.refuse(&multi) && one.refuse(&multi) && !Features::ALL.refuse(&multi));
        assert!(!Features::ALL.without(Feature::TryRemove).refuse(&multi));
        assert!(!all.refuse(&Request::Multi(vec![])) && !all.refuse(&Request::MultiRead(vec![])));
        assert_eq!(Feature::from_key("create_ttl"), Some(Feature::CreateTtl));
        assert_eq!(Feature::from_key("create"), None);
    }
}
