//! Reads entries that are no longer in memory, on a thread of its own so that a slow disk blocks no caller's.
//! Checks every record's checksum; must never return bytes of another entry.

use crate::format::{Kind, Record, Seed, segment_name};
use crate::index::Slot;
use crate::limits::{BATCH_BYTES_MAX, BLOCK_BYTES, READER_FILES_MAX};
use crate::{DiskFile, LogError, SharedDisk};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io;
use tokio::sync::{mpsc, oneshot};

pub type Place = (u64, Slot, Option<Seed>);
pub type Entries = Vec<(u64, Bytes, Bytes)>;

pub enum ReaderMessage {
    Read { places: Vec<Place>, reply: oneshot::Sender<io::Result<Entries>> },
    Close,
}

pub struct Reader {
    pub disk: SharedDisk,
    pub messages: mpsc::Receiver<ReaderMessage>,
    /// Open segments, the last used at the end.
    pub files: VecDeque<(u32, Box<dyn DiskFile>)>,
}

impl Reader {
    pub async fn run(mut self) {
        while let Some(ReaderMessage::Read { places, reply }) = self.messages.recv().await {
            let read = self.read(&places).await;
            if read.is_err() {
                // It may be that a segment was released meanwhile and its file serves another.
                self.files.clear();
            }
            // The asker may have lost interest.
            let _ = reply.send(read);
        }
    }

    async fn read(&mut self, places: &[Place]) -> io::Result<Entries> {
        let mut entries = Vec::with_capacity(places.len());
        let mut rest = places;
        while !rest.is_empty() {
            let (run, others) = rest.split_at(run_len(rest));
            self.read_run(run, &mut entries).await?;
            rest = others;
        }
        Ok(entries)
    }

    /// Reads records that stand close together with one call.
    async fn read_run(&mut self, run: &[Place], entries: &mut Entries) -> io::Result<()> {
        let ((_, first, _), (_, last, _)) = (run[0], run[run.len() - 1]);
        let len = (last.offset - first.offset) as usize + last.record_len();
        let file = self.file(first.segment).await?;
        let bytes = Bytes::from(file.read_at(u64::from(first.offset), len).await?);
        for (index, slot, seed) in run {
            let start = (slot.offset - first.offset) as usize;
            let record = bytes.slice(start..start + slot.record_len());
            let damaged = |what: String| LogError::Damaged {
                file: format!("{}/{}", self.disk.location(), segment_name(u64::from(slot.segment))),
                offset: u64::from(slot.offset),
                what,
            };
            let seed = seed.ok_or_else(|| damaged("its segment was released".into()))?;
            let record = Record::decode(&record, seed).map_err(|what| damaged(what.into()))?;
            if record.kind != Kind::Entry || record.index != Some(*index) {
                return Err(damaged(format!("entry {index} should be here")).into());
            }
            entries.push((*index, record.head, record.payload));
        }
        Ok(())
    }

    async fn file(&mut self, segment: u32) -> io::Result<&dyn DiskFile> {
        let found = self.files.iter().position(|(sequence, _)| *sequence == segment);
        let file = match found.and_then(|at| self.files.remove(at)) {
            Some((_, file)) => file,
            None => self.disk.open(&segment_name(u64::from(segment))).await?,
        };
        if READER_FILES_MAX <= self.files.len() {
            self.files.pop_front();
        }
        self.files.push_back((segment, file));
        Ok(&*self.files[self.files.len() - 1].1)
    }
}

/// How many of the places, at least one, can be read with one call.
fn run_len(places: &[Place]) -> usize {
    let (_, first, _) = places[0];
    let mut end = first.offset as usize + first.record_len();
    let mut len = 1;
    for (_, slot, _) in &places[1..] {
        let start = slot.offset as usize;
        let next_end = start + slot.record_len();
        let is_near = slot.segment == first.segment && end <= start && start - end <= 2 * BLOCK_BYTES;
        if !is_near || BATCH_BYTES_MAX < next_end - first.offset as usize {
            break;
        }
        end = next_end;
        len += 1;
    }
    len
}
