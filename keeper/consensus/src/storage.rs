//! openraft's log storage over `keeper_log::Wal`. An append is queued and completed by callback, so Raft replicates
//! while the disk works. The committed position is not stored: it is learnt from the leader.

use crate::codec::{
    Malformed, decode_entry, decode_vote, encode_entry, encode_vote, head_log_id, purged_head,
};
use crate::limits::{APPEND_BYTES_MAX, APPLY_READ_BYTES_MAX};
use crate::types::{Entry, LogId, TC, Vote};
use futures_util::{Stream, stream};
use keeper_log::{Recovered, Wal};
use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Ends {
    /// The last vote whose record is durable.
    vote: Option<Vote>,
    purged: Option<LogId>,
    /// Invariant: never before `purged`.
    last: Option<LogId>,
}

/// Clones are the same log.
#[derive(Clone)]
pub struct LogStore {
    wal: Wal,
    ends: Arc<Mutex<Ends>>,
}

impl LogStore {
    pub fn new(wal: Wal, recovered: &Recovered) -> Result<LogStore, Malformed> {
        let purged = recovered.purged.as_ref().map(|(index, head)| head_log_id(*index, head)).transpose()?;
        let last = recovered.last.as_ref().map(|(index, head)| head_log_id(*index, head)).transpose()?;
        let vote = recovered.vote.clone().map(decode_vote).transpose()?;
        Ok(LogStore { wal, ends: Arc::new(Mutex::new(Ends { vote, purged, last: last.or(purged) })) })
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        // Nothing panics while holding it.
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entries from `start` that are there, until `bytes_max` or `end`; at least one if there is any.
    async fn read(&self, start: u64, end: u64, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let records = self.wal.read(start..end, bytes_max).await?;
        let decode = |(index, head, payload)| Ok(decode_entry(index, head, payload)?);
        records.into_iter().map(decode).collect()
    }

    /// The bounds of `range`, clipped to what the log holds.
    fn clip(&self, range: &impl RangeBounds<u64>) -> (u64, u64) {
        let start = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(index) => index + 1,
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        let ends = self.ends();
        let first = ends.purged.map_or(0, |purged| purged.index + 1);
        let next = ends.last.map_or(0, |last| last.index + 1);
        (start.max(first), end.min(next))
    }
}

/// Where a stream of entries stands: what was read and not yet given out, then what is to be read.
struct Cursor {
    log: LogStore,
    ready: VecDeque<Entry>,
    next: u64,
    end: u64,
}

impl Cursor {
    async fn step(mut self) -> Option<(io::Result<Entry>, Cursor)> {
        if self.ready.is_empty() && self.next < self.end {
            match self.log.read(self.next, self.end, APPLY_READ_BYTES_MAX).await {
                Ok(entries) if entries.is_empty() => {
                    let missing = format!("log entry {} is not there", self.next);
                    self.next = self.end;
                    return Some((Err(io::Error::new(io::ErrorKind::UnexpectedEof, missing)), self));
                }
                Ok(entries) => {
                    self.next += entries.len() as u64;
                    self.ready = entries.into();
                }
                Err(error) => {
                    self.next = self.end;
                    return Some((Err(error), self));
                }
            }
        }
        let entry = self.ready.pop_front()?;
        Some((Ok(entry), self))
    }
}

impl RaftLogReader<TC> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry>, io::Error>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (mut next, end) = self.clip(&range);
        let mut all = Vec::new();
        while next < end {
            let entries = self.read(next, end, APPLY_READ_BYTES_MAX).await?;
            if entries.is_empty() {
                let missing = format!("log entry {next} is not there");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, missing));
            }
            next += entries.len() as u64;
            all.extend(entries);
        }
        Ok(all)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.read(start, end, APPEND_BYTES_MAX).await
    }

    /// Read piece by piece: after a restart the whole log is applied in one go.
    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<Entry, io::Error>> + OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (next, end) = self.clip(&range);
        let cursor = Cursor { log: self.clone(), ready: VecDeque::new(), next, end };
        Box::pin(stream::unfold(cursor, Cursor::step))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.ends().vote)
    }
}

impl RaftLogStorage<TC> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<TC>, io::Error> {
        let ends = self.ends();
        Ok(LogState { last_purged_log_id: ends.purged, last_log_id: ends.last })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.wal.save_vote(encode_vote(vote)).await?;
        self.ends().vote = Some(*vote);
        keeper_rt::point("vote-saved");
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TC>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        let mut ends = self.ends();
        for entry in entries {
            let (head, payload) = encode_entry(&entry);
            records.push((entry.log_id.index, head, payload));
            ends.last = Some(entry.log_id);
        }
        // Queued under the lock, so that whoever sees the new end finds the entries.
        self.wal.append(records, Box::new(move |result| callback.io_completed(result)));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        {
            let mut ends = self.ends();
            ends.last = last.max(ends.purged);
        }
        self.wal.truncate_after(last.map(|id| id.index)).await?;
        keeper_rt::point("log-truncated");
        Ok(())
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        {
            let mut ends = self.ends();
            ends.purged = ends.purged.max(Some(upto));
            if ends.last.is_none_or(|last| last.index < upto.index) {
                ends.last = Some(upto);
            }
        }
        self.wal.purge_upto(upto.index, purged_head(&upto)).await
    }
}
