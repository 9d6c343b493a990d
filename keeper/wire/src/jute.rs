//! Records of ZooKeeper's serialisation: big-endian integers, strings and buffers with an int32 length (-1 is
//! null), vectors with an int32 count, Stat and ACLs.
//!
//! The reader borrows: it hands out slices of the frame. It never allocates by a number from outside.

use crate::limits::{ACL_BYTES_MIN, FRAME_BYTES_CEILING, STAT_BYTES, STRING_BYTES_MIN};
use crate::malformed::{Malformed, Problem};
use bytes::{BufMut, BytesMut};
use keeper_types::{Acl, AclId, Perms, Stat};

pub(crate) type Decoded<T> = Result<T, Malformed>;

/// Reads the fields of a record one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    #[inline]
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Decoded<[u8; N]> {
        let Some((bytes, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(Malformed::new(field, Problem::Truncated { missing: N - self.rest.len() }));
        };
        self.rest = rest;
        Ok(*bytes)
    }

    #[inline]
    pub fn i32(&mut self, field: &'static str) -> Decoded<i32> {
        self.array(field).map(i32::from_be_bytes)
    }

    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Decoded<u32> {
        self.array(field).map(u32::from_be_bytes)
    }

    #[inline]
    pub fn i64(&mut self, field: &'static str) -> Decoded<i64> {
        self.array(field).map(i64::from_be_bytes)
    }

    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Decoded<u8> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// Any byte but 0 is true, as for Java's `readBoolean`.
    #[inline]
    pub fn bool(&mut self, field: &'static str) -> Decoded<bool> {
        self.u8(field).map(|byte| byte != 0)
    }

    #[inline]
    pub fn buffer(&mut self, field: &'static str) -> Decoded<Option<&'a [u8]>> {
        self.buffer_within(field, FRAME_BYTES_CEILING)
    }

    /// A buffer of at most `limit` bytes; `None` is null.
    #[inline]
    pub fn buffer_within(&mut self, field: &'static str, limit: usize) -> Decoded<Option<&'a [u8]>> {
        let length = self.i32(field)?;
        if length == -1 {
            return Ok(None);
        }
        let length =
            usize::try_from(length).map_err(|_| Malformed::new(field, Problem::NegativeLength { length }))?;
        if length > limit {
            return Err(Malformed::new(field, Problem::TooLong { length, limit }));
        }
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return Err(Malformed::new(field, Problem::Truncated { missing: length - self.rest.len() }));
        };
        self.rest = rest;
        Ok(Some(bytes))
    }

    #[inline]
    pub fn string_or_null(&mut self, field: &'static str) -> Decoded<Option<&'a str>> {
        let Some(bytes) = self.buffer(field)? else {
            return Ok(None);
        };
        std::str::from_utf8(bytes).map(Some).map_err(|_| Malformed::new(field, Problem::NotUtf8))
    }

    /// A null string reads as the empty one: ZooKeeper refuses both as paths with the same answer.
    #[inline]
    pub fn string(&mut self, field: &'static str) -> Decoded<&'a str> {
        self.string_or_null(field).map(Option::unwrap_or_default)
    }

    /// The count of a vector whose elements take at least `element_bytes_min` each. Null reads as empty.
    pub fn count(&mut self, field: &'static str, element_bytes_min: usize) -> Decoded<usize> {
        let count = self.i32(field)?;
        if count == -1 {
            return Ok(0);
        }
        let count = usize::try_from(count)
            .map_err(|_| Malformed::new(field, Problem::NegativeLength { length: count }))?;
        if count > self.rest.len() / element_bytes_min {
            return Err(Malformed::new(field, Problem::TooMany { count, remaining: self.rest.len() }));
        }
        Ok(count)
    }

    pub fn vector<T>(
        &mut self,
        field: &'static str,
        element_bytes_min: usize,
        mut element: impl FnMut(&mut Reader<'a>) -> Decoded<T>,
    ) -> Decoded<Vec<T>> {
        let count = self.count(field, element_bytes_min)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(elements)
    }

    pub fn strings(&mut self, field: &'static str) -> Decoded<Vec<&'a str>> {
        self.vector(field, STRING_BYTES_MIN, |reader| reader.string(field))
    }

    pub fn owned_strings(&mut self, field: &'static str) -> Decoded<Vec<String>> {
        self.vector(field, STRING_BYTES_MIN, |reader| reader.string(field).map(str::to_owned))
    }

    pub fn acl_id(&mut self) -> Decoded<AclId> {
        Ok(AclId { scheme: self.string("acl scheme")?.to_owned(), id: self.string("acl id")?.to_owned() })
    }

    pub fn acls(&mut self) -> Decoded<Vec<Acl>> {
        self.vector("acl", ACL_BYTES_MIN, |reader| {
            Ok(Acl { perms: Perms(reader.i32("acl perms")?), id: reader.acl_id()? })
        })
    }

    pub fn stat(&mut self) -> Decoded<Stat> {
        Ok(Stat {
            czxid: self.i64("czxid")?,
            mzxid: self.i64("mzxid")?,
            ctime: self.i64("ctime")?,
            mtime: self.i64("mtime")?,
            version: self.i32("version")?,
            cversion: self.i32("cversion")?,
            aversion: self.i32("aversion")?,
            ephemeral_owner: self.i64("ephemeralOwner")?,
            data_length: self.i32("dataLength")?,
            num_children: self.i32("numChildren")?,
            pzxid: self.i64("pzxid")?,
        })
    }

    /// Checks that the record ends where its bytes do.
    #[inline]
    pub fn end(self, record: &'static str) -> Decoded<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Malformed::new(record, Problem::TrailingBytes { count: self.rest.len() }))
    }
}

/// A length that no int32 can say is written as the largest: the frame around it is dropped by `write_frame`.
#[inline]
fn put_length(out: &mut BytesMut, length: usize) {
    out.put_i32(i32::try_from(length).unwrap_or(i32::MAX));
}

#[inline]
pub(crate) fn put_buffer(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        None => out.put_i32(-1),
        Some(bytes) => {
            put_length(out, bytes.len());
            out.put_slice(bytes);
        }
    }
}

#[inline]
pub(crate) fn put_string(out: &mut BytesMut, text: &str) {
    put_buffer(out, Some(text.as_bytes()));
}

#[inline]
pub(crate) fn put_bool(out: &mut BytesMut, value: bool) {
    out.put_u8(u8::from(value));
}

pub(crate) fn put_strings<'s>(out: &mut BytesMut, strings: impl ExactSizeIterator<Item = &'s str>) {
    put_length(out, strings.len());
    for text in strings {
        put_string(out, text);
    }
}

pub(crate) fn put_vector<T>(out: &mut BytesMut, elements: &[T], mut put: impl FnMut(&mut BytesMut, &T)) {
    put_length(out, elements.len());
    for element in elements {
        put(out, element);
    }
}

pub(crate) fn put_acl_id(out: &mut BytesMut, id: &AclId) {
    put_string(out, &id.scheme);
    put_string(out, &id.id);
}

pub(crate) fn put_acls(out: &mut BytesMut, acls: &[Acl]) {
    put_vector(out, acls, |out, acl| {
        out.put_i32(acl.perms.0);
        put_acl_id(out, &acl.id);
    });
}

/// Written field by field into a fixed array first: one bounds check instead of eleven.
#[inline]
pub(crate) fn put_stat(out: &mut BytesMut, stat: &Stat) {
    let mut bytes = [0; STAT_BYTES];
    let mut rest = &mut bytes[..];
    rest.put_i64(stat.czxid);
    rest.put_i64(stat.mzxid);
    rest.put_i64(stat.ctime);
    rest.put_i64(stat.mtime);
    rest.put_i32(stat.version);
    rest.put_i32(stat.cversion);
    rest.put_i32(stat.aversion);
    rest.put_i64(stat.ephemeral_owner);
    rest.put_i32(stat.data_length);
    rest.put_i32(stat.num_children);
    rest.put_i64(stat.pzxid);
    out.put_slice(&bytes);
}
