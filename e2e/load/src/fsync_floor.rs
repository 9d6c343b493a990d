//! What the disk itself allows: the time of one fdatasync of a preallocated, already written file.
//!
//! A write to a replicated log cannot be acknowledged faster than this, so latencies are stated as a multiple of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;

#[derive(Clone, Copy, Debug)]
pub struct FsyncFloor {
    pub p50_us: u64,
    pub p99_us: u64,
    pub count: u64,
}

const BLOCK_BYTES: usize = 4096;
const FILE_BLOCKS: u64 = 4096;
const MICROSECONDS_MAX: u64 = 60_000_000;

/// Writes 4 KiB blocks one after another into a zero-filled file in `folder`, each made durable, for `measure`.
pub fn measure(folder: &Path, measure: Duration) -> Result<FsyncFloor> {
    let path = folder.join("fsync-floor");
    let result = measure_file(&path, measure).with_context(|| format!("cannot measure {}", path.display()));
    // The figure stands even when the file stays behind.
    let _ = std::fs::remove_file(&path);
    result
}

/// As [`measure`], but with so many files made durable at once: what one disk allows the members of one machine.
pub fn measure_together(folder: &Path, time: Duration, files: usize) -> Result<FsyncFloor> {
    let of = |file: usize| {
        let path = folder.join(format!("fsync-floor-{file}"));
        move || {
            let result =
                measure_file(&path, time).with_context(|| format!("cannot measure {}", path.display()));
            let _ = std::fs::remove_file(&path);
            result
        }
    };
    let threads: Vec<_> = (0..files).map(|file| std::thread::spawn(of(file))).collect();
    let floors = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a writer panicked"))?);
    let mut floors = floors.collect::<Result<Vec<FsyncFloor>>>()?;
    // The writers share the disk alike: the middle one stands for all.
    floors.sort_by_key(|floor| floor.p50_us);
    floors.get(floors.len() / 2).copied().context("no file to measure")
}

fn measure_file(path: &Path, measure: Duration) -> Result<FsyncFloor> {
    let file = File::create(path)?;
    let block = [0u8; BLOCK_BYTES];
    for index in 0..FILE_BLOCKS {
        file.write_all_at(&block, index * BLOCK_BYTES as u64)?;
    }
    file.sync_all()?;
    let block = [b'x'; BLOCK_BYTES];
    let mut histogram: Histogram<u64> = Histogram::new_with_bounds(1, MICROSECONDS_MAX, 3)?;
    let end = Instant::now() + measure;
    let mut index = 0;
    while Instant::now() < end {
        let begin = Instant::now();
        file.write_all_at(&block, index % FILE_BLOCKS * BLOCK_BYTES as u64)?;
        file.sync_data()?;
        histogram.saturating_record(begin.elapsed().as_micros().max(1) as u64);
        index += 1;
    }
    Ok(FsyncFloor {
        p50_us: histogram.value_at_quantile(0.5),
        p99_us: histogram.value_at_quantile(0.99),
        count: histogram.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_measured_and_its_file_removed() {
        let folder = tempfile::tempdir().unwrap();
        let floor = measure(folder.path(), Duration::from_millis(50)).unwrap();
        assert!(0 < floor.p50_us && floor.p50_us <= floor.p99_us && 0 < floor.count);
        let together = measure_together(folder.path(), Duration::from_millis(50), 3).unwrap();
        assert!(0 < together.p50_us && together.p50_us <= together.p99_us && 0 < together.count);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
