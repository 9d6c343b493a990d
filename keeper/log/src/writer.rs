//! The one that writes: takes everything queued as one batch, writes it, syncs it, and only then completes it, in
//! order. One async function over `Disk`; must use nothing but channels, so that a plain thread can drive it.
//! Batch n+1 must never be written before batch n's sync has returned: recovery builds on that.

use crate::format::{BATCH_HEADER_BYTES, Kind, Record, finish_batch, padded, record_bytes};
use crate::index::{Index, Slot, Written};
use crate::limits::{BLOCK_BYTES, RESERVE_SHARE, SPACE_RETRY_MS_MAX, SPACE_RETRY_MS_MIN};
use crate::recovery::SegmentState;
use crate::segments::{Job, Segment};
use crate::stats::Counters;
use crate::stop::{Stop, crash_point};
use crate::timer::Timer;
use crate::view::View;
use crate::{Done, Options};
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Blocks of each segment that only a purge may use while everything else is held.
const CONTROL_BYTES: u64 = 2 * BLOCK_BYTES as u64;

/// What handle and writer share.
pub struct Shared {
    pub index: Mutex<Index>,
    /// Noted, not yet written.
    pub committed: Mutex<Option<Bytes>>,
    pub counters: Arc<Counters>,
    pub stop: Arc<Stop>,
}

impl Shared {
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn committed(&self) -> MutexGuard<'_, Option<Bytes>> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct QueuedEntry {
    pub index: u64,
    pub serial: u64,
    pub head: Bytes,
    pub payload: Bytes,
}

pub enum Op {
    Append { entries: Vec<QueuedEntry>, bytes: u64, done: Done },
    Vote { vote: Bytes, reply: oneshot::Sender<io::Result<()>> },
    Truncate { after: Option<u64>, reply: oneshot::Sender<io::Result<()>> },
    Purge { index: u64, head: Bytes },
    Close,
}

/// One step of the queue, in order.
enum Work {
    /// A record and, if it is an entry, its serial.
    Record(Record, u64),
    Complete(Completion),
}

pub enum Completion {
    Append { bytes: u64, done: Done },
    Reply(oneshot::Sender<io::Result<()>>),
}

impl Completion {
    pub fn call(self, counters: &Counters, result: io::Result<()>) {
        match self {
            Completion::Append { bytes, done } => {
                counters.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
                done(result);
            }
            // Whoever waited may have given up.
            Completion::Reply(reply) => drop(reply.send(result)),
        }
    }
}

/// Why the writer ends before its queue does.
enum Stopped {
    Fatal,
    ClosedWhileFull,
}

impl Stopped {
    fn error(&self) -> io::Error {
        match self {
            Stopped::Fatal => io::Error::other("the log has stopped after a failure of its disk"),
            Stopped::ClosedWhileFull => {
                io::Error::new(ErrorKind::StorageFull, "the log was closed while its disk was full")
            }
        }
    }
}

pub fn closed() -> io::Error {
    io::Error::new(ErrorKind::BrokenPipe, "the log is closed")
}

/// The segment after the active one.
enum Next {
    None,
    Asked,
    Ready(Segment),
}

/// What was gathered into the buffer.
#[derive(Default)]
struct Batch {
    records: u32,
    written: Vec<Written>,
    completions: Vec<Completion>,
    has_vote: bool,
    has_purge: bool,
}

pub struct Writer {
    pub shared: Arc<Shared>,
    pub ops: mpsc::UnboundedReceiver<Op>,
    pub jobs: mpsc::UnboundedSender<Job>,
    pub prepared: mpsc::Receiver<Segment>,
    pub timer: Timer,
    pub options: Options,
    /// What the records written so far say; the end of the current batch while one is gathered.
    pub view: View,
    /// Oldest first; the last one is `active`.
    pub segments: VecDeque<SegmentState>,
    pub active: Segment,
    /// Where the next batch goes. Invariant: a multiple of a block, at most `active.bytes`.
    pub offset: u64,
    /// The next batch's number.
    pub number: u64,
    pub queue: Queue,
}

/// The writer's own part, empty at start.
pub struct Queue {
    next: Next,
    pending: VecDeque<Work>,
    buffer: Vec<u8>,
    /// A committed position for the next batch.
    committed: Option<Bytes>,
    is_closing: bool,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            next: Next::None,
            pending: VecDeque::new(),
            buffer: Vec::new(),
            committed: None,
            is_closing: false,
        }
    }
}

impl Writer {
    pub async fn run(mut self) {
        self.note_space();
        if self.has_batches() {
            self.ask_next(0);
        }
        let stopped = loop {
            if self.queue.pending.is_empty() {
                if self.queue.is_closing {
                    break None;
                }
                match self.ops.recv().await {
                    Some(op) => self.enqueue(op),
                    None => break None,
                }
            }
            while let Ok(op) = self.ops.try_recv() {
                self.enqueue(op);
            }
            if let Err(stopped) = self.commit_one().await {
                break Some(stopped);
            }
        };
        self.fail_rest(stopped).await;
    }

    /// Answers what was not written, in order.
    async fn fail_rest(&mut self, stopped: Option<Stopped>) {
        self.ops.close();
        while let Some(op) = self.ops.recv().await {
            self.enqueue(op);
        }
        let error = || stopped.as_ref().map_or_else(closed, Stopped::error);
        for work in self.queue.pending.drain(..) {
            if let Work::Complete(completion) = work {
                completion.call(&self.shared.counters, Err(error()));
            }
        }
    }

    fn enqueue(&mut self, op: Op) {
        let pending = &mut self.queue.pending;
        let record = |kind, index, head, payload| Work::Record(Record { kind, index, head, payload }, 0);
        match op {
            Op::Append { entries, bytes, done } => {
                for QueuedEntry { index, serial, head, payload } in entries {
                    let entry = Record { kind: Kind::Entry, index: Some(index), head, payload };
                    pending.push_back(Work::Record(entry, serial));
                }
                pending.push_back(Work::Complete(Completion::Append { bytes, done }));
            }
            Op::Vote { vote, reply } => {
                pending.push_back(record(Kind::Vote, None, Bytes::new(), vote));
                pending.push_back(Work::Complete(Completion::Reply(reply)));
            }
            Op::Truncate { after, reply } => {
                pending.push_back(record(Kind::Truncate, after, Bytes::new(), Bytes::new()));
                pending.push_back(Work::Complete(Completion::Reply(reply)));
            }
            Op::Purge { index, head } => {
                pending.push_back(record(Kind::Purge, Some(index), head, Bytes::new()));
            }
            Op::Close => self.queue.is_closing = true,
        }
    }

    /// Writes one batch, if there is a record, and completes what it finishes.
    async fn commit_one(&mut self) -> Result<(), Stopped> {
        let Some(Work::Record(record, _)) = self.queue.pending.front() else {
            // Nothing to write before it: everything up to here is durable.
            if let Some(Work::Complete(completion)) = self.queue.pending.pop_front() {
                completion.call(&self.shared.counters, Ok(()));
            }
            return Ok(());
        };
        let bytes = record.bytes();
        // Taken before the room is measured: it must not grow afterwards.
        if let Some(committed) = self.shared.committed().take() {
            self.queue.committed = Some(committed);
        }
        self.make_room(bytes).await?;
        let batch = self.gather();
        self.commit(batch).await
    }

    async fn commit(&mut self, batch: Batch) -> Result<(), Stopped> {
        match self.write_and_sync(batch.records).await {
            Ok(()) => self.publish(batch).await,
            Err(stopped) => {
                for completion in batch.completions {
                    completion.call(&self.shared.counters, Err(stopped.error()));
                }
                return Err(stopped);
            }
        }
        Ok(())
    }

    fn has_batches(&self) -> bool {
        BLOCK_BYTES as u64 != self.offset
    }

    /// Bytes of the records that a first batch begins with, and of a committed position.
    fn prologue_bytes(&self) -> usize {
        let committed = self.queue.committed.as_ref().map_or(0, |bytes| record_bytes(0, bytes.len()));
        committed + self.view.prologue().iter().map(Record::bytes).sum::<usize>()
    }

    /// Whether a batch with a body of this many bytes, and what it has to begin with, fits into the active segment.
    fn fits(&self, body_bytes: usize) -> bool {
        let batch = padded(BATCH_HEADER_BYTES + self.prologue_bytes() + body_bytes) as u64;
        batch + CONTROL_BYTES <= self.active.bytes - self.offset
    }

    /// Goes on to the next segment if a record of this size does not fit; waits for it, if need be.
    async fn make_room(&mut self, record_bytes: usize) -> Result<(), Stopped> {
        while !self.fits(record_bytes) {
            let batch = padded(BATCH_HEADER_BYTES + self.prologue_bytes() + record_bytes) as u64;
            let bytes_min = BLOCK_BYTES as u64 + batch + CONTROL_BYTES;
            let next = std::mem::replace(&mut self.queue.next, Next::Asked);
            match next {
                Next::Ready(segment) if bytes_min <= segment.bytes => self.switch_to(segment),
                Next::Ready(segment) => {
                    self.send_job(Job::Release { sequence: segment.sequence, bytes: segment.bytes });
                    self.ask_next(bytes_min);
                }
                Next::None => self.ask_next(bytes_min),
                Next::Asked => self.wait_for_segment().await?,
            }
        }
        Ok(())
    }

    fn switch_to(&mut self, segment: Segment) {
        let Segment { sequence, seed, bytes, .. } = segment;
        self.segments.push_back(SegmentState { sequence, bytes, seed, index_max: None });
        self.shared.index().add_segment(short_sequence(sequence), seed, bytes);
        self.active = segment;
        self.offset = BLOCK_BYTES as u64;
        self.queue.next = Next::None;
        self.note_space();
    }

    fn ask_next(&mut self, bytes_min: u64) {
        let bytes_wanted = (self.active.bytes * 2).min(self.options.segment_bytes);
        let sequence = self.active.sequence + 1;
        self.send_job(Job::Prepare { sequence, bytes_min, bytes_wanted });
        self.queue.next = Next::Asked;
    }

    fn send_job(&self, job: Job) {
        // A preparer that is gone has reported a fatal failure; `wait_for_segment` finds out.
        let _ = self.jobs.send(job);
    }

    /// Waits for the preparer. Meanwhile everything is held; if there is no space, except purges: they may free it.
    async fn wait_for_segment(&mut self) -> Result<(), Stopped> {
        let counters = self.shared.counters.clone();
        Counters::add(&counters.segment_waits, 1);
        loop {
            if counters.prepare_fails.load(Ordering::Relaxed) {
                if self.queue.is_closing {
                    return Err(Stopped::ClosedWhileFull);
                }
                self.early_purges().await?;
            }
            let op = tokio::select! {
                biased;
                segment = self.prepared.recv() => {
                    self.queue.next = Next::Ready(segment.ok_or(Stopped::Fatal)?);
                    return Ok(());
                }
                () = counters.prepare_failed.notified() => continue,
                Some(op) = self.ops.recv() => op,
            };
            self.enqueue(op);
        }
    }

    /// Writes the held purges that concern only what is written already, past the records held before them.
    async fn early_purges(&mut self) -> Result<(), Stopped> {
        while let Some(purge) = self.take_early_purge() {
            let mut batch = self.begin_batch();
            self.add(&mut batch, purge, 0);
            self.commit(batch).await?;
        }
        Ok(())
    }

    fn take_early_purge(&mut self) -> Option<Record> {
        let last = self.view.last;
        let is_early = |work: &Work| match work {
            Work::Record(record, _) => record.kind == Kind::Purge && record.index <= last,
            Work::Complete(_) => false,
        };
        let at = self.queue.pending.iter().position(is_early)?;
        let Some(Work::Record(purge, _)) = self.queue.pending.get(at) else { return None };
        let batch = padded(BATCH_HEADER_BYTES + self.prologue_bytes() + purge.bytes()) as u64;
        if self.active.bytes - self.offset < batch {
            return None;
        }
        match self.queue.pending.remove(at)? {
            Work::Record(purge, _) => Some(purge),
            Work::Complete(_) => None,
        }
    }

    /// Empties the buffer and puts the records in that belong at the start.
    fn begin_batch(&mut self) -> Batch {
        self.queue.buffer.clear();
        self.queue.buffer.resize(BATCH_HEADER_BYTES, 0);
        let mut batch = Batch::default();
        if !self.has_batches() {
            for record in self.view.prologue() {
                self.add(&mut batch, record, 0);
            }
        }
        if let Some(payload) = self.queue.committed.take() {
            let record = Record { kind: Kind::Committed, index: None, head: Bytes::new(), payload };
            self.add(&mut batch, record, 0);
        }
        batch
    }

    /// Fills the buffer with the first record and as many more as may go with it.
    fn gather(&mut self) -> Batch {
        let mut batch = self.begin_batch();
        let room = self.active.bytes - self.offset - CONTROL_BYTES;
        let mut is_first = true;
        while let Some(work) = self.queue.pending.pop_front() {
            match work {
                Work::Complete(completion) => batch.completions.push(completion),
                Work::Record(record, serial) => {
                    let bytes = self.queue.buffer.len() + record.bytes();
                    if !is_first && (self.options.batch_bytes_max < bytes || room < padded(bytes) as u64) {
                        self.queue.pending.push_front(Work::Record(record, serial));
                        break;
                    }
                    is_first = false;
                    self.add(&mut batch, record, serial);
                }
            }
        }
        batch
    }

    fn add(&mut self, batch: &mut Batch, record: Record, serial: u64) {
        let offset = self.offset + self.queue.buffer.len() as u64;
        if let (Kind::Entry, Some(index)) = (record.kind, record.index) {
            let slot = Slot {
                segment: short_sequence(self.active.sequence),
                offset: u32::try_from(offset).expect("a segment is at most SEGMENT_BYTES_MAX"),
                head_len: record.head.len() as u32,
                payload_len: record.payload.len() as u32,
            };
            batch.written.push(Written { index, serial, slot });
        }
        batch.has_vote |= record.kind == Kind::Vote;
        batch.has_purge |= record.kind == Kind::Purge;
        batch.records += 1;
        self.view.apply(&record);
        record.encode(self.active.seed, &mut self.queue.buffer);
    }

    /// Makes the buffer durable at `offset`. A full disk is waited for; any other failure is fatal.
    async fn write_and_sync(&mut self, records: u32) -> Result<(), Stopped> {
        finish_batch(&mut self.queue.buffer, self.number, records, self.active.seed);
        let mut pause_ms = SPACE_RETRY_MS_MIN;
        while let Err(error) = self.active.file.write_at(self.offset, &self.queue.buffer).await {
            if error.kind() != ErrorKind::StorageFull {
                return Err(self.fatal(format!("cannot write a batch of the log: {error}")));
            }
            if !self.shared.counters.write_fails.swap(true, Ordering::Relaxed) {
                tracing::error!(%error, "no space to write the log; trying again");
            }
            self.wait_for_space(pause_ms).await?;
            pause_ms = (pause_ms * 2).min(SPACE_RETRY_MS_MAX);
        }
        self.shared.counters.write_fails.store(false, Ordering::Relaxed);
        if keeper_rt::planted!("append-not-synced") {
            return Ok(());
        }
        let start = keeper_rt::now();
        if let Err(error) = self.active.file.sync().await {
            return Err(self.fatal(format!(
                "sync of log segment {} failed; what is on the disk is not known any more: {error}",
                self.active.sequence
            )));
        }
        let took = start.elapsed();
        self.shared.counters.record_sync(took);
        if let Some(on_sync) = &self.options.on_sync {
            on_sync(took);
        }
        Ok(())
    }

    async fn wait_for_space(&mut self, pause_ms: u64) -> Result<(), Stopped> {
        self.timer.start(Duration::from_millis(pause_ms));
        loop {
            if self.queue.is_closing {
                return Err(Stopped::ClosedWhileFull);
            }
            let op = tokio::select! {
                biased;
                () = self.timer.tick() => return Ok(()),
                Some(op) = self.ops.recv() => op,
            };
            self.enqueue(op);
        }
    }

    fn fatal(&self, message: String) -> Stopped {
        self.shared.stop.fatal(&message);
        Stopped::Fatal
    }

    /// The batch is durable: moves on behind it, tells everybody, in order.
    async fn publish(&mut self, batch: Batch) {
        let counters = self.shared.counters.clone();
        let was_first = !self.has_batches();
        self.offset += self.queue.buffer.len() as u64;
        self.number += 1;
        assert!(self.offset <= self.active.bytes, "a batch was written beyond the end of its segment");
        let last = batch.written.iter().map(|written| written.index).max();
        if let Some(state) = self.segments.back_mut() {
            state.index_max = state.index_max.max(last);
        }
        Counters::add(&counters.batches_written, 1);
        Counters::add(&counters.bytes_written, self.queue.buffer.len() as u64);
        self.note_space();
        crash_point("log-batch-synced").await;
        if batch.has_vote {
            crash_point("vote-saved").await;
        }
        self.shared.index().written(&batch.written);
        for completion in batch.completions {
            completion.call(&counters, Ok(()));
        }
        if was_first {
            self.ask_next(0);
        }
        if batch.has_purge {
            self.release_purged();
        }
        // A single large entry must not keep its memory for ever.
        if 2 * self.options.batch_bytes_max < self.queue.buffer.capacity() {
            self.queue.buffer = Vec::new();
        }
    }

    /// Lets go of the oldest segments as long as a purge that is durable covers all that was ever written to them.
    fn release_purged(&mut self) {
        let purged = self.view.purged_index();
        while self.segments.len() > 1 && self.segments[0].index_max <= purged {
            let Some(SegmentState { sequence, bytes, .. }) = self.segments.pop_front() else { return };
            self.shared.index().remove_segment(short_sequence(sequence));
            self.send_job(Job::Release { sequence, bytes });
        }
    }

    fn note_space(&self) {
        let reserve = self.options.reserve_bytes.min(self.active.bytes / RESERVE_SHARE);
        let is_short = self.active.bytes - self.offset < reserve + CONTROL_BYTES;
        self.shared.counters.is_short.store(is_short, Ordering::Relaxed);
    }
}

pub fn short_sequence(sequence: u64) -> u32 {
    u32::try_from(sequence).expect("fewer than 2^32 segments are ever written")
}
