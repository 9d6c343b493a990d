//! Cuts the stream of bytes of one connection into frames: int32 length, payload.
//!
//! A length is judged before anything is set aside for it. The buffer only ever grows by bytes that came.

use crate::dialect::version;
use crate::limits::{FRAME_BYTES_CEILING, HANDSHAKE_BYTES_MAX, HANDSHAKE_BYTES_MIN};
use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

pub(crate) const LENGTH_BYTES: usize = 4;

/// The stream cannot be cut further: the connection has to be closed, without an answer as in ZooKeeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("frame length {length} is negative")]
    Negative { length: i32 },
    #[error("frame of {length} bytes, but at most {limit} are allowed")]
    TooLong { length: usize, limit: usize },
    #[error("first bytes {bytes:02x?} are neither a handshake nor a four-letter word")]
    NeitherHandshakeNorWord { bytes: [u8; 4] },
}

/// What a connection opens with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// Four lowercase letters; whether the word is known is for the server to say.
    FourLetterWord([u8; 4]),
    /// The payload of a connect request.
    Handshake(Bytes),
}

#[derive(Clone, Copy, Debug)]
pub struct FrameDecoder {
    /// Invariant: at most `FRAME_BYTES_CEILING`.
    bytes_max: usize,
}

impl FrameDecoder {
    /// A limit above [`FRAME_BYTES_CEILING`] counts as that.
    pub fn new(bytes_max: usize) -> FrameDecoder {
        FrameDecoder { bytes_max: bytes_max.min(FRAME_BYTES_CEILING) }
    }

    /// Takes the opening of a connection out of `buffer`, once all of it is there. ZooKeeper looks the first
    /// four bytes up among its words and reads them as a length otherwise: 44 or 45 from real clients.
    pub fn first(&self, buffer: &mut BytesMut) -> Result<Option<First>, FrameError> {
        let Some(bytes) = buffer.first_chunk::<LENGTH_BYTES>().copied() else {
            return Ok(None);
        };
        if bytes.iter().all(u8::is_ascii_lowercase) {
            buffer.advance(LENGTH_BYTES);
            return Ok(Some(First::FourLetterWord(bytes)));
        }
        let length = usize::try_from(i32::from_be_bytes(bytes)).ok();
        let Some(length) = length.filter(|l| (HANDSHAKE_BYTES_MIN..=HANDSHAKE_BYTES_MAX).contains(l)) else {
            return Err(FrameError::NeitherHandshakeNorWord { bytes });
        };
        // Not counted in the length (ClickHouse).
        let Some(version) = buffer.get(LENGTH_BYTES..).and_then(|bytes| bytes.first_chunk::<4>()) else {
            return Ok(None);
        };
        let uncounted = version::uncounted_bytes(i32::from_be_bytes(*version));
        Ok(take(buffer, length + uncounted).map(|payload| First::Handshake(payload.freeze())))
    }

    /// Takes the next frame's payload out of `buffer`, once all of it is there. Copies nothing.
    #[inline]
    pub fn next(&self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        Ok(self.cut(buffer)?.map(BytesMut::freeze))
    }

    /// The same, to be changed in place.
    #[inline]
    pub(crate) fn cut(&self, buffer: &mut BytesMut) -> Result<Option<BytesMut>, FrameError> {
        let Some(bytes) = buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = i32::from_be_bytes(*bytes);
        let length = usize::try_from(length).map_err(|_| FrameError::Negative { length })?;
        if length > self.bytes_max {
            return Err(FrameError::TooLong { length, limit: self.bytes_max });
        }
        Ok(take(buffer, length))
    }
}

#[inline]
fn take(buffer: &mut BytesMut, length: usize) -> Option<BytesMut> {
    if buffer.len() - LENGTH_BYTES < length {
        return None;
    }
    buffer.advance(LENGTH_BYTES);
    Some(buffer.split_to(length))
}

/// Writes one frame: the payload by `body`, its length in front. `None` when the payload has more bytes than a
/// length can say; nothing is written then.
#[inline]
pub(crate) fn write_frame(out: &mut BytesMut, body: impl FnOnce(&mut BytesMut)) -> Option<()> {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    body(out);
    match i32::try_from(out.len() - start - LENGTH_BYTES) {
        Ok(length) => {
            out[start..start + LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
            Some(())
        }
        Err(_) => {
            out.truncate(start);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FRAME_BYTES_MAX;

    fn decoder() -> FrameDecoder {
        FrameDecoder::new(FRAME_BYTES_MAX)
    }

    #[test]
    fn a_frame_of_the_limit_passes_and_one_byte_more_is_refused_by_its_length_alone() {
        let limit = FRAME_BYTES_MAX;
        let mut buffer = BytesMut::from(&(limit as i32).to_be_bytes()[..]);
        assert_eq!(decoder().next(&mut buffer), Ok(None));
        let mut buffer = BytesMut::from(&(limit as i32 + 1).to_be_bytes()[..]);
        assert_eq!(decoder().next(&mut buffer), Err(FrameError::TooLong { length: limit + 1, limit }));
    }

    #[test]
    fn a_negative_length_is_refused() {
        let mut buffer = BytesMut::from(&[0xff, 0xff, 0xff, 0xff][..]);
        assert_eq!(decoder().next(&mut buffer), Err(FrameError::Negative { length: -1 }));
    }

    #[test]
    fn a_limit_above_the_ceiling_counts_as_the_ceiling() {
        let mut buffer = BytesMut::from(&(FRAME_BYTES_CEILING as i32 + 1).to_be_bytes()[..]);
        assert!(FrameDecoder::new(usize::MAX).next(&mut buffer).is_err());
    }

    #[test]
    fn lowercase_letters_are_a_word_and_leave_what_follows() {
        let mut buffer = BytesMut::from(&b"ruok\n"[..]);
        assert_eq!(decoder().first(&mut buffer), Ok(Some(First::FourLetterWord(*b"ruok"))));
        assert_eq!(&buffer[..], b"\n");
    }

    #[test]
    fn lengths_44_and_45_are_a_handshake() {
        for length in [44usize, 45] {
            let mut buffer = BytesMut::from(&(length as i32).to_be_bytes()[..]);
            assert_eq!(decoder().first(&mut buffer), Ok(None));
            buffer.resize(4 + length, 7);
            let Ok(Some(First::Handshake(payload))) = decoder().first(&mut buffer) else {
                panic!("no handshake of {length} bytes");
            };
            assert_eq!(payload.len(), length);
        }
    }

    #[test]
    fn other_openings_are_refused_at_once() {
        for bytes in [*b"GET ", [0, 0, 0, 0], [0x16, 3, 1, 2], [0xff; 4], [0, 0, 4, 1]] {
            let mut buffer = BytesMut::from(&bytes[..]);
            assert_eq!(decoder().first(&mut buffer), Err(FrameError::NeitherHandshakeNorWord { bytes }));
        }
    }
}
