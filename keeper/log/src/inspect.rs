//! Shows what a log's files hold, for people: `keeper log dump FOLDER`. Only reads, and goes on behind what is damaged.
//! Must never be part of opening a log.

use crate::SharedDisk;
use crate::format::{BATCH_HEADER_BYTES, BatchHeader, SegmentHeader, decode_body, parse_name, segment_name};
use crate::limits::BLOCK_BYTES;
use bytes::Bytes;
use std::fmt;
use std::io;

/// One thing in a log's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// `salt` is what its checksums begin with, or why its header cannot be read.
    Segment {
        name: String,
        bytes: u64,
        salt: Result<u64, String>,
    },
    /// `damage`: why its records cannot be shown. The last batch of a log may be torn by a crash.
    Batch {
        offset: u64,
        number: u64,
        records: u32,
        damage: Option<&'static str>,
    },
    Record {
        offset: u64,
        kind: String,
        index: Option<u64>,
        head: Bytes,
        payload: Bytes,
    },
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Segment { name, bytes, salt: Ok(salt) } => {
                write!(f, "{name}: {bytes} bytes, salt {salt:016x}")
            }
            Found::Segment { name, bytes, salt: Err(error) } => write!(f, "{name}: {bytes} bytes, {error}"),
            Found::Batch { offset, number, records, damage } => {
                write!(f, "  {offset}: batch {number}, {records} records")?;
                damage.map_or(Ok(()), |what| write!(f, ", DAMAGED or torn: {what}"))
            }
            Found::Record { offset, kind, index, head, payload } => {
                let index = index.map_or("-".to_string(), |index| index.to_string());
                let (head, payload) = (head.len(), payload.len());
                write!(f, "    {offset}: {kind} {index}, head {head} bytes, payload {payload} bytes")
            }
        }
    }
}

/// Calls `show` for every segment, batch and record, in the order of the files.
pub async fn inspect(disk: &SharedDisk, show: &mut (dyn FnMut(Found) + Send)) -> io::Result<()> {
    let mut sequences: Vec<u64> =
        disk.list().await?.iter().filter_map(|name| parse_name(name, "log-")).collect();
    sequences.sort_unstable();
    for sequence in sequences {
        inspect_segment(disk, sequence, show).await?;
    }
    Ok(())
}

async fn inspect_segment(
    disk: &SharedDisk,
    sequence: u64,
    show: &mut (dyn FnMut(Found) + Send),
) -> io::Result<()> {
    let name = segment_name(sequence);
    let file = disk.open(&name).await?;
    let bytes = file.len().await?;
    let block = file.read_at(0, bytes.min(BLOCK_BYTES as u64) as usize).await?;
    let header = SegmentHeader::decode(&block);
    let salt = header.as_ref().map(|header| header.salt).map_err(|error| format!("{error:?}"));
    show(Found::Segment { name, bytes, salt });
    let Ok(header) = header else { return Ok(()) };
    let seed = header.seed();
    let mut offset = BLOCK_BYTES as u64;
    while offset + BATCH_HEADER_BYTES as u64 <= bytes {
        let found = file.read_at(offset, BATCH_HEADER_BYTES).await?;
        let batch = BatchHeader::decode(&found, seed).filter(|batch| batch.padded_bytes() <= bytes - offset);
        let Some(batch) = batch else {
            offset += BLOCK_BYTES as u64;
            continue;
        };
        let body = file.read_at(offset + BATCH_HEADER_BYTES as u64, batch.body_bytes as usize).await?;
        let records = match batch.body_is_right(&body, seed) {
            true => decode_body(&body.into(), batch.records, seed),
            false => Err("its body has a wrong checksum"),
        };
        let damage = records.as_ref().err().copied();
        show(Found::Batch { offset, number: batch.number, records: batch.records, damage });
        for (at, record) in records.unwrap_or_default() {
            show(Found::Record {
                offset: offset + (BATCH_HEADER_BYTES + at) as u64,
                kind: format!("{:?}", record.kind).to_lowercase(),
                index: record.index,
                head: record.head,
                payload: record.payload,
            });
        }
        offset += batch.padded_bytes();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faulty::FaultyDisk;
    use crate::tests::executor::Executor;
    use crate::tests::harness::{FIRST, append, batches, entry, whole_life};

    #[test]
    fn every_record_is_shown_and_damage_is_named() {
        let faulty = FaultyDisk::new(1);
        whole_life(&faulty, async |wal, _| {
            wal.save_vote("vote".into()).await.unwrap();
            append(&wal, vec![entry(1, 5), entry(2, 6)]).await.unwrap();
            append(&wal, vec![entry(3, 7)]).await.unwrap();
        });
        let (offset, ..) = batches(&faulty, FIRST)[1];
        faulty.edit(FIRST, |bytes| bytes[offset + 60] ^= 1);
        let mut lines = Vec::new();
        Executor::new(1).finish(inspect(&faulty.disk(), &mut |found| lines.push(found.to_string()))).unwrap();
        assert!(lines[0].starts_with("log-0000000000000001.seg: 65536 bytes, salt "));
        let expected = [
            "  4096: batch 1, 2 records",
            "    4128: start -, head 0 bytes, payload 0 bytes",
            "    4152: vote -, head 0 bytes, payload 4 bytes",
            "  8192: batch 2, 2 records, DAMAGED or torn: its body has a wrong checksum",
            "  12288: batch 3, 1 records",
            "    12320: entry 3, head 6 bytes, payload 7 bytes",
        ];
        assert_eq!(lines[1..7], expected);
    }
}
