//! How fast the log is on this disk, beside plain fdatasync of a preallocated file in the same run.
//!
//! `cargo run --release -p keeper-log --example log_speed [FOLDER] [SECONDS]`
#![allow(
    clippy::disallowed_methods,
    reason = "a measurement takes the real clock and writes a plain file beside the log"
)]

use bytes::Bytes;
use keeper_log::{Options, RealDisk, Wal, open};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const PAYLOAD_BYTES: usize = 150;
const PLAIN_FILE_BYTES: usize = 64 << 20;
const BLOCK_BYTES: usize = 4096;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from).join("log-speed");
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let length = Duration::from_secs(seconds);
    std::fs::create_dir_all(&folder)?;
    let plain = plain_syncs(&folder.join("plain"), length)?;
    report("fdatasync, one block each", &plain, plain.len(), length);

    let (wal, recovered) = open(RealDisk::open(&folder)?, Options::default()).await?;
    let mut next = recovered.last.map_or(0, |(index, _)| index + 1);
    for outstanding in [1, 32, 1024] {
        let before = wal.stats();
        let latencies = appends(&wal, &mut next, outstanding, length).await;
        let after = wal.stats();
        report(&format!("appends, {outstanding} outstanding"), &latencies, latencies.len(), length);
        let (batches, waits) =
            (after.batches_written - before.batches_written, after.segment_waits - before.segment_waits);
        let mean_us = (after.sync.sum_us - before.sync.sum_us) / batches.max(1);
        println!(
            "    {batches} syncs, mean {mean_us} us, {:.1} entries each, {waits} waits for a segment",
            latencies.len() as f64 / batches.max(1) as f64
        );
        wal.purge_upto(next - 1, Bytes::from_static(b"purged")).await?;
    }
    wal.close().await;
    let again = plain_syncs(&folder.join("plain"), length)?;
    report("fdatasync, once more", &again, again.len(), length);
    std::fs::remove_dir_all(&folder)
}

/// Writes and syncs one block after the other into a file full of zeros.
fn plain_syncs(path: &Path, length: Duration) -> std::io::Result<Vec<Duration>> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all_at(&vec![0; PLAIN_FILE_BYTES], 0)?;
    file.sync_all()?;
    let block = [7; BLOCK_BYTES];
    let start = Instant::now();
    let mut latencies = Vec::new();
    while start.elapsed() < length {
        let at = latencies.len() * BLOCK_BYTES % PLAIN_FILE_BYTES;
        let one = Instant::now();
        file.write_all_at(&block, at as u64)?;
        file.sync_data()?;
        latencies.push(one.elapsed());
    }
    Ok(latencies)
}

/// Keeps so many appends of one entry each outstanding; latencies from the call to the callback.
async fn appends(wal: &Wal, next: &mut u64, outstanding: usize, length: Duration) -> Vec<Duration> {
    let payload = Bytes::from(vec![7; PAYLOAD_BYTES]);
    let (done, mut durable) = mpsc::unbounded_channel();
    let mut append = || {
        let (done, one) = (done.clone(), Instant::now());
        let entry = (*next, Bytes::from_static(b"a head of thirty-two bytes......"), payload.clone());
        *next += 1;
        wal.append(vec![entry], Box::new(move |result| drop(done.send(result.map(|()| one.elapsed())))));
    };
    (0..outstanding).for_each(|_| append());
    let start = Instant::now();
    let mut latencies = Vec::new();
    while start.elapsed() < length {
        latencies.push(durable.recv().await.expect("an append is answered").expect("the disk works"));
        append();
    }
    for _ in 0..outstanding {
        durable.recv().await.expect("an append is answered").expect("the disk works");
    }
    latencies
}

fn report(what: &str, latencies: &[Duration], count: usize, length: Duration) {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize].as_micros();
    let rate = count as f64 / length.as_secs_f64();
    println!("{what:28} {rate:9.0}/s  p50 {} us  p99 {} us  max {} us", at(0.5), at(0.99), at(1.0));
}
