//! The same log on threads and a real disk, as in production.

use super::harness::{append, entry, indexes, queue};
use crate::{Options, RealDisk, open, read_small_file, replace_file};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

fn options() -> Options {
    Options { on_fatal: Arc::new(|message| panic!("fatal: {message}")), ..Options::small() }
}

#[tokio::test]
async fn callbacks_come_in_order_and_everything_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    {
        let (wal, recovered) = open(RealDisk::open(folder.path()).unwrap(), options()).await.unwrap();
        assert!(recovered.created);
        for index in 0..2000 {
            let order = order.clone();
            let done = Box::new(move |result: std::io::Result<()>| {
                result.unwrap();
                order.lock().unwrap().push(index);
            });
            wal.append(vec![entry(index, 50)], done);
        }
        wal.save_vote("vote".into()).await.unwrap();
        assert_eq!(*order.lock().unwrap(), Vec::from_iter(0..2000));
        let stats = wal.stats();
        assert_eq!((stats.durable_index, stats.queued_bytes, stats.full), (Some(1999), 0, false));
        assert!(stats.batches_written < 1000, "appends were grouped");
        assert_eq!(stats.sync.count, stats.batches_written);
        assert!(stats.cached_bytes <= 8 * 1024);
        assert_eq!(indexes(&wal).await, Vec::from_iter(0..2000));
        wal.purge_upto(1899, "purged".into()).await.unwrap();
        wal.close().await;
        assert_eq!(append_after_close(&wal).await, ErrorKind::BrokenPipe);
    }
    let (wal, recovered) = open(RealDisk::open(folder.path()).unwrap(), options()).await.unwrap();
    assert_eq!(recovered.vote, Some("vote".into()));
    assert_eq!(recovered.last, Some((1999, "head 1999".into())));
    assert_eq!(indexes(&wal).await, Vec::from_iter(1900..2000));
    wal.close().await;
}

async fn append_after_close(wal: &crate::Wal) -> ErrorKind {
    append(wal, vec![entry(2000, 1)]).await.unwrap_err().kind()
}

#[tokio::test]
async fn what_is_queued_is_written_when_the_last_handle_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _) = open(RealDisk::open(folder.path()).unwrap(), options()).await.unwrap();
    let durable: Vec<_> = (0..100).map(|index| queue(&wal, vec![entry(index, 500)])).collect();
    drop(wal);
    for durable in durable {
        durable.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn reads_race_with_purges_without_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (wal, _) = open(RealDisk::open(folder.path()).unwrap(), options()).await.unwrap();
    for round in 0..40u64 {
        let start = round * 50;
        append(&wal, (start..start + 50).map(|index| entry(index, 300)).collect()).await.unwrap();
        let (reading, purging) = (wal.clone(), wal.clone());
        let read = keeper_rt::spawn("read", async move { indexes(&reading).await });
        let purge =
            keeper_rt::spawn("purge", async move { purging.purge_upto(start + 20, "p".into()).await });
        purge.await.unwrap().unwrap();
        let found = read.await.unwrap();
        assert_eq!(found.last(), Some(&(start + 49)));
        assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }
    wal.close().await;
}

#[tokio::test]
async fn small_files_live_beside_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(folder.path()).unwrap();
    assert_eq!(read_small_file(&disk, "identity").await.unwrap(), None);
    replace_file(&disk, "identity", b"one").await.unwrap();
    replace_file(&disk, "identity", b"two").await.unwrap();
    let (wal, _) = open(disk.clone(), options()).await.unwrap();
    wal.close().await;
    assert_eq!(read_small_file(&disk, "identity").await.unwrap().unwrap(), b"two"[..]);
    assert!(!disk.list().await.unwrap().iter().any(|name| name.ends_with(".tmp")));
}
