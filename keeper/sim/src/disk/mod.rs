//! The simulated disk of a node: a page cache over what is durable, with delays, stalls and a size.
//!
//! It outlives the process: [`SimDisk::interface`] gives each process a view that goes dead when the process does.
//! The death of a process keeps every byte written; a loss of power keeps what was synced and a random part of the
//! rest. Nothing here may make anything durable that was not synced, except by that chance.

mod damage;
mod file;
mod folder;
mod lying;

#[cfg(test)]
mod tests;

use crate::executor::{Event, NodeId, SimSleep, Simulator, lock};
use crate::random::hash_words;
use damage::Tail;
use file::FileRef;
use folder::Folder;
use keeper_log::{Disk, DiskFile, DiskFuture, SharedDisk};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use lying::LyingDisk;

/// Sectors that rot at a time.
const ROTTEN_SECTORS_MAX: u64 = 8;

/// What the error of a write without room says.
pub const DISK_FULL: &str = "the simulated disk is full";

/// What the error of a failed sync says.
pub const SYNC_FAILED: &str = "the simulated disk cannot write";

struct State {
    folder: Folder,
    /// The number of the process that may use the disk now.
    process: u64,
    /// Every delay is multiplied by this.
    slowness: u32,
    size_bytes: u64,
    /// So many of the next syncs of files fail.
    failing_syncs: u32,
    syncs: u64,
    /// How often an empty disk was put in its place.
    replaced: u64,
    tail: Tail,
    /// So many of the next writes go elsewhere on the disk.
    misdirected: u32,
    /// Something was damaged, or will be with the next write.
    damaged: bool,
}

/// A node's disk.
#[derive(Clone)]
pub struct SimDisk {
    simulator: Simulator,
    node: NodeId,
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    pub fn new(simulator: &Simulator, node: NodeId) -> SimDisk {
        let state = State {
            folder: Folder::default(),
            process: 0,
            slowness: 1,
            size_bytes: u64::MAX,
            failing_syncs: 0,
            syncs: 0,
            replaced: 0,
            tail: Tail::default(),
            misdirected: 0,
            damaged: false,
        };
        SimDisk { simulator: simulator.clone(), node, state: Arc::new(Mutex::new(state)) }
    }

    /// The disk as the process that starts now sees it.
    pub fn interface(&self) -> SharedDisk {
        let process = lock(&self.state).process;
        Arc::new(Interface { disk: self.clone(), process })
    }

    /// The process died: what it had written stays, what it still does has no effect. Pages whose sync has failed
    /// may be forgotten by the operating system at any time: here it does so, or not, when nobody looks.
    pub fn process_died(&self) {
        let mut state = lock(&self.state);
        state.process += 1;
        if self.simulator.one_in(2) {
            state.folder.forget_failed_pages();
        }
    }

    /// The machine lost its power (and so the process died).
    pub fn lose_power(&self) {
        self.simulator.trace(Event::PowerLoss, u64::from(self.node));
        let mut state = lock(&self.state);
        state.process += 1;
        self.simulator.with_random(|random| state.folder.lose_power(random));
    }

    /// The disk is lost with all that it held, and an empty one stands in its place. The process died before.
    pub fn replace(&self) {
        let mut state = lock(&self.state);
        state.process += 1;
        state.folder = Folder::default();
        state.replaced += 1;
        state.tail = Tail::default();
        state.misdirected = 0;
        state.damaged = false;
    }

    /// Whether the disk may hold something else than what was written.
    pub fn is_damaged(&self) -> bool {
        lock(&self.state).damaged
    }

    /// Bits change in a few sectors of some files, unless they are among those that are spared.
    pub fn rot(&self) {
        let state = &mut *lock(&self.state);
        self.simulator.with_random(|random| {
            for _ in 0..=random.below(ROTTEN_SECTORS_MAX) {
                if let Some((file, place)) = damage::choose(&state.folder, &state.tail, random) {
                    damage::rot(&file, place, random);
                    state.damaged = true;
                }
            }
        });
    }

    /// The next write goes elsewhere on the disk, where it overwrites a sector or more.
    pub fn misdirect_next_write(&self) {
        let mut state = lock(&self.state);
        (state.misdirected, state.damaged) = (1, true);
    }

    /// The process is dead, and nothing on the disk shows that the last batch of its log is not there.
    pub fn lacks_its_last_batch(&self) -> bool {
        lock(&self.state).tail.is_missing()
    }

    /// Tells the disks apart that the machine has had.
    pub fn number(&self) -> u64 {
        lock(&self.state).replaced
    }

    pub fn set_slowness(&self, factor: u32) {
        lock(&self.state).slowness = factor.max(1);
    }

    pub fn slowness(&self) -> u32 {
        lock(&self.state).slowness
    }

    /// Writes beyond this fail with `StorageFull`.
    pub fn set_size_bytes(&self, bytes: u64) {
        lock(&self.state).size_bytes = bytes;
    }

    /// The next `count` syncs of files fail, and what they should have made durable is not.
    pub fn set_failing_syncs(&self, count: u32) {
        lock(&self.state).failing_syncs = count;
    }

    pub fn used_bytes(&self) -> u64 {
        lock(&self.state).folder.used_bytes()
    }

    /// Syncs of files that completed.
    pub fn syncs(&self) -> u64 {
        lock(&self.state).syncs
    }
}

#[derive(Clone)]
struct Interface {
    disk: SimDisk,
    process: u64,
}

fn dead() -> io::Error {
    io::Error::other("the process that opened this disk is dead")
}

impl Interface {
    fn with<R>(&self, work: impl FnOnce(&mut State) -> io::Result<R>) -> io::Result<R> {
        let mut state = lock(&self.disk.state);
        if state.process == self.process { work(&mut state) } else { Err(dead()) }
    }

    /// 0.3 to 2.3 ms, rarely 20 to 220 ms, and what the bytes take at 200 MB/s.
    fn sync_delay(&self, bytes: usize) -> SimSleep {
        let simulator = &self.disk.simulator;
        let us = simulator.with_random(|random| match random.one_in(500) {
            true => 20_000 + random.below(200_000),
            false => 300 + random.below(2_000),
        });
        let ns = us * 1_000 + bytes as u64 * 5;
        simulator.sleep(Duration::from_nanos(ns * u64::from(self.disk.slowness())))
    }

    /// Most calls return at once; a few let others run in between.
    async fn maybe_yield(&self) {
        let simulator = &self.disk.simulator;
        if simulator.one_in(8) {
            let ns = simulator.below(150_000) * u64::from(self.disk.slowness());
            simulator.sleep(Duration::from_nanos(ns)).await;
        }
    }

    fn file(&self, name: &str, file: FileRef) -> Box<dyn DiskFile> {
        Box::new(File { interface: self.clone(), name: name.to_string(), file })
    }
}

impl Disk for Interface {
    fn list(&self) -> DiskFuture<'_, Vec<String>> {
        Box::pin(async move {
            self.maybe_yield().await;
            self.with(|state| Ok(state.folder.list()))
        })
    }

    fn open(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>> {
        let name = name.to_string();
        Box::pin(async move {
            self.maybe_yield().await;
            let file = self.with(|state| state.folder.open(&name))?;
            Ok(self.file(&name, file))
        })
    }

    fn create(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>> {
        let name = name.to_string();
        Box::pin(async move {
            self.maybe_yield().await;
            let file = self.with(|state| state.folder.create(&name))?;
            Ok(self.file(&name, file))
        })
    }

    fn rename(&self, from: &str, to: &str) -> DiskFuture<'_, ()> {
        let (from, to) = (from.to_string(), to.to_string());
        Box::pin(async move {
            self.maybe_yield().await;
            self.with(|state| state.folder.rename(&from, &to))
        })
    }

    fn remove(&self, name: &str) -> DiskFuture<'_, ()> {
        let name = name.to_string();
        Box::pin(async move {
            self.maybe_yield().await;
            self.with(|state| state.folder.remove(&name))
        })
    }

    fn sync_folder(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let upto = self.with(|state| Ok(state.folder.begin_sync()))?;
            self.sync_delay(0).await;
            self.with(|state| {
                state.folder.complete_sync(upto);
                Ok(())
            })
        })
    }

    fn free_bytes(&self) -> DiskFuture<'_, Option<u64>> {
        Box::pin(async move {
            self.with(|state| Ok(Some(state.size_bytes.saturating_sub(state.folder.used_bytes()))))
        })
    }

    fn location(&self) -> String {
        format!("simulated disk of node {}", self.disk.node)
    }
}

struct File {
    interface: Interface,
    name: String,
    file: FileRef,
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("simulated files fit into memory")
}

impl File {
    fn write_now(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        self.interface.with(|state| {
            let grows_by = (offset + bytes.len()).saturating_sub(lock(&self.file).len()) as u64;
            if grows_by > 0 && state.folder.used_bytes().saturating_add(grows_by) > state.size_bytes {
                let why = format!("{}: {DISK_FULL}", self.name);
                return Err(io::Error::new(io::ErrorKind::StorageFull, why));
            }
            if state.misdirected > 0 && damage::is_batch(&self.name, offset) {
                state.misdirected -= 1;
                self.write_elsewhere(state, offset, bytes);
                return Ok(());
            }
            state.tail.wrote(&self.name, offset, bytes.len());
            lock(&self.file).write(offset, bytes);
            Ok(())
        })
    }
}

impl File {
    fn write_elsewhere(&self, state: &mut State, offset: usize, bytes: &[u8]) {
        let chosen = self
            .interface
            .disk
            .simulator
            .with_random(|random| damage::choose(&state.folder, &state.tail, random));
        state.tail.went_elsewhere(&self.name, offset);
        if let Some((file, place)) = chosen {
            damage::overwrite(&file, place, bytes);
        }
    }
}

impl DiskFile for File {
    fn len(&self) -> DiskFuture<'_, u64> {
        Box::pin(async move { self.interface.with(|_| Ok(lock(&self.file).len() as u64)) })
    }

    fn read_at(&self, offset: u64, len: usize) -> DiskFuture<'_, Vec<u8>> {
        Box::pin(async move {
            self.interface.maybe_yield().await;
            self.interface.with(|_| match lock(&self.file).read(place(offset), len) {
                Some(bytes) => Ok(bytes.to_vec()),
                None => {
                    let why = format!("{}: {len} bytes at {offset} reach past its end", self.name);
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, why))
                }
            })
        })
    }

    fn write_at<'a>(&'a mut self, offset: u64, bytes: &'a [u8]) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            let offset = place(offset);
            // Now and then in two parts, so that a crash can come in between.
            let simulator = &self.interface.disk.simulator;
            let first = if simulator.one_in(16) { simulator.below(bytes.len() as u64) as usize } else { 0 };
            if first > 0 {
                self.write_now(offset, &bytes[..first])?;
                simulator.sleep(Duration::from_nanos(simulator.below(50_000))).await;
            }
            self.write_now(offset + first, &bytes[first..])
        })
    }

    fn sync(&mut self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let sync = self.interface.with(|_| Ok(lock(&self.file).begin_sync()))?;
            self.interface.sync_delay(sync.bytes()).await;
            let disk = &self.interface.disk;
            disk.simulator.trace(Event::DiskSync, hash_words(&[u64::from(disk.node), sync.bytes() as u64]));
            self.interface.with(|state| {
                if state.failing_syncs > 0 {
                    state.failing_syncs -= 1;
                    lock(&self.file).fail_sync(sync);
                    return Err(io::Error::other(format!("{}: {SYNC_FAILED}", self.name)));
                }
                lock(&self.file).complete_sync(sync);
                state.tail.synced(&self.name);
                state.syncs += 1;
                Ok(())
            })
        })
    }
}
