//! The path checks of a ZooKeeper server, where it makes them: a create looks only at the last slash before
//! it looks for the parent, and at the characters of the finished name after that.

use keeper_types::{CONFIG_PATH, ErrorCode, is_keeper_path};

/// The nodes that can never be deleted.
const SPECIAL: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", CONFIG_PATH];

/// The committed membership as ClickHouse Keeper names it.
pub(crate) const KEEPER_CONFIG: &str = "/keeper/config";

/// As [`check`], for a node that is to be changed or compared.
pub(crate) fn check_writable(path: &str) -> Result<(), ErrorCode> {
    if is_keeper_path(path) { Err(ErrorCode::BadArguments) } else { check(path) }
}

/// True for nodes that must stay, whatever is removed around them.
pub(crate) fn is_special(path: &str) -> bool {
    SPECIAL.contains(&path)
}

/// Everything before the last slash; empty for a child of the root.
pub(crate) fn parent_of_new(path: &str) -> Result<&str, ErrorCode> {
    match path.rfind('/') {
        Some(at) if !path.contains('\0') && !is_keeper_path(&path[..at]) => Ok(&path[..at]),
        _ => Err(ErrorCode::BadArguments),
    }
}

/// As [`parent_of_new`], for a node that is to be deleted.
pub(crate) fn parent_of_deleted(path: &str) -> Result<&str, ErrorCode> {
    if is_special(path) || is_keeper_path(path) {
        return Err(ErrorCode::BadArguments);
    }
    parent_of_new(path)
}

/// Whether `path` can be a node's path: absolute, without empty, `.` and `..` components, without control
/// characters, private use and surrogates (so nothing outside the basic plane).
pub(crate) fn check(path: &str) -> Result<(), ErrorCode> {
    let Some(relative) = path.strip_prefix('/') else {
        return Err(ErrorCode::BadArguments);
    };
    if relative.is_empty() || relative.split('/').all(is_name) {
        return Ok(());
    }
    Err(ErrorCode::BadArguments)
}

/// Whether `name` can be the last component of a path.
pub(crate) fn is_name(name: &str) -> bool {
    if name.is_empty() || name == "." || name == ".." {
        return false;
    }
    let plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'/';
    name.bytes().all(plain) || name.chars().all(is_allowed)
}

fn is_allowed(character: char) -> bool {
    let forbidden = matches!(character as u32,
        0..=0x1f | 0x2f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=u32::MAX);
    !forbidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_refused_for_what_zookeeper_refuses() {
        for good in ["/", "/a", "/a/b", "/a..", "/...", "/.a/b.", "/ü", "/a b", "/~"] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
        for bad in [
            "",
            "a",
            "a/b",
            "/a/",
            "//",
            "/a//b",
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            "/a\0",
            "/\u{1f}",
            "/\u{7f}",
            "/\u{9f}",
            "/\u{e000}",
            "/\u{fff0}",
            "/\u{1f600}",
        ] {
            assert_eq!(check(bad), Err(ErrorCode::BadArguments), "{bad:?}");
        }
    }

    #[test]
    fn the_parent_is_what_stands_before_the_last_slash() {
        assert_eq!(parent_of_new("/a/b"), Ok("/a"));
        assert_eq!(parent_of_new("/a"), Ok(""));
        assert_eq!(parent_of_new("/a/"), Ok("/a"));
        assert_eq!(parent_of_new("a"), Err(ErrorCode::BadArguments));
        assert_eq!(parent_of_new("/a/\0"), Err(ErrorCode::BadArguments));
        assert_eq!(parent_of_deleted("/zookeeper/quota"), Err(ErrorCode::BadArguments));
        assert_eq!(parent_of_deleted("/zookeeper/quota/a"), Ok("/zookeeper/quota"));
    }
}
