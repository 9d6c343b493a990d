//! Every crash and damage case of `docs/formats/snapshot.md`.

use super::*;
use crate::faulty::{FaultyDisk, Loss};
use crate::tests::executor::Executor;

fn run<F: std::future::Future>(future: F) -> F::Output {
    Executor::new(7).finish(future)
}

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta { term: 2, index, head: format!("head {index}").into() }
}

fn chunks(index: u64) -> Vec<Vec<u8>> {
    (1..5).map(|chunk| vec![(index * 10 + chunk) as u8; chunk as usize * 300]).collect()
}

async fn write(disk: &SharedDisk, index: u64) -> io::Result<SnapshotInfo> {
    let store = SnapshotStore::open(disk.clone()).await?;
    let mut writer = store.begin(meta(index)).await?;
    for chunk in chunks(index) {
        writer.write(&chunk).await?;
    }
    writer.finish().await
}

async fn read_all(store: &SnapshotStore, info: &SnapshotInfo) -> io::Result<Vec<Vec<u8>>> {
    let mut reader = store.reader(info).await?;
    let mut chunks = Vec::new();
    while let Some(chunk) = reader.next().await? {
        chunks.push(chunk.to_vec());
    }
    Ok(chunks)
}

/// Opens the folder and checks that its latest snapshot is whole; returns its index.
fn latest(faulty: &FaultyDisk) -> Option<u64> {
    run(async {
        let store = SnapshotStore::open(faulty.disk()).await.unwrap();
        let info = store.latest()?;
        let index = info.meta.index;
        assert_eq!(info.meta, meta(index));
        assert_eq!((info.bytes, info.chunks), (3000, 4));
        assert_eq!(read_all(&store, &info).await.unwrap(), chunks(index));
        Some(index)
    })
}

fn names(faulty: &FaultyDisk) -> Vec<String> {
    faulty.files().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_snapshot_is_read_as_it_was_written_and_two_are_kept() {
    let faulty = FaultyDisk::new(1);
    assert_eq!(latest(&faulty), None);
    for index in [5, 300, 4000] {
        run(write(&faulty.disk(), index)).unwrap();
        faulty.crash(Loss::Unsynced);
        assert_eq!(latest(&faulty), Some(index));
    }
    assert_eq!(names(&faulty), [format::name(300, 2), format::name(4000, 2)]);
}

#[test]
fn an_older_snapshot_finished_late_does_not_become_the_latest() {
    let faulty = FaultyDisk::new(1);
    run(async {
        let store = SnapshotStore::open(faulty.disk()).await.unwrap();
        let mut old = store.begin(meta(5)).await.unwrap();
        let new = store.begin(meta(9)).await.unwrap();
        old.write(b"old").await.unwrap();
        let new = new.finish().await.unwrap();
        old.finish().await.unwrap();
        assert_eq!(store.latest(), Some(new.clone()));
        assert_eq!(read_all(&store, &new).await.unwrap(), Vec::<Vec<u8>>::new());
    });
}

#[test]
fn a_reader_goes_on_when_its_file_is_removed() {
    let faulty = FaultyDisk::new(1);
    run(async {
        let disk = faulty.disk();
        let first = write(&disk, 1).await.unwrap();
        let store = SnapshotStore::open(disk.clone()).await.unwrap();
        let mut reader = store.reader(&first).await.unwrap();
        for index in 2..5 {
            write(&disk, index).await.unwrap();
        }
        assert!(!names(&faulty).contains(&first.file));
        for chunk in chunks(1) {
            assert_eq!(reader.next().await.unwrap().unwrap(), chunk);
        }
        assert_eq!(reader.next().await.unwrap(), None);
    });
}

#[test]
fn an_unfinished_snapshot_is_removed() {
    let faulty = FaultyDisk::new(1);
    run(write(&faulty.disk(), 5)).unwrap();
    run(async {
        let store = SnapshotStore::open(faulty.disk()).await.unwrap();
        let mut writer = store.begin(meta(6)).await.unwrap();
        writer.write(b"chunk").await.unwrap();
    });
    faulty.crash(Loss::Nothing);
    assert_eq!(names(&faulty).len(), 2);
    assert_eq!(latest(&faulty), Some(5));
    assert_eq!(names(&faulty), [format::name(5, 2)]);

    run(async {
        let store = SnapshotStore::open(faulty.disk()).await.unwrap();
        store.begin(meta(6)).await.unwrap().abandon().await;
        assert_eq!(names(&faulty), [format::name(5, 2)]);
        drop(store.begin(meta(7)).await.unwrap());
        let other = store.begin(meta(8)).await.unwrap();
        assert_eq!(names(&faulty).len(), 2, "the dropped one's file went with the next begin");
        other.finish().await.unwrap();
    });
}

#[test]
fn a_crash_at_any_step_leaves_the_old_or_the_new_snapshot() {
    let mut found = std::collections::BTreeSet::new();
    for polls in 1..80 {
        let faulty = FaultyDisk::new(polls);
        faulty.set_yields(true);
        run(write(&faulty.disk(), 1)).unwrap();
        run(write(&faulty.disk(), 2)).unwrap();
        Executor::new(polls).run(polls, write(&faulty.disk(), 3));
        faulty.crash(Loss::Torn);
        faulty.set_yields(false);
        found.insert(latest(&faulty));
        assert!(!names(&faulty).iter().any(|name| name.ends_with(".tmp")));
    }
    assert_eq!(found, [Some(2), Some(3)].into());
}

#[test]
fn three_finished_snapshots_after_a_crash_are_no_trouble() {
    let faulty = FaultyDisk::new(1);
    run(write(&faulty.disk(), 1)).unwrap();
    run(write(&faulty.disk(), 2)).unwrap();
    let mut executor = Executor::new(1);
    executor.stop_at("snapshot-renamed", 0);
    assert!(executor.run(10_000, write(&faulty.disk(), 3)).is_none());
    drop(executor);
    faulty.crash(Loss::Unsynced);
    assert_eq!(names(&faulty).len(), 3);
    assert_eq!(latest(&faulty), Some(3));
    run(write(&faulty.disk(), 4)).unwrap();
    assert_eq!(names(&faulty), [format::name(3, 2), format::name(4, 2)]);
}

#[test]
fn a_full_disk_keeps_the_old_snapshot() {
    let faulty = FaultyDisk::new(1);
    run(write(&faulty.disk(), 1)).unwrap();
    for room in [0, 40, 500, 2000, 3070] {
        faulty.set_capacity(Some(faulty.used_bytes() + room));
        assert_eq!(run(write(&faulty.disk(), 2)).unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(latest(&faulty), Some(1));
    }
    faulty.set_capacity(None);
    run(write(&faulty.disk(), 2)).unwrap();
    assert_eq!(latest(&faulty), Some(2));
}

#[test]
fn every_flipped_bit_is_found() {
    let faulty = FaultyDisk::new(1);
    let file = run(write(&faulty.disk(), 1)).unwrap().file;
    run(write(&faulty.disk(), 0)).unwrap();
    let len = faulty.content(&file).unwrap().len();
    for at in (0..len).filter(|at| *at < 60 || at % 97 == 0 || len - 40 < *at) {
        for bit in 0..8 {
            faulty.edit(&file, |bytes| bytes[at] ^= 1 << bit);
            let error = run(async {
                let store = SnapshotStore::open(faulty.disk()).await?;
                read_all(&store, &store.latest().unwrap()).await
            });
            let error = error.err().unwrap_or_else(|| panic!("bit {bit} of byte {at} was not found"));
            assert!(error.to_string().contains(&file), "{error}");
            faulty.edit(&file, |bytes| bytes[at] ^= 1 << bit);
        }
    }
    assert_eq!(latest(&faulty), Some(1));
}

#[test]
fn a_wrong_length_is_refused() {
    let faulty = FaultyDisk::new(1);
    let file = run(write(&faulty.disk(), 1)).unwrap().file;
    let whole = faulty.content(&file).unwrap();
    for len in [0, 10, 35, 42, 60, 1000, whole.len() - 1, whole.len() + 1, whole.len() + 4096] {
        faulty.edit(&file, |bytes| bytes.resize(len, 0));
        let error = run(SnapshotStore::open(faulty.disk())).err().unwrap();
        assert!(matches!(&error, LogError::Damaged { file: found, .. } if found.ends_with(&file)), "{error}");
        faulty.edit(&file, |bytes| bytes.clone_from(&whole));
    }
}

#[test]
fn exchanged_chunks_are_found() {
    let faulty = FaultyDisk::new(1);
    let info = run(async {
        let store = SnapshotStore::open(faulty.disk()).await.unwrap();
        let mut writer = store.begin(meta(1)).await.unwrap();
        writer.write(&[1; 100]).await.unwrap();
        writer.write(&[2; 100]).await.unwrap();
        writer.finish().await.unwrap()
    });
    faulty.edit(&info.file, |bytes| {
        let start = bytes.len() - format::FOOTER_BYTES - 216;
        let (first, second) = bytes[start..start + 216].split_at_mut(108);
        first.swap_with_slice(second);
    });
    let error = run(async {
        let store = SnapshotStore::open(faulty.disk()).await.unwrap();
        read_all(&store, &info).await.unwrap_err()
    });
    assert!(error.to_string().contains("wrong checksum"), "{error}");
}

#[test]
fn a_newer_snapshot_version_is_refused() {
    let faulty = FaultyDisk::new(1);
    let file = run(write(&faulty.disk(), 1)).unwrap().file;
    faulty.edit(&file, |bytes| bytes[8] = 9);
    let error = run(SnapshotStore::open(faulty.disk())).err().unwrap().to_string();
    assert!(error.contains("version 9") && error.contains("up to 1"), "{error}");
}

#[test]
fn what_is_too_large_is_refused_before_it_is_written() {
    let faulty = FaultyDisk::new(1);
    run(async {
        let store = SnapshotStore::open(faulty.disk()).await.unwrap();
        let mut writer = store.begin(meta(1)).await.unwrap();
        let chunk = vec![0; crate::limits::SNAPSHOT_CHUNK_BYTES_MAX + 1];
        assert_eq!(writer.write(&chunk).await.unwrap_err().kind(), ErrorKind::InvalidInput);
        let head = vec![0; crate::limits::SNAPSHOT_HEAD_BYTES_MAX + 1].into();
        let begun = store.begin(SnapshotMeta { head, ..meta(2) }).await;
        assert_eq!(begun.err().unwrap().kind(), ErrorKind::InvalidInput);
    });
}
