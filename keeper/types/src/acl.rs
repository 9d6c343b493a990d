//! Access control lists: who may do what with one znode (ZooKeeper Programmer's Guide, "ACL").

/// Permission bits, as on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Perms(pub i32);

impl Perms {
    pub const READ: Perms = Perms(1);
    pub const WRITE: Perms = Perms(2);
    pub const CREATE: Perms = Perms(4);
    pub const DELETE: Perms = Perms(8);
    pub const ADMIN: Perms = Perms(16);
    pub const ALL: Perms = Perms(31);

    /// True when every bit of `wanted` is set.
    pub fn contains(self, wanted: Perms) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// True when any bit of `wanted` is set.
    pub fn intersects(self, wanted: Perms) -> bool {
        self.0 & wanted.0 != 0
    }
}

/// An identity: `world:anyone`, `ip:10.0.0.1`, `digest:user:hash`, `super:user`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AclId {
    pub scheme: String,
    pub id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acl {
    pub perms: Perms,
    pub id: AclId,
}

impl Acl {
    /// `world:anyone` with all permissions: ZooKeeper's OPEN_ACL_UNSAFE.
    pub fn open() -> Acl {
        Acl { perms: Perms::ALL, id: AclId { scheme: "world".into(), id: "anyone".into() } }
    }
}
