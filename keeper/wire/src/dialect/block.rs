//! ClickHouse's compressed blocks: checksum (CityHash128 of version 1.0.2, 16 bytes), then method (1), size with these
//! nine bytes (4, little-endian), size when decompressed (4, little-endian), data (ClickHouse, `CompressedReadBuffer`).

use crate::limits::COMPRESSED_BLOCK_BYTES_MAX;
use bytes::{BufMut, BytesMut};
use thiserror::Error;

const CHECKSUM_BYTES: usize = 16;
const HEADER_BYTES: usize = 9;
const METHOD_NONE: u8 = 0x02;
const METHOD_LZ4: u8 = 0x82;
/// Bytes of ours in one block, as many as ClickHouse's buffers hold.
const OWN_BLOCK_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    #[error("block of {bytes} bytes, but {HEADER_BYTES} to {COMPRESSED_BLOCK_BYTES_MAX} are allowed")]
    Size { bytes: usize },
    #[error("block whose checksum is not that of its bytes")]
    Checksum,
    #[error("block compressed by method {method:#04x}; LZ4 (0x82) and none (0x02) are read")]
    Method { method: u8 },
    #[error("block that does not decompress to the {bytes} bytes it announces")]
    Data { bytes: usize },
}

/// As it stands in front of a block: the upper half first.
fn checksum(block: &[u8]) -> [u8; CHECKSUM_BYTES] {
    cityhash_rs::cityhash_102_128(block).rotate_right(64).to_le_bytes()
}

fn size_at(input: &[u8], at: usize) -> Option<usize> {
    let bytes = input.get(at..at + 4)?.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

/// Takes the first block off `input` and appends what it holds to `out`; `false` while not all of it is there. Sizes
/// are judged as soon as they can be read.
pub fn take(input: &mut BytesMut, out: &mut BytesMut) -> Result<bool, BlockError> {
    let Some(size) = size_at(input, CHECKSUM_BYTES + 1) else { return Ok(false) };
    if !(HEADER_BYTES..=COMPRESSED_BLOCK_BYTES_MAX).contains(&size) {
        return Err(BlockError::Size { bytes: size });
    }
    let Some(len) = size_at(input, CHECKSUM_BYTES + 5) else { return Ok(false) };
    if len > COMPRESSED_BLOCK_BYTES_MAX {
        return Err(BlockError::Size { bytes: len });
    }
    if input.len() < CHECKSUM_BYTES + size {
        return Ok(false);
    }
    let expected = input.split_to(CHECKSUM_BYTES);
    let block = input.split_to(size);
    if checksum(&block) != expected[..] {
        return Err(BlockError::Checksum);
    }
    let data = &block[HEADER_BYTES..];
    match block[0] {
        METHOD_NONE if data.len() == len => out.extend_from_slice(data),
        METHOD_LZ4 => {
            let start = out.len();
            out.resize(start + len, 0);
            if !matches!(lz4_flex::block::decompress_into(data, &mut out[start..]), Ok(done) if done == len) {
                return Err(BlockError::Data { bytes: len });
            }
        }
        METHOD_NONE => return Err(BlockError::Data { bytes: len }),
        method => return Err(BlockError::Method { method }),
    }
    Ok(true)
}

/// Appends `bytes` as blocks.
pub fn put(mut bytes: &[u8], out: &mut BytesMut) {
    while !bytes.is_empty() {
        let (now, later) = bytes.split_at(bytes.len().min(OWN_BLOCK_BYTES));
        seal(METHOD_LZ4, now.len(), &lz4_flex::block::compress(now), out);
        bytes = later;
    }
}

/// Appends a block of `data`, which is said to hold `len` bytes by that method.
pub fn seal(method: u8, len: usize, data: &[u8], out: &mut BytesMut) {
    let mut block = BytesMut::with_capacity(HEADER_BYTES + data.len());
    block.put_u8(method);
    block.put_u32_le((HEADER_BYTES + data.len()) as u32);
    block.put_u32_le(len as u32);
    block.put_slice(data);
    out.put_slice(&checksum(&block));
    out.put_slice(&block);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by ClickHouse: a block of its native format.
    const CLICKHOUSES: [u8; 50] = [
        245, 5, 222, 235, 225, 158, 59, 108, 225, 31, 65, 215, 66, 66, 36, 92, 130, 34, 0, 0, 0, 23, 0, 0, 0,
        240, 8, 1, 0, 2, 255, 255, 255, 255, 0, 1, 1, 1, 115, 6, 83, 116, 114, 105, 110, 103, 3, 97, 98, 99,
    ];

    fn read(bytes: &[u8]) -> Result<(bool, Vec<u8>), BlockError> {
        let (mut input, mut out) = (BytesMut::from(bytes), BytesMut::new());
        take(&mut input, &mut out).map(|whole| (whole, out.to_vec()))
    }

    #[test]
    fn clickhouses_own_block_is_read() {
        let held =
            [1, 0, 2, 255, 255, 255, 255, 0, 1, 1, 1, 115, 6, 83, 116, 114, 105, 110, 103, 3, 97, 98, 99];
        assert_eq!(read(&CLICKHOUSES), Ok((true, held.to_vec())));
        for end in 0..CLICKHOUSES.len() {
            assert_eq!(read(&CLICKHOUSES[..end]), Ok((false, Vec::new())), "{end} bytes");
        }
    }

    #[test]
    fn what_is_damaged_or_too_large_is_refused() {
        for at in (0..16).chain(25..50) {
            let mut bytes = CLICKHOUSES;
            bytes[at] ^= 1;
            assert_eq!(read(&bytes), Err(BlockError::Checksum), "byte {at}");
        }
        let with = |at: usize, size: u32| {
            let mut bytes = CLICKHOUSES.to_vec();
            bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
            read(&bytes)
        };
        assert_eq!(with(17, 8), Err(BlockError::Size { bytes: 8 }));
        assert_eq!(with(17, u32::MAX), Err(BlockError::Size { bytes: u32::MAX as usize }));
        assert_eq!(with(21, u32::MAX), Err(BlockError::Size { bytes: u32::MAX as usize }));
        let resealed = |at: usize, byte: u8| {
            let mut bytes = CLICKHOUSES;
            bytes[at] = byte;
            let sum = checksum(&bytes[16..]);
            bytes[..16].copy_from_slice(&sum);
            read(&bytes)
        };
        assert_eq!(resealed(16, 0x90), Err(BlockError::Method { method: 0x90 }));
        assert_eq!(resealed(16, METHOD_NONE), Err(BlockError::Data { bytes: 23 }));
        assert_eq!(resealed(21, 24), Err(BlockError::Data { bytes: 24 }));
        assert_eq!(resealed(21, 22), Err(BlockError::Data { bytes: 22 }));
    }

    #[test]
    fn ours_are_read_back_whatever_their_size() {
        for len in [1usize, 100, OWN_BLOCK_BYTES, OWN_BLOCK_BYTES + 1, 3 * OWN_BLOCK_BYTES] {
            let bytes: Vec<u8> = (0..len).map(|at| (at * at % 251) as u8).collect();
            let (mut blocks, mut back) = (BytesMut::new(), BytesMut::new());
            put(&bytes, &mut blocks);
            while take(&mut blocks, &mut back).unwrap() {}
            assert!(blocks.is_empty() && back == bytes, "{len} bytes");
        }
    }
}
