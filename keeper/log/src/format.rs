//! The bytes of `docs/formats/log.md`: headers, batches and records, both ways. Pure; never panics on bytes.

use crate::limits::{BLOCK_BYTES, ENTRY_BYTES_MAX};
use bytes::Bytes;

pub const SEGMENT_MAGIC: &[u8; 8] = b"KEEPRLOG";
pub const BATCH_MAGIC: &[u8; 4] = b"BTCH";
pub const VERSION: u32 = 1;
pub const BATCH_HEADER_BYTES: usize = 32;
pub const RECORD_HEADER_BYTES: usize = 24;
const SEGMENT_HEADER_BYTES: usize = 44;

/// Where every CRC of one segment continues from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u32);

impl Seed {
    fn crc(self, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0, bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    pub sequence: u64,
    pub salt: u64,
    pub file_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderError {
    Version(u32),
    Wrong(&'static str),
}

impl SegmentHeader {
    pub fn seed(&self) -> Seed {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..].copy_from_slice(&self.salt.to_le_bytes());
        Seed(crc32c::crc32c(&bytes))
    }

    /// The whole of block 0.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK_BYTES];
        block[..8].copy_from_slice(SEGMENT_MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        block[24..32].copy_from_slice(&self.salt.to_le_bytes());
        block[32..40].copy_from_slice(&self.file_bytes.to_le_bytes());
        let crc = crc32c::crc32c(&block[..40]);
        block[40..44].copy_from_slice(&crc.to_le_bytes());
        block
    }

    pub fn decode(block: &[u8]) -> Result<SegmentHeader, HeaderError> {
        if block.len() < SEGMENT_HEADER_BYTES {
            return Err(HeaderError::Wrong("the file is too short for a segment header"));
        }
        if &block[..8] != SEGMENT_MAGIC {
            return Err(HeaderError::Wrong("the segment header has no magic"));
        }
        let version = u32_at(block, 8);
        if version > VERSION {
            return Err(HeaderError::Version(version));
        }
        if u32_at(block, 40) != crc32c::crc32c(&block[..40]) {
            return Err(HeaderError::Wrong("the segment header has a wrong checksum"));
        }
        Ok(SegmentHeader {
            sequence: u64_at(block, 16),
            salt: u64_at(block, 24),
            file_bytes: u64_at(block, 32),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    pub number: u64,
    pub body_bytes: u32,
    pub records: u32,
    pub body_crc: u32,
}

impl BatchHeader {
    pub fn encode(&self, seed: Seed) -> [u8; BATCH_HEADER_BYTES] {
        let mut bytes = [0; BATCH_HEADER_BYTES];
        bytes[..4].copy_from_slice(BATCH_MAGIC);
        bytes[4..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.records.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.body_crc.to_le_bytes());
        let crc = seed.crc(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` where no header of this segment stands.
    pub fn decode(bytes: &[u8], seed: Seed) -> Option<BatchHeader> {
        if bytes.len() < BATCH_HEADER_BYTES || &bytes[..4] != BATCH_MAGIC {
            return None;
        }
        if u32_at(bytes, 28) != seed.crc(&bytes[..28]) {
            return None;
        }
        Some(BatchHeader {
            number: u64_at(bytes, 8),
            body_bytes: u32_at(bytes, 4),
            records: u32_at(bytes, 16),
            body_crc: u32_at(bytes, 20),
        })
    }

    /// Bytes on disk: header, body and padding.
    pub fn padded_bytes(&self) -> u64 {
        padded(BATCH_HEADER_BYTES + self.body_bytes as usize) as u64
    }

    pub fn body_is_right(&self, body: &[u8], seed: Seed) -> bool {
        let is_right = seed.crc(body) == self.body_crc || keeper_rt::planted!("log-checksum-unchecked");
        body.len() == self.body_bytes as usize && is_right
    }
}

/// Rounds up to whole blocks.
pub fn padded(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Start = 1,
    Vote = 2,
    Entry = 3,
    Truncate = 4,
    Purge = 5,
    Committed = 6,
}

impl Kind {
    fn decode(byte: u8) -> Option<Kind> {
        [Kind::Start, Kind::Vote, Kind::Entry, Kind::Truncate, Kind::Purge, Kind::Committed]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: Kind,
    pub index: Option<u64>,
    pub head: Bytes,
    pub payload: Bytes,
}

/// Bytes of a record with its padding.
pub fn record_bytes(head: usize, payload: usize) -> usize {
    (RECORD_HEADER_BYTES + head + payload).next_multiple_of(8)
}

impl Record {
    pub fn bytes(&self) -> usize {
        record_bytes(self.head.len(), self.payload.len())
    }

    pub fn encode(&self, seed: Seed, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&[self.kind as u8, u8::from(self.index.is_some()), 0, 0]);
        out.extend_from_slice(&self.index.unwrap_or(0).to_le_bytes());
        // Lengths are checked against ENTRY_BYTES_MAX before a record is queued.
        out.extend_from_slice(&(self.head.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.head);
        out.extend_from_slice(&self.payload);
        let crc = seed.crc(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
        out.resize(start + self.bytes(), 0);
    }

    /// The record at the start of `bytes`, which may go on behind it.
    pub fn decode(bytes: &Bytes, seed: Seed) -> Result<Record, &'static str> {
        if bytes.len() < RECORD_HEADER_BYTES {
            return Err("a record ends within its header");
        }
        let head_len = u32_at(bytes, 16) as usize;
        let payload_len = u32_at(bytes, 20) as usize;
        if head_len > ENTRY_BYTES_MAX || payload_len > ENTRY_BYTES_MAX {
            return Err("a record has an impossible length");
        }
        let payload_at = RECORD_HEADER_BYTES + head_len;
        let end = payload_at + payload_len;
        if bytes.len() < end {
            return Err("a record ends within its data");
        }
        let is_right = u32_at(bytes, 0) == seed.crc(&bytes[4..end]);
        if !is_right && !keeper_rt::planted!("log-checksum-unchecked") {
            return Err("a record has a wrong checksum");
        }
        let Some(kind) = Kind::decode(bytes[4]) else {
            return Err("a record has an unknown kind");
        };
        Ok(Record {
            kind,
            index: (bytes[5] == 1).then(|| u64_at(bytes, 8)),
            head: bytes.slice(RECORD_HEADER_BYTES..payload_at),
            payload: bytes.slice(payload_at..end),
        })
    }
}

/// Wraps a body, which begins at `BATCH_HEADER_BYTES` of `buffer`, into a whole batch.
pub fn finish_batch(buffer: &mut Vec<u8>, number: u64, records: u32, seed: Seed) {
    let body = &buffer[BATCH_HEADER_BYTES..];
    // A body is at most one record of ENTRY_BYTES_MAX beyond a batch, far below 4 GiB.
    let header = BatchHeader { number, body_bytes: body.len() as u32, records, body_crc: seed.crc(body) };
    let header = header.encode(seed);
    buffer[..BATCH_HEADER_BYTES].copy_from_slice(&header);
    buffer.resize(padded(buffer.len()), 0);
}

/// The records of a body whose checksum was right, each with its offset in the body.
pub fn decode_body(body: &Bytes, records: u32, seed: Seed) -> Result<Vec<(usize, Record)>, &'static str> {
    let mut decoded = Vec::new();
    let mut at = 0;
    for _ in 0..records {
        let record = Record::decode(&body.slice(at.min(body.len())..), seed)?;
        let bytes = record.bytes();
        decoded.push((at, record));
        at += bytes;
    }
    if at != body.len() {
        return Err("a batch has another number of records than its header says");
    }
    Ok(decoded)
}

pub fn segment_name(sequence: u64) -> String {
    format!("log-{sequence:016x}.seg")
}

pub fn spare_name(number: u64) -> String {
    format!("spare-{number:016x}.seg")
}

pub const TEMPORARY_SEGMENT: &str = "log-segment.tmp";

/// The number in a name with this prefix, if it is one of ours.
pub fn parse_name(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?.strip_suffix(".seg")?;
    let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if digits.len() != 16 || !digits.bytes().all(lower_hex) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader = SegmentHeader { sequence: 7, salt: 99, file_bytes: 1 << 20 };

    fn entry(index: u64, head: &'static str, payload: &'static str) -> Record {
        Record { kind: Kind::Entry, index: Some(index), head: head.into(), payload: payload.into() }
    }

    #[test]
    fn headers_come_back_as_they_were() {
        assert_eq!(SegmentHeader::decode(&HEADER.encode()), Ok(HEADER));
        let batch = BatchHeader { number: 5, body_bytes: 4090, records: 3, body_crc: 77 };
        assert_eq!(BatchHeader::decode(&batch.encode(HEADER.seed()), HEADER.seed()), Some(batch));
        assert_eq!(batch.padded_bytes(), 8192);
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let block = HEADER.encode();
        assert_eq!(block.len(), 4096);
        assert_eq!(&block[..12], b"KEEPRLOG\x01\0\0\0");
        assert_eq!(block[16..40], [7, 0, 0, 0, 0, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0]);
        let mut out = Vec::new();
        entry(258, "ab", "cde").encode(HEADER.seed(), &mut out);
        assert_eq!(out[4..], *b"\x03\x01\0\0\x02\x01\0\0\0\0\0\0\x02\0\0\0\x03\0\0\0abcde\0\0\0");
        assert_eq!(u32_at(&out, 0), HEADER.seed().crc(&out[4..29]));
    }

    #[test]
    fn another_segments_bytes_are_never_taken() {
        let other = SegmentHeader { salt: 100, ..HEADER }.seed();
        let batch = BatchHeader { number: 5, body_bytes: 40, records: 1, body_crc: 77 };
        assert_eq!(BatchHeader::decode(&batch.encode(HEADER.seed()), other), None);
        let mut out = Vec::new();
        entry(1, "h", "p").encode(HEADER.seed(), &mut out);
        assert_eq!(Record::decode(&out.into(), other), Err("a record has a wrong checksum"));
    }

    #[test]
    fn every_flipped_bit_of_a_record_is_found() {
        let record = entry(1 << 40, "head", "payload");
        let mut out = Vec::new();
        record.encode(HEADER.seed(), &mut out);
        assert_eq!(Record::decode(&out.clone().into(), HEADER.seed()), Ok(record));
        for bit in 0..(RECORD_HEADER_BYTES + 11) * 8 {
            let mut damaged = out.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(&damaged.into(), HEADER.seed()).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn names_are_recognized_exactly() {
        assert_eq!(parse_name(&segment_name(0xab), "log-"), Some(0xab));
        for name in
            ["log-ab.seg", "log-00000000000000AB.seg", "log-segment.tmp", "spare-00000000000000ab.seg"]
        {
            assert_eq!(parse_name(name, "log-"), None, "{name}");
        }
    }
}
