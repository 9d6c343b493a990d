//! Random lives with random ends against a small obvious model: after each crash the log must stand where it stood
//! after some prefix of the records that were queued, and that prefix must hold everything acknowledged.

use super::executor::Executor;
use super::harness::{options, queue};
use crate::faulty::{FaultyDisk, Loss};
use crate::{Recovered, Wal, open};
use bytes::Bytes;
use proptest::prelude::*;
use std::fmt;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug)]
enum Step {
    Append {
        count: u64,
        payload_len: usize,
    },
    Vote,
    /// Cuts this share (of 100) of the entries off.
    Truncate {
        percent: u64,
    },
    Purge {
        percent: u64,
    },
    PurgeBeyond {
        by: u64,
    },
    /// Reads some of it while everything is on its way.
    Read {
        percent: u64,
        bytes_max: usize,
    },
    WaitForAll,
}

#[derive(Clone, Debug)]
struct Life {
    seed: u64,
    polls_max: u64,
    loss: Loss,
    steps: Vec<Step>,
}

/// What a log holds.
#[derive(Clone, Default, PartialEq, Eq)]
struct Model {
    vote: Option<Bytes>,
    purged: Option<(u64, Bytes)>,
    /// The next index, if any is fixed; entries end before it.
    next: u64,
    entries: Vec<(u64, Bytes, Bytes)>,
}

#[derive(Clone)]
enum Record {
    Entry(u64, Bytes, Bytes),
    Vote(Bytes),
    Truncate(Option<u64>),
    Purge(u64, Bytes),
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads: Vec<_> = self.entries.iter().map(|(index, head, _)| (index, head)).collect();
        write!(f, "vote {:?}, purged {:?}, next {}, entries {heads:?}", self.vote, self.purged, self.next)
    }
}

impl Model {
    fn apply(&mut self, record: &Record) {
        match record.clone() {
            Record::Entry(index, head, payload) => {
                self.entries.push((index, head, payload));
                self.next = index + 1;
            }
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Truncate(after) => {
                self.entries.retain(|(index, ..)| Some(*index) <= after);
                let purged = self.purged.as_ref().map(|(index, _)| *index);
                self.next = after.max(purged).map_or(0, |last| last + 1).min(self.next);
            }
            Record::Purge(upto, head) => {
                self.entries.retain(|(index, ..)| upto < *index);
                self.next = self.next.max(upto + 1);
                self.purged = Some((upto, head));
            }
        }
    }

    /// An index so many percent of the way from the first to the last entry.
    fn at(&self, percent: u64) -> Option<u64> {
        let last = self.entries.len().checked_sub(1)?;
        Some(self.entries[last * percent as usize / 100].0)
    }

    fn of(recovered: &Recovered, entries: Vec<(u64, Bytes, Bytes)>) -> Model {
        let purged = recovered.purged.clone();
        let last = recovered.last.as_ref().map(|(index, _)| *index);
        let next = last.max(purged.as_ref().map(|(index, _)| *index)).map_or(0, |last| last + 1);
        assert_eq!(recovered.first_index, entries.first().map(|(index, ..)| *index));
        assert_eq!(
            recovered.last.as_ref(),
            entries.last().map(|(index, head, _)| (*index, head.clone())).as_ref()
        );
        Model { vote: recovered.vote.clone(), purged, next, entries }
    }
}

/// Everything queued in one life, seen from outside.
#[derive(Default)]
struct Story {
    /// Where the log stood when it was opened.
    base: Model,
    /// Where it stands with everything that is queued.
    now: Model,
    records: Vec<Record>,
    /// So many records are acknowledged.
    acknowledged: usize,
    /// Makes every value different from all before it.
    unique: u64,
}

impl Story {
    fn record(&mut self, record: Record) -> usize {
        self.now.apply(&record);
        self.records.push(record);
        self.records.len()
    }

    fn acknowledge(&mut self, records: usize) {
        assert!(self.acknowledged <= records, "acknowledged out of order");
        self.acknowledged = records;
    }

    fn unique(&mut self, what: &str) -> Bytes {
        self.unique += 1;
        format!("{what} {}", self.unique).into()
    }

    /// Checks what a crash left, and goes on from there.
    fn reopened(&mut self, found: Model) {
        let mut candidate = self.base.clone();
        let mut is_possible = self.acknowledged == 0 && candidate == found;
        for (at, record) in self.records.iter().enumerate() {
            candidate.apply(record);
            is_possible |= self.acknowledged <= at + 1 && candidate == found;
        }
        assert!(
            is_possible,
            "{} of {} records were acknowledged; found: {found:?}",
            self.acknowledged,
            self.records.len(),
        );
        *self = Story { base: found.clone(), now: found, unique: self.unique, ..Story::default() };
    }
}

type Shared = Arc<Mutex<Story>>;

async fn append(wal: &Wal, story: &Shared, count: u64, payload_len: usize) {
    let (entries, end) = {
        let story = &mut *story.lock().unwrap();
        let mut entries = Vec::new();
        let mut end = story.records.len();
        for index in story.now.next..story.now.next + count {
            let payload = Bytes::from(vec![(story.unique + index) as u8; payload_len]);
            let entry = (index, story.unique("head"), payload);
            end = story.record(Record::Entry(entry.0, entry.1.clone(), entry.2.clone()));
            entries.push(entry);
        }
        (entries, end)
    };
    let story = story.clone();
    wal.append(
        entries,
        Box::new(move |result| {
            result.unwrap();
            story.lock().unwrap().acknowledge(end);
        }),
    );
}

async fn step(wal: &Wal, story: &Shared, step: &Step) {
    match step {
        Step::Append { count, payload_len } => append(wal, story, *count, *payload_len).await,
        Step::Vote => {
            let (vote, end) = {
                let story = &mut *story.lock().unwrap();
                let vote = story.unique("vote");
                (vote.clone(), story.record(Record::Vote(vote)))
            };
            wal.save_vote(vote).await.unwrap();
            story.lock().unwrap().acknowledge(end);
        }
        Step::Truncate { percent } => {
            let (after, end) = {
                let story = &mut *story.lock().unwrap();
                let purged = story.now.purged.as_ref().map(|(index, _)| *index);
                let after = story.now.at(*percent).and_then(|index| index.checked_sub(1)).max(purged);
                (after, story.record(Record::Truncate(after)))
            };
            wal.truncate_after(after).await.unwrap();
            story.lock().unwrap().acknowledge(end);
        }
        Step::Purge { percent } => purge(wal, story, |now| now.at(*percent)).await,
        Step::PurgeBeyond { by } => purge(wal, story, |now| Some(now.next + by)).await,
        Step::Read { percent, bytes_max } => {
            let (start, expected) = {
                let now = &story.lock().unwrap().now;
                let start = now.at(*percent).unwrap_or(0);
                (start, now.entries.iter().filter(|(index, ..)| start <= *index).cloned().collect::<Vec<_>>())
            };
            let entries = wal.read(start..u64::MAX, *bytes_max).await.unwrap();
            assert_eq!(entries[..], expected[..entries.len()]);
            assert!(expected.is_empty() || !entries.is_empty());
        }
        Step::WaitForAll => {
            queue(wal, vec![]).await.unwrap().unwrap();
            let story = &mut *story.lock().unwrap();
            story.acknowledge(story.records.len());
        }
    }
}

async fn purge(wal: &Wal, story: &Shared, upto: impl FnOnce(&Model) -> Option<u64>) {
    let purge = {
        let story = &mut *story.lock().unwrap();
        upto(&story.now).map(|upto| {
            let head = story.unique("purge");
            story.record(Record::Purge(upto, head.clone()));
            (upto, head)
        })
    };
    if let Some((upto, head)) = purge {
        wal.purge_upto(upto, head).await.unwrap();
    }
}

/// Opens the log, compares, and goes on until the steps or the polls are used up.
fn live(faulty: &FaultyDisk, story: &Shared, life: &Life) {
    let mut executor = Executor::new(life.seed);
    executor.run(life.polls_max, async {
        let (wal, recovered) = open(faulty.disk(), options()).await.unwrap_or_else(|error| panic!("{error}"));
        let entries = wal.read(0..u64::MAX, usize::MAX).await.unwrap();
        story.lock().unwrap().reopened(Model::of(&recovered, entries));
        for next in &life.steps {
            step(&wal, story, next).await;
        }
    });
    drop(executor);
    faulty.crash(life.loss);
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..20u64, prop_oneof![4 => 0..100usize, 1 => 0..9000usize])
            .prop_map(|(count, payload_len)| Step::Append { count, payload_len }),
        2 => Just(Step::Vote),
        1 => (0..=100u64).prop_map(|percent| Step::Truncate { percent }),
        2 => (0..=100u64).prop_map(|percent| Step::Purge { percent }),
        1 => (0..30u64).prop_map(|by| Step::PurgeBeyond { by }),
        3 => (0..=100u64, 0..50_000usize)
            .prop_map(|(percent, bytes_max)| Step::Read { percent, bytes_max }),
        2 => Just(Step::WaitForAll),
    ]
}

fn lives() -> impl Strategy<Value = Life> {
    let loss = prop_oneof![
        Just(Loss::Process),
        Just(Loss::Unsynced),
        Just(Loss::Nothing),
        Just(Loss::Random),
        Just(Loss::Torn),
    ];
    (any::<u64>(), 20..3000u64, loss, prop::collection::vec(steps(), 0..40))
        .prop_map(|(seed, polls_max, loss, steps)| Life { seed, polls_max, loss, steps })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_crash_everything_acknowledged_is_there_and_nothing_out_of_order(
        seed in any::<u64>(),
        lives in prop::collection::vec(lives(), 1..12),
    ) {
        let faulty = FaultyDisk::new(seed);
        faulty.set_yields(true);
        let story = Shared::default();
        for life in &lives {
            live(&faulty, &story, life);
        }
        let last = Life { seed: 1, polls_max: 1_000_000, loss: Loss::Process, steps: vec![Step::WaitForAll] };
        live(&faulty, &story, &last);
        // That the last one was opened at all.
        prop_assert!(story.lock().unwrap().records.is_empty());
    }
}
