//! Lives of a log: each opens it in a simulation of its own, does something and may die at any point.

use super::executor::Executor;
use crate::faulty::FaultyDisk;
use crate::format::{BatchHeader, SegmentHeader};
use crate::limits::BLOCK_BYTES;
use crate::{LogError, Options, Recovered, Wal, open, verify};
use bytes::Bytes;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

pub const ENOUGH: u64 = 1_000_000;

pub fn options() -> Options {
    Options { on_fatal: Arc::new(|message| panic!("fatal: {message}")), ..Options::small() }
}

/// Opens the log and does `work` with it until it is done or `polls_max` is used up; then the process is gone.
pub fn live<T, F: Future<Output = T>>(
    faulty: &FaultyDisk,
    options: Options,
    polls_max: u64,
    work: impl FnOnce(Wal, Recovered) -> F,
) -> Option<T> {
    let mut executor = Executor::new(polls_max);
    let disk = faulty.disk();
    executor.run(polls_max, async {
        let (wal, recovered) = open(disk, options).await.unwrap_or_else(|error| panic!("{error}"));
        work(wal, recovered).await
    })
}

/// A whole life with a clean end.
pub fn whole_life<T, F: Future<Output = T>>(
    faulty: &FaultyDisk,
    work: impl FnOnce(Wal, Recovered) -> F,
) -> T {
    let closing = async |wal: Wal, recovered| {
        let output = work(wal.clone(), recovered).await;
        wal.close().await;
        output
    };
    live(faulty, options(), ENOUGH, closing).expect("it ends")
}

/// Why the log does not open.
pub fn refusal(faulty: &FaultyDisk) -> LogError {
    let before = contents(faulty);
    let error = Executor::new(1).finish(open(faulty.disk(), options())).err().expect("it is refused");
    let found = Executor::new(1).finish(verify(&faulty.disk())).expect_err("verify finds it too");
    assert_eq!(found.to_string(), error.to_string());
    assert_eq!(before, contents(faulty), "a refused log was changed");
    error
}

pub fn contents(faulty: &FaultyDisk) -> Vec<(String, Vec<u8>)> {
    faulty.files().into_iter().map(|(name, _)| (name.clone(), faulty.content(&name).unwrap())).collect()
}

pub fn entry(index: u64, payload_len: usize) -> (u64, Bytes, Bytes) {
    let head = Bytes::from(format!("head {index}"));
    let payload: Vec<u8> = (0..payload_len).map(|at| (at as u64 ^ index) as u8).collect();
    (index, head, payload.into())
}

/// Appends and waits until it is durable.
pub async fn append(wal: &Wal, entries: Vec<(u64, Bytes, Bytes)>) -> io::Result<()> {
    queue(wal, entries).await.expect("every append is answered")
}

/// Appends without waiting.
pub fn queue(wal: &Wal, entries: Vec<(u64, Bytes, Bytes)>) -> oneshot::Receiver<io::Result<()>> {
    let (done, durable) = oneshot::channel();
    wal.append(entries, Box::new(move |result| drop(done.send(result))));
    durable
}

/// Appends small entries one after the other, each a batch of its own.
pub async fn append_each(wal: &Wal, indexes: std::ops::Range<u64>) {
    for index in indexes {
        append(wal, vec![entry(index, 20)]).await.unwrap();
    }
}

/// The indexes in the log; checks that each entry is the one that [`entry`] makes.
pub async fn indexes(wal: &Wal) -> Vec<u64> {
    let entries = wal.read(0..u64::MAX, usize::MAX).await.unwrap();
    for found in &entries {
        assert_eq!(*found, entry(found.0, found.2.len()));
    }
    entries.into_iter().map(|(index, ..)| index).collect()
}

/// What a new life finds.
pub fn found(faulty: &FaultyDisk) -> (Recovered, Vec<u64>) {
    let before = contents(faulty);
    let verified = Executor::new(1).finish(verify(&faulty.disk())).expect("it would open");
    assert_eq!(before, contents(faulty), "verify changed the log");
    let (recovered, indexes) = whole_life(faulty, async |wal, recovered| (recovered, indexes(&wal).await));
    let (torn, entries) = verified.map_or((None, None), |verified| (verified.torn, verified.entries));
    assert_eq!(torn, recovered.cut);
    assert_eq!(entries, indexes.first().copied().zip(indexes.last().copied()));
    (recovered, indexes)
}

/// The log's segments, the oldest first.
pub fn segments(faulty: &FaultyDisk) -> Vec<String> {
    faulty.files().into_iter().map(|(name, _)| name).filter(|name| name.starts_with("log-0")).collect()
}

/// Collects the messages of the fatal hook instead of ending the process.
pub fn fatal_messages() -> (Options, Arc<Mutex<Vec<String>>>) {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let hook = messages.clone();
    let on_fatal = Arc::new(move |message: &str| hook.lock().unwrap().push(message.to_string()));
    (Options { on_fatal, ..Options::small() }, messages)
}

/// Lets the other tasks run for a while.
pub async fn pass(polls: u32) {
    for _ in 0..polls {
        let mut has_yielded = false;
        std::future::poll_fn(|cx| {
            if has_yielded {
                return std::task::Poll::Ready(());
            }
            has_yielded = true;
            cx.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
    }
}

/// Offset, length and number of every batch header in a segment.
pub fn batches(faulty: &FaultyDisk, file: &str) -> Vec<(usize, usize, u64)> {
    let bytes = faulty.content(file).unwrap();
    let seed = SegmentHeader::decode(&bytes).unwrap().seed();
    let headers = (BLOCK_BYTES..bytes.len()).step_by(BLOCK_BYTES);
    headers
        .filter_map(|at| {
            let header = BatchHeader::decode(&bytes[at..], seed)?;
            Some((at, header.padded_bytes() as usize, header.number))
        })
        .collect()
}

/// A log with entries 1 to 3 durable, and then a batch of several blocks with entry 4 written, not synced; the
/// process is gone. Returns the batch's offset and length in the only used segment.
pub fn with_unsynced_batch(faulty: &FaultyDisk) -> (usize, usize) {
    live(faulty, options(), ENOUGH, async |wal, _| {
        append_each(&wal, 1..4).await;
        faulty.hold_syncs(true);
        drop(queue(&wal, vec![entry(4, 3 * BLOCK_BYTES)]));
        pass(200).await;
    })
    .unwrap();
    let (offset, len, number) = *batches(faulty, FIRST).last().unwrap();
    assert_eq!((len, number), (4 * BLOCK_BYTES, 4));
    (offset, len)
}

pub const FIRST: &str = "log-0000000000000001.seg";
