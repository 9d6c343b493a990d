//! Parts of znode paths. What may be a path is for the tree to say.

/// The parent's path: `/a/b` → `/a`, `/a` → `/`; `/` has none.
pub fn parent(path: &str) -> Option<&str> {
    if path == "/" {
        return None;
    }
    match path.rfind('/') {
        Some(0) => Some("/"),
        Some(at) => Some(&path[..at]),
        None => None,
    }
}

/// The last component: `/a/b` → `b`; of `/` the empty string.
pub fn base_name(path: &str) -> &str {
    path.rfind('/').map_or(path, |at| &path[at + 1..])
}

/// ZooKeeper's node with the committed membership.
pub const CONFIG_PATH: &str = "/zookeeper/config";

/// `/keeper` and everything below it: what ClickHouse Keeper's clients read of the server. Never nodes of the tree; each
/// member answers for itself, and nobody writes there.
#[inline]
pub fn is_keeper_path(path: &str) -> bool {
    path.strip_prefix("/keeper").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
