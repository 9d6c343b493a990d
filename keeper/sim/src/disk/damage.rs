//! Bytes that the disk loses or mixes up after it has taken them: bits that rot, and writes that go elsewhere.
//!
//! One thing is spared: the last batch of the log. Damage there cannot be told from a write that a loss of power tore.
//! Where that batch went elsewhere and nothing shows it, the world takes the whole disk away; that is noticed.

use super::file::FileRef;
use super::folder::Folder;
use crate::executor::lock;
use crate::limits::SECTOR_BYTES;
use crate::random::Stream;
use std::ops::Range;

/// Bytes before a segment's first batch.
const SEGMENT_HEADER_BYTES: usize = 4096;
/// Batches that follow each other are spared as one up to so many bytes.
const BATCH_SPARED_BYTES_MAX: usize = 16 * 1024;
/// Bits that rot in one place.
const ROTTEN_BITS_MAX: u64 = 8;

/// A batch of the log: file and place.
type Batch = (String, Range<usize>);

/// The batches that nothing durable may stand behind.
#[derive(Default)]
pub(super) struct Tail {
    /// Perhaps not synced.
    last: Option<Batch>,
    /// Synced; the last one once a loss of power has taken `last`.
    before: Option<Batch>,
    /// The batch went elsewhere, and no later one that was synced shows that it is missing.
    missing: bool,
    /// A batch was written behind a missing one, not yet synced.
    shown: bool,
}

fn is_segment(name: &str) -> bool {
    name.starts_with("log-") && name.ends_with(".seg")
}

pub(super) fn is_batch(name: &str, offset: usize) -> bool {
    is_segment(name) && offset >= SEGMENT_HEADER_BYTES
}

impl Tail {
    pub(super) fn wrote(&mut self, name: &str, offset: usize, bytes: usize) {
        if !is_batch(name, offset) {
            return;
        }
        self.shown |= self.missing;
        let after = self.last.as_ref().filter(|(last, place)| last == name && place.end == offset);
        match after {
            // A batch may be written in two parts. Where these are two batches, sparing both does no harm.
            Some((_, place)) if place.len() < BATCH_SPARED_BYTES_MAX => {
                let start = place.start;
                self.last = Some((name.to_string(), start..offset + bytes));
            }
            _ => self.before = self.last.replace((name.to_string(), offset..offset + bytes)),
        }
    }

    pub(super) fn went_elsewhere(&mut self, name: &str, offset: usize) {
        if is_batch(name, offset) {
            (self.missing, self.shown) = (true, false);
        }
    }

    pub(super) fn synced(&mut self, name: &str) {
        if is_segment(name) && self.shown {
            (self.missing, self.shown) = (false, false);
        }
    }

    /// The process is dead, and whoever reads the log will not see that its last batch is missing.
    pub(super) fn is_missing(&self) -> bool {
        self.missing
    }

    fn holds(&self, name: &str, place: &Range<usize>) -> bool {
        [&self.last, &self.before]
            .into_iter()
            .flatten()
            .any(|(file, batch)| file == name && batch.start < place.end && place.start < batch.end)
    }
}

/// A sector of some file that may be damaged.
pub(super) fn choose(folder: &Folder, tail: &Tail, random: &mut Stream) -> Option<(FileRef, Range<usize>)> {
    let names: Vec<String> = folder.list().into_iter().filter(|name| !name.ends_with(".tmp")).collect();
    let name = names.get(random.below(names.len() as u64) as usize)?;
    let file = folder.open(name).ok()?;
    let len = lock(&file).len();
    // Half of the places are where something stands: most of a segment is zeros.
    let used = match lock(&file).used_len() {
        used if used > 0 && random.one_in(2) => used,
        _ => len,
    };
    let start = random.below(used as u64) as usize / SECTOR_BYTES * SECTOR_BYTES;
    let place = start..(start + SECTOR_BYTES).min(len);
    (!place.is_empty() && !tail.holds(name, &place)).then_some((file, place))
}

pub(super) fn rot(file: &FileRef, place: Range<usize>, random: &mut Stream) {
    let mut file = lock(file);
    for _ in 0..=random.below(ROTTEN_BITS_MAX) {
        let at = place.start + random.below(place.len() as u64) as usize;
        let bit = 1 << random.below(8);
        file.damage(at, |byte| byte ^ bit);
    }
}

/// What should have been written elsewhere stands here now.
pub(super) fn overwrite(file: &FileRef, place: Range<usize>, bytes: &[u8]) {
    let mut file = lock(file);
    for (at, byte) in place.zip(bytes) {
        file.damage(at, |_| *byte);
    }
}
