//! Every state after a crash that `docs/formats/log.md` lists, under the names given there.

use super::harness::*;
use crate::Options;
use crate::faulty::{FaultyDisk, Loss};
use crate::limits::BLOCK_BYTES;
use bytes::Bytes;

#[test]
fn crash_while_the_first_segment_is_created() {
    for polls in 1..60 {
        let faulty = FaultyDisk::new(polls);
        faulty.set_yields(true);
        live(&faulty, options(), polls, async |_, _| ());
        faulty.crash(Loss::Torn);
        let (recovered, indexes) = found(&faulty);
        assert_eq!((recovered.vote, recovered.last, indexes), (None, None, vec![]), "{polls}");
    }
}

#[test]
fn a_log_without_a_batch_is_empty() {
    let faulty = FaultyDisk::new(1);
    assert!(whole_life(&faulty, async |_, recovered| recovered.created));
    faulty.crash(Loss::Unsynced);
    let (recovered, indexes) = found(&faulty);
    assert!(!recovered.created);
    assert_eq!(indexes, []);
}

#[test]
fn a_batch_that_never_reached_the_disk_is_not_there() {
    let faulty = FaultyDisk::new(1);
    with_unsynced_batch(&faulty);
    faulty.crash(Loss::Unsynced);
    let (recovered, indexes) = found(&faulty);
    assert_eq!((recovered.cut, indexes), (None, vec![1, 2, 3]));
}

#[test]
fn a_torn_body_is_cut() {
    let faulty = FaultyDisk::new(1);
    let (offset, _) = with_unsynced_batch(&faulty);
    faulty.crash(Loss::Nothing);
    faulty.edit(FIRST, |bytes| bytes[offset + 2 * BLOCK_BYTES..][..BLOCK_BYTES].fill(0));
    let (recovered, indexes) = found(&faulty);
    assert_eq!(recovered.cut.unwrap().offset, offset as u64);
    assert_eq!(indexes, [1, 2, 3]);
    assert_eq!(found(&faulty).0.cut, None, "it was zeroed");
}

#[test]
fn a_body_without_its_header_is_cut() {
    let faulty = FaultyDisk::new(1);
    let (offset, len) = with_unsynced_batch(&faulty);
    faulty.crash(Loss::Nothing);
    faulty.edit(FIRST, |bytes| bytes[offset..][..BLOCK_BYTES].fill(0));
    let is_clear = || faulty.content(FIRST).unwrap()[offset..][..len].iter().all(|byte| *byte == 0);
    assert!(!is_clear());
    let (_, indexes) = found(&faulty);
    assert_eq!(indexes, [1, 2, 3]);
    // The window is at least the largest batch of many entries; this one was a single larger entry.
    let window = options().batch_bytes_max;
    assert!(faulty.content(FIRST).unwrap()[offset..][..window].iter().all(|byte| *byte == 0));
}

#[test]
fn sectors_out_of_order_are_cut() {
    let mut whole = 0;
    for seed in 0..200 {
        let faulty = FaultyDisk::new(seed);
        with_unsynced_batch(&faulty);
        faulty.crash(if seed % 2 == 0 { Loss::Torn } else { Loss::Random });
        let (_, indexes) = found(&faulty);
        assert!(indexes == [1, 2, 3] || indexes == [1, 2, 3, 4], "{indexes:?}");
        whole += usize::from(indexes.len() == 4);
    }
    assert!(whole < 10, "most were torn");
}

#[test]
fn an_unsynced_whole_batch_is_made_durable_before_it_is_reported() {
    let faulty = FaultyDisk::new(1);
    with_unsynced_batch(&faulty);
    faulty.crash(Loss::Process);
    assert_eq!(found(&faulty).1, [1, 2, 3, 4]);
    faulty.crash(Loss::Unsynced);
    assert_eq!(found(&faulty).1, [1, 2, 3, 4]);
}

#[test]
fn a_batch_whose_sync_failed_is_written_again_before_it_is_reported() {
    let faulty = FaultyDisk::new(1);
    let (options, messages) = fatal_messages();
    live(&faulty, options, ENOUGH, async |wal, _| {
        append_each(&wal, 1..4).await;
        faulty.fail_next_sync("log-", std::io::ErrorKind::Other);
        assert!(append(&wal, vec![entry(4, 20)]).await.is_err());
        assert!(append(&wal, vec![entry(5, 20)]).await.is_err(), "nothing is written after that");
    })
    .unwrap();
    assert_eq!(messages.lock().unwrap().len(), 1);
    assert!(messages.lock().unwrap()[0].contains("sync of log segment 1 failed"), "{messages:?}");
    // The page cache still shows the batch and believes that it is clean.
    faulty.crash(Loss::Process);
    assert_eq!(found(&faulty).1, [1, 2, 3, 4]);
    faulty.crash(Loss::Unsynced);
    assert_eq!(found(&faulty).1, [1, 2, 3, 4]);
}

#[test]
fn a_crash_during_recovery_changes_nothing() {
    for polls in 1..120 {
        let faulty = FaultyDisk::new(polls);
        let (offset, _) = with_unsynced_batch(&faulty);
        faulty.crash(Loss::Nothing);
        let is_torn = polls % 2 == 0;
        if is_torn {
            faulty.edit(FIRST, |bytes| bytes[offset + 2 * BLOCK_BYTES] ^= 1);
        }
        faulty.set_yields(true);
        live(&faulty, options(), polls, async |_, _| ());
        faulty.crash(Loss::Torn);
        faulty.set_yields(false);
        let expected = if is_torn { vec![1, 2, 3] } else { vec![1, 2, 3, 4] };
        assert_eq!(found(&faulty).1, expected, "{polls}");
    }
}

#[test]
fn a_cut_batch_never_mixes_with_its_successor() {
    let other = || (4, Bytes::from("head 4"), Bytes::from(vec![0xaa; 3 * BLOCK_BYTES]));
    for seed in 0..100 {
        let faulty = FaultyDisk::new(seed);
        let (offset, _) = with_unsynced_batch(&faulty);
        faulty.crash(Loss::Nothing);
        // The header of the torn batch is lost, the rest of it is there.
        faulty.edit(FIRST, |bytes| bytes[offset] ^= 1);
        live(&faulty, options(), ENOUGH, async |wal, _| {
            faulty.hold_syncs(true);
            drop(queue(&wal, vec![other()]));
            pass(200).await;
        });
        faulty.crash(Loss::Random);
        whole_life(&faulty, async |wal, _| {
            let fourth = wal.read(4..5, usize::MAX).await.unwrap();
            assert!(fourth.is_empty() || fourth == [other()], "seed {seed}");
        });
    }
}

#[test]
fn a_prepared_segment_without_a_batch_is_no_gap() {
    for loss in [Loss::Process, Loss::Unsynced] {
        let faulty = FaultyDisk::new(1);
        live(&faulty, options(), ENOUGH, async |wal, _| {
            append_each(&wal, 1..3).await;
            pass(200).await;
        });
        assert_eq!(segments(&faulty).len(), 2);
        faulty.crash(loss);
        whole_life(&faulty, async |wal, _| append_each(&wal, 3..40).await);
        assert_eq!(found(&faulty).1, Vec::from_iter(1..40));
    }
}

#[test]
fn a_crash_while_a_segment_is_prepared_leaves_a_readable_log() {
    for polls in 1..150 {
        let faulty = FaultyDisk::new(polls);
        faulty.set_yields(true);
        let mut acknowledged = 0;
        live(&faulty, options(), 40 + polls, async |wal, _| {
            for index in 1..40 {
                append(&wal, vec![entry(index, 20)]).await.unwrap();
                acknowledged = index;
            }
        });
        faulty.crash(Loss::Torn);
        let (_, indexes) = found(&faulty);
        assert!(acknowledged <= indexes.len() as u64, "{polls}: {acknowledged} of {indexes:?}");
    }
}

/// A log that has gone through several segments, purged up to 60, with spares.
fn with_spares(faulty: &FaultyDisk) {
    whole_life(faulty, async |wal, _| {
        append_each(&wal, 1..80).await;
        wal.purge_upto(60, "purged".into()).await.unwrap();
        append_each(&wal, 80..82).await;
        pass(200).await;
        assert!(wal.stats().spare_segments > 0);
    });
}

#[test]
fn a_spare_with_a_torn_header_is_only_a_spare() {
    let faulty = FaultyDisk::new(1);
    with_spares(&faulty);
    let spares = faulty.files().into_iter().filter(|(name, _)| name.starts_with("spare-"));
    for (name, _) in spares {
        faulty.edit(&name, |bytes| bytes[20] ^= 0xff);
    }
    whole_life(&faulty, async |wal, _| append_each(&wal, 82..150).await);
    assert_eq!(found(&faulty).1, Vec::from_iter(61..150));
}

#[test]
fn a_torn_first_batch_of_a_segment_is_cut() {
    let faulty = FaultyDisk::new(1);
    live(&faulty, options(), ENOUGH, async |wal, _| {
        append_each(&wal, 1..4).await;
        pass(200).await;
        // Does not fit into the rest of the first segment.
        faulty.hold_syncs(true);
        drop(queue(&wal, vec![entry(4, 11 * BLOCK_BYTES)]));
        pass(300).await;
    })
    .unwrap();
    faulty.crash(Loss::Nothing);
    let last = segments(&faulty).pop().unwrap();
    let before: u64 = batches(&faulty, &segments(&faulty)[segments(&faulty).len() - 2]).last().unwrap().2;
    assert_eq!(batches(&faulty, &last)[0].2, before + 1);
    faulty.edit(&last, |bytes| bytes[3 * BLOCK_BYTES] ^= 1);
    let (recovered, indexes) = found(&faulty);
    let cut = recovered.cut.unwrap();
    assert!(cut.file.ends_with(&last) && cut.offset == BLOCK_BYTES as u64, "{cut:?}");
    assert_eq!(indexes, [1, 2, 3]);
    whole_life(&faulty, async |wal, _| append_each(&wal, 4..30).await);
    assert_eq!(found(&faulty).1, Vec::from_iter(1..30));
}

#[test]
fn old_records_of_a_recycled_segment_are_never_taken() {
    let faulty = FaultyDisk::new(1);
    with_spares(&faulty);
    for round in 0..12 {
        let start = 82 + round * 10;
        live(&faulty, options(), ENOUGH, async |wal, _| {
            append_each(&wal, start..start + 10).await;
            wal.purge_upto(start - 10, "purged".into()).await.unwrap();
            append(&wal, vec![]).await.unwrap();
            pass(100).await;
        });
        faulty.crash(if round % 2 == 0 { Loss::Process } else { Loss::Unsynced });
        let (recovered, indexes) = found(&faulty);
        assert_eq!(indexes, Vec::from_iter(start - 9..start + 10));
        assert_eq!(recovered.cut, None);
    }
    let recycled = segments(&faulty).iter().any(|name| {
        let used = batches(&faulty, name).last().map_or(BLOCK_BYTES, |(at, len, _)| at + len);
        faulty.content(name).unwrap()[used..].iter().any(|byte| *byte != 0)
    });
    assert!(recycled, "a segment in use has old bytes behind its end");
}

/// Runs `change` on entries 1 to 6 without a sync, and returns what is found after each loss.
fn after_unsynced(
    loss: Loss,
    seed: u64,
    change: impl AsyncFnOnce(crate::Wal),
) -> (crate::Recovered, Vec<u64>) {
    let faulty = FaultyDisk::new(seed);
    live(&faulty, options(), ENOUGH, async |wal, _| {
        append_each(&wal, 1..7).await;
        faulty.hold_syncs(true);
        change(wal).await;
    });
    faulty.crash(loss);
    found(&faulty)
}

#[test]
fn a_truncation_is_whole_or_not_there() {
    let truncate = async |wal: crate::Wal| {
        drop(keeper_rt::spawn("truncate", async move { wal.truncate_after(Some(2)).await }));
        pass(200).await;
    };
    assert_eq!(after_unsynced(Loss::Unsynced, 1, truncate).1, [1, 2, 3, 4, 5, 6]);
    assert_eq!(after_unsynced(Loss::Nothing, 1, truncate).1, [1, 2]);
    for seed in 0..50 {
        let (_, indexes) = after_unsynced(Loss::Torn, seed, truncate);
        assert!(indexes.len() == 2 || indexes.len() == 6, "{indexes:?}");
    }
}

#[test]
fn a_truncation_over_segments_survives_a_crash() {
    let faulty = FaultyDisk::new(1);
    live(&faulty, options(), ENOUGH, async |wal, _| {
        append_each(&wal, 1..40).await;
        wal.truncate_after(Some(5)).await.unwrap();
        append_each(&wal, 6..9).await;
        wal.truncate_after(None).await.unwrap();
        append_each(&wal, 1..8).await;
        wal.truncate_after(Some(6)).await.unwrap();
    });
    assert!(segments(&faulty).len() > 2);
    faulty.crash(Loss::Unsynced);
    let (recovered, indexes) = found(&faulty);
    assert_eq!(indexes, [1, 2, 3, 4, 5, 6]);
    assert_eq!(recovered.last, Some((6, "head 6".into())));
}

#[test]
fn a_purge_is_whole_or_not_there() {
    let purge = async |wal: crate::Wal| {
        wal.purge_upto(4, "purged".into()).await.unwrap();
        pass(200).await;
    };
    assert_eq!(after_unsynced(Loss::Unsynced, 1, purge).1, [1, 2, 3, 4, 5, 6]);
    let (recovered, indexes) = after_unsynced(Loss::Nothing, 1, purge);
    assert_eq!((recovered.purged, indexes), (Some((4, "purged".into())), vec![5, 6]));
}

#[test]
fn a_crash_between_releases_leaves_a_readable_log() {
    for seed in 0..60 {
        let faulty = FaultyDisk::new(seed);
        let mut executor = super::executor::Executor::new(seed);
        executor.stop_at("segment-released", seed % 4);
        let disk = faulty.disk();
        let ended = executor.run(ENOUGH, async {
            let (wal, _) = crate::open(disk, options()).await.unwrap();
            append_each(&wal, 1..100).await;
            wal.purge_upto(90, "purged".into()).await.unwrap();
            append_each(&wal, 100..120).await;
            pass(300).await;
        });
        assert_eq!(ended, None, "the crash point was reached");
        drop(executor);
        faulty.crash(Loss::Random);
        let (recovered, indexes) = found(&faulty);
        assert_eq!(recovered.purged, Some((90, "purged".into())));
        assert_eq!(indexes[..9], Vec::from_iter(91..100)[..]);
    }
}

#[test]
fn a_purge_beyond_the_end_moves_the_log() {
    let purge = async |wal: crate::Wal| {
        wal.purge_upto(100, "snapshot".into()).await.unwrap();
        pass(200).await;
    };
    assert_eq!(after_unsynced(Loss::Unsynced, 1, purge).1, [1, 2, 3, 4, 5, 6]);
    let faulty = FaultyDisk::new(1);
    live(&faulty, options(), ENOUGH, async |wal, _| {
        append_each(&wal, 1..50).await;
        wal.purge_upto(100, "snapshot".into()).await.unwrap();
        append_each(&wal, 101..104).await;
    });
    faulty.crash(Loss::Unsynced);
    let (recovered, indexes) = found(&faulty);
    assert_eq!((recovered.purged, recovered.first_index), (Some((100, "snapshot".into())), Some(101)));
    assert_eq!(indexes, [101, 102, 103]);
}

#[test]
fn a_vote_outlives_its_segment() {
    let faulty = FaultyDisk::new(1);
    live(&faulty, options(), ENOUGH, async |wal, _| {
        wal.save_vote("vote 1".into()).await.unwrap();
        wal.save_vote("vote 2".into()).await.unwrap();
        wal.note_committed("committed".into());
        append_each(&wal, 1..60).await;
        wal.purge_upto(59, "purged".into()).await.unwrap();
        append(&wal, vec![entry(60, 20)]).await.unwrap();
        pass(200).await;
    });
    assert!(!segments(&faulty).contains(&FIRST.to_string()));
    faulty.crash(Loss::Unsynced);
    let (recovered, indexes) = found(&faulty);
    assert_eq!((recovered.vote, recovered.committed), (Some("vote 2".into()), Some("committed".into())));
    assert_eq!(indexes, [60]);
}

#[test]
fn an_entry_larger_than_a_segment_gets_one_of_its_own() {
    let faulty = FaultyDisk::new(1);
    let large = 3 * Options::small().segment_bytes as usize;
    live(&faulty, options(), ENOUGH, async |wal, _| {
        append(&wal, vec![entry(1, large)]).await.unwrap();
        append_each(&wal, 2..5).await;
        append(&wal, vec![entry(5, large), entry(6, 10)]).await.unwrap();
    });
    faulty.crash(Loss::Unsynced);
    assert_eq!(found(&faulty).1, [1, 2, 3, 4, 5, 6]);
    whole_life(&faulty, async |wal, _| append_each(&wal, 7..30).await);
    assert_eq!(found(&faulty).1, Vec::from_iter(1..30));
}
