//! A disk in memory that loses, tears and fails, for tests of this crate and others.
//!
//! It promises exactly what `docs/formats/log.md` assumes of a disk and no more: unsynced sectors reach the disk
//! in any order or not at all, unsynced renames happened or not, a failed sync loses data that a later sync claims
//! to have. It has no delays of its own.

use crate::{Disk, DiskFile, DiskFuture, SharedDisk};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// What a crash takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The process died, the machine lives: everything written can be read, and may be lost later.
    Process,
    /// The power failed and everything unsynced is gone.
    Unsynced,
    /// The power failed, but everything written had reached the disk.
    Nothing,
    /// The power failed: each unsynced sector is old or new, each unsynced change of the folder happened or not.
    Random,
    /// As `Random`, and an unsynced sector may also hold zeros or garbage.
    Torn,
}

#[derive(Default)]
struct Inode {
    /// What a reader sees.
    bytes: Vec<u8>,
    /// What is on the disk.
    durable: Vec<u8>,
    /// Sectors to be written by the next sync.
    dirty: BTreeSet<usize>,
}

impl Inode {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        let old_len = self.bytes.len();
        if old_len < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
        let first = offset.min(old_len) / SECTOR_BYTES;
        self.dirty.extend(first..end.div_ceil(SECTOR_BYTES));
    }

    fn sector(bytes: &[u8], at: usize) -> Vec<u8> {
        let start = (at * SECTOR_BYTES).min(bytes.len());
        let mut sector = bytes[start..(start + SECTOR_BYTES).min(bytes.len())].to_vec();
        sector.resize(SECTOR_BYTES, 0);
        sector
    }

    fn put(&mut self, at: usize, sector: &[u8], len: usize) {
        let start = at * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(len);
        if start < end {
            self.durable[start..end].copy_from_slice(&sector[..end - start]);
        }
    }

    fn sync(&mut self) {
        let len = self.bytes.len();
        self.durable.resize(len, 0);
        for at in std::mem::take(&mut self.dirty) {
            let sector = Self::sector(&self.bytes, at);
            self.put(at, &sector, len);
        }
    }

    fn lose_power(&mut self, loss: Loss, random: &mut Random) {
        match loss {
            Loss::Process => return,
            Loss::Unsynced => {}
            Loss::Nothing => self.sync(),
            Loss::Random | Loss::Torn => {
                let grown = self.bytes.len() > self.durable.len();
                if grown && random.below(2) == 0 {
                    self.durable.resize(self.bytes.len(), 0);
                }
                let len = self.durable.len();
                let outcomes = if loss == Loss::Torn { 8 } else { 6 };
                for at in self.dirty.clone() {
                    let (old, new) = (Self::sector(&self.durable, at), Self::sector(&self.bytes, at));
                    let sector = match random.below(outcomes) {
                        // A sector that is written with what it holds cannot be harmed.
                        _ if old == new => continue,
                        0..3 => continue,
                        3..6 => new,
                        6 => vec![0; SECTOR_BYTES],
                        _ => (0..SECTOR_BYTES).map(|_| random.below(256) as u8).collect(),
                    };
                    self.put(at, &sector, len);
                }
            }
        }
        self.bytes = self.durable.clone();
        self.dirty.clear();
    }
}

#[derive(Clone)]
enum Change {
    Create { name: String, inode: u64 },
    Rename { from: String, to: String, inode: u64 },
    Remove { name: String, inode: u64 },
}

fn apply(names: &mut BTreeMap<String, u64>, change: &Change) {
    let remove_if = |names: &mut BTreeMap<String, u64>, name: &str, inode: u64| {
        if names.get(name) == Some(&inode) {
            names.remove(name);
        }
    };
    match change {
        Change::Create { name, inode } => {
            names.insert(name.clone(), *inode);
        }
        Change::Rename { from, to, inode } => {
            remove_if(names, from, *inode);
            names.insert(to.clone(), *inode);
        }
        Change::Remove { name, inode } => remove_if(names, name, *inode),
    }
}

/// splitmix64: enough for misfortune, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

struct State {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    unsynced: Vec<Change>,
    next_inode: u64,
    /// Handles of an earlier epoch are dead: their process is.
    epoch: u64,
    random: Random,
    capacity: Option<u64>,
    fails_overwrites: bool,
    sync_failure: Option<(String, ErrorKind)>,
    write_failure: Option<(String, ErrorKind)>,
    yields: bool,
    holds_syncs: bool,
    waiting: Vec<Waker>,
    writes: u64,
    syncs: u64,
}

impl State {
    fn used(&self) -> u64 {
        let named: BTreeSet<u64> = self.names.values().copied().collect();
        named.iter().filter_map(|inode| self.inodes.get(inode)).map(|inode| inode.bytes.len() as u64).sum()
    }

    fn inode(&mut self, name: &str) -> io::Result<u64> {
        self.names
            .get(name)
            .copied()
            .ok_or_else(|| io::Error::new(ErrorKind::NotFound, format!("no file {name}")))
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.names, &change);
        self.unsynced.push(change);
    }
}

/// The controls of the disk; clones are the same disk. [`FaultyDisk::disk`] gives what a process sees.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Mutex<State>>);

impl FaultyDisk {
    pub fn new(seed: u64) -> FaultyDisk {
        FaultyDisk(Arc::new(Mutex::new(State {
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsynced: Vec::new(),
            next_inode: 1,
            epoch: 0,
            random: Random(seed),
            capacity: None,
            fails_overwrites: false,
            sync_failure: None,
            write_failure: None,
            yields: false,
            holds_syncs: false,
            waiting: Vec::new(),
            writes: 0,
            syncs: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk as one process sees it, until the next crash.
    pub fn disk(&self) -> SharedDisk {
        Arc::new(Mounted { disk: self.clone(), epoch: self.state().epoch })
    }

    /// Ends everything that has the disk open, and takes what `loss` says.
    pub fn crash(&self, loss: Loss) {
        let state = &mut *self.state();
        state.epoch += 1;
        state.holds_syncs = false;
        state.waiting.drain(..).for_each(Waker::wake);
        if loss == Loss::Process {
            return;
        }
        for change in std::mem::take(&mut state.unsynced) {
            let happened = match loss {
                Loss::Process | Loss::Nothing => true,
                Loss::Unsynced => false,
                Loss::Random | Loss::Torn => state.random.below(2) == 0,
            };
            if happened {
                apply(&mut state.durable_names, &change);
            }
        }
        state.names = state.durable_names.clone();
        let named: BTreeSet<u64> = state.names.values().copied().collect();
        state.inodes.retain(|inode, _| named.contains(inode));
        for inode in state.inodes.values_mut() {
            inode.lose_power(loss, &mut state.random);
        }
    }

    /// Limits the bytes of all files together; `None` lifts the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    pub fn used_bytes(&self) -> u64 {
        self.state().used()
    }

    /// While set, even writing over existing bytes finds no space, as on a file system that copies on write.
    pub fn fail_overwrites(&self, fails: bool) {
        self.state().fails_overwrites = fails;
    }

    /// The next sync of a file whose name starts so fails; what it should have made durable never will be unless
    /// it is written again.
    pub fn fail_next_sync(&self, name_prefix: &str, kind: ErrorKind) {
        self.state().sync_failure = Some((name_prefix.into(), kind));
    }

    pub fn fail_next_write(&self, name_prefix: &str, kind: ErrorKind) {
        self.state().write_failure = Some((name_prefix.into(), kind));
    }

    /// Every operation lets other tasks run first, so that a crash can come between any two.
    pub fn set_yields(&self, yields: bool) {
        self.state().yields = yields;
    }

    /// Syncs do not return until this is set back.
    pub fn hold_syncs(&self, holds: bool) {
        let state = &mut *self.state();
        state.holds_syncs = holds;
        state.waiting.drain(..).for_each(Waker::wake);
    }

    /// Names and lengths of all files.
    pub fn files(&self) -> Vec<(String, usize)> {
        let state = self.state();
        state.names.iter().map(|(name, inode)| (name.clone(), state.inodes[inode].bytes.len())).collect()
    }

    /// Content of a file as the process sees it; `None` if there is none.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|inode| state.inodes[inode].bytes.clone())
    }

    /// Changes a file behind everybody's back, durably. Panics if there is none.
    pub fn edit(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let state = &mut *self.state();
        let inode = state.names[name];
        let inode = state.inodes.get_mut(&inode).expect("a named inode exists");
        edit(&mut inode.bytes);
        inode.durable = inode.bytes.clone();
        inode.dirty.clear();
    }

    /// Removes a file behind everybody's back, durably.
    pub fn delete(&self, name: &str) {
        let state = &mut *self.state();
        state.names.remove(name);
        state.durable_names.remove(name);
    }

    /// Number of writes and of file syncs so far.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.writes, state.syncs)
    }
}

struct Mounted {
    disk: FaultyDisk,
    epoch: u64,
}

impl Mounted {
    async fn enter(&self) -> io::Result<MutexGuard<'_, State>> {
        if self.disk.state().yields {
            YieldOnce(false).await;
        }
        let state = self.disk.state();
        if state.epoch != self.epoch {
            return Err(io::Error::other("this process is dead"));
        }
        Ok(state)
    }

    fn file(&self, name: &str, inode: u64) -> Box<dyn DiskFile> {
        let mounted = Mounted { disk: self.disk.clone(), epoch: self.epoch };
        Box::new(FaultyFile { mounted, name: name.into(), inode })
    }
}

impl Disk for Mounted {
    fn list(&self) -> DiskFuture<'_, Vec<String>> {
        Box::pin(async move { Ok(self.enter().await?.names.keys().cloned().collect()) })
    }

    fn open(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>> {
        let name = name.to_string();
        Box::pin(async move {
            let inode = self.enter().await?.inode(&name)?;
            Ok(self.file(&name, inode))
        })
    }

    fn create(&self, name: &str) -> DiskFuture<'_, Box<dyn DiskFile>> {
        let name = name.to_string();
        Box::pin(async move {
            let mut state = self.enter().await?;
            if state.names.contains_key(&name) {
                return Err(io::Error::new(ErrorKind::AlreadyExists, format!("{name} exists")));
            }
            let inode = state.next_inode;
            state.next_inode += 1;
            state.inodes.insert(inode, Inode::default());
            state.change(Change::Create { name: name.clone(), inode });
            drop(state);
            Ok(self.file(&name, inode))
        })
    }

    fn rename(&self, from: &str, to: &str) -> DiskFuture<'_, ()> {
        let (from, to) = (from.to_string(), to.to_string());
        Box::pin(async move {
            let mut state = self.enter().await?;
            let inode = state.inode(&from)?;
            state.change(Change::Rename { from, to, inode });
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> DiskFuture<'_, ()> {
        let name = name.to_string();
        Box::pin(async move {
            let mut state = self.enter().await?;
            let inode = state.inode(&name)?;
            state.change(Change::Remove { name, inode });
            Ok(())
        })
    }

    fn sync_folder(&self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            let state = &mut *self.enter().await?;
            for change in std::mem::take(&mut state.unsynced) {
                apply(&mut state.durable_names, &change);
            }
            Ok(())
        })
    }

    fn free_bytes(&self) -> DiskFuture<'_, Option<u64>> {
        Box::pin(async move {
            let state = self.enter().await?;
            Ok(state.capacity.map(|capacity| capacity.saturating_sub(state.used())))
        })
    }

    fn location(&self) -> String {
        "faulty disk".into()
    }
}

struct FaultyFile {
    mounted: Mounted,
    name: String,
    inode: u64,
}

fn fails(failure: &mut Option<(String, ErrorKind)>, name: &str) -> io::Result<()> {
    match failure.take_if(|(prefix, _)| name.starts_with(prefix.as_str())) {
        Some((_, kind)) => Err(io::Error::new(kind, format!("planted failure on {name}"))),
        None => Ok(()),
    }
}

fn full(name: &str) -> io::Error {
    io::Error::new(ErrorKind::StorageFull, format!("no space left for {name}"))
}

impl DiskFile for FaultyFile {
    fn len(&self) -> DiskFuture<'_, u64> {
        Box::pin(async move { Ok(self.mounted.enter().await?.inodes[&self.inode].bytes.len() as u64) })
    }

    fn read_at(&self, offset: u64, len: usize) -> DiskFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let state = self.mounted.enter().await?;
            let bytes = &state.inodes[&self.inode].bytes;
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let range = start..start.saturating_add(len);
            let eof = || io::Error::new(ErrorKind::UnexpectedEof, format!("{} ends before that", self.name));
            Ok(bytes.get(range).ok_or_else(eof)?.to_vec())
        })
    }

    fn write_at<'a>(&'a mut self, offset: u64, bytes: &'a [u8]) -> DiskFuture<'a, ()> {
        Box::pin(async move {
            let state = &mut *self.mounted.enter().await?;
            fails(&mut state.write_failure, &self.name)?;
            let used = state.used();
            let inode = state.inodes.get_mut(&self.inode).expect("an open inode exists");
            let end = offset as usize + bytes.len();
            let growth = end.saturating_sub(inode.bytes.len()) as u64;
            if state.fails_overwrites || (growth > 0 && state.capacity.is_some_and(|max| max < used + growth))
            {
                return Err(full(&self.name));
            }
            inode.write(offset as usize, bytes);
            state.writes += 1;
            Ok(())
        })
    }

    fn sync(&mut self) -> DiskFuture<'_, ()> {
        Box::pin(async move {
            std::future::poll_fn(|cx| self.mounted.disk.poll_may_sync(cx)).await;
            let state = &mut *self.mounted.enter().await?;
            let inode = state.inodes.get_mut(&self.inode).expect("an open inode exists");
            if let Err(error) = fails(&mut state.sync_failure, &self.name) {
                inode.dirty.clear();
                return Err(error);
            }
            inode.sync();
            state.syncs += 1;
            Ok(())
        })
    }
}

impl FaultyDisk {
    fn poll_may_sync(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.state();
        if !state.holds_syncs {
            return Poll::Ready(());
        }
        state.waiting.push(cx.waker().clone());
        Poll::Pending
    }
}

/// Lets other tasks run once.
struct YieldOnce(bool);

impl Future for YieldOnce {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 {
            return Poll::Ready(());
        }
        self.0 = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keeper_rt::block_on;

    async fn written(faulty: &FaultyDisk, name: &str, bytes: &[u8]) -> Box<dyn DiskFile> {
        let mut file = faulty.disk().create(name).await.unwrap();
        file.write_at(0, bytes).await.unwrap();
        file
    }

    #[test]
    fn only_what_was_synced_survives_a_power_loss() {
        block_on(async {
            let faulty = FaultyDisk::new(1);
            let mut file = written(&faulty, "a", b"synced").await;
            file.sync().await.unwrap();
            faulty.disk().sync_folder().await.unwrap();
            file.write_at(0, b"cached").await.unwrap();
            faulty.crash(Loss::Process);
            assert_eq!(faulty.content("a").unwrap(), b"cached");
            assert!(file.len().await.is_err());
            faulty.crash(Loss::Unsynced);
            assert_eq!(faulty.content("a").unwrap(), b"synced");
        });
    }

    #[test]
    fn an_unsynced_name_may_be_lost() {
        let lost = (0..64).filter(|seed| {
            let faulty = FaultyDisk::new(*seed);
            block_on(async { written(&faulty, "a", b"x").await.sync().await.unwrap() });
            faulty.crash(Loss::Random);
            faulty.content("a").is_none()
        });
        assert!((16..48).contains(&lost.count()));
    }

    #[test]
    fn a_failed_sync_loses_what_a_later_one_claims() {
        block_on(async {
            let faulty = FaultyDisk::new(1);
            let mut file = written(&faulty, "a", b"old").await;
            file.sync().await.unwrap();
            faulty.disk().sync_folder().await.unwrap();
            file.write_at(0, b"new").await.unwrap();
            faulty.fail_next_sync("a", ErrorKind::Other);
            assert!(file.sync().await.is_err());
            file.sync().await.unwrap();
            assert_eq!(faulty.content("a").unwrap(), b"new");
            faulty.crash(Loss::Unsynced);
            assert_eq!(faulty.content("a").unwrap(), b"old");
        });
    }
}
