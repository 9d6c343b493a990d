//! ClickHouse Keeper's feature flags: what a ClickHouse client may ask for beyond ZooKeeper's operations. It reads
//! them from `/keeper/feature_flags` right after it has connected.

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

/// The features of this server, all of them: the data of `/keeper/feature_flags`. Flag n is bit `7 - n % 8` of byte
/// `n / 8`. Two bytes at least, since older clients look one byte too far.
pub fn feature_flags() -> Vec<u8> {
    let mut bytes = vec![0; Feature::ALL.len().div_ceil(8).max(2)];
    for feature in Feature::ALL {
        let bit = *feature as usize;
        bytes[bit / 8] |= 0x80 >> (bit % 8);
    }
    bytes
}

/// `/keeper/api_version` for clients older than the flags: ClickHouse's `WITH_MULTI_READ`, with `CHECK_NOT_EXISTS`
/// and what came later only by flag.
pub const API_VERSION: &str = "2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_counted_from_the_highest_bit() {
        assert_eq!(feature_flags(), [0xff, 0xf0]);
        assert!(Feature::ALL.iter().enumerate().all(|(at, feature)| *feature as usize == at));
    }
}
