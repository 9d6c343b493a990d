//! How long a node lives. A node's record holds it as one number, which is ZooKeeper's own encoding (class
//! `EphemeralType`), so that its files carry over in both directions.

use keeper_types::SessionId;

/// Longest time to live of a TTL node, milliseconds: 40 bits, about 34 years, as in ZooKeeper.
pub(crate) const TTL_MS_MAX: i64 = 0xff_ffff_ffff;

/// Owner of a container node.
const CONTAINER: i64 = i64::MIN;
/// The highest byte marks an extended kind, the two below it name the kind: 0 is a TTL node.
const TTL_MARK: i64 = 0xff00_0000_0000_0000_u64 as i64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Persistent,
    /// Goes with its session.
    Ephemeral(SessionId),
    /// Goes some time after its last child.
    Container,
    /// Goes when it was not changed for so many milliseconds and has no children.
    Ttl(i64),
}

impl Lifetime {
    pub fn of_owner(owner: i64) -> Lifetime {
        match owner {
            0 => Lifetime::Persistent,
            CONTAINER => Lifetime::Container,
            _ if owner & !TTL_MS_MAX == TTL_MARK => Lifetime::Ttl(owner & TTL_MS_MAX),
            _ => Lifetime::Ephemeral(SessionId(owner)),
        }
    }

    pub fn owner(self) -> i64 {
        match self {
            Lifetime::Persistent => 0,
            Lifetime::Ephemeral(session) => session.0,
            Lifetime::Container => CONTAINER,
            Lifetime::Ttl(ttl_ms) => TTL_MARK | ttl_ms,
        }
    }

    /// The session that clients see as the owner.
    pub fn session(self) -> Option<SessionId> {
        match self {
            Lifetime::Ephemeral(session) => Some(session),
            _ => None,
        }
    }

    /// The clean-up has to look at it.
    pub fn is_perishable(self) -> bool {
        matches!(self, Lifetime::Container | Lifetime::Ttl(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_zookeepers() {
        let pairs = [
            (Lifetime::Persistent, 0),
            (Lifetime::Ephemeral(SessionId(0x0100_0000_0000_0007)), 0x0100_0000_0000_0007),
            (Lifetime::Container, i64::MIN),
            (Lifetime::Ttl(1), 0xff00_0000_0000_0001_u64 as i64),
            (Lifetime::Ttl(TTL_MS_MAX), 0xff00_00ff_ffff_ffff_u64 as i64),
        ];
        for (lifetime, owner) in pairs {
            assert_eq!((lifetime.owner(), Lifetime::of_owner(owner)), (owner, lifetime));
        }
    }
}
