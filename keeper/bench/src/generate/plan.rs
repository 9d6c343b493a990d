//! A configuration's requests with their paths looked up: what every lane draws from.

use crate::config::{GeneratorConfig, Kinds, Number, PathSource, RequestConfig, Text, Weighted};
use crate::request::ReadKind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Candidates of a request, each as likely as the other.
pub type Paths = Arc<[String]>;

pub struct Plan {
    pub picks: Picks,
    /// Number of creates in it, those inside multis too.
    pub creates: usize,
}

/// Templates and how likely each is.
pub struct Picks {
    /// Ends of the templates' shares of `total`.
    /// Invariant: rising, as long as `templates`, the last one is `total`.
    ends: Vec<u64>,
    pub total: u64,
    pub templates: Vec<Template>,
}

pub enum Template {
    Create {
        /// Its place among the creates.
        id: usize,
        parents: Paths,
        name_length: Number,
        data: Option<Text>,
        remove_factor: f64,
        keep_count: usize,
    },
    Set {
        paths: Paths,
        data: Text,
    },
    Read {
        kind: ReadKind,
        paths: Paths,
        watch_probability: f64,
    },
    Sync {
        paths: Paths,
    },
    Multi {
        kinds: Kinds,
        size: Option<Number>,
        picks: Picks,
    },
}

impl Picks {
    /// `at` is from 0 to `total - 1`.
    pub fn at(&self, at: u64) -> &Template {
        let index = self.ends.partition_point(|end| *end <= at);
        &self.templates[index.min(self.templates.len() - 1)]
    }
}

/// What the paths of a configuration stand for on the server.
#[derive(Default)]
pub struct Known {
    /// Paths of the set-up's nodes by tag.
    pub tagged: BTreeMap<String, Vec<String>>,
    /// Children, as whole paths, of each node that a `children_of` names.
    pub children: BTreeMap<String, Vec<String>>,
}

/// Every node whose children have to be listed.
pub fn parents(requests: &[Weighted]) -> Vec<String> {
    let mut found = Vec::new();
    for weighted in requests {
        if let RequestConfig::Multi { requests, .. } = &weighted.request {
            found.extend(parents(requests));
        }
        found.extend(weighted.request.sources().iter().filter_map(|source| match source {
            PathSource::ChildrenOf(parent) => Some(parent.clone()),
            PathSource::Fixed(_) | PathSource::Tagged { .. } => None,
        }));
    }
    found.sort();
    found.dedup();
    found
}

impl Plan {
    /// `Err` says what cannot be resolved.
    pub fn new(config: &GeneratorConfig, known: &Known) -> Result<Plan, String> {
        let mut creates = 0;
        let picks = picks(&config.requests, known, &mut creates)?;
        Ok(Plan { picks, creates })
    }
}

fn picks(requests: &[Weighted], known: &Known, creates: &mut usize) -> Result<Picks, String> {
    let (mut ends, mut templates, mut total) = (Vec::new(), Vec::new(), 0_u64);
    for weighted in requests {
        total += weighted.weight;
        ends.push(total);
        templates.push(template(&weighted.request, known, creates)?);
    }
    Ok(Picks { ends, total, templates })
}

fn template(request: &RequestConfig, known: &Known, creates: &mut usize) -> Result<Template, String> {
    let read = |kind, path: &[PathSource], watch_probability: f64| {
        Ok(Template::Read { kind, paths: resolve(path, known)?, watch_probability })
    };
    match request {
        RequestConfig::Create { path, name_length, data, remove_factor, keep_count } => {
            *creates += 1;
            Ok(Template::Create {
                id: *creates - 1,
                parents: resolve(path, known)?,
                name_length: *name_length,
                data: data.clone(),
                remove_factor: *remove_factor,
                keep_count: *keep_count,
            })
        }
        RequestConfig::Set { path, data } => {
            Ok(Template::Set { paths: resolve(path, known)?, data: data.clone() })
        }
        RequestConfig::Get { path, watch_probability } => read(ReadKind::Get, path, *watch_probability),
        RequestConfig::List { path, watch_probability } => read(ReadKind::List, path, *watch_probability),
        RequestConfig::Exists { path, watch_probability } => read(ReadKind::Exists, path, *watch_probability),
        RequestConfig::Sync { path } => Ok(Template::Sync { paths: resolve(path, known)? }),
        RequestConfig::Multi { size, requests } => {
            let first = requests.first().and_then(|first| first.request.kinds());
            let kinds = first.ok_or_else(|| "a multi of nothing".to_owned())?;
            Ok(Template::Multi { kinds, size: *size, picks: picks(requests, known, creates)? })
        }
    }
}

fn resolve(sources: &[PathSource], known: &Known) -> Result<Paths, String> {
    let mut paths = Vec::new();
    for source in sources {
        match source {
            PathSource::Fixed(path) => paths.push(path.clone()),
            PathSource::ChildrenOf(parent) => {
                paths.extend(known.children.get(parent).into_iter().flatten().cloned())
            }
            PathSource::Tagged { tag, .. } => {
                paths.extend(known.tagged.get(tag).into_iter().flatten().cloned())
            }
        }
    }
    if paths.is_empty() {
        return Err(format!("no path to choose from: {sources:?} came to nothing on the server"));
    }
    if paths.len() > crate::limits::PATHS_MAX {
        return Err(format!("{} paths to choose from, at most {}", paths.len(), crate::limits::PATHS_MAX));
    }
    Ok(paths.into())
}
