//! The folder: names and the files behind them, and the changes of names that are not durable yet.
//!
//! Changes of names are journalled in order, as by a real file system: a power loss keeps a random beginning of
//! those that were not synced.

use super::file::{FileRef, Loss};
use crate::executor::lock;
use crate::random::Stream;
use std::collections::BTreeMap;
use std::io;

#[derive(Clone)]
enum NameChange {
    Create(String, FileRef),
    Rename(String, String),
    Remove(String),
}

fn change(names: &mut BTreeMap<String, FileRef>, change: &NameChange) {
    match change {
        NameChange::Create(name, file) => {
            names.insert(name.clone(), file.clone());
        }
        NameChange::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        NameChange::Remove(name) => {
            names.remove(name);
        }
    }
}

#[derive(Default)]
pub(super) struct Folder {
    names: BTreeMap<String, FileRef>,
    durable: BTreeMap<String, FileRef>,
    /// Changes from `durable` to `names`, oldest first.
    pending: Vec<NameChange>,
    /// Changes made durable since the beginning: the number of the first pending one.
    synced: u64,
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{name}: no such file"))
}

impl Folder {
    pub(super) fn list(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    pub(super) fn open(&self, name: &str) -> io::Result<FileRef> {
        self.names.get(name).cloned().ok_or_else(|| not_found(name))
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<FileRef> {
        if self.names.contains_key(name) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{name}: exists")));
        }
        let file = FileRef::default();
        self.record(NameChange::Create(name.to_string(), file.clone()));
        Ok(file)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.open(from)?;
        if from != to {
            self.record(NameChange::Rename(from.to_string(), to.to_string()));
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.open(name)?;
        self.record(NameChange::Remove(name.to_string()));
        Ok(())
    }

    fn record(&mut self, done: NameChange) {
        change(&mut self.names, &done);
        self.pending.push(done);
    }

    /// What a sync that begins now will have made durable when it completes.
    pub(super) fn begin_sync(&self) -> u64 {
        self.synced + self.pending.len() as u64
    }

    pub(super) fn complete_sync(&mut self, upto: u64) {
        let count = upto.saturating_sub(self.synced) as usize;
        for done in self.pending.drain(..count.min(self.pending.len())) {
            change(&mut self.durable, &done);
            self.synced += 1;
        }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.names.values().map(|file| lock(file).len() as u64).sum()
    }

    pub(super) fn forget_failed_pages(&mut self) {
        for file in self.names.values() {
            lock(file).forget_failed_pages();
        }
    }

    /// Leaves what is on the disk after a power loss.
    pub(super) fn lose_power(&mut self, random: &mut Stream) {
        let loss = Loss::choose(random);
        let kept = match loss {
            Loss::All => 0,
            Loss::Nothing => self.pending.len() as u64,
            Loss::Tail | Loss::AnyPage => random.below(self.pending.len() as u64 + 1),
        };
        self.complete_sync(self.synced + kept);
        self.pending.clear();
        self.names = self.durable.clone();
        for file in self.names.values() {
            lock(file).lose_power(loss, random);
        }
    }
}
