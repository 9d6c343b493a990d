//! Where a byte is to be flipped: reads a stopped member's folder by docs/formats alone, without the server's code.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::random::Random;

/// What is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A batch of the log that has successors.
    LogMiddle,
    LogLastBatch,
    /// Of a segment with entries.
    SegmentHeader,
    /// Zeros that nothing was written over yet.
    LogBehindEnd,
    /// Of the segment that waits to be used next.
    PreparedHeader,
    SpareSegment,
    SnapshotNewest,
    SnapshotOlder,
    Identity,
    /// The slot of `boot` that counted the last start.
    BootNewest,
    BootOlder,
}

impl Kind {
    pub const ALL: [Kind; 11] = [
        Kind::LogMiddle,
        Kind::LogLastBatch,
        Kind::SegmentHeader,
        Kind::LogBehindEnd,
        Kind::SnapshotNewest,
        Kind::SnapshotOlder,
        Kind::Identity,
        Kind::BootNewest,
        Kind::BootOlder,
        Kind::PreparedHeader,
        Kind::SpareSegment,
    ];

    /// Whether the member can be right in spite of it.
    pub fn may_serve(self) -> bool {
        match self {
            Kind::LogMiddle | Kind::SegmentHeader | Kind::SnapshotNewest | Kind::Identity => false,
            Kind::LogLastBatch
            | Kind::LogBehindEnd
            | Kind::PreparedHeader
            | Kind::SpareSegment
            | Kind::SnapshotOlder
            | Kind::BootNewest
            | Kind::BootOlder => true,
        }
    }

    /// Whether it may be asked for help.
    pub fn may_refuse(self) -> bool {
        !self.may_serve() || self == Kind::PreparedHeader
    }
}

/// A byte of a file.
pub struct Found {
    file: PathBuf,
    offset: u64,
    before: u8,
    after: u8,
}

impl Found {
    fn choose(file: &Path, from: usize, bytes: usize, random: &mut Random) -> Result<Found> {
        ensure!(bytes > 0, "nothing to flip in {}", file.display());
        let offset = from + random.below(bytes);
        let content = read(file)?;
        let before = *content.get(offset).with_context(|| format!("{} is too short", file.display()))?;
        // Never the same byte.
        let after = before ^ (1 + random.below(255) as u8);
        Ok(Found { file: file.to_path_buf(), offset: offset as u64, before, after })
    }

    pub fn flip(&self) -> Result<()> {
        self.write(self.before, self.after)
    }

    /// A start that refused must have left it as it was.
    pub fn put_back(&self) -> Result<()> {
        self.write(self.after, self.before)
    }

    fn write(&self, expected: u8, value: u8) -> Result<()> {
        use std::os::unix::fs::FileExt;
        let file = fs::File::options().read(true).write(true).open(&self.file);
        let file = file.with_context(|| format!("cannot open {}", self.file.display()))?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, self.offset)?;
        ensure!(byte == [expected], "{self} holds {byte:x?}, not {expected:x}: somebody wrote there");
        file.write_all_at(&[value], self.offset)?;
        Ok(())
    }

    /// The line of `text` that says what is wrong: it names the file, and the byte from which on it is damaged.
    pub fn named_in(&self, text: &str) -> Result<String> {
        let name = self.file.file_name().and_then(|name| name.to_str()).context("a file without a name")?;
        let Some(line) = text.lines().find(|line| line.contains(name)) else {
            bail!("the member does not say what is wrong with {self}:\n{text}");
        };
        if line.contains(" has format version ") {
            return Ok("an unknown version".into());
        }
        let Some((_, at)) = line.split_once(" at byte ") else {
            bail!("the member does not say where {name} is damaged (byte {}):\n{line}", self.offset);
        };
        let digits: String = at.chars().take_while(char::is_ascii_digit).collect();
        let named: u64 = digits.parse().with_context(|| format!("no number of a byte: {line}"))?;
        ensure!(named <= self.offset, "it names byte {named}, behind the flipped one of {self}");
        Ok(format!("byte {named}"))
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        write!(f, "{name} at byte {}, {:02x} for {:02x}", self.offset, self.after, self.before)
    }
}

const BLOCK_BYTES: usize = 4096;
const SEGMENT_HEADER_BYTES: usize = 44;
const BATCH_HEADER_BYTES: usize = 32;
const SLOT_BYTES: usize = 512;

/// A batch of the log.
struct Batch {
    file: PathBuf,
    offset: usize,
    bytes: usize,
}

/// `None` when the folder has nothing of the kind now.
pub fn find(kind: Kind, data: &Path, random: &mut Random) -> Result<Option<Found>> {
    let file = |name: &str| data.join(name);
    let mut choose = |file: &Path, from, bytes| Found::choose(file, from, bytes, random).map(Some);
    let segments = files(data, "log-")?;
    let batches = batches(&segments)?;
    let last = batches.last().context("a log without a batch")?;
    let used = |segment: &&PathBuf| **segment <= last.file;
    match kind {
        Kind::LogMiddle => {
            let Some(before_last) = batches.len().checked_sub(1).filter(|count| *count > 0) else {
                return Ok(None);
            };
            let batch = &batches[random.below(before_last)];
            Found::choose(&batch.file, batch.offset, batch.bytes, random).map(Some)
        }
        Kind::LogLastBatch => choose(&last.file, last.offset, last.bytes),
        Kind::SegmentHeader => {
            let segment = segments.iter().rfind(used).context("a log without a segment")?;
            choose(segment, 0, SEGMENT_HEADER_BYTES)
        }
        Kind::LogBehindEnd => {
            let from = (last.offset + last.bytes).next_multiple_of(BLOCK_BYTES);
            match read(&last.file)?.len().saturating_sub(from) {
                0 => Ok(None),
                bytes => choose(&last.file, from, bytes),
            }
        }
        Kind::PreparedHeader => match segments.iter().find(|segment| !used(segment)) {
            Some(segment) => choose(segment, 0, SEGMENT_HEADER_BYTES),
            None => Ok(None),
        },
        Kind::SpareSegment => match files(data, "spare-")?.first() {
            Some(spare) => choose(spare, 0, SEGMENT_HEADER_BYTES),
            None => Ok(None),
        },
        Kind::SnapshotNewest | Kind::SnapshotOlder => {
            let snapshots = snapshots(data)?;
            let [older @ .., newest] = &snapshots[..] else { return Ok(None) };
            let snapshot = if kind == Kind::SnapshotNewest { Some(newest) } else { older.last() };
            let Some(snapshot) = snapshot else { return Ok(None) };
            choose(snapshot, 0, read(snapshot)?.len())
        }
        Kind::Identity => choose(&file("identity"), 0, read(&file("identity"))?.len()),
        Kind::BootNewest | Kind::BootOlder => {
            let [first, second] = boot_slots(data)?;
            let newest = usize::from(first < second);
            let slot = if kind == Kind::BootNewest { newest } else { 1 - newest };
            choose(&file("boot"), slot * SLOT_BYTES, SLOT_BYTES)
        }
    }
}

/// The batches of all segments in their order. What an earlier life of a segment left behind the end is none.
fn batches(segments: &[PathBuf]) -> Result<Vec<Batch>> {
    let (mut found, mut wanted) = (Vec::new(), None);
    for file in segments {
        let bytes = read(file)?;
        let mut offset = BLOCK_BYTES;
        while let Some(head) = bytes.get(offset..offset + BATCH_HEADER_BYTES) {
            let number = u64::from_le_bytes(head[8..16].try_into()?);
            if &head[..4] != b"BTCH" || wanted.is_some_and(|wanted| number != wanted) {
                break;
            }
            let body = u32::from_le_bytes(head[4..8].try_into()?) as usize;
            let batch = Batch { file: file.clone(), offset, bytes: BATCH_HEADER_BYTES + body };
            offset += batch.bytes.next_multiple_of(BLOCK_BYTES);
            wanted = Some(number + 1);
            found.push(batch);
        }
    }
    Ok(found)
}

/// Finished snapshots, the newest last.
pub fn snapshots(data: &Path) -> Result<Vec<PathBuf>> {
    let mut all = files(data, "snapshot-")?;
    all.retain(|file| file.extension().is_some_and(|extension| extension == "snap"));
    Ok(all)
}

/// The highest number of a start; slots that are no longer whole count for nothing.
pub fn boot_number(data: &Path) -> Result<u64> {
    Ok(boot_slots(data)?.into_iter().flatten().max().unwrap_or(0))
}

/// Their numbers; `None` where even the magic is not there.
fn boot_slots(data: &Path) -> Result<[Option<u64>; 2]> {
    let bytes = read(&data.join("boot"))?;
    let slot = |at: usize| {
        let slot = bytes.get(at * SLOT_BYTES..(at + 1) * SLOT_BYTES)?;
        let number = u64::from_le_bytes(slot[8..16].try_into().ok()?);
        (&slot[..4] == b"KPBT").then_some(number)
    };
    Ok([slot(0), slot(1)])
}

fn files(data: &Path, prefix: &str) -> Result<Vec<PathBuf>> {
    let listed = fs::read_dir(data).with_context(|| format!("cannot list {}", data.display()))?;
    let mut found = Vec::new();
    for file in listed {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with(prefix) {
            found.push(file.path());
        }
    }
    found.sort();
    Ok(found)
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}
