//! Names and data of nodes, each pair one blob that a number of 32 bits names.
//!
//! A blob of up to [`BLOB_SMALL_BYTES_MAX`] lies in a page of slots of one size, behind a head of two bytes: that is
//! less than a pointer and an allocator's own rounding would take, and its cost is known exactly. Larger ones are
//! allocations of their own. A blob is never changed: new data is a new blob.

use crate::limits::{BLOB_PAGE_BYTES, BLOB_PAGES_MAX, BLOB_SMALL_BYTES_MAX};
use crate::slab::Slab;

/// The highest bit tells a large blob, by its number among those, from a small one: page, then slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobRef(u32);

impl BlobRef {
    /// Never given out: nodes end before large blobs do.
    pub const NONE: BlobRef = BlobRef(u32::MAX);
}

const LARGE: u32 = 1 << 31;
const SLOT_BITS: u32 = 12;

/// Bytes of the slot that are not used, with [`NULL`] in the highest bit; then the length of the name.
const HEAD_BYTES: usize = 2;
const NULL: u8 = 0x80;

const SLOT_BYTES_MIN: usize = 16;
/// Slots grow in steps of so many bytes at first, later in steps of an eighth to a sixteenth of their size.
const STEP_BYTES_MIN: usize = 8;

/// No slot, or no place in a list.
const NONE: u32 = u32::MAX;

const _: () = assert!(BLOB_PAGE_BYTES / SLOT_BYTES_MIN <= 1 << SLOT_BITS);
const _: () = assert!(BLOB_PAGES_MAX <= (LARGE >> SLOT_BITS) as usize);
const _: () = assert!(slot_bytes(BLOB_SMALL_BYTES_MAX) == BLOB_SMALL_BYTES_MAX);
// What is unused must fit beside the mark of null.
const _: () = assert!(BLOB_SMALL_BYTES_MAX / 16 < NULL as usize);

/// The size of the slot for a blob of so many bytes, head included.
const fn slot_bytes(length: usize) -> usize {
    let step = if length <= STEP_BYTES_MIN * 16 { STEP_BYTES_MIN } else { length.next_power_of_two() / 16 };
    let rounded = length.next_multiple_of(step);
    if rounded < SLOT_BYTES_MIN { SLOT_BYTES_MIN } else { rounded }
}

#[derive(Default)]
pub(crate) struct Large {
    /// The name, then the data.
    bytes: Box<[u8]>,
    name_length: u32,
    is_null: bool,
}

struct Page {
    /// As long as the slots that were ever used; a free slot begins with the number of the next free one.
    bytes: Vec<u8>,
    slot_bytes: usize,
    used: u32,
    first_free: u32,
    /// Place in the list of pages with room for its size of slots; [`NONE`] while it is full.
    open_at: u32,
}

impl Page {
    #[inline]
    fn slot(&self, slot: u32) -> &[u8] {
        let start = slot as usize * self.slot_bytes;
        &self.bytes[start..start + self.slot_bytes]
    }

    #[inline]
    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        let start = slot as usize * self.slot_bytes;
        &mut self.bytes[start..start + self.slot_bytes]
    }

    /// A slot for use, and by how much the page grew. The page has room.
    fn take(&mut self) -> (u32, usize) {
        self.used += 1;
        if self.first_free == NONE {
            let slot = self.bytes.len() / self.slot_bytes;
            self.bytes.resize(self.bytes.len() + self.slot_bytes, 0);
            return (slot as u32, self.slot_bytes);
        }
        let slot = self.first_free;
        self.first_free = match self.slot(slot) {
            [a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]),
            _ => NONE,
        };
        (slot, 0)
    }

    fn give_back(&mut self, slot: u32) {
        let next = self.first_free.to_le_bytes();
        self.slot_mut(slot)[..next.len()].copy_from_slice(&next);
        self.first_free = slot;
        self.used -= 1;
    }

    fn is_full(&self) -> bool {
        self.first_free == NONE && self.bytes.len() + self.slot_bytes > BLOB_PAGE_BYTES
    }
}

pub(crate) struct Blobs {
    pages: Vec<Page>,
    /// Pages without memory, for any size.
    empty: Vec<u32>,
    /// Pages with room, by the size of their slots in steps of [`STEP_BYTES_MIN`].
    open: Vec<Vec<u32>>,
    /// Bytes of pages that were written to.
    page_bytes: usize,
    large: Slab<Large>,
    large_bytes: usize,
}

/// One node's name and data.
#[derive(Clone, Copy)]
pub(crate) enum Blob<'a> {
    Small(&'a [u8]),
    Large(&'a Large),
}

impl<'a> Blob<'a> {
    #[inline]
    pub fn name(self) -> &'a [u8] {
        match self {
            Blob::Small(slot) => &slot[HEAD_BYTES..HEAD_BYTES + usize::from(slot[1])],
            Blob::Large(large) => &large.bytes[..large.name_length as usize],
        }
    }

    #[inline]
    pub fn data(self) -> Option<&'a [u8]> {
        match self {
            Blob::Small([head, ..]) if head & NULL != 0 => None,
            Blob::Small(slot) => {
                Some(&slot[HEAD_BYTES + usize::from(slot[1])..slot.len() - usize::from(slot[0])])
            }
            Blob::Large(large) if large.is_null => None,
            Blob::Large(large) => Some(&large.bytes[large.name_length as usize..]),
        }
    }
}

impl Blobs {
    pub fn new() -> Blobs {
        let open = vec![Vec::new(); BLOB_SMALL_BYTES_MAX / STEP_BYTES_MIN + 1];
        Blobs {
            pages: Vec::new(),
            empty: Vec::new(),
            open,
            page_bytes: 0,
            large: Slab::new(),
            large_bytes: 0,
        }
    }

    #[inline]
    pub fn get(&self, at: BlobRef) -> Blob<'_> {
        if at.0 & LARGE != 0 {
            return Blob::Large(self.large.get(at.0 & !LARGE));
        }
        let (page, slot) = place(at);
        Blob::Small(self.pages[page].slot(slot))
    }

    #[inline]
    pub fn insert(&mut self, name: &[u8], data: Option<&[u8]>) -> BlobRef {
        let (content, is_null) = (data.unwrap_or_default(), data.is_none());
        let length = HEAD_BYTES + name.len() + content.len();
        if let Ok(name_length) = u8::try_from(name.len())
            && length <= BLOB_SMALL_BYTES_MAX
            && let Some(at) = self.take_slot(slot_bytes(length))
        {
            let (page, slot) = place(at);
            let slot = self.pages[page].slot_mut(slot);
            slot[0] = (slot.len() - length) as u8 | if is_null { NULL } else { 0 };
            slot[1] = name_length;
            slot[HEAD_BYTES..HEAD_BYTES + name.len()].copy_from_slice(name);
            slot[HEAD_BYTES + name.len()..length].copy_from_slice(content);
            return at;
        }
        let bytes = [name, content].concat().into_boxed_slice();
        self.large_bytes += bytes.len() + ALLOCATION_BYTES;
        BlobRef(LARGE | self.large.insert(Large { bytes, name_length: name.len() as u32, is_null }))
    }

    #[inline]
    pub fn remove(&mut self, at: BlobRef) {
        if at.0 & LARGE != 0 {
            let large = self.large.remove(at.0 & !LARGE);
            self.large_bytes -= large.bytes.len() + ALLOCATION_BYTES;
            return;
        }
        let (page_number, slot) = place(at);
        let page = &mut self.pages[page_number];
        page.give_back(slot);
        let open = &mut self.open[page.slot_bytes / STEP_BYTES_MIN];
        if page.open_at == NONE {
            page.open_at = open.len() as u32;
            open.push(page_number as u32);
        }
        // One page of a size stays, so that one blob that comes and goes does not allocate a page each time.
        if page.used == 0 && open.len() > 1 {
            self.empty_page(page_number);
        }
    }

    /// Memory in use, what no blob lies in any more included.
    pub fn bytes(&self) -> usize {
        self.page_bytes
            + self.pages.capacity() * size_of::<Page>()
            + self.large.bytes()
            + self.large_bytes
            + self.open.capacity() * size_of::<Vec<u32>>()
    }

    /// `None` when there are as many pages as can be named: the blob is a large one then.
    #[inline]
    fn take_slot(&mut self, slot_bytes: usize) -> Option<BlobRef> {
        let size = slot_bytes / STEP_BYTES_MIN;
        let page_number = match self.open[size].last() {
            Some(page_number) => *page_number,
            None => self.open_page(slot_bytes)?,
        };
        let page = &mut self.pages[page_number as usize];
        let (slot, grown) = page.take();
        self.page_bytes += grown;
        if page.is_full() {
            page.open_at = NONE;
            self.open[size].pop();
        }
        Some(BlobRef(page_number << SLOT_BITS | slot))
    }

    fn open_page(&mut self, slot_bytes: usize) -> Option<u32> {
        let open = &mut self.open[slot_bytes / STEP_BYTES_MIN];
        let bytes = Vec::with_capacity(BLOB_PAGE_BYTES);
        let page = Page { bytes, slot_bytes, used: 0, first_free: NONE, open_at: open.len() as u32 };
        let page_number = match self.empty.pop() {
            Some(page_number) => {
                self.pages[page_number as usize] = page;
                page_number
            }
            None if self.pages.len() < BLOB_PAGES_MAX => {
                self.pages.push(page);
                (self.pages.len() - 1) as u32
            }
            None => return None,
        };
        open.push(page_number);
        Some(page_number)
    }

    /// Gives the memory of a page without blobs back.
    fn empty_page(&mut self, page_number: usize) {
        let page = &mut self.pages[page_number];
        let bytes = std::mem::take(&mut page.bytes);
        self.page_bytes -= bytes.len();
        let (open_at, size) = (page.open_at as usize, page.slot_bytes / STEP_BYTES_MIN);
        (page.first_free, page.open_at) = (NONE, NONE);
        self.open[size].swap_remove(open_at);
        if let Some(moved) = self.open[size].get(open_at) {
            self.pages[*moved as usize].open_at = open_at as u32;
        }
        self.empty.push(page_number as u32);
    }
}

/// What an allocator adds to each allocation, in the mean.
const ALLOCATION_BYTES: usize = 16;

#[inline]
fn place(at: BlobRef) -> (usize, u32) {
    ((at.0 >> SLOT_BITS) as usize, at.0 & ((1 << SLOT_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Sizes on both sides of every border: no data, small slots, the largest slot, the largest short name.
    fn length() -> impl Strategy<Value = usize> {
        prop_oneof![4 => 0..40usize, 2 => 100..300usize, 1 => 1000..1100usize, 1 => Just(70_000)]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn blobs_hold_what_was_put_into_them(
            steps in proptest::collection::vec((any::<u16>(), length(), proptest::option::of(length())), 1..400),
        ) {
            let mut blobs = Blobs::new();
            let mut model = BTreeMap::new();
            for (number, (key, name, data)) in steps.into_iter().enumerate() {
                let name: Vec<u8> = (0..name).map(|at| (at + number) as u8).collect();
                let data: Option<Vec<u8>> = data.map(|data| (0..data).map(|at| (at * 3 + number) as u8).collect());
                let at = blobs.insert(&name, data.as_deref());
                let old = model.insert(key % 50, (at, name, data));
                if let Some((old, _, _)) = old {
                    blobs.remove(old);
                }
                for (at, name, data) in model.values() {
                    let blob = blobs.get(*at);
                    prop_assert_eq!((blob.name(), blob.data()), (&name[..], data.as_deref()));
                }
            }
        }
    }

    #[test]
    fn pages_are_given_back_when_their_blobs_are_gone() {
        let mut blobs = Blobs::new();
        let fixed = blobs.bytes();
        let fill = |blobs: &mut Blobs, data: &[u8]| -> Vec<BlobRef> {
            (0..50_000).map(|number: u32| blobs.insert(&number.to_le_bytes(), Some(data))).collect()
        };
        let first = fill(&mut blobs, &[1; 50]);
        let full = blobs.page_bytes;
        assert_eq!(full, 50_000 * 56);
        first.iter().for_each(|at| blobs.remove(*at));
        assert!(blobs.page_bytes <= BLOB_PAGE_BYTES, "{} of {full} left", blobs.page_bytes);
        // Of another size, in the pages of the first.
        let pages = blobs.pages.len();
        let second = fill(&mut blobs, &[2; 40]);
        assert!(blobs.pages.len() <= pages);
        assert!(second.iter().all(|at| blobs.get(*at).data() == Some(&[2; 40][..])));
        second.iter().rev().for_each(|at| blobs.remove(*at));
        assert!(blobs.bytes() < fixed + full / 10);
    }

    #[test]
    fn slots_waste_little() {
        for length in 2..=BLOB_SMALL_BYTES_MAX {
            let slot = slot_bytes(length);
            assert!(slot >= length && slot - length <= (length / 8).max(14), "{length} in {slot}");
            assert_eq!(slot % STEP_BYTES_MIN, 0);
        }
    }
}
