//! One file: what the page cache holds, and what would be there after a power loss.
//!
//! Only dirty pages are kept twice. A power loss decides for every dirty page whether the old content, the new
//! content or a mixture of whole sectors is there afterwards, in no particular order.

use crate::limits::{PAGE_BYTES, SECTOR_BYTES};
use crate::random::Stream;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// How much of the unsynced data outlives a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    All,
    Nothing,
    /// Written in order up to somewhere: the last page may be torn.
    Tail,
    /// Each page on its own, out of order, possibly torn.
    AnyPage,
}

impl Loss {
    pub fn choose(random: &mut Stream) -> Loss {
        match random.below(10) {
            0..=3 => Loss::All,
            4 => Loss::Nothing,
            5..=7 => Loss::Tail,
            _ => Loss::AnyPage,
        }
    }
}

pub(super) type FileRef = Arc<Mutex<FileState>>;

#[derive(Default)]
pub(super) struct FileState {
    data: Vec<u8>,
    /// Length after a power loss that loses everything unsynced.
    durable_len: usize,
    /// Dirty pages → their durable content, at most a page, shorter at the durable end of the file.
    dirty: BTreeMap<usize, Vec<u8>>,
    /// Pages whose sync failed → their durable content. The cache calls them clean: no later sync writes them, only
    /// writing them anew does.
    failed: BTreeMap<usize, Vec<u8>>,
    syncs_begun: u64,
    /// The youngest sync that completed: an older one that ends later changes nothing.
    sync_completed: u64,
}

/// What a sync makes durable: the file as it was when the sync began.
pub(super) struct Sync {
    number: u64,
    len: usize,
    pages: Vec<(usize, Vec<u8>)>,
}

impl Sync {
    pub(super) fn bytes(&self) -> usize {
        self.pages.iter().map(|(_, content)| content.len()).sum()
    }
}

fn page_of(data: &[u8], page: usize) -> &[u8] {
    let start = (page * PAGE_BYTES).min(data.len());
    let end = (start + PAGE_BYTES).min(data.len());
    &data[start..end]
}

impl FileState {
    pub(super) fn len(&self) -> usize {
        self.data.len()
    }

    pub(super) fn read(&self, offset: usize, len: usize) -> Option<&[u8]> {
        self.data.get(offset..offset.checked_add(len)?)
    }

    /// Writes into the page cache; a gap before `offset` reads as zeros.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        for page in offset / PAGE_BYTES..=(end - 1) / PAGE_BYTES {
            if let Some(durable) = self.failed.remove(&page) {
                self.dirty.entry(page).or_insert(durable);
            } else if !self.dirty.contains_key(&page) {
                let durable = &self.data[..self.durable_len.min(self.data.len())];
                self.dirty.insert(page, page_of(durable, page).to_vec());
            }
        }
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset..end].copy_from_slice(bytes);
    }

    /// Up to where something else than zeros stands.
    pub(super) fn used_len(&self) -> usize {
        self.data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }

    /// Changes a byte on the disk, and in the cache unless that holds something newer.
    pub(super) fn damage(&mut self, at: usize, change: impl Fn(u8) -> u8) {
        let page = at / PAGE_BYTES;
        let newer = self.dirty.get_mut(&page).or(self.failed.get_mut(&page));
        let byte = match newer {
            Some(durable) => durable.get_mut(at - page * PAGE_BYTES),
            None => self.data.get_mut(at),
        };
        if let Some(byte) = byte {
            *byte = change(*byte);
        }
    }

    pub(super) fn begin_sync(&mut self) -> Sync {
        self.syncs_begun += 1;
        let pages = self.dirty.keys().map(|page| (*page, page_of(&self.data, *page).to_vec())).collect();
        Sync { number: self.syncs_begun, len: self.data.len(), pages }
    }

    pub(super) fn complete_sync(&mut self, sync: Sync) {
        if sync.number < self.sync_completed {
            return;
        }
        self.sync_completed = sync.number;
        self.durable_len = self.durable_len.max(sync.len);
        for (page, content) in sync.pages {
            if page_of(&self.data, page) == content {
                self.dirty.remove(&page);
            } else {
                self.dirty.insert(page, content);
            }
        }
    }

    /// The sync did not reach the disk, and the cache forgets that its pages were dirty.
    pub(super) fn fail_sync(&mut self, sync: Sync) {
        for (page, _) in sync.pages {
            if let Some(durable) = self.dirty.remove(&page) {
                self.failed.entry(page).or_insert(durable);
            }
        }
    }

    /// The cache drops the pages it takes for clean: what is on the disk is read again.
    pub(super) fn forget_failed_pages(&mut self) {
        for (page, durable) in std::mem::take(&mut self.failed) {
            self.restore_page(page, &durable);
        }
    }

    fn restore_page(&mut self, page: usize, durable: &[u8]) {
        let start = (page * PAGE_BYTES).min(self.data.len());
        let end = (start + PAGE_BYTES).min(self.data.len());
        for place in start..end {
            self.data[place] = durable.get(place - start).copied().unwrap_or(0);
        }
    }

    /// Decides what is on the disk now; that is both the cache and the durable state afterwards.
    pub(super) fn lose_power(&mut self, loss: Loss, random: &mut Stream) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.append(&mut self.failed);
        let cut = random.below(dirty.len() as u64 + 1) as usize;
        let mut len = self.durable_len;
        for (place, (page, durable)) in dirty.into_iter().enumerate() {
            let fate = match loss {
                Loss::All => Fate::Old,
                Loss::Nothing => Fate::New,
                Loss::Tail if place < cut => Fate::New,
                Loss::Tail if place == cut => Fate::Torn,
                Loss::Tail => Fate::Old,
                Loss::AnyPage => Fate::choose(random),
            };
            let kept_to = self.settle_page(page, &durable, fate, random);
            len = len.max(kept_to);
        }
        if loss == Loss::Nothing {
            len = self.data.len();
        }
        self.data.truncate(len);
        self.durable_len = self.data.len();
        self.sync_completed = self.syncs_begun;
    }

    /// Returns up to where the file must reach to hold what was kept of this page.
    fn settle_page(&mut self, page: usize, durable: &[u8], fate: Fate, random: &mut Stream) -> usize {
        let start = page * PAGE_BYTES;
        let end = (start + PAGE_BYTES).min(self.data.len());
        if fate == Fate::New {
            return end;
        }
        let first_kept = random.one_in(2);
        let mut kept_to = 0;
        for (number, at) in (start..end).step_by(SECTOR_BYTES).enumerate() {
            let sector_end = (at + SECTOR_BYTES).min(end);
            let torn_in = fate == Fate::Torn && (random.one_in(2) || (number == 0 && first_kept));
            if torn_in {
                kept_to = sector_end;
                continue;
            }
            for place in at..sector_end {
                self.data[place] = durable.get(place - start).copied().unwrap_or(0);
            }
        }
        kept_to
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Old,
    New,
    Torn,
}

impl Fate {
    fn choose(random: &mut Stream) -> Fate {
        match random.below(5) {
            0 | 1 => Fate::Old,
            2 | 3 => Fate::New,
            _ => Fate::Torn,
        }
    }
}
