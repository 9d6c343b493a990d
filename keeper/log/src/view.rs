//! What the records say when read in order: the same for the writer, which writes them, and for recovery.

use crate::format::{Kind, Record};
use bytes::Bytes;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    pub vote: Option<Bytes>,
    pub committed: Option<Bytes>,
    pub purged: Option<(u64, Bytes)>,
    /// Where the log stands: the last entry's index, or the purge's if that is higher. `None` in a log that has
    /// not begun.
    pub last: Option<u64>,
}

impl View {
    pub fn purged_index(&self) -> Option<u64> {
        self.purged.as_ref().map(|(index, _)| *index)
    }

    /// Takes a record that was checked to fit.
    pub fn apply(&mut self, record: &Record) {
        match record.kind {
            Kind::Start => self.last = record.index,
            Kind::Vote => self.vote = Some(record.payload.clone()),
            Kind::Committed => self.committed = Some(record.payload.clone()),
            Kind::Entry => self.last = record.index,
            Kind::Truncate => self.last = self.last.min(record.index).max(self.purged_index()),
            Kind::Purge => {
                if self.purged_index() < record.index {
                    self.purged = record.index.map(|index| (index, record.head.clone()));
                    self.last = self.last.max(record.index);
                }
            }
        }
    }

    /// Lets go of the larger buffers that the values were read in.
    pub fn compact(&mut self) {
        let copy = |bytes: &mut Bytes| *bytes = Bytes::copy_from_slice(bytes);
        self.vote.iter_mut().for_each(copy);
        self.committed.iter_mut().for_each(copy);
        self.purged.iter_mut().for_each(|(_, head)| copy(head));
    }

    /// The records that a segment's first batch begins with.
    pub fn prologue(&self) -> Vec<Record> {
        let record = |kind, index, head, payload| Record { kind, index, head, payload };
        let mut records = vec![record(Kind::Start, self.last, Bytes::new(), Bytes::new())];
        if let Some(vote) = &self.vote {
            records.push(record(Kind::Vote, None, Bytes::new(), vote.clone()));
        }
        if let Some((index, head)) = &self.purged {
            records.push(record(Kind::Purge, Some(*index), head.clone(), Bytes::new()));
        }
        if let Some(committed) = &self.committed {
            records.push(record(Kind::Committed, None, Bytes::new(), committed.clone()));
        }
        records
    }
}
