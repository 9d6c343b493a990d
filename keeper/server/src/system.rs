//! The nodes under `/keeper`, which ClickHouse's clients ask what the server can do (ClickHouse Keeper, "feature
//! flags"). Each member answers for itself, so they are no nodes of the tree: they follow the program, not the log.

use keeper_tree::Tree;
use keeper_types::{Acl, CONFIG_PATH, Features, Perms, Stat, is_keeper_path};

const ROOT: &str = "/keeper";
const CHILDREN: [&str; 3] = ["api_version", "config", "feature_flags"];

pub struct SystemNode {
    pub data: Vec<u8>,
    pub children: &'static [&'static str],
    pub stat: Stat,
}

/// `None` for every other node, and where there is none.
pub fn node(path: &str, tree: &Tree, features: Features) -> Option<SystemNode> {
    if !is_keeper_path(path) {
        return None;
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut stat = Stat::default();
    let (data, children): (Vec<u8>, &'static [&'static str]) = match path.strip_prefix(ROOT)? {
        "" => (Vec::new(), &CHILDREN),
        "/api_version" => (features.api_version().into(), &[]),
        "/feature_flags" => (features.flags(), &[]),
        "/config" => {
            let (data, of_config) = tree.get_data(CONFIG_PATH, &[]).ok()?;
            // So that a watch set again after a reconnect can tell whether it missed a change.
            (stat.mzxid, stat.version) = (of_config.mzxid, of_config.version);
            (data.unwrap_or_default().to_vec(), &[])
        }
        _ => return None,
    };
    stat.data_length = data.len() as i32;
    stat.num_children = children.len() as i32;
    Some(SystemNode { data, children, stat })
}

/// Everybody may read them, nobody may change them.
pub fn acl() -> Vec<Acl> {
    vec![Acl { perms: Perms::READ, ..Acl::open() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clickhouse_finds_what_it_asks_for() {
        let tree = Tree::new();
        let data = |path: &str| node(path, &tree, Features::ALL).map(|node| node.data);
        assert_eq!(data("/keeper/feature_flags"), Some(vec![0xff, 0xf0]));
        assert_eq!(data("/keeper/api_version"), Some(b"2".to_vec()));
        assert_eq!(node("/keeper/", &tree, Features::ALL).map(|node| node.stat.num_children), Some(3));
        for absent in ["/keeper/nothing", "/keeperx", "/", "/keeper//config"] {
            assert!(node(absent, &tree, Features::ALL).is_none(), "{absent}");
        }
    }
}
