//! A full disk refuses, holds and recovers; nothing is lost or failed.

use super::harness::*;
use crate::faulty::{FaultyDisk, Loss};
use std::io::ErrorKind;
use std::time::Duration;

/// Appends until the log calls itself full, as a server does that refuses new writes then.
async fn fill(wal: &crate::Wal, start: u64) -> u64 {
    let mut next = start;
    while !wal.is_full() {
        append(wal, vec![entry(next, 20)]).await.unwrap();
        next += 1;
        assert!(next < 1000, "the disk never became full");
        pass(20).await;
    }
    next
}

#[test]
fn the_log_says_full_before_it_is_and_goes_on_when_there_is_space() {
    let faulty = FaultyDisk::new(1);
    whole_life(&faulty, async |wal, _| {
        append_each(&wal, 1..20).await;
        faulty.set_capacity(Some(faulty.used_bytes()));
        let next = fill(&wal, 20).await;
        assert!(wal.stats().full);
        // What is in flight, and a vote, still fit.
        append_each(&wal, next..next + 1).await;
        wal.save_vote("vote".into()).await.unwrap();
        faulty.set_capacity(None);
        keeper_rt::sleep(Duration::from_secs(20)).await;
        append_each(&wal, next + 1..next + 2).await;
        pass(100).await;
        assert!(!wal.is_full());
        append_each(&wal, next + 2..next + 60).await;
    });
    let (recovered, indexes) = found(&faulty);
    assert_eq!(recovered.vote, Some("vote".into()));
    assert_eq!(indexes, Vec::from_iter(1..indexes.len() as u64 + 1));
}

/// Appends until an append is held.
async fn fill_up(
    wal: &crate::Wal,
    faulty: &FaultyDisk,
) -> (u64, tokio::sync::oneshot::Receiver<std::io::Result<()>>) {
    append_each(wal, 1..20).await;
    faulty.set_capacity(Some(faulty.used_bytes()));
    let mut next = fill(wal, 20).await;
    loop {
        let mut durable = queue(wal, vec![entry(next, 20)]);
        keeper_rt::sleep(Duration::from_secs(1)).await;
        match durable.try_recv() {
            Ok(result) => result.unwrap(),
            Err(_) => return (next, durable),
        }
        next += 1;
    }
}

#[test]
fn held_appends_and_votes_complete_in_order_when_space_returns() {
    let faulty = FaultyDisk::new(1);
    whole_life(&faulty, async |wal, _| {
        let (held, durable) = fill_up(&wal, &faulty).await;
        let voting = keeper_rt::spawn("vote", {
            let wal = wal.clone();
            async move { wal.save_vote("late vote".into()).await }
        });
        keeper_rt::sleep(Duration::from_secs(60)).await;
        assert_eq!(indexes(&wal).await.last(), Some(&held), "held entries can be read");
        assert!(wal.stats().queued_bytes > 0);
        assert_eq!(wal.stats().durable_index, Some(held - 1));
        faulty.set_capacity(None);
        durable.await.unwrap().unwrap();
        voting.await.unwrap().unwrap();
        append_each(&wal, held + 1..held + 30).await;
        assert_eq!(wal.stats().queued_bytes, 0);
    });
    assert_eq!(found(&faulty).0.vote, Some("late vote".into()));
}

#[test]
fn held_appends_are_not_there_after_a_crash() {
    let faulty = FaultyDisk::new(1);
    let held = live(&faulty, options(), ENOUGH, async |wal, _| fill_up(&wal, &faulty).await.0).unwrap();
    faulty.crash(Loss::Unsynced);
    faulty.set_capacity(None);
    let (recovered, indexes) = found(&faulty);
    assert_eq!((recovered.cut, indexes), (None, Vec::from_iter(1..held)));
}

#[test]
fn a_purge_passes_held_appends_and_frees_the_space_they_wait_for() {
    let faulty = FaultyDisk::new(1);
    whole_life(&faulty, async |wal, _| {
        let (held, durable) = fill_up(&wal, &faulty).await;
        wal.purge_upto(held - 1, "purged".into()).await.unwrap();
        durable.await.unwrap().unwrap();
        append_each(&wal, held + 1..held + 4).await;
    });
    let (recovered, indexes) = found(&faulty);
    assert_eq!(recovered.purged.unwrap().0 + 1, indexes[0]);
    assert_eq!(indexes.len(), 4);
}

#[test]
fn a_log_closed_while_its_disk_is_full_answers_what_it_holds() {
    let faulty = FaultyDisk::new(1);
    live(&faulty, options(), ENOUGH, async |wal, _| {
        let (_, durable) = fill_up(&wal, &faulty).await;
        wal.close().await;
        assert_eq!(durable.await.unwrap().unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(wal.save_vote("v".into()).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    })
    .unwrap();
}

#[test]
fn a_disk_that_has_no_space_even_for_overwriting_is_waited_for() {
    let faulty = FaultyDisk::new(1);
    whole_life(&faulty, async |wal, _| {
        append_each(&wal, 1..3).await;
        pass(200).await;
        faulty.fail_overwrites(true);
        let mut durable = queue(&wal, vec![entry(3, 20)]);
        keeper_rt::sleep(Duration::from_secs(30)).await;
        assert!(durable.try_recv().is_err() && wal.is_full());
        faulty.fail_overwrites(false);
        durable.await.unwrap().unwrap();
        assert!(!wal.is_full());
    });
    assert_eq!(found(&faulty).1, [1, 2, 3]);
}

#[test]
fn a_write_that_fails_for_another_reason_stops_the_log() {
    let faulty = FaultyDisk::new(1);
    let (options, messages) = fatal_messages();
    live(&faulty, options, ENOUGH, async |wal, _| {
        append_each(&wal, 1..3).await;
        pass(200).await;
        faulty.fail_next_write("log-", ErrorKind::Other);
        assert!(append(&wal, vec![entry(3, 20)]).await.is_err());
        assert!(wal.save_vote("v".into()).await.is_err());
    })
    .unwrap();
    assert!(messages.lock().unwrap()[0].contains("cannot write a batch"), "{messages:?}");
    faulty.crash(Loss::Process);
    assert_eq!(found(&faulty).1, [1, 2]);
}

#[test]
fn a_new_log_on_a_full_disk_is_an_error_that_says_so() {
    let faulty = FaultyDisk::new(1);
    faulty.set_capacity(Some(1000));
    let opened = super::executor::Executor::new(1).finish(crate::open(faulty.disk(), options()));
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::StorageFull);
    assert_eq!(faulty.files(), []);
}
