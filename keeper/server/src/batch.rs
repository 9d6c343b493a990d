//! The bytes of one log entry: a batch of commands of one origin (docs/formats/entry.md).
//! Written once by the origin; the log, the network and every member's apply use the same bytes.

use bytes::{BufMut, Bytes, BytesMut};
use keeper_tree::BatchId;
use keeper_types::{AclId, Generation, ServerId, SessionId};

const VERSION: u8 = 1;
/// version, time, origin, epoch, seq, count.
const HEADER_BYTES: usize = 1 + 8 + 8 + 8 + 8 + 4;
const TIME_AT: usize = 1;
const COUNT_AT: usize = HEADER_BYTES - 4;

/// What a command asks for, beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Body: int32 operation code and the client's own bytes.
    Request = 0,
    Sync = 1,
    /// Body: int32 timeout, 16 bytes password.
    CreateSession = 2,
    /// Body as `CreateSession`.
    AttachSession = 3,
    CloseSession = 4,
    ExpireSession = 5,
    /// As `Request`, from a member that enforces quotas: decided where it is asked, so that all members agree.
    QuotaRequest = 6,
    /// Body: the path of a container or TTL node whose time has come.
    CleanUp = 7,
    /// Every member takes its tree's digest here.
    DigestMark = 8,
    /// Body: index of a mark and the sender's digest there.
    DigestReport = 9,
}

impl Kind {
    fn from_u8(value: u8) -> Option<Kind> {
        use Kind::*;
        [
            Request,
            Sync,
            CreateSession,
            AttachSession,
            CloseSession,
            ExpireSession,
            QuotaRequest,
            CleanUp,
            DigestMark,
            DigestReport,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == value)
    }
}

/// Collects commands into the bytes of one batch.
pub struct BatchBuilder {
    bytes: BytesMut,
    count: u32,
}

impl BatchBuilder {
    pub fn new(id: BatchId, time_ms: i64) -> BatchBuilder {
        let mut bytes = BytesMut::with_capacity(1024);
        bytes.put_u8(VERSION);
        bytes.put_i64_le(time_ms);
        bytes.put_u64_le(id.origin.0);
        bytes.put_u64_le(id.epoch);
        bytes.put_u64_le(id.seq);
        bytes.put_u32_le(0);
        BatchBuilder { bytes, count: 0 }
    }

    pub fn push(
        &mut self,
        kind: Kind,
        session: SessionId,
        generation: Generation,
        identities: &[AclId],
        op: Option<i32>,
        body: &[u8],
    ) {
        let start = self.bytes.len();
        self.bytes.put_u32_le(0);
        self.bytes.put_u8(kind as u8);
        self.bytes.put_i64_le(session.0);
        self.bytes.put_u32_le(generation.0);
        self.bytes.put_u8(identities.len() as u8);
        for identity in identities {
            put_text(&mut self.bytes, &identity.scheme);
            put_text(&mut self.bytes, &identity.id);
        }
        if let Some(op) = op {
            self.bytes.put_i32(op);
        }
        self.bytes.put_slice(body);
        let len = (self.bytes.len() - start - 4) as u32;
        self.bytes[start..start + 4].copy_from_slice(&len.to_le_bytes());
        self.count += 1;
    }

    pub fn count(&self) -> usize {
        self.count as usize
    }

    pub fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    pub fn finish(mut self) -> Bytes {
        self.bytes[COUNT_AT..HEADER_BYTES].copy_from_slice(&self.count.to_le_bytes());
        self.bytes.freeze()
    }
}

fn put_text(bytes: &mut BytesMut, text: &str) {
    bytes.put_u16_le(text.len() as u16);
    bytes.put_slice(text.as_bytes());
}

/// A batch that does not decode: written by another version, or a bug. Never by a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("batch is not readable: {0}")]
pub struct BadBatch(pub &'static str);

/// The leader's clock goes into the entry, so that all members apply the same time.
pub fn stamp(batch: Bytes, time_ms: i64) -> Result<Bytes, BadBatch> {
    if batch.len() < HEADER_BYTES {
        return Err(BadBatch("shorter than its header"));
    }
    let mut batch = batch.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    batch[TIME_AT..TIME_AT + 8].copy_from_slice(&time_ms.to_le_bytes());
    Ok(batch.freeze())
}

/// A decoded header, and the way to the commands.
pub struct Batch<'a> {
    pub time_ms: i64,
    pub id: BatchId,
    pub count: u32,
    rest: &'a [u8],
}

pub struct BatchCommand<'a> {
    pub kind: Kind,
    pub session: SessionId,
    pub generation: Generation,
    pub identities: Vec<AclId>,
    pub body: &'a [u8],
}

impl<'a> Batch<'a> {
    pub fn decode(bytes: &'a [u8]) -> Result<Batch<'a>, BadBatch> {
        let mut reader = Reader(bytes);
        if reader.u8()? != VERSION {
            return Err(BadBatch("unknown version"));
        }
        let time_ms = reader.u64()? as i64;
        let id = BatchId { origin: ServerId(reader.u64()?), epoch: reader.u64()?, seq: reader.u64()? };
        let count = reader.u32()?;
        Ok(Batch { time_ms, id, count, rest: reader.0 })
    }

    /// The next command; `None` after the last.
    pub fn next_command(&mut self) -> Result<Option<BatchCommand<'a>>, BadBatch> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let mut outer = Reader(self.rest);
        let len = outer.u32()? as usize;
        let mut reader = Reader(outer.take(len)?);
        self.rest = outer.0;
        let kind = Kind::from_u8(reader.u8()?).ok_or(BadBatch("unknown kind of command"))?;
        let session = SessionId(reader.u64()? as i64);
        let generation = Generation(reader.u32()?);
        let identities = (0..reader.u8()?)
            .map(|_| Ok(AclId { scheme: reader.text()?, id: reader.text()? }))
            .collect::<Result<_, BadBatch>>()?;
        Ok(Some(BatchCommand { kind, session, generation, identities, body: reader.0 }))
    }
}

/// Body of `CreateSession` and `AttachSession`.
pub fn session_body(timeout_ms: i32, password: &[u8; 16]) -> [u8; 20] {
    let mut body = [0; 20];
    body[..4].copy_from_slice(&timeout_ms.to_le_bytes());
    body[4..].copy_from_slice(password);
    body
}

pub fn decode_session_body(body: &[u8]) -> Result<(i32, [u8; 16]), BadBatch> {
    let mut reader = Reader(body);
    let timeout_ms = reader.u32()? as i32;
    let password = reader.take(16)?.try_into().map_err(|_| BadBatch("password is not 16 bytes"))?;
    Ok((timeout_ms, password))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], BadBatch> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(BadBatch("ends in the middle"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadBatch> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8, BadBatch> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, BadBatch> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, BadBatch> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String, BadBatch> {
        let len = u16::from_le_bytes(self.array()?) as usize;
        String::from_utf8(self.take(len)?.to_vec()).map_err(|_| BadBatch("text is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: BatchId = BatchId { origin: ServerId(3), epoch: 7, seq: 11 };

    fn two_commands() -> Bytes {
        let mut builder = BatchBuilder::new(ID, 1_000);
        let identities = [AclId { scheme: "ip".into(), id: "10.0.0.1".into() }];
        builder.push(Kind::Request, SessionId(5), Generation(2), &identities, Some(1), &[9]);
        builder.push(
            Kind::CreateSession,
            SessionId(0),
            Generation(0),
            &[],
            None,
            &session_body(4_000, &[8; 16]),
        );
        builder.finish()
    }

    #[test]
    fn a_batch_reads_back_as_written_with_the_leaders_time() {
        let bytes = stamp(two_commands(), 2_000).unwrap();
        let mut batch = Batch::decode(&bytes).unwrap();
        assert_eq!((batch.time_ms, batch.id.seq, batch.count), (2_000, 11, 2));
        let first = batch.next_command().unwrap().unwrap();
        assert_eq!(
            (first.kind, first.session, first.body),
            (Kind::Request, SessionId(5), &[0, 0, 0, 1, 9][..])
        );
        assert_eq!(first.identities[0].id, "10.0.0.1");
        let second = batch.next_command().unwrap().unwrap();
        assert_eq!(decode_session_body(second.body).unwrap(), (4_000, [8; 16]));
        assert!(batch.next_command().unwrap().is_none());
    }

    #[test]
    fn a_cut_batch_is_refused_at_every_length() {
        let bytes = two_commands();
        for len in 0..bytes.len() {
            let outcome = Batch::decode(&bytes[..len]).and_then(|mut batch| {
                let mut seen = 0;
                while batch.next_command()?.is_some() {
                    seen += 1;
                }
                if seen == batch.count { Ok(()) } else { Err(BadBatch("commands are missing")) }
            });
            assert!(outcome.is_err(), "{len} of {} bytes were accepted", bytes.len());
        }
    }
}
