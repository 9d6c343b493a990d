//! Values in pages that never move, named by numbers of 32 bits. A number that was given back is the next one given
//! out.

use crate::limits::PAGE_NODES;

pub(crate) struct Slab<T> {
    pages: Vec<Vec<T>>,
    free: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { pages: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, value: T) -> u32 {
        if let Some(at) = self.free.pop() {
            *self.get_mut(at) = value;
            return at;
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE_NODES) {
            self.pages.push(Vec::with_capacity(PAGE_NODES));
        }
        let page_number = self.pages.len() - 1;
        let page = &mut self.pages[page_number];
        page.push(value);
        (page_number * PAGE_NODES + page.len() - 1) as u32
    }

    #[inline]
    pub fn get(&self, at: u32) -> &T {
        &self.pages[at as usize / PAGE_NODES][at as usize % PAGE_NODES]
    }

    #[inline]
    pub fn get_mut(&mut self, at: u32) -> &mut T {
        &mut self.pages[at as usize / PAGE_NODES][at as usize % PAGE_NODES]
    }

    pub fn remove(&mut self, at: u32) -> T {
        self.free.push(at);
        std::mem::take(self.get_mut(at))
    }

    /// Numbers in use.
    pub fn len(&self) -> usize {
        self.slots() - self.free.len()
    }

    /// Numbers ever given out.
    pub fn slots(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE_NODES + last.len())
    }

    /// Memory that was written to. The rest of the last page costs nothing yet.
    pub fn bytes(&self) -> usize {
        self.slots() * size_of::<T>()
            + self.pages.capacity() * size_of::<Vec<T>>()
            + self.free.capacity() * size_of::<u32>()
    }
}
