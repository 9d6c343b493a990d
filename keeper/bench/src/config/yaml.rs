//! YAML as ClickHouse reads it: a tree in which a key may stand several times, with the line of everything.
//!
//! A list under a key means the same as the key repeated: [`Section::all`] does not tell them apart.

use super::ConfigError;
use crate::limits::{CONFIG_BYTES_MAX, CONFIG_DEPTH_MAX};
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use serde_saphyr::options::DuplicateKeyPolicy;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

pub struct Node {
    pub line: u64,
    pub value: Value,
}

pub enum Value {
    Null,
    /// As written, or as YAML reads it: `0x10` is `16`.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

pub struct Entry {
    pub key: String,
    pub line: u64,
    pub node: Node,
}

/// Parses a document whose root is a mapping.
pub fn parse(text: &str) -> Result<Node, ConfigError> {
    if text.len() as u64 > CONFIG_BYTES_MAX {
        let message = format!("{} bytes, a configuration has at most {CONFIG_BYTES_MAX}", text.len());
        return Err(ConfigError { line: None, message });
    }
    // `on` and `no` are names of nodes as well.
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
    };
    let root: Spanned<Value> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        ConfigError { line: error.location().map(|location| location.line()), message: error.to_string() }
    })?;
    let root = Node { line: root.referenced.line(), value: root.value };
    if depth(&root) > CONFIG_DEPTH_MAX {
        let message = format!("nested deeper than {CONFIG_DEPTH_MAX} levels");
        return Err(ConfigError { line: None, message });
    }
    Ok(root)
}

fn depth(node: &Node) -> usize {
    match &node.value {
        Value::Null | Value::Scalar(_) => 1,
        Value::List(nodes) => 1 + nodes.iter().map(depth).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|entry| depth(&entry.node)).max().unwrap_or(0),
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

fn scalar<E>(value: impl ToString) -> Result<Value, E> {
    Ok(Value::Scalar(value.to_string()))
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list or a mapping")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        scalar(value)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        scalar(value)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        scalar(value)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        scalar(value)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        scalar(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Value>>()? {
            nodes.push(Node { line: item.referenced.line(), value: item.value });
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value::<Spanned<Value>>()?;
            let line = match key.referenced.line() {
                0 => value.referenced.line(),
                line => line,
            };
            let node = Node { line: value.referenced.line(), value: value.value };
            entries.push(Entry { key: key.value, line, node });
        }
        Ok(Value::Map(entries))
    }
}

/// A mapping being read. What nobody asked for is an error in the end: [`Section::finish`].
pub struct Section<'a> {
    /// Where it stands, for messages: `generator.requests.get`.
    pub path: String,
    pub line: u64,
    entries: &'a [Entry],
    known: RefCell<BTreeSet<&'static str>>,
    used: RefCell<BTreeSet<usize>>,
}

impl<'a> Section<'a> {
    pub fn of(node: &'a Node, path: impl Into<String>) -> Result<Section<'a>, ConfigError> {
        let path = path.into();
        let entries: &[Entry] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            Value::Scalar(_) | Value::List(_) => {
                return Err(node.error(format!("{path} is to be a mapping of keys to values")));
            }
        };
        Ok(Section { path, line: node.line, entries, known: RefCell::default(), used: RefCell::default() })
    }

    pub fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// All values of a key, in their order.
    pub fn all(&self, key: &'static str) -> Vec<&'a Node> {
        self.known.borrow_mut().insert(key);
        let mut found = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.key != key && numbered(&entry.key) != Some(key) {
                continue;
            }
            self.used.borrow_mut().insert(index);
            match &entry.node.value {
                Value::List(nodes) => found.extend(nodes),
                Value::Null | Value::Scalar(_) | Value::Map(_) => found.push(&entry.node),
            }
        }
        found
    }

    /// All entries whose keys begin with one of `starts`, with that beginning, in their order.
    pub fn starting_with(&self, starts: &[&'static str]) -> Vec<(&'static str, &'a Node)> {
        self.known.borrow_mut().extend(starts);
        let mut found = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            let longest =
                starts.iter().filter(|start| entry.key.starts_with(**start)).max_by_key(|s| s.len());
            let (Some(start), false) = (longest, self.used.borrow().contains(&index)) else { continue };
            self.used.borrow_mut().insert(index);
            match &entry.node.value {
                Value::List(nodes) => found.extend(nodes.iter().map(|node| (*start, node))),
                Value::Null | Value::Scalar(_) | Value::Map(_) => found.push((*start, &entry.node)),
            }
        }
        found
    }

    /// The value of a key that stands at most once. Without a value it counts as absent.
    pub fn one(&self, key: &'static str) -> Result<Option<&'a Node>, ConfigError> {
        let found = self.all(key);
        match found.as_slice() {
            [] => Ok(None),
            [node] if matches!(node.value, Value::Null) => Ok(None),
            [node] => Ok(Some(node)),
            [_, again, ..] => Err(again.error(format!("{} stands more than once", self.name(key)))),
        }
    }

    pub fn section(&self, key: &'static str) -> Result<Option<Section<'a>>, ConfigError> {
        self.one(key)?.map(|node| Section::of(node, self.name(key))).transpose()
    }

    pub fn parsed<T: FromStr>(&self, key: &'static str, what: &str) -> Result<Option<T>, ConfigError> {
        self.one(key)?.map(|node| node.parsed(&self.name(key), what)).transpose()
    }

    pub fn boolean(&self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        let Some(node) = self.one(key)? else { return Ok(None) };
        match node.text(&self.name(key))?.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(Some(true)),
            "false" | "no" | "off" | "0" => Ok(Some(false)),
            other => Err(node.error(format!("{}: `{other}` is neither true nor false", self.name(key)))),
        }
    }

    pub fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError { line: Some(self.line), message: message.into() }
    }

    /// Fails on the first key that nothing asked for.
    pub fn finish(self) -> Result<(), ConfigError> {
        let used = self.used.borrow();
        let Some((_, entry)) = self.entries.iter().enumerate().find(|(index, _)| !used.contains(index))
        else {
            return Ok(());
        };
        let known: Vec<&str> = self.known.borrow().iter().copied().collect();
        let message = format!("{} is unknown; known here: {}", self.name(&entry.key), known.join(", "));
        Err(ConfigError { line: Some(entry.line), message })
    }
}

/// `node` of `node_2` and of `node[2]`: ClickHouse tells repeated keys apart by such endings too.
fn numbered(key: &str) -> Option<&str> {
    let bare = key.trim_end_matches(']').trim_end_matches(|c: char| c.is_ascii_digit());
    let bare = bare.trim_end_matches(['_', '[']);
    (bare.len() < key.len()).then_some(bare)
}

impl Node {
    pub fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError { line: Some(self.line), message: message.into() }
    }

    pub fn text(&self, name: &str) -> Result<&str, ConfigError> {
        match &self.value {
            Value::Scalar(text) => Ok(text),
            Value::Null => Ok(""),
            Value::List(_) | Value::Map(_) => Err(self.error(format!("{name} is to be a single value"))),
        }
    }

    pub fn parsed<T: FromStr>(&self, name: &str, what: &str) -> Result<T, ConfigError> {
        let text = self.text(name)?;
        text.parse().map_err(|_| self.error(format!("{name}: `{text}` is not {what}")))
    }
}
