//! Znode paths, checked as ZooKeeper's server checks them (`PathUtils.validatePath`).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    Empty,
    NotAbsolute,
    TrailingSlash,
    ForbiddenCharacter,
}

/// Checks what a real ZooKeeper 3.8 server refuses with `BadArguments`: a path that is empty, not absolute or
/// holds NUL. `/a//b` and `/a/../b` are not refused by its server as such (the parent is simply missing), and
/// a trailing slash names the node without it.
pub fn validate(path: &str) -> Result<(), PathError> {
    if path.is_empty() {
        return Err(PathError::Empty);
    }
    if !path.starts_with('/') {
        return Err(PathError::NotAbsolute);
    }
    if path.contains('\0') {
        return Err(PathError::ForbiddenCharacter);
    }
    Ok(())
}

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
