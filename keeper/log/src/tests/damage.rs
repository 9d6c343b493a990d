//! Damage that no crash explains is refused with file and offset, and nothing is changed.

use super::harness::*;
use crate::LogError;
use crate::faulty::{FaultyDisk, Loss};
use crate::limits::BLOCK_BYTES;

/// A log over several segments, cleanly closed.
fn grown(seed: u64) -> FaultyDisk {
    let faulty = FaultyDisk::new(seed);
    whole_life(&faulty, async |wal, _| {
        wal.save_vote("vote".into()).await.unwrap();
        append_each(&wal, 1..40).await;
    });
    assert!(segments(&faulty).len() > 2);
    faulty
}

fn assert_damaged(error: &LogError, file: &str, offset: usize) {
    let LogError::Damaged { file: found, offset: at, .. } = error else { panic!("{error}") };
    assert!(found.ends_with(file), "{error}");
    assert_eq!(*at, offset as u64, "{error}");
    assert!(error.to_string().contains("empty folder under a new server id"), "{error}");
}

#[test]
fn a_flipped_bit_before_the_last_batch_is_refused() {
    let faulty = grown(1);
    for file in segments(&faulty) {
        for (offset, len, number) in batches(&faulty, &file) {
            if number == 40 {
                continue;
            }
            // Header, first record and padding-free part of the body.
            for at in [0, 9, 21, 30, 32, 40, 60, 75] {
                assert!(at < len);
                faulty.edit(&file, |bytes| bytes[offset + at] ^= 0x10);
                assert_damaged(&refusal(&faulty), &file, offset);
                faulty.edit(&file, |bytes| bytes[offset + at] ^= 0x10);
            }
        }
    }
    assert_eq!(found(&faulty).1, Vec::from_iter(1..40));
}

#[test]
fn zeros_in_the_middle_are_refused() {
    let faulty = grown(1);
    let all = batches(&faulty, FIRST);
    let (offset, len, _) = all[all.len() - 2];
    faulty.edit(FIRST, |bytes| bytes[offset..][..len].fill(0));
    assert_damaged(&refusal(&faulty), FIRST, offset);
}

#[test]
fn damage_at_the_end_of_an_older_segment_is_refused() {
    let faulty = grown(1);
    let (offset, len, _) = *batches(&faulty, FIRST).last().unwrap();
    faulty.edit(FIRST, |bytes| bytes[offset..][..len].fill(0));
    assert_damaged(&refusal(&faulty), FIRST, offset);
}

#[test]
fn damage_at_the_start_of_a_segment_is_refused() {
    let faulty = grown(1);
    let second = segments(&faulty)[1].clone();
    faulty.edit(&second, |bytes| bytes[BLOCK_BYTES + 40] ^= 1);
    assert_damaged(&refusal(&faulty), &second, BLOCK_BYTES);
}

#[test]
fn the_last_batch_alone_is_taken_for_torn() {
    let faulty = grown(1);
    let used: Vec<_> =
        segments(&faulty).into_iter().filter(|file| !batches(&faulty, file).is_empty()).collect();
    let last = used.last().unwrap();
    let (offset, ..) = *batches(&faulty, last).last().unwrap();
    faulty.edit(last, |bytes| bytes[offset + 40] ^= 1);
    let (recovered, indexes) = found(&faulty);
    assert_eq!(recovered.cut.unwrap().offset, offset as u64);
    assert_eq!(indexes, Vec::from_iter(1..39));
}

#[test]
fn a_missing_segment_is_refused() {
    let faulty = grown(1);
    let second = segments(&faulty)[1].clone();
    faulty.delete(&second);
    let error = refusal(&faulty);
    assert!(matches!(&error, LogError::Missing { file, .. } if file.ends_with(&second)), "{error}");
}

#[test]
fn a_missing_oldest_segment_is_refused() {
    let faulty = grown(1);
    faulty.delete(FIRST);
    let error = refusal(&faulty);
    assert!(matches!(error, LogError::Missing { .. }), "{error}");

    let faulty = grown(1);
    whole_life(&faulty, async |wal, _| {
        wal.purge_upto(3, "purged".into()).await.unwrap();
        append_each(&wal, 40..41).await;
    });
    faulty.delete(FIRST);
    let error = refusal(&faulty);
    assert!(error.to_string().contains("entries 4 to "), "{error}");
}

#[test]
fn a_damaged_segment_header_is_refused() {
    let faulty = grown(1);
    for file in segments(&faulty) {
        for at in [0, 9, 17, 25, 33, 41] {
            faulty.edit(&file, |bytes| bytes[at] ^= 0x80);
            let error = refusal(&faulty);
            match at {
                9 => assert!(matches!(error, LogError::Version { .. }), "{error}"),
                _ => assert_damaged(&error, &file, 0),
            }
            faulty.edit(&file, |bytes| bytes[at] ^= 0x80);
        }
        let whole = faulty.content(&file).unwrap();
        for len in [0, 100, BLOCK_BYTES, whole.len() - BLOCK_BYTES] {
            faulty.edit(&file, |bytes| bytes.truncate(len));
            assert_damaged(&refusal(&faulty), &file, 0);
            faulty.edit(&file, |bytes| bytes.clone_from(&whole));
        }
    }
}

#[test]
fn a_segment_under_another_name_is_refused() {
    let faulty = grown(1);
    let files = segments(&faulty);
    let second = faulty.content(&files[1]).unwrap();
    faulty.edit(FIRST, |bytes| *bytes = second);
    assert_damaged(&refusal(&faulty), FIRST, 0);
}

#[test]
fn a_newer_version_is_refused() {
    let faulty = grown(1);
    faulty.edit(FIRST, |bytes| bytes[8] = 2);
    let error = refusal(&faulty).to_string();
    assert!(error.contains("version 2") && error.contains("up to 1"), "{error}");
}

#[test]
fn a_read_of_a_damaged_entry_names_file_and_offset() {
    let faulty = grown(1);
    whole_life(&faulty, async |wal, _| {
        let (offset, ..) = batches(&faulty, FIRST)[2];
        faulty.edit(FIRST, |bytes| bytes[offset + 60] ^= 1);
        assert_eq!(wal.read(1..2, usize::MAX).await.unwrap().len(), 1);
        let error = wal.read(0..40, usize::MAX).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        let place = format!("{FIRST} is damaged at byte {}", offset + 32);
        assert!(error.to_string().contains(&place), "{error}");
    });
}

#[test]
fn random_files_are_refused_or_read_but_never_panic() {
    for seed in 0..400u64 {
        let faulty = grown(1);
        let files = segments(&faulty);
        let file = &files[(seed % files.len() as u64) as usize];
        faulty.edit(file, |bytes| {
            let at = (seed as usize * 7919) % bytes.len();
            let end = (at + 1 + (seed as usize * 31) % 9000).min(bytes.len());
            bytes[at..end].iter_mut().enumerate().for_each(|(n, byte)| *byte ^= (n as u64 * seed) as u8 | 1);
        });
        faulty.crash(Loss::Process);
        let opened = super::executor::Executor::new(seed).finish(crate::open(faulty.disk(), options()));
        if let Ok((_, recovered)) = opened {
            assert!(recovered.last.unwrap().0 >= 36, "at most what reaches to the end is gone");
        }
    }
}
