//! The disk's promises: what was synced stays, what was not may go in every way.

use super::*;
use crate::executor::{Options, run};
use crate::limits::PAGE_BYTES;
use std::collections::BTreeSet;
use std::future::Future;

/// Runs one story on a fresh disk; a panic in it fails the test.
fn story<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    seed: u64,
    tell: impl FnOnce(SimDisk) -> F,
) -> T {
    let finished = run(seed, Options::default(), |simulator| tell(SimDisk::new(&simulator, 1)));
    assert!(finished.panics.is_empty(), "{:?}", finished.panics);
    finished.output.expect("the story ends")
}

async fn read_all(disk: &SimDisk, name: &str) -> io::Result<Vec<u8>> {
    let file = disk.interface().open(name).await?;
    let len = file.len().await? as usize;
    file.read_at(0, len).await
}

#[test]
fn synced_bytes_under_a_synced_name_outlive_every_power_loss() {
    for seed in 0..300 {
        let (kept, written) = story(seed, |disk| async move {
            let folder = disk.interface();
            let mut file = folder.create("log").await.unwrap();
            let written: Vec<u8> = (0..3 * PAGE_BYTES + 77).map(|n| (n % 251) as u8).collect();
            file.write_at(0, &written).await.unwrap();
            file.sync().await.unwrap();
            folder.sync_folder().await.unwrap();
            file.write_at(written.len() as u64, &[9; 9000]).await.unwrap();
            disk.lose_power();
            (read_all(&disk, "log").await.unwrap(), written)
        });
        assert!(kept.len() >= written.len() && kept[..written.len()] == written[..], "seed {seed}");
    }
}

#[test]
fn unsynced_bytes_are_lost_kept_and_torn() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..300 {
        let kept = story(seed, |disk| async move {
            let folder = disk.interface();
            let mut file = folder.create("log").await.unwrap();
            file.sync().await.unwrap();
            folder.sync_folder().await.unwrap();
            file.write_at(0, &[7; 4 * PAGE_BYTES]).await.unwrap();
            disk.lose_power();
            read_all(&disk, "log").await.unwrap()
        });
        let holes = kept.contains(&0) && kept.contains(&7);
        outcomes.insert(match kept.len() {
            0 => "lost",
            len if len == 4 * PAGE_BYTES && !holes => "kept",
            _ if holes => "holes",
            _ => "beginning",
        });
    }
    assert_eq!(outcomes, BTreeSet::from(["beginning", "holes", "kept", "lost"]));
}

#[test]
fn overwritten_bytes_go_back_to_what_was_synced_or_are_new_by_sectors() {
    for seed in 0..200 {
        let kept = story(seed, |disk| async move {
            let folder = disk.interface();
            let mut file = folder.create("log").await.unwrap();
            file.write_at(0, &[1; 2 * PAGE_BYTES]).await.unwrap();
            file.sync().await.unwrap();
            folder.sync_folder().await.unwrap();
            file.write_at(0, &[2; 2 * PAGE_BYTES]).await.unwrap();
            disk.lose_power();
            read_all(&disk, "log").await.unwrap()
        });
        assert_eq!(kept.len(), 2 * PAGE_BYTES);
        for sector in kept.chunks(crate::limits::SECTOR_BYTES) {
            assert!(sector.iter().all(|byte| *byte == sector[0] && [1, 2].contains(byte)), "seed {seed}");
        }
    }
}

#[test]
fn a_write_during_a_sync_is_not_made_durable_by_it() {
    for seed in 0..50 {
        let kept = story(seed, |disk| async move {
            let folder = disk.interface();
            let mut first = folder.create("log").await.unwrap();
            let mut second = folder.open("log").await.unwrap();
            folder.sync_folder().await.unwrap();
            first.write_at(0, b"old").await.unwrap();
            let sync = first.sync();
            let write = async {
                disk.simulator.sleep(Duration::from_micros(100)).await;
                second.write_at(0, b"new").await.unwrap();
            };
            tokio::join!(biased; sync, write).0.unwrap();
            lock(&disk.state)
                .folder
                .open("log")
                .map(|file| {
                    lock(&file).lose_power(file::Loss::All, &mut crate::random::Stream::from_seed(seed));
                })
                .unwrap();
            read_all(&disk, "log").await.unwrap()
        });
        assert_eq!(kept, b"old", "seed {seed}");
    }
}

#[test]
fn the_death_of_a_process_keeps_what_it_wrote_and_ends_its_handles() {
    let (kept, late) = story(1, |disk| async move {
        let folder = disk.interface();
        let mut file = folder.create("log").await.unwrap();
        file.write_at(0, b"written").await.unwrap();
        disk.process_died();
        let late = file.write_at(7, b" late").await.is_err() && folder.create("other").await.is_err();
        (read_all(&disk, "log").await.unwrap(), late)
    });
    assert_eq!(kept, b"written");
    assert!(late);
}

#[test]
fn names_that_were_not_synced_may_be_lost_but_only_the_latest_ones() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let names = story(seed, |disk| async move {
            let folder = disk.interface();
            folder.create("a.tmp").await.unwrap();
            folder.sync_folder().await.unwrap();
            folder.rename("a.tmp", "a").await.unwrap();
            folder.create("b").await.unwrap();
            folder.remove("a").await.unwrap();
            disk.lose_power();
            disk.interface().list().await.unwrap().join(" ")
        });
        seen.insert(names);
    }
    assert_eq!(seen, BTreeSet::from(["a.tmp".into(), "a".into(), "a b".into(), "b".into()]));
}

#[test]
fn a_full_disk_refuses_growth_and_still_overwrites() {
    story(1, |disk| async move {
        disk.set_size_bytes(100);
        let mut file = disk.interface().create("log").await.unwrap();
        file.write_at(0, &[1; 90]).await.unwrap();
        let error = file.write_at(90, &[1; 11]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        file.write_at(10, &[2; 80]).await.unwrap();
        assert_eq!(disk.interface().free_bytes().await.unwrap(), Some(10));
    });
}

#[test]
fn a_sync_takes_its_time_and_a_slow_disk_fifty_times_as_long() {
    story(2, |disk| async move {
        let mut file = disk.interface().create("log").await.unwrap();
        for (slowness, ms) in [(1, 0..=230), (50, 15..=11_000)] {
            disk.set_slowness(slowness);
            let start = disk.simulator.now_ns();
            file.write_at(0, b"x").await.unwrap();
            file.sync().await.unwrap();
            let took_ms = (disk.simulator.now_ns() - start) / 1_000_000;
            assert!(ms.contains(&took_ms), "{slowness}: {took_ms} ms");
        }
    });
}

#[test]
fn what_a_failed_sync_should_have_written_is_not_made_durable_by_a_later_one() {
    for (rewritten, expected) in [(false, b"old"), (true, b"new")] {
        let kept = story(1, move |disk| async move {
            let folder = disk.interface();
            let mut file = folder.create("log").await.unwrap();
            folder.sync_folder().await.unwrap();
            file.write_at(0, b"old").await.unwrap();
            file.sync().await.unwrap();
            file.write_at(0, b"new").await.unwrap();
            disk.set_failing_syncs(1);
            assert!(file.sync().await.is_err());
            if rewritten {
                file.write_at(0, b"new").await.unwrap();
            }
            file.sync().await.unwrap();
            assert_eq!(read_all(&disk, "log").await.unwrap(), b"new", "the cache still has it");
            let cached = lock(&disk.state).folder.open("log").unwrap();
            lock(&cached).lose_power(file::Loss::All, &mut crate::random::Stream::from_seed(1));
            read_all(&disk, "log").await.unwrap()
        });
        assert_eq!(kept, expected, "written again: {rewritten}");
    }
}

/// A segment with its header and batches of a page each, all synced; where the last one begins.
async fn segment(disk: &SimDisk, batches: usize) -> (Box<dyn DiskFile>, usize) {
    let folder = disk.interface();
    let mut file = folder.create("log-1.seg").await.unwrap();
    file.write_at(0, &[7; 64 * PAGE_BYTES]).await.unwrap();
    folder.sync_folder().await.unwrap();
    // More than what is spared of batches that follow each other.
    let step = 5 * PAGE_BYTES;
    for batch in 1..=batches {
        file.write_at((batch * step) as u64, &vec![batch as u8; step]).await.unwrap();
        file.sync().await.unwrap();
    }
    (file, batches * step)
}

#[test]
fn bits_rot_anywhere_but_in_the_last_two_batches_of_the_log() {
    let mut rotten = 0;
    for seed in 0..200 {
        let (before, after, spared) = story(seed, |disk| async move {
            let (_, last) = segment(&disk, 6).await;
            let before = read_all(&disk, "log-1.seg").await.unwrap();
            disk.rot();
            (
                before,
                read_all(&disk, "log-1.seg").await.unwrap(),
                last - 5 * PAGE_BYTES..last + 5 * PAGE_BYTES,
            )
        });
        assert_eq!(before[spared.clone()], after[spared], "seed {seed}");
        rotten += usize::from(before != after);
    }
    assert!(rotten > 50, "{rotten} of 200");
}

#[test]
fn a_batch_that_went_elsewhere_is_not_where_it_should_be() {
    story(3, |disk| async move {
        let (mut file, last) = segment(&disk, 3).await;
        let end = last + 5 * PAGE_BYTES;
        disk.misdirect_next_write();
        file.write_at(end as u64, &[9; 600]).await.unwrap();
        file.sync().await.unwrap();
        assert_eq!(file.read_at(end as u64, 600).await.unwrap(), [7; 600]);
        assert!(disk.lacks_its_last_batch(), "nothing shows that it is not there");
        file.write_at(end as u64 + PAGE_BYTES as u64, &[9; 600]).await.unwrap();
        assert!(disk.lacks_its_last_batch(), "what would show it can still be lost");
        file.sync().await.unwrap();
        assert!(!disk.lacks_its_last_batch());
    });
}
