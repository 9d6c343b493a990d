//! Shows what a log's files hold, for people: `cargo run -p keeper-log --example log_dump FOLDER`. Only reads, and
//! goes on behind what is damaged. Must never be part of opening a log.

use crate::SharedDisk;
use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, Record, SegmentHeader, decode_body, parse_name, segment_name,
};
use crate::limits::BLOCK_BYTES;
use std::io;

/// Calls `line` for every segment, batch and record, in the order of the files.
pub async fn inspect(disk: &SharedDisk, line: &mut (dyn FnMut(String) + Send)) -> io::Result<()> {
    let mut sequences: Vec<u64> =
        disk.list().await?.iter().filter_map(|name| parse_name(name, "log-")).collect();
    sequences.sort_unstable();
    for sequence in sequences {
        inspect_segment(disk, sequence, line).await?;
    }
    Ok(())
}

async fn inspect_segment(
    disk: &SharedDisk,
    sequence: u64,
    line: &mut (dyn FnMut(String) + Send),
) -> io::Result<()> {
    let name = segment_name(sequence);
    let file = disk.open(&name).await?;
    let bytes = file.len().await?;
    let block = file.read_at(0, bytes.min(BLOCK_BYTES as u64) as usize).await?;
    let header = match SegmentHeader::decode(&block) {
        Ok(header) => header,
        Err(error) => {
            line(format!("{name}: {bytes} bytes, {error:?}"));
            return Ok(());
        }
    };
    line(format!("{name}: {bytes} bytes, salt {:016x}", header.salt));
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
        let state = records.as_ref().err().map_or(String::new(), |what| format!(", DAMAGED or torn: {what}"));
        line(format!("  {offset}: batch {}, {} records{state}", batch.number, batch.records));
        for (at, record) in records.unwrap_or_default() {
            line(format!("    {}: {}", offset + (BATCH_HEADER_BYTES + at) as u64, describe(&record)));
        }
        offset += batch.padded_bytes();
    }
    Ok(())
}

fn describe(record: &Record) -> String {
    let index = record.index.map_or("-".to_string(), |index| index.to_string());
    let kind = format!("{:?}", record.kind).to_lowercase();
    format!("{kind} {index}, head {} bytes, payload {} bytes", record.head.len(), record.payload.len())
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
        Executor::new(1).finish(inspect(&faulty.disk(), &mut |line| lines.push(line))).unwrap();
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
