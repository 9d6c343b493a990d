//! The handle of the write-ahead log: what consensus calls.

use crate::index::{Index, ReadPlan};
use crate::limits::{ENTRY_BYTES_MAX, READER_QUEUE_MAX, SMALL_VALUE_BYTES_MAX};
use crate::reader::{Reader, ReaderMessage};
use crate::recovery::{self, Opened};
use crate::segments::Preparer;
use crate::stats::Counters;
use crate::stop::Stop;
use crate::timer::Timer;
use crate::view::View;
use crate::writer::{Completion, Op, Queue, QueuedEntry, Shared, Writer, closed, short_sequence};
use crate::{LogError, Options, SharedDisk, WalStats};
use bytes::Bytes;
use keeper_rt::JoinHandle;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Called once, in the order of the calls, when what it belongs to is durable. Runs on the log's thread: must be
/// short. An error means that the log has stopped or was closed; a full disk is not an error but a wait.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// What the log held when it was opened. All of it is durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// There was no log in the folder before.
    pub created: bool,
    pub vote: Option<Bytes>,
    /// The last committed position that was noted and written. May be older than the truth, and may lie behind
    /// `last`: a position can be noted before the entries it speaks of are on this disk.
    pub committed: Option<Bytes>,
    /// The last purged index and the head given with it.
    pub purged: Option<(u64, Bytes)>,
    /// Index of the first entry that is there.
    pub first_index: Option<u64>,
    /// Index and head of the last entry; `None` when there is no entry (then `purged` is where the log stands).
    pub last: Option<(u64, Bytes)>,
    /// A torn tail that was cut: never acknowledged, so nothing is lost.
    pub cut: Option<Cut>,
}

/// A batch that a crash had left incomplete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub file: String,
    pub offset: u64,
}

/// Handle of an open log. Clones are the same log. When the last one is dropped, what is queued is still written.
#[derive(Clone)]
pub struct Wal {
    shared: Arc<Shared>,
    /// Not bounded by itself: `append` must not wait. Consensus bounds the bytes it has in flight, and
    /// `WalStats::queued_bytes` shows them.
    ops: mpsc::UnboundedSender<Op>,
    reads: mpsc::Sender<ReaderMessage>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// Opens the log in `disk`'s folder, or creates one. Must be called on a runtime (or in a simulation): a log on a
/// full disk needs a timer. Blocks on a real disk while it reads what is there.
pub async fn open(disk: SharedDisk, options: Options) -> Result<(Wal, Recovered), LogError> {
    options.check()?;
    let Opened { created, replay, segments, active, offset, next_number, cut, maker } =
        recovery::open(disk.clone(), &options).await?;
    if let Some(Cut { file, offset }) = &cut {
        tracing::warn!(file, offset, "cut an unfinished write off the log");
    }
    let seeds: BTreeMap<_, _> = segments
        .iter()
        .map(|segment| (short_sequence(segment.sequence), (segment.seed, segment.bytes)))
        .collect();
    let view = replay.view.clone();
    let first = replay.first();
    let index = Index::recovered(first, replay.slots, view.purged_index(), seeds, options.cache_bytes_max);
    let first_index = index.first();
    let last_index = index.last();
    let shared = Arc::new(Shared {
        index: Mutex::new(index),
        committed: Mutex::new(None),
        counters: Arc::new(Counters::default()),
        stop: Arc::new(Stop::new(options.on_fatal.clone())),
    });
    shared.counters.spare_segments.store(maker.spares.len() as u64, Ordering::Relaxed);

    let (ops, queued_ops) = mpsc::unbounded_channel();
    let (reads, queued_reads) = mpsc::channel(READER_QUEUE_MAX);
    // At most one job a segment is in it.
    let (jobs, queued_jobs) = mpsc::unbounded_channel();
    let (prepared_sender, prepared) = mpsc::channel(1);
    let preparer = Preparer {
        maker,
        jobs: queued_jobs,
        prepared: prepared_sender,
        timer: Timer::spawn(),
        counters: shared.counters.clone(),
        stop: shared.stop.clone(),
    };
    let writer = Writer {
        shared: shared.clone(),
        ops: queued_ops,
        jobs,
        prepared,
        timer: Timer::spawn(),
        options,
        view: view.clone(),
        segments: segments.into(),
        active,
        offset,
        number: next_number,
        queue: Queue::default(),
    };
    let reader = Reader { disk, messages: queued_reads, files: VecDeque::new() };
    let threads = vec![
        keeper_rt::thread("log-preparer", preparer.run()),
        keeper_rt::thread("log-writer", writer.run()),
        keeper_rt::thread("log-reader", reader.run()),
    ];
    let wal = Wal { shared, ops, reads, threads: Arc::new(Mutex::new(threads)) };
    let last = match last_index {
        Some(last) => Some(wal.last_entry(last).await?),
        None => None,
    };
    let View { vote, committed, purged, .. } = view;
    Ok((wal, Recovered { created, vote, committed, purged, first_index, last, cut }))
}

impl Wal {
    async fn last_entry(&self, last: u64) -> Result<(u64, Bytes), LogError> {
        let read = self.read(last..last + 1, 0).await;
        let entries = read.map_err(|error| LogError::io("read", "the last entry of the log", error))?;
        let (_, head, _) = entries.into_iter().next().expect("the last entry is there");
        // The head alone, not the read it is a part of.
        Ok((last, Bytes::copy_from_slice(&head)))
    }

    /// Queues entries `(index, head, payload)`; readable at once, `done` when durable. Never blocks: the queue is
    /// bounded by the caller's limit of what it has in flight, and counted in [`WalStats::queued_bytes`].
    /// Indexes must go on from the last one without a gap; anything else is a bug and panics.
    pub fn append(&self, entries: Vec<(u64, Bytes, Bytes)>, done: Done) {
        if let Some((index, ..)) = entries.iter().find(|(_, head, payload)| !is_entry_size(head, payload)) {
            let message = format!("entry {index} is larger than {ENTRY_BYTES_MAX} bytes");
            return done(Err(io::Error::new(ErrorKind::InvalidInput, message)));
        }
        let counters = &self.shared.counters;
        let bytes = entries.iter().map(|(_, head, payload)| (head.len() + payload.len()) as u64).sum();
        Counters::add(&counters.queued_bytes, bytes);
        Counters::add(&counters.entries_appended, entries.len() as u64);
        // The lock is held while sending: index and queue must see appends and cuts in one order.
        let mut index = self.shared.index();
        let entries = entries
            .into_iter()
            .map(|(at, head, payload)| {
                let serial = index.push(at, &head, &payload);
                QueuedEntry { index: at, serial, head, payload }
            })
            .collect();
        let sent = self.ops.send(Op::Append { entries, bytes, done });
        drop(index);
        if let Err(mpsc::error::SendError(Op::Append { bytes, done, .. })) = sent {
            Completion::Append { bytes, done }.call(counters, Err(closed()));
        }
    }

    /// Durable on return, and everything queued before it too.
    pub async fn save_vote(&self, vote: Bytes) -> io::Result<()> {
        check_small(&vote)?;
        Counters::add(&self.shared.counters.votes_saved, 1);
        let (reply, saved) = oneshot::channel();
        self.ops.send(Op::Vote { vote, reply }).map_err(|_| closed())?;
        if keeper_rt::planted!("vote-not-awaited") {
            return Ok(());
        }
        saved.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Removes all entries above `index` (`None`: all entries). Durable on return.
    pub async fn truncate_after(&self, index: Option<u64>) -> io::Result<()> {
        Counters::add(&self.shared.counters.truncations, 1);
        let (reply, truncated) = oneshot::channel();
        {
            let mut entries = self.shared.index();
            entries.truncate_after(index);
            if keeper_rt::planted!("truncation-not-written") {
                return Ok(());
            }
            self.ops.send(Op::Truncate { after: index, reply }).map_err(|_| closed())?;
        }
        truncated.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Forgets entries up to `index`, which may lie beyond the last entry (a snapshot was installed): the log then
    /// goes on at `index + 1`. Returns once queued; segments are released later. Only call it when a durable
    /// snapshot covers `index`.
    pub async fn purge_upto(&self, index: u64, head: Bytes) -> io::Result<()> {
        check_small(&head)?;
        Counters::add(&self.shared.counters.purges, 1);
        let mut entries = self.shared.index();
        entries.purge_upto(index);
        self.ops.send(Op::Purge { index, head }).map_err(|_| closed())
    }

    /// Remembers a committed position in memory; it goes to the disk with the next batch.
    pub fn note_committed(&self, committed: Bytes) {
        if committed.len() <= SMALL_VALUE_BYTES_MAX {
            *self.shared.committed() = Some(committed);
        }
    }

    /// The entries of `range` that are there, in order and without a gap, until `bytes_max` of heads and payloads
    /// is passed; at least one if there is any.
    pub async fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<(u64, Bytes, Bytes)>> {
        loop {
            let ReadPlan { places, cached } = self.shared.index().plan(range.clone(), bytes_max);
            if places.is_empty() {
                return Ok(cached);
            }
            let (reply, read) = oneshot::channel();
            let message = ReaderMessage::Read { places: places.clone(), reply };
            self.reads.send(message).await.map_err(|_| closed())?;
            match read.await.unwrap_or_else(|_| Err(closed())) {
                Ok(mut entries) => {
                    entries.extend(cached);
                    return Ok(entries);
                }
                // Purged or truncated meanwhile: what is there now is another question.
                Err(_) if !self.shared.index().still_there(&places) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn stats(&self) -> WalStats {
        let counters = &self.shared.counters;
        let index = self.shared.index();
        let (segments, segment_bytes) = index.segments();
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        WalStats {
            entries_appended: load(&counters.entries_appended),
            votes_saved: load(&counters.votes_saved),
            truncations: load(&counters.truncations),
            purges: load(&counters.purges),
            batches_written: load(&counters.batches_written),
            bytes_written: load(&counters.bytes_written),
            segment_waits: load(&counters.segment_waits),
            queued_bytes: load(&counters.queued_bytes),
            full: counters.is_full(),
            segments,
            segment_bytes,
            spare_segments: load(&counters.spare_segments),
            cached_bytes: index.cached_bytes() as u64,
            live_bytes: index.live_bytes(),
            first_index: index.first(),
            last_index: index.last(),
            durable_index: index.durable(),
            purged_index: index.purged(),
            sync: counters.sync_histogram(),
        }
    }

    /// Whether new writes should be refused; see [`WalStats::full`]. Cheap.
    pub fn is_full(&self) -> bool {
        self.shared.counters.is_full()
    }

    /// Writes what is queued, then ends the log's threads and lets go of the disk. Later calls fail.
    pub async fn close(&self) {
        // Closed already, if nobody listens.
        let _ = self.ops.send(Op::Close);
        let _ = self.reads.send(ReaderMessage::Close).await;
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has ended as well.
            let _ = thread.await;
        }
    }
}

fn is_entry_size(head: &Bytes, payload: &Bytes) -> bool {
    head.len() + payload.len() <= ENTRY_BYTES_MAX
}

fn check_small(bytes: &Bytes) -> io::Result<()> {
    if bytes.len() <= SMALL_VALUE_BYTES_MAX {
        return Ok(());
    }
    let message = format!("{} bytes are more than the {SMALL_VALUE_BYTES_MAX} allowed here", bytes.len());
    Err(io::Error::new(ErrorKind::InvalidInput, message))
}
