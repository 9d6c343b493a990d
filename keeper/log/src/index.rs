//! Where each entry is: in memory, in a segment, or both. Shared by callers, writer and reader behind one lock,
//! which is never held across an await. Must never let go of an entry's bytes before they are on the disk.

use crate::format::{RECORD_HEADER_BYTES, Seed, record_bytes};
use crate::limits::CACHE_ENTRY_OVERHEAD_BYTES;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Place of an entry's record. 16 bytes, since there is one for each entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Sequence of the segment.
    pub segment: u32,
    /// Offset of the record in the segment; 0, where the segment's header is, means not yet written.
    pub offset: u32,
    pub head_len: u32,
    pub payload_len: u32,
}

impl Slot {
    pub fn is_written(&self) -> bool {
        self.offset != 0
    }

    pub fn data_bytes(&self) -> usize {
        self.head_len as usize + self.payload_len as usize
    }

    /// Bytes of the record without its padding.
    pub fn record_len(&self) -> usize {
        RECORD_HEADER_BYTES + self.data_bytes()
    }

    fn live_bytes(&self) -> u64 {
        record_bytes(self.head_len as usize, self.payload_len as usize) as u64
    }
}

struct Cached {
    /// Tells an entry from another one that had the same index before a truncation.
    serial: u64,
    head: Bytes,
    payload: Bytes,
}

impl Cached {
    fn bytes(&self) -> usize {
        self.head.len() + self.payload.len() + CACHE_ENTRY_OVERHEAD_BYTES
    }
}

/// An entry that has just been written: index, serial and place.
#[derive(Clone, Copy)]
pub struct Written {
    pub index: u64,
    pub serial: u64,
    pub slot: Slot,
}

/// What a read needs: places to look up first, then entries that were in memory. Without a gap.
pub struct ReadPlan {
    pub places: Vec<(u64, Slot, Option<Seed>)>,
    pub cached: Vec<(u64, Bytes, Bytes)>,
}

#[derive(Default)]
pub struct Index {
    /// Index of the first slot; `first + slots.len()` is the next index.
    first: u64,
    /// Whether any index has been fixed: a new log begins wherever its first entry says.
    is_placed: bool,
    slots: VecDeque<Slot>,
    /// The newest entries, up to the last one.
    /// Invariant: covers every slot that is not written; `cache.len() <= slots.len()`.
    cache: VecDeque<Cached>,
    cached_bytes: usize,
    cache_bytes_max: usize,
    live_bytes: u64,
    next_serial: u64,
    purged: Option<u64>,
    /// Invariant: at most the last index.
    durable: Option<u64>,
    /// Seeds of the segments that may be read.
    segments: BTreeMap<u32, (Seed, u64)>,
}

impl Index {
    pub fn recovered(
        first: Option<u64>,
        slots: VecDeque<Slot>,
        purged: Option<u64>,
        segments: BTreeMap<u32, (Seed, u64)>,
        cache_bytes_max: usize,
    ) -> Index {
        let live_bytes = slots.iter().map(Slot::live_bytes).sum();
        let durable = first.and_then(|first| (first + slots.len() as u64).checked_sub(1));
        Index {
            first: first.unwrap_or(0),
            is_placed: first.is_some(),
            durable: durable.filter(|_| !slots.is_empty()),
            slots,
            cache_bytes_max,
            live_bytes,
            purged,
            segments,
            ..Index::default()
        }
    }

    pub fn first(&self) -> Option<u64> {
        (!self.slots.is_empty()).then_some(self.first)
    }

    pub fn last(&self) -> Option<u64> {
        (!self.slots.is_empty()).then(|| self.next() - 1)
    }

    pub fn purged(&self) -> Option<u64> {
        self.purged
    }

    pub fn durable(&self) -> Option<u64> {
        self.durable
    }

    pub fn cached_bytes(&self) -> usize {
        self.cached_bytes
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Number and total bytes of the segments.
    pub fn segments(&self) -> (u64, u64) {
        (self.segments.len() as u64, self.segments.values().map(|(_, bytes)| bytes).sum())
    }

    fn next(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    fn slot(&self, index: u64) -> Option<&Slot> {
        let at = index.checked_sub(self.first)?;
        self.slots.get(usize::try_from(at).ok()?)
    }

    /// Adds an entry to the end and returns its serial.
    pub fn push(&mut self, index: u64, head: &Bytes, payload: &Bytes) -> u64 {
        if !self.is_placed {
            self.first = index;
            self.is_placed = true;
        }
        assert!(index == self.next(), "gap in the log: entry {index} after {:?}", self.next().checked_sub(1));
        let slot = Slot {
            segment: 0,
            offset: 0,
            head_len: u32::try_from(head.len()).expect("an entry is below ENTRY_BYTES_MAX"),
            payload_len: u32::try_from(payload.len()).expect("an entry is below ENTRY_BYTES_MAX"),
        };
        let serial = self.next_serial;
        self.next_serial += 1;
        let cached = Cached { serial, head: head.clone(), payload: payload.clone() };
        self.live_bytes += slot.live_bytes();
        self.cached_bytes += cached.bytes();
        self.slots.push_back(slot);
        self.cache.push_back(cached);
        serial
    }

    pub fn truncate_after(&mut self, index: Option<u64>) {
        if let (Some(purged), Some(index)) = (self.purged, index) {
            assert!(purged <= index, "the log would be cut after {index}, but is purged up to {purged}");
        }
        let keep = match index {
            None => 0,
            Some(index) => (index + 1).saturating_sub(self.first).min(self.slots.len() as u64),
        };
        while keep < self.slots.len() as u64 {
            self.pop_back();
        }
        if self.slots.is_empty() && self.purged.is_none() && index.is_none() {
            self.is_placed = false;
        }
        self.durable = self.durable.min(self.last());
    }

    fn pop_back(&mut self) {
        if let Some(slot) = self.slots.pop_back() {
            self.live_bytes -= slot.live_bytes();
        }
        if let Some(cached) = self.cache.pop_back() {
            self.cached_bytes -= cached.bytes();
        }
    }

    fn pop_front(&mut self) {
        if self.cache.len() == self.slots.len() {
            self.evict_one();
        }
        if let Some(slot) = self.slots.pop_front() {
            self.live_bytes -= slot.live_bytes();
            self.first += 1;
        }
    }

    fn evict_one(&mut self) {
        if let Some(cached) = self.cache.pop_front() {
            self.cached_bytes -= cached.bytes();
        }
    }

    /// Forgets entries up to `index`; nothing if that is purged already.
    pub fn purge_upto(&mut self, index: u64) {
        if self.purged.is_some_and(|purged| index <= purged) {
            return;
        }
        while !self.slots.is_empty() && self.first <= index {
            self.pop_front();
        }
        if self.slots.is_empty() && (!self.is_placed || self.first <= index) {
            self.first = index + 1;
        }
        assert!(
            self.first == index + 1 || self.slots.is_empty(),
            "purge up to {index} leaves a gap before {}",
            self.first
        );
        self.is_placed = true;
        self.purged = Some(index);
        if self.slots.is_empty() {
            self.durable = None;
        }
    }

    pub fn add_segment(&mut self, sequence: u32, seed: Seed, bytes: u64) {
        self.segments.insert(sequence, (seed, bytes));
    }

    pub fn remove_segment(&mut self, sequence: u32) {
        self.segments.remove(&sequence);
    }

    /// Notes the places of entries that are durable now, except those truncated or purged since they were queued.
    pub fn written(&mut self, entries: &[Written]) {
        for entry in entries {
            let Some(from_back) = self.next().checked_sub(entry.index + 1) else { continue };
            let Some(at) = self.cache.len().checked_sub(from_back as usize + 1) else { continue };
            if self.cache[at].serial != entry.serial {
                continue;
            }
            let slot_at = self.slots.len() - 1 - from_back as usize;
            self.slots[slot_at] = entry.slot;
            self.durable = Some(entry.index);
        }
        self.evict();
    }

    /// Drops the oldest entries from memory while there are too many bytes, if they are written.
    fn evict(&mut self) {
        while self.cached_bytes > self.cache_bytes_max {
            let oldest = self.slots.len() - self.cache.len();
            if !self.slots.get(oldest).is_some_and(Slot::is_written) {
                return;
            }
            self.evict_one();
        }
    }

    pub fn plan(&self, range: Range<u64>, bytes_max: usize) -> ReadPlan {
        let mut plan = ReadPlan { places: Vec::new(), cached: Vec::new() };
        let mut bytes = 0;
        let cache_first = self.next() - self.cache.len() as u64;
        for index in range.start.max(self.first)..range.end.min(self.next()) {
            if index < cache_first {
                let slot = self.slots[(index - self.first) as usize];
                bytes += slot.data_bytes();
                let seed = self.segments.get(&slot.segment).map(|(seed, _)| *seed);
                plan.places.push((index, slot, seed));
            } else {
                let cached = &self.cache[(index - cache_first) as usize];
                bytes += cached.head.len() + cached.payload.len();
                plan.cached.push((index, cached.head.clone(), cached.payload.clone()));
            }
            if bytes >= bytes_max {
                break;
            }
        }
        plan
    }

    /// Whether all of these places still are where those entries live.
    pub fn still_there(&self, places: &[(u64, Slot, Option<Seed>)]) -> bool {
        places.iter().all(|(index, slot, _)| self.slot(*index) == Some(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(offset: u32) -> Slot {
        Slot { segment: 1, offset, head_len: 1, payload_len: 1 }
    }

    fn index_with(indexes: Range<u64>, cache_bytes_max: usize) -> (Index, Vec<Written>) {
        let mut index = Index { cache_bytes_max, ..Index::default() };
        let written = indexes
            .map(|at| {
                let serial = index.push(at, &"h".into(), &"p".into());
                Written { index: at, serial, slot: slot(4096 + at as u32) }
            })
            .collect();
        (index, written)
    }

    #[test]
    fn an_unwritten_entry_is_never_dropped_from_memory() {
        let (mut index, written) = index_with(1..5, 0);
        assert_eq!(index.plan(0..9, usize::MAX).cached.len(), 4);
        index.written(&written[..2]);
        let plan = index.plan(0..9, usize::MAX);
        assert_eq!((plan.places.len(), plan.cached.len()), (2, 2));
        assert_eq!(index.durable(), Some(2));
    }

    #[test]
    fn an_entry_truncated_before_it_was_written_gets_no_place() {
        let (mut index, written) = index_with(1..5, 0);
        index.truncate_after(Some(2));
        index.push(3, &"new".into(), &"p".into());
        index.written(&written);
        let plan = index.plan(3..4, usize::MAX);
        assert!(plan.places.is_empty());
        assert_eq!(plan.cached, vec![(3, "new".into(), "p".into())]);
        assert_eq!(index.durable(), Some(2));
    }

    #[test]
    fn a_read_stops_after_its_bytes_but_returns_one() {
        let (index, _) = index_with(1..9, usize::MAX);
        assert_eq!(index.plan(2..9, 1).cached.len(), 1);
        assert_eq!(index.plan(2..9, 4).cached.len(), 2);
        assert_eq!(index.plan(0..1, 4).cached.len(), 0);
    }

    #[test]
    fn a_purge_beyond_the_end_moves_the_next_index() {
        let (mut index, written) = index_with(1..5, usize::MAX);
        index.purge_upto(10);
        index.written(&written);
        assert_eq!(
            (index.first(), index.last(), index.purged(), index.durable()),
            (None, None, Some(10), None)
        );
        assert_eq!((index.cached_bytes(), index.live_bytes()), (0, 0));
        index.push(11, &"h".into(), &"p".into());
        assert_eq!(index.first(), Some(11));
    }

    #[test]
    #[should_panic(expected = "gap in the log")]
    fn a_gap_is_a_bug() {
        let (mut index, _) = index_with(1..5, 0);
        index.push(6, &Bytes::new(), &Bytes::new());
    }
}
