//! The eleven numbers ZooKeeper shows of a znode (zookeeper.jute, `Stat`; 68 bytes on the wire in this order).

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// zxid of the creation.
    pub czxid: i64,
    /// zxid of the last change of the data.
    pub mzxid: i64,
    /// Milliseconds since the Unix epoch, by the leader's clock.
    pub ctime: i64,
    pub mtime: i64,
    /// Changes of the data.
    pub version: i32,
    /// Creations and deletions of children: `2 * creations - children`.
    pub cversion: i32,
    /// Changes of the ACL.
    pub aversion: i32,
    /// Owner of an ephemeral node, else 0.
    pub ephemeral_owner: i64,
    pub data_length: i32,
    pub num_children: i32,
    /// zxid of the last creation or deletion of a child; the creation's own at first.
    pub pzxid: i64,
}
