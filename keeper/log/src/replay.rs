//! Applies the records of a log that is being opened, and checks that they fit together.

use crate::LogError;
use crate::format::{Kind, Record};
use crate::index::Slot;
use crate::view::View;
use std::collections::VecDeque;

#[derive(Default)]
pub struct Replay {
    pub view: View,
    /// Index of the first slot. Slots from here on were seen; what a removed segment held was not.
    first: u64,
    pub slots: VecDeque<Slot>,
    has_started: bool,
}

impl Replay {
    /// Index of the first slot, or of the next entry if there is none; `None` in a log that has not begun.
    pub fn first(&self) -> Option<u64> {
        self.view.last.map(|_| self.first)
    }

    /// Takes the next record; says what is wrong with it.
    pub fn apply(&mut self, record: &Record, slot: Slot) -> Result<(), String> {
        if !self.has_started && record.kind != Kind::Start {
            return Err("its segment has no start record".into());
        }
        if record.index == Some(u64::MAX) {
            return Err("an index is the largest number there is, so nothing could follow".into());
        }
        match record.kind {
            Kind::Start => self.start(record.index)?,
            Kind::Entry => self.push(record, slot)?,
            Kind::Truncate => self.truncate(record.index),
            Kind::Purge => self.purge(record.index.ok_or("a purge has no index")?),
            Kind::Vote | Kind::Committed => {}
        }
        self.view.apply(record);
        Ok(())
    }

    /// The first one says where the log stands; the others must agree.
    fn start(&mut self, last: Option<u64>) -> Result<(), String> {
        if self.has_started && last != self.view.last {
            return Err(format!("its segment starts after {last:?} instead of {:?}", self.view.last));
        }
        if !self.has_started {
            self.has_started = true;
            self.first = last.map_or(0, |last| last + 1);
        }
        Ok(())
    }

    fn push(&mut self, record: &Record, slot: Slot) -> Result<(), String> {
        let index = record.index.ok_or("an entry has no index")?;
        if self.view.last.is_some_and(|last| last + 1 != index) {
            return Err(format!("entry {index} follows {:?}", self.view.last));
        }
        if self.slots.is_empty() {
            self.first = index;
        }
        self.slots.push_back(slot);
        Ok(())
    }

    fn truncate(&mut self, last: Option<u64>) {
        let next = last.max(self.view.purged_index()).map_or(0, |last| last + 1);
        let keep = next.saturating_sub(self.first).min(self.slots.len() as u64);
        self.slots.truncate(keep as usize);
        self.first = self.first.min(next);
    }

    fn purge(&mut self, index: u64) {
        while !self.slots.is_empty() && self.first <= index {
            self.slots.pop_front();
            self.first += 1;
        }
        if self.slots.is_empty() {
            self.first = self.first.max(index + 1);
        }
    }

    /// Checks that every entry that should be there was seen.
    pub fn check(&self, oldest_sequence: u64, oldest_file: &str) -> Result<(), LogError> {
        let missing =
            |what: String| LogError::Missing { file: format!("a segment before {oldest_file}"), what };
        match self.view.purged_index() {
            Some(purged) if purged + 1 < self.first => Err(missing(format!(
                "entries {} to {} are in none that is there",
                purged + 1,
                self.first - 1
            ))),
            None if 1 < oldest_sequence => Err(missing("nothing was ever purged".into())),
            _ => Ok(()),
        }
    }
}
