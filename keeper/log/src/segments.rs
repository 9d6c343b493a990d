//! The files of segments: prepares the next one ahead of need and releases purged ones, on a thread of its own so
//! that commits never wait for zeros. A full disk makes it try again and again; any other failure is fatal.
//! Must never touch the segment that is written to.

use crate::format::{Seed, SegmentHeader, TEMPORARY_SEGMENT, padded, segment_name, spare_name};
use crate::limits::{
    BLOCK_BYTES, SEGMENT_FREE_SHARE, SPACE_RETRY_MS_MAX, SPACE_RETRY_MS_MIN, ZERO_STEP_BYTES,
};
use crate::stats::Counters;
use crate::stop::{Stop, crash_point};
use crate::timer::Timer;
use crate::{DiskFile, Options, SharedDisk};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;

/// A segment ready to be written.
pub struct Segment {
    pub sequence: u64,
    pub seed: Seed,
    pub bytes: u64,
    pub file: Box<dyn DiskFile>,
}

pub enum Job {
    /// Prepares a segment of at least `bytes_min`, better `bytes_wanted`.
    Prepare { sequence: u64, bytes_min: u64, bytes_wanted: u64 },
    /// The segment is not needed any more.
    Release { sequence: u64, bytes: u64 },
}

/// A file that waits for reuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The number in its name. No two have the same; nothing else depends on it.
    pub number: u64,
    pub bytes: u64,
}

/// Makes segments.
pub struct Maker {
    pub disk: SharedDisk,
    pub options: Options,
    pub spares: Vec<Spare>,
}

impl Maker {
    pub async fn make(&mut self, sequence: u64, bytes_min: u64, bytes_wanted: u64) -> io::Result<Segment> {
        let name = segment_name(sequence);
        let spare = self.spares.iter().position(|spare| bytes_min <= spare.bytes);
        let header = match spare {
            Some(at) => {
                let header = self.reuse(self.spares[at], sequence).await?;
                self.disk.rename(&spare_name(self.spares[at].number), &name).await?;
                self.spares.remove(at);
                header
            }
            None => {
                let header = self.fill(sequence, bytes_min, bytes_wanted).await?;
                self.disk.rename(TEMPORARY_SEGMENT, &name).await?;
                header
            }
        };
        self.disk.sync_folder().await?;
        crash_point("segment-created").await;
        // Opened by its lasting name: a disk need not let a handle follow a rename.
        let file = self.disk.open(&name).await?;
        Ok(Segment { sequence, seed: header.seed(), bytes: header.file_bytes, file })
    }

    /// Gives a spare its new header; it keeps its name.
    async fn reuse(&self, spare: Spare, sequence: u64) -> io::Result<SegmentHeader> {
        let header = SegmentHeader { sequence, salt: keeper_rt::random_u64(), file_bytes: spare.bytes };
        let mut file = self.disk.open(&spare_name(spare.number)).await?;
        file.write_at(0, &header.encode()).await?;
        file.sync().await?;
        Ok(header)
    }

    /// Writes a new file full of zeros under the temporary name.
    async fn fill(&self, sequence: u64, bytes_min: u64, bytes_wanted: u64) -> io::Result<SegmentHeader> {
        let bytes = self.affordable(bytes_min, bytes_wanted).await?;
        self.remove_temporary().await?;
        let filled = self.fill_temporary(sequence, bytes).await;
        if filled.is_err() {
            // Gives the space back; the next attempt would remove it as well.
            let _ = self.disk.remove(TEMPORARY_SEGMENT).await;
        }
        filled
    }

    async fn fill_temporary(&self, sequence: u64, bytes: u64) -> io::Result<SegmentHeader> {
        let header = SegmentHeader { sequence, salt: keeper_rt::random_u64(), file_bytes: bytes };
        let mut file = self.disk.create(TEMPORARY_SEGMENT).await?;
        let mut step = header.encode();
        step.resize(ZERO_STEP_BYTES, 0);
        let mut at = 0;
        while at < bytes {
            let len = (bytes - at).min(ZERO_STEP_BYTES as u64);
            file.write_at(at, &step[..len as usize]).await?;
            file.sync().await?;
            step[..BLOCK_BYTES].fill(0);
            at += len;
        }
        Ok(header)
    }

    pub async fn remove_temporary(&self) -> io::Result<()> {
        match self.disk.remove(TEMPORARY_SEGMENT).await {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The wanted size, or less on a small volume.
    async fn affordable(&self, bytes_min: u64, bytes_wanted: u64) -> io::Result<u64> {
        let mut bytes = bytes_wanted;
        if let Some(free) = self.disk.free_bytes().await? {
            while free / SEGMENT_FREE_SHARE < bytes && self.options.segment_bytes_first < bytes {
                bytes = (bytes / 2).max(self.options.segment_bytes_first);
            }
        }
        Ok(padded(bytes.max(bytes_min) as usize) as u64)
    }

    /// Makes a spare of a segment or removes it. Durable on return, so that no older one can outlive a younger.
    pub async fn release(&mut self, sequence: u64, bytes: u64, keep: bool) -> io::Result<()> {
        let name = segment_name(sequence);
        if keep {
            let number = self.spares.iter().map(|spare| spare.number + 1).max().unwrap_or(1);
            self.disk.rename(&name, &spare_name(number)).await?;
            self.spares.push(Spare { number, bytes });
        } else {
            self.disk.remove(&name).await?;
        }
        self.disk.sync_folder().await?;
        crash_point("segment-released").await;
        Ok(())
    }
}

/// Works off [`Job`]s.
pub struct Preparer {
    pub maker: Maker,
    pub jobs: mpsc::UnboundedReceiver<Job>,
    /// At most one prepared segment waits in it.
    pub prepared: mpsc::Sender<Segment>,
    pub timer: Timer,
    pub counters: Arc<Counters>,
    pub stop: Arc<Stop>,
}

struct Wanted {
    sequence: u64,
    bytes_min: u64,
    bytes_wanted: u64,
    pause_ms: u64,
}

impl Preparer {
    pub async fn run(mut self) {
        let mut wanted: Option<Wanted> = None;
        loop {
            if let Err(error) = self.prepare(&mut wanted).await {
                return self.stop.fatal(&format!("cannot prepare a log segment: {error}"));
            }
            self.counters.spare_segments.store(self.maker.spares.len() as u64, Ordering::Relaxed);
            let job = tokio::select! {
                biased;
                job = self.jobs.recv() => job,
                () = self.timer.tick() => continue,
            };
            match job {
                None => return,
                Some(Job::Prepare { sequence, bytes_min, bytes_wanted }) => {
                    wanted = Some(Wanted { sequence, bytes_min, bytes_wanted, pause_ms: SPACE_RETRY_MS_MIN });
                }
                Some(Job::Release { sequence, bytes }) => {
                    let has_room = self.maker.spares.len() < self.maker.options.spare_segments_max;
                    let is_useful = wanted.is_some() || self.maker.options.segment_bytes <= bytes;
                    if let Err(error) = self.maker.release(sequence, bytes, has_room && is_useful).await {
                        return self.stop.fatal(&format!("cannot release log segment {sequence}: {error}"));
                    }
                }
            }
        }
    }

    /// One attempt, if a segment is wanted. Without space it starts the timer for the next one.
    async fn prepare(&mut self, wanted: &mut Option<Wanted>) -> io::Result<()> {
        let Some(next) = wanted else { return Ok(()) };
        match self.maker.make(next.sequence, next.bytes_min, next.bytes_wanted).await {
            Ok(segment) => {
                *wanted = None;
                if self.counters.prepare_fails.swap(false, Ordering::Relaxed) {
                    tracing::info!(folder = self.maker.disk.location(), "the log has space again");
                }
                // Only a writer that has ended does not take it.
                let _ = self.prepared.try_send(segment);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                if !self.counters.prepare_fails.swap(true, Ordering::Relaxed) {
                    let folder = self.maker.disk.location();
                    tracing::error!(folder, %error, "no space for the next log segment; trying again");
                }
                self.counters.prepare_failed.notify_one();
                self.timer.start(Duration::from_millis(next.pause_ms));
                next.pause_ms = (next.pause_ms * 2).min(SPACE_RETRY_MS_MAX);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
