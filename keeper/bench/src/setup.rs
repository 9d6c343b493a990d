//! The tree of a run: made before, removed after, and the paths that its requests name looked up in it.

use crate::config::{SetupNode, Text};
use crate::generate::plan::Known;
use crate::generate::random::Random;
use crate::limits::{REMOVE_NODES_MAX, REMOVE_RECURSIVE_NODES_MAX, SETUP_IN_FLIGHT};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use keeper_client::{Acl, Client, ClientError, CreateRequest, ErrorCode, OpCode, Request};
use keeper_types::{Feature, RecursiveRequest};
use std::collections::BTreeMap;

/// Names of generated nodes are drawn so often before two the same are given up.
const NAME_TRIES: usize = 100;

/// A node to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewNode {
    pub path: String,
    pub data: Vec<u8>,
}

/// All nodes of a set-up, parents first, and the paths of each tag.
pub struct Tree {
    pub roots: Vec<String>,
    /// One list for each level.
    pub levels: Vec<Vec<NewNode>>,
    pub tagged: BTreeMap<String, Vec<String>>,
}

impl Tree {
    /// The same tree for the same seed. `Err` when random names are too short for so many nodes.
    pub fn draw(setup: &[SetupNode], seed: u64) -> Result<Tree, String> {
        let mut tree = Tree { roots: Vec::new(), levels: Vec::new(), tagged: BTreeMap::new() };
        let mut random = Random::new(seed, u64::MAX);
        tree.add(setup, "", 0, &mut random)?;
        tree.roots = tree.levels.first().into_iter().flatten().map(|node| node.path.clone()).collect();
        Ok(tree)
    }

    fn add(
        &mut self,
        nodes: &[SetupNode],
        parent: &str,
        level: usize,
        random: &mut Random,
    ) -> Result<(), String> {
        if self.levels.len() <= level && !nodes.is_empty() {
            self.levels.push(Vec::new());
        }
        let mut names = std::collections::BTreeSet::new();
        for node in nodes {
            for _ in 0..node.repeat {
                let name =
                    (0..NAME_TRIES).map(|_| random.name(&node.name)).find(|name| !names.contains(name));
                let name =
                    name.ok_or_else(|| format!("setup: not enough different names below `{parent}/`"))?;
                if name.is_empty() || name.contains('/') {
                    return Err(format!("setup: `{name}` below `{parent}/` is no name"));
                }
                let path = format!("{parent}/{name}");
                names.insert(name);
                if let Some(tag) = &node.tag {
                    self.tagged.entry(tag.clone()).or_default().push(path.clone());
                }
                let data = node.data.as_ref().map(|data: &Text| random.text(data)).unwrap_or_default();
                self.levels[level].push(NewNode { path: path.clone(), data });
                self.add(&node.children, &path, level + 1, random)?;
            }
        }
        Ok(())
    }

    pub async fn create(&self, client: &Client) -> Result<(), ClientError> {
        for level in &self.levels {
            let creates = level.iter().map(|node| create(client, node));
            stream::iter(creates).buffer_unordered(SETUP_IN_FLIGHT).try_collect::<()>().await?;
        }
        Ok(())
    }

    pub async fn remove(&self, client: &Client, use_remove_recursive: bool) -> Result<(), ClientError> {
        for root in &self.roots {
            remove(client, root, use_remove_recursive).await?;
        }
        Ok(())
    }
}

/// create, and not create2, which servers before 3.5 do not know.
async fn create(client: &Client, node: &NewNode) -> Result<(), ClientError> {
    let acl = vec![Acl::open()];
    let create = CreateRequest { path: &node.path, data: Some(&node.data), acl, flags: 0, ttl_ms: None };
    let answer = client.call(&Request::Create(OpCode::Create, create)).await?;
    answer.value.map(drop).map_err(ClientError::Server)
}

/// Removes `root` with all below it; nothing when it is not there.
async fn remove(client: &Client, root: &str, use_remove_recursive: bool) -> Result<(), ClientError> {
    if client.exists(root).await?.value.is_none() {
        return Ok(());
    }
    if use_remove_recursive && has_feature(client, Feature::RemoveRecursive).await? {
        let request = RecursiveRequest { path: root, nodes_max: REMOVE_RECURSIVE_NODES_MAX };
        if client.call(&Request::RemoveRecursive(request)).await?.value.is_ok() {
            return Ok(());
        }
    }
    let mut levels = vec![vec![root.to_owned()]];
    let mut found = 1;
    while let Some(level) = levels.last().filter(|level| !level.is_empty()) {
        let lists = level.iter().map(|path| children(client, path));
        let below: Vec<Vec<String>> =
            stream::iter(lists).buffer_unordered(SETUP_IN_FLIGHT).try_collect().await?;
        let below: Vec<String> = below.into_iter().flatten().collect();
        found += below.len();
        if found > REMOVE_NODES_MAX {
            return Err(ClientError::Invalid(format!("more than {REMOVE_NODES_MAX} nodes below {root}")));
        }
        levels.push(below);
    }
    for level in levels.iter().rev() {
        let removals = level.iter().map(|path| async {
            match client.delete(path, keeper_client::ANY_VERSION).await {
                Ok(_) | Err(ClientError::Server(ErrorCode::NoNode)) => Ok(()),
                Err(error) => Err(error),
            }
        });
        stream::iter(removals).buffer_unordered(SETUP_IN_FLIGHT).try_collect::<()>().await?;
    }
    Ok(())
}

/// Whole paths.
async fn children(client: &Client, parent: &str) -> Result<Vec<String>, ClientError> {
    match client.children(parent).await {
        Ok(names) => {
            let base = if parent == "/" { "" } else { parent };
            Ok(names.value.into_iter().map(|name| format!("{base}/{name}")).collect())
        }
        Err(ClientError::Server(ErrorCode::NoNode)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// What a server tells ClickHouse's clients; ZooKeeper tells nothing and has nothing of it.
async fn has_feature(client: &Client, feature: Feature) -> Result<bool, ClientError> {
    let bit = feature as u8;
    match client.get("/keeper/feature_flags").await {
        Ok(flags) => {
            let byte = flags.value.bytes().get(usize::from(bit / 8)).copied().unwrap_or(0);
            Ok(byte & (0x80 >> (bit % 8)) != 0)
        }
        Err(ClientError::Server(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Lists what the requests' `children_of` name.
pub async fn look_up(client: &Client, tree: &Tree, parents: &[String]) -> Result<Known, ClientError> {
    let mut known = Known { tagged: tree.tagged.clone(), ..Known::default() };
    for parent in parents {
        let mut paths = children(client, parent).await?;
        // In the order of their names, so that a seed means the same on every server.
        paths.sort();
        known.children.insert(parent.clone(), paths);
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Number};

    #[test]
    fn repeats_and_tags_are_drawn_the_same_for_the_same_seed() {
        let text = "
setup:
  node:
    name: top
    node:
      repeat: 10
      name: {random_string: {size: 8}}
      node:
        repeat: 3
        name: {random_string: {size: 6}}
        data: {random_string: {size: {min_value: 2, max_value: 4}}}
        tag: leaves
";
        let setup = Config::parse(text).unwrap().setup;
        let tree = Tree::draw(&setup, 1).unwrap();
        assert_eq!(tree.levels.iter().map(Vec::len).collect::<Vec<_>>(), [1, 10, 30]);
        assert_eq!(tree.roots, ["/top"]);
        assert_eq!(tree.tagged["leaves"].len(), 30);
        assert!(tree.levels[2].iter().all(|node| (2..=4).contains(&node.data.len())));
        assert_eq!(Tree::draw(&setup, 1).unwrap().levels, tree.levels);
        assert_ne!(Tree::draw(&setup, 2).unwrap().levels, tree.levels);
    }

    #[test]
    fn names_too_short_for_their_number_are_refused() {
        let node = SetupNode {
            name: Text::Random(Number::fixed(1)),
            data: None,
            repeat: 63,
            tag: None,
            children: vec![],
        };
        assert!(Tree::draw(&[node], 1).is_err(), "there are 62 names of one letter");
    }
}
