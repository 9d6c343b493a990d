//! Bytes of a snapshot on their way out: gathered, hashed, handed on in chunks.

use xxhash_rust::xxh3::Xxh3;

use crate::limits::SNAPSHOT_CHUNK_BYTES_MAX;

#[derive(Default)]
pub(super) struct Output {
    buffer: Vec<u8>,
    /// Of the buffer: handed out already.
    taken: usize,
    /// Of the buffer: in `hash` already.
    hashed: usize,
    /// Of everything that was ever in the buffer, up to `hashed`.
    hash: Xxh3,
    /// The checksum stands at the end.
    sealed: bool,
}

impl Output {
    /// Bytes waiting to be taken.
    pub fn len(&self) -> usize {
        self.buffer.len() - self.taken
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &[u8]) {
        self.u32(text.len() as u32);
        self.bytes(text);
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    /// A full chunk; when no more bytes will come, what is left, the checksum at its end.
    pub fn take_chunk(&mut self, complete: bool) -> Option<Vec<u8>> {
        self.hash.update(&self.buffer[self.hashed..]);
        self.hashed = self.buffer.len();
        if complete && !self.sealed {
            self.sealed = true;
            self.u64(self.hash.digest());
            self.hashed = self.buffer.len();
        }
        let length = self.len().min(SNAPSHOT_CHUNK_BYTES_MAX);
        if length == 0 || length < SNAPSHOT_CHUNK_BYTES_MAX && !complete {
            return None;
        }
        let chunk = self.buffer[self.taken..self.taken + length].to_vec();
        self.taken += length;
        if self.len() < SNAPSHOT_CHUNK_BYTES_MAX {
            self.buffer.drain(..self.taken);
            // One that a large node has stretched is given back.
            self.buffer.shrink_to(4 * SNAPSHOT_CHUNK_BYTES_MAX);
            (self.taken, self.hashed) = (0, self.buffer.len());
        }
        Some(chunk)
    }
}
