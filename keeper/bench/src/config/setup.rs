//! `setup`: the tree that stands before the run and goes after it.

use super::yaml::Section;
use super::{ConfigError, Text, getters, text_of};
use crate::limits::SETUP_NODES_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupNode {
    pub name: Text,
    pub data: Option<Text>,
    /// So many nodes like this one, each with a name of its own.
    pub repeat: usize,
    /// Requests name all nodes with this tag together.
    pub tag: Option<String>,
    pub children: Vec<SetupNode>,
}

impl SetupNode {
    pub(super) fn collect_tags(&self, tags: &mut Vec<String>) {
        tags.extend(self.tag.clone());
        self.children.iter().for_each(|child| child.collect_tags(tags));
    }

    /// Nodes of this kind with all below them.
    fn count(&self) -> usize {
        let below = self.children.iter().map(SetupNode::count).fold(0, usize::saturating_add);
        self.repeat.saturating_mul(below.saturating_add(1))
    }
}

/// Roots that belong to the server.
const RESERVED: [&str; 3] = ["", "zookeeper", "keeper"];

pub(super) fn check(roots: &[SetupNode]) -> Result<(), String> {
    if roots.iter().map(SetupNode::count).fold(0, usize::saturating_add) > SETUP_NODES_MAX {
        return Err(format!("the setup makes more than {SETUP_NODES_MAX} nodes"));
    }
    for root in roots {
        if matches!(&root.name, Text::Fixed(name) if RESERVED.contains(&name.as_str())) {
            return Err("setup: its roots are removed, so none may be /, /zookeeper or /keeper".to_owned());
        }
    }
    Ok(())
}

pub(super) fn parse(section: Option<Section<'_>>) -> Result<Vec<SetupNode>, ConfigError> {
    let Some(section) = section else { return Ok(Vec::new()) };
    let nodes = children(&section)?;
    section.finish()?;
    Ok(nodes)
}

fn children(section: &Section<'_>) -> Result<Vec<SetupNode>, ConfigError> {
    let mut nodes = Vec::new();
    for node in section.all("node") {
        let described = Section::of(node, section.name("node"))?;
        let name = described.one("name")?;
        let name = name.ok_or_else(|| described.error(format!("{} has no name", described.path)))?;
        let text = getters::text(name, &described.name("name"))?;
        if matches!(&text, Text::Fixed(fixed) if fixed.contains('/')) {
            return Err(name.error(format!("{} has a slash in it", described.name("name"))));
        }
        let repeat = described.parsed("repeat", "a whole number")?.unwrap_or(1);
        if repeat != 1 && matches!(text, Text::Fixed(_)) {
            return Err(described.error(format!("{} repeats, so its name is to be random", described.path)));
        }
        let data = described.one("data")?;
        let data = data.map(|data| getters::text(data, &described.name("data"))).transpose()?;
        let tag = described.one("tag")?.map(|tag| text_of(tag, &described.name("tag"))).transpose()?;
        let children = children(&described)?;
        described.finish()?;
        nodes.push(SetupNode { name: text, data, repeat, tag, children });
    }
    Ok(nodes)
}
