//! Values that a configuration gives or describes: numbers, strings and paths.

use super::yaml::{Node, Section, Value};
use super::{ConfigError, text_of};
use crate::limits::VALUE_BYTES_MAX;

/// A number, or one drawn evenly from a range with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    pub min: u64,
    /// Invariant: `min <= max`.
    pub max: u64,
}

impl Number {
    pub const fn fixed(value: u64) -> Number {
        Number { min: value, max: value }
    }
}

/// A string, or a random one of some length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    Fixed(String),
    Random(Number),
}

/// Where candidate paths come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSource {
    Fixed(String),
    ChildrenOf(String),
    Tagged { tag: String, line: u64 },
}

pub(super) fn number(node: &Node, name: &str, max: u64) -> Result<Number, ConfigError> {
    let number = match &node.value {
        Value::Map(_) => {
            let range = Section::of(node, name)?;
            let bound = |key| {
                let bound: Option<u64> = range.parsed(key, "a whole number")?;
                bound.ok_or_else(|| node.error(format!("{name} has no {key}")))
            };
            let number = Number { min: bound("min_value")?, max: bound("max_value")? };
            range.finish()?;
            number
        }
        Value::Null | Value::Scalar(_) | Value::List(_) => {
            Number::fixed(node.parsed(name, "a whole number")?)
        }
    };
    if number.min > number.max {
        return Err(node.error(format!("{name}: min_value {} is above max_value {}", number.min, number.max)));
    }
    if number.max > max {
        return Err(node.error(format!("{name}: {} is more than {max}", number.max)));
    }
    Ok(number)
}

pub(super) fn text(node: &Node, name: &str) -> Result<Text, ConfigError> {
    if !matches!(node.value, Value::Map(_)) {
        return Ok(Text::Fixed(text_of(node, name)?));
    }
    let section = Section::of(node, name)?;
    let random = section.section("random_string")?;
    let random = random.ok_or_else(|| node.error(format!("{name} is to be a string or a random_string")))?;
    let size = random.one("size")?;
    let size = size.ok_or_else(|| random.error(format!("{} has no size", random.path)))?;
    let size = number(size, &random.name("size"), VALUE_BYTES_MAX as u64)?;
    random.finish()?;
    section.finish()?;
    Ok(Text::Random(size))
}

/// All `path` keys of a request together.
pub(super) fn paths(section: &Section<'_>) -> Result<Vec<PathSource>, ConfigError> {
    let name = section.name("path");
    let mut sources = Vec::new();
    for node in section.all("path") {
        if !matches!(node.value, Value::Map(_)) {
            sources.push(PathSource::Fixed(path(node, &name)?));
            continue;
        }
        let described = Section::of(node, &name)?;
        for parent in described.all("children_of") {
            sources.push(PathSource::ChildrenOf(path(parent, &described.name("children_of"))?));
        }
        for tag in described.all("tagged") {
            let tag_name = described.name("tagged");
            sources.push(PathSource::Tagged { tag: text_of(tag, &tag_name)?, line: tag.line });
        }
        described.finish()?;
    }
    if sources.is_empty() {
        return Err(section.error(format!("{} has no path", section.path)));
    }
    Ok(sources)
}

fn path(node: &Node, name: &str) -> Result<String, ConfigError> {
    let path = text_of(node, name)?;
    if !path.starts_with('/') || (path.len() > 1 && path.ends_with('/')) {
        return Err(node.error(format!("{name}: `{path}` is to begin with / and not to end with it")));
    }
    Ok(path)
}
