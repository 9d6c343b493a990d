//! `generator`: which requests, how often each, on which paths.

use super::yaml::{Node, Section};
use super::{ConfigError, Number, PathSource, Text, getters, text_of};
use crate::limits::MULTI_OPS_MAX;

#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorConfig {
    pub seed: Option<u64>,
    pub requests: Vec<Weighted>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    pub weight: u64,
    pub request: RequestConfig,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RequestConfig {
    Create {
        /// Of the new node's parent.
        path: Vec<PathSource>,
        name_length: Number,
        data: Option<Text>,
        /// Probability that a node made earlier is removed instead.
        remove_factor: f64,
        /// Nothing is removed while there are fewer nodes than this.
        keep_count: usize,
    },
    Set {
        path: Vec<PathSource>,
        data: Text,
    },
    Get {
        path: Vec<PathSource>,
        watch_probability: f64,
    },
    List {
        path: Vec<PathSource>,
        watch_probability: f64,
    },
    /// Of our own: ClickHouse's has no such request.
    Exists {
        path: Vec<PathSource>,
        watch_probability: f64,
    },
    /// Of our own.
    Sync {
        path: Vec<PathSource>,
    },
    /// Reads alone go as a multiRead, writes alone as a multi.
    Multi {
        /// `None`: one of each of `requests`.
        size: Option<Number>,
        requests: Vec<Weighted>,
    },
}

/// What a multi is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    Reads,
    Writes,
}

impl RequestConfig {
    pub fn sources(&self) -> &[PathSource] {
        match self {
            RequestConfig::Create { path, .. }
            | RequestConfig::Set { path, .. }
            | RequestConfig::Get { path, .. }
            | RequestConfig::List { path, .. }
            | RequestConfig::Exists { path, .. }
            | RequestConfig::Sync { path } => path,
            RequestConfig::Multi { .. } => &[],
        }
    }

    /// `None` for what cannot stand in a multi.
    pub fn kinds(&self) -> Option<Kinds> {
        match self {
            RequestConfig::Create { .. } | RequestConfig::Set { .. } => Some(Kinds::Writes),
            RequestConfig::Get { .. } | RequestConfig::List { .. } => Some(Kinds::Reads),
            RequestConfig::Exists { .. } | RequestConfig::Sync { .. } | RequestConfig::Multi { .. } => None,
        }
    }

    pub fn watches(&self) -> bool {
        match self {
            RequestConfig::Get { watch_probability, .. }
            | RequestConfig::List { watch_probability, .. }
            | RequestConfig::Exists { watch_probability, .. } => *watch_probability > 0.0,
            RequestConfig::Create { .. }
            | RequestConfig::Set { .. }
            | RequestConfig::Sync { .. }
            | RequestConfig::Multi { .. } => false,
        }
    }
}

impl GeneratorConfig {
    pub(super) fn tags(&self) -> Vec<(u64, String)> {
        let nested = self.requests.iter().flat_map(|weighted| match &weighted.request {
            RequestConfig::Multi { requests, .. } => requests.iter().collect(),
            _ => vec![weighted],
        });
        let sources = nested.flat_map(|weighted| weighted.request.sources());
        sources
            .filter_map(|source| match source {
                PathSource::Tagged { tag, line } => Some((*line, tag.clone())),
                PathSource::Fixed(_) | PathSource::ChildrenOf(_) => None,
            })
            .collect()
    }

    pub fn watches(&self) -> bool {
        self.requests.iter().any(|weighted| weighted.request.watches())
    }

    pub fn has_multi_read(&self) -> bool {
        self.requests.iter().any(|weighted| match &weighted.request {
            RequestConfig::Multi { requests, .. } => {
                requests.first().and_then(|first| first.request.kinds()) == Some(Kinds::Reads)
            }
            _ => false,
        })
    }
}

const REQUESTS: [&str; 7] = ["create", "set", "get", "list", "multi", "exists", "sync"];

pub(super) fn parse(section: Section<'_>) -> Result<GeneratorConfig, ConfigError> {
    let seed = section.parsed("seed", "a whole number")?;
    let requests = section.section("requests")?;
    let requests = requests.ok_or_else(|| section.error("generator has no requests"))?;
    let found = requests.starting_with(&REQUESTS);
    let parsed = weighted(&requests, found)?;
    requests.finish()?;
    section.finish()?;
    Ok(GeneratorConfig { seed, requests: parsed })
}

fn weighted(section: &Section<'_>, found: Vec<(&'static str, &Node)>) -> Result<Vec<Weighted>, ConfigError> {
    if found.is_empty() {
        return Err(section.error(format!("{} names no request: {}", section.path, REQUESTS.join(", "))));
    }
    found
        .into_iter()
        .map(|(kind, node)| {
            let described = Section::of(node, section.name(kind))?;
            let weight = described.parsed("weight", "a whole number")?.unwrap_or(1);
            if !(1..=u64::from(u32::MAX)).contains(&weight) {
                return Err(described.error(format!("{} is to be at least 1", described.name("weight"))));
            }
            let request = request(kind, &described)?;
            described.finish()?;
            Ok(Weighted { weight, request })
        })
        .collect()
}

fn request(kind: &str, section: &Section<'_>) -> Result<RequestConfig, ConfigError> {
    Ok(match kind {
        "create" => create(section)?,
        "set" => {
            let data = section.one("data")?;
            let data = data.ok_or_else(|| section.error(format!("{} has no data", section.path)))?;
            let data = getters::text(data, &section.name("data"))?;
            RequestConfig::Set { path: getters::paths(section)?, data }
        }
        "get" => {
            let watch_probability = share(section, "watch_probability")?;
            RequestConfig::Get { path: getters::paths(section)?, watch_probability }
        }
        "list" => {
            let watch_probability = share(section, "watch_probability")?;
            RequestConfig::List { path: getters::paths(section)?, watch_probability }
        }
        "exists" => {
            let watch_probability = share(section, "watch_probability")?;
            RequestConfig::Exists { path: getters::paths(section)?, watch_probability }
        }
        "sync" => RequestConfig::Sync { path: getters::paths(section)? },
        _ => multi(section)?,
    })
}

fn create(section: &Section<'_>) -> Result<RequestConfig, ConfigError> {
    let name_length = match section.one("name_length")? {
        Some(node) => getters::number(node, &section.name("name_length"), 1_000)?,
        None => Number::fixed(5),
    };
    if name_length.min == 0 {
        return Err(section.error(format!("{} is to be at least 1", section.name("name_length"))));
    }
    let data = section.one("data")?;
    // Known to ClickHouse, and of use only to its later versions' generators.
    let _ = section.one("tag")?.map(|tag| text_of(tag, &section.name("tag"))).transpose()?;
    Ok(RequestConfig::Create {
        path: getters::paths(section)?,
        name_length,
        data: data.map(|data| getters::text(data, &section.name("data"))).transpose()?,
        remove_factor: share(section, "remove_factor")?,
        keep_count: section.parsed("keep_count", "a whole number")?.unwrap_or(0),
    })
}

fn multi(section: &Section<'_>) -> Result<RequestConfig, ConfigError> {
    let size = section.one("size")?;
    let size =
        size.map(|size| getters::number(size, &section.name("size"), MULTI_OPS_MAX as u64)).transpose()?;
    if size.is_some_and(|size| size.min == 0) {
        return Err(section.error(format!("{} is to be at least 1", section.name("size"))));
    }
    let requests = weighted(section, section.starting_with(&REQUESTS))?;
    let mut kinds = requests.iter().map(|nested| nested.request.kinds());
    let first = kinds.next().flatten();
    if first.is_none() || kinds.any(|kinds| kinds != first) {
        let message = format!("{}: a multi has creates and sets, or gets and lists", section.path);
        return Err(section.error(message));
    }
    Ok(RequestConfig::Multi { size, requests })
}

/// From 0 to 1, 0 when it is not given.
fn share(section: &Section<'_>, key: &'static str) -> Result<f64, ConfigError> {
    let Some(node) = section.one(key)? else { return Ok(0.0) };
    let name = section.name(key);
    let share: f64 = node.parsed(&name, "a number")?;
    if !(0.0..=1.0).contains(&share) {
        return Err(node.error(format!("{name} is to be from 0 to 1")));
    }
    Ok(share)
}
