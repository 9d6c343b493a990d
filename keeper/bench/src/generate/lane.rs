//! One stream of requests. Lanes share nothing that changes, so that no lock and no order between threads decides
//! what is sent: the same seed gives each lane the same requests.

use super::plan::{Paths, Picks, Plan, Template};
use super::random::{Random, unique_name};
use crate::config::{Kinds, Number, Text};
use crate::limits::CREATED_KEPT_MAX;
use crate::request::{Planned, Read, Write};
use std::sync::Arc;

/// As a version: matches every one.
const ANY_VERSION: i32 = -1;

pub struct Lane {
    plan: Arc<Plan>,
    random: Random,
    lane: u64,
    lanes: u64,
    /// Nodes this lane has named. Lane and number together make a name unique in the run.
    named: u64,
    /// Nodes made and not removed, for each create of the plan.
    /// Invariant: none is longer than `CREATED_KEPT_MAX`.
    created: Vec<Vec<String>>,
}

impl Lane {
    pub fn new(plan: Arc<Plan>, seed: u64, lane: usize, lanes: usize) -> Lane {
        let created = vec![Vec::new(); plan.creates];
        let random = Random::new(seed, lane as u64);
        Lane { plan, random, lane: lane as u64, lanes: lanes as u64, named: 0, created }
    }

    pub fn next(&mut self) -> Planned {
        let plan = Arc::clone(&self.plan);
        match self.pick(&plan.picks) {
            Template::Sync { paths } => Planned::Sync { path: self.path(paths) },
            Template::Multi { kinds: Kinds::Writes, size, picks } => {
                let templates = self.templates(*size, picks);
                Planned::Multi(templates.into_iter().filter_map(|template| self.write(template)).collect())
            }
            Template::Multi { kinds: Kinds::Reads, size, picks } => {
                let templates = self.templates(*size, picks);
                Planned::MultiRead(templates.into_iter().filter_map(|template| self.read(template)).collect())
            }
            template => match self.read(template) {
                Some(read) => Planned::Read(read),
                None => Planned::Write(self.write(template).expect("what reads nothing writes")),
            },
        }
    }

    fn pick<'a>(&mut self, picks: &'a Picks) -> &'a Template {
        picks.at(self.random.below(picks.total))
    }

    /// What a multi is made of this time.
    fn templates<'a>(&mut self, size: Option<Number>, picks: &'a Picks) -> Vec<&'a Template> {
        match size {
            None => picks.templates.iter().collect(),
            Some(size) => (0..self.random.number(size)).map(|_| self.pick(picks)).collect(),
        }
    }

    fn path(&mut self, paths: &Paths) -> String {
        paths[self.random.index(paths.len())].clone()
    }

    fn read(&mut self, template: &Template) -> Option<Read> {
        match template {
            Template::Read { kind, paths, watch_probability } => {
                let watch = *watch_probability > 0.0 && self.random.unit() < *watch_probability;
                Some(Read { kind: *kind, path: self.path(paths), watch })
            }
            Template::Create { .. }
            | Template::Set { .. }
            | Template::Sync { .. }
            | Template::Multi { .. } => None,
        }
    }

    fn write(&mut self, template: &Template) -> Option<Write> {
        match template {
            Template::Create { id, parents, name_length, data, remove_factor, keep_count } => {
                let made = self.created[*id].len();
                let enough = keep_count.div_ceil(self.lanes as usize).max(1);
                if made >= enough && *remove_factor > 0.0 && self.random.unit() < *remove_factor {
                    let index = self.random.index(made);
                    let path = self.created[*id].swap_remove(index);
                    return Some(Write::Remove { path, version: ANY_VERSION });
                }
                let keep = *remove_factor > 0.0 && made < CREATED_KEPT_MAX;
                Some(self.create(*id, parents, *name_length, data.as_ref(), keep))
            }
            Template::Set { paths, data } => {
                let (path, data) = (self.path(paths), self.random.text(data));
                Some(Write::Set { path, data, version: ANY_VERSION })
            }
            Template::Read { .. } | Template::Sync { .. } | Template::Multi { .. } => None,
        }
    }

    fn create(
        &mut self,
        id: usize,
        parents: &Paths,
        length: Number,
        data: Option<&Text>,
        keep: bool,
    ) -> Write {
        let parent = self.path(parents);
        let length = self.random.number(length);
        let number = self.named * self.lanes + self.lane;
        self.named += 1;
        let name = unique_name(number, length, &mut self.random);
        let path = if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") };
        if keep {
            self.created[id].push(path.clone());
        }
        let data = data.map(|data| self.random.text(data)).unwrap_or_default();
        Write::Create { path, data, flags: 0 }
    }
}
