//! Opens what a crash left: reads the segments in order, tells a torn tail from damage, makes the end durable.
//! The rules and every case are in `docs/formats/log.md`. Must never repair damage, and must change nothing before
//! it is sure that there is none.

use crate::format::{
    BATCH_HEADER_BYTES, BatchHeader, HeaderError, Kind, Record, Seed, SegmentHeader, VERSION, decode_body,
    parse_name, segment_name, spare_name,
};
use crate::index::Slot;
use crate::limits::{BLOCK_BYTES, SCAN_STEP_BYTES};
use crate::replay::Replay;
use crate::segments::{Maker, Segment, Spare};
use crate::{Cut, DiskFile, LogError, Options, SharedDisk};
use bytes::Bytes;
use std::io::ErrorKind;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What the writer has to know of a segment that it or a predecessor wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentState {
    pub sequence: u64,
    pub bytes: u64,
    pub seed: Seed,
    /// The highest index of an entry ever written to it.
    pub index_max: Option<u64>,
}

/// A log ready to go on.
pub struct Opened {
    pub created: bool,
    pub replay: Replay,
    /// Oldest first; the last one is `active`.
    pub segments: Vec<SegmentState>,
    pub active: Segment,
    /// Where the next batch goes in `active`.
    pub offset: u64,
    pub next_number: u64,
    pub cut: Option<Cut>,
    pub maker: Maker,
}

pub async fn open(disk: SharedDisk, options: &Options) -> Result<Opened, LogError> {
    let names = disk.list().await.map_err(|error| LogError::io("list", disk.location(), error))?;
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| parse_name(name, "log-")).collect();
    let spare_numbers = names.iter().filter_map(|name| parse_name(name, "spare-")).collect();
    sequences.sort_unstable();
    let mut maker = Maker { disk: disk.clone(), options: options.clone(), spares: Vec::new() };
    if sequences.is_empty() {
        clear(&mut maker, spare_numbers).await?;
        return create(maker).await;
    }
    let (Scan { files, replay, states }, end, torn) = examine(&disk, &sequences).await?;
    // Nothing has been changed up to here.
    clear(&mut maker, spare_numbers).await?;
    finish(maker, files, replay, states, end, torn).await
}

/// Reads all segments, oldest first, and finds the end or the damage.
async fn examine(disk: &SharedDisk, sequences: &[u64]) -> Result<(Scan, End, Option<Cut>), LogError> {
    let mut files = Vec::new();
    for (at, sequence) in sequences.iter().enumerate() {
        if at > 0 && sequences[at - 1] + 1 != *sequence {
            let file = full_name(disk, sequences[at - 1] + 1);
            return Err(LogError::Missing { file, what: "a later segment of the log exists".into() });
        }
        files.push(SegmentFile::open(disk, *sequence).await?);
    }
    let mut scan = Scan { files, replay: Replay::default(), states: Vec::new() };
    let (end, torn) = scan.read_all().await?;
    scan.replay.view.compact();
    scan.replay.check(sequences[0], &full_name(disk, sequences[0]))?;
    Ok((scan, end, torn))
}

/// A log that would open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    pub segments: usize,
    /// Of all segments' files.
    pub bytes: u64,
    /// Indexes of the first and last entry; `None` when it holds none.
    pub entries: Option<(u64, u64)>,
    /// The last batch is not whole: it was never acknowledged, and opening the log removes it.
    pub torn: Option<Cut>,
}

/// Reads and checks everything that [`open`] does, and changes nothing. `None`: the folder holds no log.
pub async fn verify(disk: &SharedDisk) -> Result<Option<Verified>, LogError> {
    let names = disk.list().await.map_err(|error| LogError::io("list", disk.location(), error))?;
    let mut sequences: Vec<u64> = names.iter().filter_map(|name| parse_name(name, "log-")).collect();
    sequences.sort_unstable();
    if sequences.is_empty() {
        return Ok(None);
    }
    let (scan, _, torn) = examine(disk, &sequences).await?;
    let replay = &scan.replay;
    let first = replay.first().filter(|_| !replay.slots.is_empty());
    Ok(Some(Verified {
        segments: scan.files.len(),
        bytes: scan.files.iter().map(|file| file.header.file_bytes).sum(),
        entries: first.map(|first| (first, first + replay.slots.len() as u64 - 1)),
        torn,
    }))
}

/// Removes what is no segment, except the spares that may be kept.
async fn clear(maker: &mut Maker, spares: Vec<u64>) -> Result<(), LogError> {
    let disk = maker.disk.clone();
    let fail = |verb, subject: String| move |error| LogError::io(verb, subject, error);
    maker.remove_temporary().await.map_err(fail("remove", "log-segment.tmp".into()))?;
    for number in spares {
        let name = spare_name(number);
        let file = disk.open(&name).await.map_err(fail("open", name.clone()))?;
        let bytes = file.len().await.map_err(fail("measure", name.clone()))?;
        if maker.spares.len() < maker.options.spare_segments_max && BLOCK < bytes && bytes % BLOCK == 0 {
            maker.spares.push(Spare { number, bytes });
        } else {
            disk.remove(&name).await.map_err(fail("remove", name))?;
        }
    }
    Ok(())
}

async fn create(mut maker: Maker) -> Result<Opened, LogError> {
    let bytes = maker.options.segment_bytes_first;
    let made = maker.make(1, bytes, bytes).await;
    let active =
        made.map_err(|error| LogError::io("create the first log segment in", maker.disk.location(), error))?;
    let state = SegmentState { sequence: 1, bytes: active.bytes, seed: active.seed, index_max: None };
    Ok(Opened {
        created: true,
        replay: Replay::default(),
        segments: vec![state],
        active,
        offset: BLOCK,
        next_number: 1,
        cut: None,
        maker,
    })
}

fn full_name(disk: &SharedDisk, sequence: u64) -> String {
    format!("{}/{}", disk.location(), segment_name(sequence))
}

async fn read_header(
    disk: &SharedDisk,
    sequence: u64,
    file: &dyn DiskFile,
) -> Result<SegmentHeader, LogError> {
    let name = full_name(disk, sequence);
    let damaged = |what: &str| LogError::Damaged { file: name.clone(), offset: 0, what: what.into() };
    let block = match file.read_at(0, BLOCK_BYTES).await {
        Ok(block) => block,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err(damaged("the file is too short for a segment header"));
        }
        Err(error) => return Err(LogError::io("read", name, error)),
    };
    let header = match SegmentHeader::decode(&block) {
        Ok(header) => header,
        Err(HeaderError::Version(found)) => {
            return Err(LogError::Version { file: name, found, known: VERSION });
        }
        Err(HeaderError::Wrong(what)) => return Err(damaged(what)),
    };
    if header.sequence != sequence {
        return Err(damaged(&format!("its header says that it is segment {}", header.sequence)));
    }
    let bytes = file.len().await.map_err(|error| LogError::io("measure", name.clone(), error))?;
    if header.file_bytes != bytes || bytes % BLOCK != 0 {
        return Err(damaged(&format!("its header says {} bytes, it has {bytes}", header.file_bytes)));
    }
    Ok(header)
}

/// A segment that is being read, a step at a time.
struct SegmentFile {
    name: String,
    header: SegmentHeader,
    file: Box<dyn DiskFile>,
    window: Bytes,
    window_at: u64,
}

impl SegmentFile {
    async fn open(disk: &SharedDisk, sequence: u64) -> Result<SegmentFile, LogError> {
        let name = full_name(disk, sequence);
        let opened = disk.open(&segment_name(sequence)).await;
        let file = opened.map_err(|error| LogError::io("open", name.clone(), error))?;
        let header = read_header(disk, sequence, &*file).await?;
        Ok(SegmentFile { name, header, file, window: Bytes::new(), window_at: 0 })
    }

    /// Bytes within the file.
    async fn get(&mut self, offset: u64, len: usize) -> Result<Bytes, LogError> {
        let window_end = self.window_at + self.window.len() as u64;
        if offset < self.window_at || window_end < offset + len as u64 {
            let step = (len.max(SCAN_STEP_BYTES) as u64).min(self.header.file_bytes - offset);
            let read = self.file.read_at(offset, step as usize).await;
            self.window = read.map_err(|error| LogError::io("read", self.name.clone(), error))?.into();
            self.window_at = offset;
        }
        let start = (offset - self.window_at) as usize;
        Ok(self.window.slice(start..start + len))
    }

    /// The batch header at `offset`, if one of this segment stands there.
    async fn batch_header(&mut self, offset: u64) -> Result<Option<BatchHeader>, LogError> {
        if self.header.file_bytes <= offset {
            return Ok(None);
        }
        let bytes = self.get(offset, BATCH_HEADER_BYTES).await?;
        let header = BatchHeader::decode(&bytes, self.header.seed());
        Ok(header.filter(|header| header.padded_bytes() <= self.header.file_bytes - offset))
    }

    /// The batch at `offset`, if it is whole and has this number (any, if `None`).
    async fn batch(
        &mut self,
        offset: u64,
        number: Option<u64>,
    ) -> Result<Option<(BatchHeader, Bytes)>, LogError> {
        let Some(header) = self.batch_header(offset).await? else { return Ok(None) };
        if number.is_some_and(|number| number != header.number) {
            return Ok(None);
        }
        let body = self.get(offset + BATCH_HEADER_BYTES as u64, header.body_bytes as usize).await?;
        Ok(header.body_is_right(&body, self.header.seed()).then_some((header, body)))
    }
}

/// Where the whole batches end.
struct End {
    /// Position of the active segment among the files.
    segment: usize,
    offset: u64,
    next_number: u64,
    /// The last whole batch of the active segment: offset and length.
    last_batch: Option<(u64, u64)>,
}

struct Scan {
    files: Vec<SegmentFile>,
    replay: Replay,
    states: Vec<SegmentState>,
}

impl Scan {
    /// Replays all batches; then makes sure that what follows is a torn tail or nothing.
    async fn read_all(&mut self) -> Result<(End, Option<Cut>), LogError> {
        // The oldest segment may begin with any batch, unless it is the first of all.
        let mut number = (self.files[0].header.sequence == 1).then_some(1);
        let mut end = End { segment: 0, offset: BLOCK, next_number: 1, last_batch: None };
        self.enter(0);
        loop {
            if let Some((header, body)) = self.files[end.segment].batch(end.offset, number).await? {
                self.replay_batch(&end, header, &body)?;
                end.last_batch = Some((end.offset, header.padded_bytes()));
                end.offset += header.padded_bytes();
                end.next_number = header.number + 1;
                number = Some(end.next_number);
                continue;
            }
            let Some(next) = self.successor(end.segment, number).await? else { break };
            (end.segment + 1..=next).for_each(|segment| self.enter(segment));
            end = End { segment: next, offset: BLOCK, last_batch: None, ..end };
        }
        if number.is_none() {
            let what = "the oldest segment's first batch is not there or not whole";
            return Err(self.damaged(0, BLOCK, what.into()));
        }
        let torn = self.check_tail(&end).await?;
        Ok((end, torn))
    }

    /// The later segment that begins with the wanted batch. Mostly the next; one that was too small for its first
    /// record stays empty.
    async fn successor(&mut self, segment: usize, number: Option<u64>) -> Result<Option<usize>, LogError> {
        if number.is_none() {
            return Ok(None);
        }
        for next in segment + 1..self.files.len() {
            if self.files[next].batch(BLOCK, number).await?.is_some() {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    fn enter(&mut self, segment: usize) {
        let header = self.files[segment].header;
        self.states.push(SegmentState {
            sequence: header.sequence,
            bytes: header.file_bytes,
            seed: header.seed(),
            index_max: None,
        });
    }

    fn damaged(&self, segment: usize, offset: u64, what: String) -> LogError {
        LogError::Damaged { file: self.files[segment].name.clone(), offset, what }
    }

    fn replay_batch(&mut self, end: &End, header: BatchHeader, body: &Bytes) -> Result<(), LogError> {
        let segment = self.files[end.segment].header;
        let batch = header.number;
        let wrong = |scan: &Self, what: String| {
            scan.damaged(end.segment, end.offset, format!("batch {batch} has right checksums, but {what}"))
        };
        let records =
            decode_body(body, header.records, segment.seed()).map_err(|what| wrong(self, what.into()))?;
        for (at, record) in records {
            let offset = end.offset + (BATCH_HEADER_BYTES + at) as u64;
            let slot = slot_of(&record, segment.sequence, offset);
            self.replay.apply(&record, slot).map_err(|what| wrong(self, what))?;
            if let (Kind::Entry, Some(state)) = (record.kind, self.states.last_mut()) {
                state.index_max = state.index_max.max(record.index);
            }
        }
        Ok(())
    }

    /// Looks at every block behind the end. A batch there proves that the wanted one had been synced. Returns the
    /// torn batch, where its header can be seen.
    async fn check_tail(&mut self, end: &End) -> Result<Option<Cut>, LogError> {
        let mut torn = None;
        for segment in end.segment..self.files.len() {
            let is_end = segment == end.segment;
            let mut offset = if is_end { end.offset } else { BLOCK };
            let may_be_torn = offset;
            while offset < self.files[segment].header.file_bytes {
                if let Some(header) = self.files[segment].batch_header(offset).await? {
                    if offset == may_be_torn && header.number == end.next_number {
                        torn = Some((segment, offset));
                    } else if end.next_number <= header.number && !keeper_rt::planted!("damage-cut-off") {
                        return Err(self.lost_batch(end, torn, segment, offset, header.number));
                    }
                }
                offset += BLOCK;
            }
        }
        Ok(torn.map(|(segment, offset)| Cut { file: self.files[segment].name.clone(), offset }))
    }

    fn lost_batch(
        &self,
        end: &End,
        torn: Option<(usize, u64)>,
        segment: usize,
        offset: u64,
        number: u64,
    ) -> LogError {
        // A segment that holds a later batch, but none at its start, had the wanted one there.
        let is_at_start = end.segment < segment && offset != BLOCK;
        let place = if is_at_start { (segment, BLOCK) } else { (end.segment, end.offset) };
        let (at_segment, at_offset) = torn.unwrap_or(place);
        let state = if torn.is_some() { "is not whole" } else { "is not there" };
        let what = format!(
            "batch {} {state}, but batch {number} at byte {offset} of {} shows that it had been synced",
            end.next_number,
            segment_name(self.files[segment].header.sequence),
        );
        self.damaged(at_segment, at_offset, what)
    }
}

/// The place of an entry's record; of no use for other kinds.
fn slot_of(record: &Record, sequence: u64, offset: u64) -> Slot {
    Slot {
        segment: u32::try_from(sequence).expect("fewer than 2^32 segments are ever written"),
        offset: u32::try_from(offset).expect("a segment is at most SEGMENT_BYTES_MAX"),
        head_len: record.head.len() as u32,
        payload_len: record.payload.len() as u32,
    }
}

/// Makes the end durable, and spares of the segments behind it.
async fn finish(
    mut maker: Maker,
    mut files: Vec<SegmentFile>,
    replay: Replay,
    states: Vec<SegmentState>,
    end: End,
    cut: Option<Cut>,
) -> Result<Opened, LogError> {
    // The youngest first: a crash in between leaves no gap.
    for file in files.drain(end.segment + 1..).rev() {
        let SegmentHeader { sequence, file_bytes, .. } = file.header;
        let keep = maker.spares.len() < maker.options.spare_segments_max;
        let released = maker.release(sequence, file_bytes, keep).await;
        released.map_err(|error| LogError::io("release", file.name, error))?;
    }
    let Some(mut active) = files.pop() else {
        return Err(LogError::Options("a log without segments cannot be finished".into()));
    };
    let rewritten = make_durable(&mut active, &end, maker.options.batch_bytes_max).await;
    rewritten.map_err(|error| LogError::io("make durable the end of", active.name.clone(), error))?;
    crate::stop::crash_point("log-recovered").await;
    let SegmentHeader { sequence, file_bytes, .. } = active.header;
    Ok(Opened {
        created: false,
        replay,
        segments: states,
        active: Segment { sequence, seed: active.header.seed(), bytes: file_bytes, file: active.file },
        offset: end.offset,
        next_number: end.next_number,
        cut,
        maker,
    })
}

/// Writes the last batch again, and zeros behind it where a torn one may have left something; syncs.
async fn make_durable(active: &mut SegmentFile, end: &End, batch_bytes_max: usize) -> std::io::Result<()> {
    if let Some((offset, bytes)) = end.last_batch {
        let batch = active.file.read_at(offset, bytes as usize).await?;
        active.file.write_at(offset, &batch).await?;
    }
    let left = active.header.file_bytes - end.offset;
    let torn = BatchHeader::decode(
        &active.file.read_at(end.offset, BATCH_HEADER_BYTES.min(left as usize)).await?,
        active.header.seed(),
    );
    let window = torn.map_or(0, |header| header.padded_bytes()).max(batch_bytes_max as u64 + BLOCK).min(left);
    let mut at = 0;
    while at < window {
        let len = (window - at).min(SCAN_STEP_BYTES as u64) as usize;
        let found = active.file.read_at(end.offset + at, len).await?;
        if found.iter().any(|byte| *byte != 0) {
            active.file.write_at(end.offset + at, &vec![0; len]).await?;
        }
        at += len as u64;
    }
    active.file.sync().await
}
