//! Whether the members hold the same tree. The leader marks a place in the log; every member takes its tree's digest
//! there and reports it through the log, so that all see the same reports in the same order. A member whose digest is
//! not the one that a majority of the voters reported serves nobody any more: what it shows may be wrong.

use crate::batch::{BadBatch, Kind};
use crate::dispatch::{Dispatch, Submission};
use crate::in_flight::Target;
use crate::limits::{DIGEST_MARKS_KEPT, HAND_OVER_TIME_MAX};
use crate::node::heir;
use crate::outbox::CloseReason;
use crate::shared::Shared;
use bytes::Bytes;
use keeper_consensus::{Consensus, Precondition, Role};
use keeper_types::{Generation, ServerId, SessionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Belongs to a place in the log, not to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Of the entry that holds the mark.
    pub index: u64,
    /// Of the tree there.
    pub digest: u64,
}

impl Report {
    pub fn body(self) -> [u8; 16] {
        let mut body = [0; 16];
        body[..8].copy_from_slice(&self.index.to_le_bytes());
        body[8..].copy_from_slice(&self.digest.to_le_bytes());
        body
    }

    pub fn decode(body: &[u8]) -> Result<Report, BadBatch> {
        let wrong = BadBatch("a digest's report is not 16 bytes");
        let (index, digest) = body.split_first_chunk::<8>().ok_or(wrong)?;
        let digest = digest.try_into().map_err(|_| wrong)?;
        Ok(Report { index: u64::from_le_bytes(*index), digest: u64::from_le_bytes(digest) })
    }
}

/// What a report settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A majority of the voters has this digest, and so has this member, or it was not there.
    Same,
    /// A majority of the voters has another digest than this member.
    Differs { mine: u64, theirs: u64 },
    /// All voters have reported, and no majority has the same.
    NoMajority,
}

/// The reports of the last marks. For the apply task alone.
#[derive(Default)]
pub struct Comparison {
    marks: BTreeMap<u64, Mark>,
}

#[derive(Default)]
struct Mark {
    mine: Option<u64>,
    reports: BTreeMap<ServerId, u64>,
    settled: bool,
}

impl Comparison {
    /// This member's tree has this digest at a mark.
    pub fn take(&mut self, mine: Report) {
        self.mark(mine.index).mine = Some(mine.digest);
    }

    /// The verdict, once for each mark. Reports that come when theirs is settled or forgotten change nothing.
    pub fn hear(&mut self, from: ServerId, report: Report, voters: &BTreeSet<ServerId>) -> Option<Verdict> {
        if !voters.contains(&from) || self.is_forgotten(report.index) {
            return None;
        }
        let mark = self.mark(report.index);
        mark.reports.insert(from, report.digest);
        if mark.settled {
            return None;
        }
        let agreeing =
            mark.reports.iter().filter(|(id, digest)| voters.contains(id) && **digest == report.digest);
        let verdict = if agreeing.count() > voters.len() / 2 {
            match mark.mine {
                Some(mine) if mine != report.digest => Verdict::Differs { mine, theirs: report.digest },
                _ => Verdict::Same,
            }
        } else if voters.iter().all(|id| mark.reports.contains_key(id)) {
            Verdict::NoMajority
        } else {
            return None;
        };
        mark.settled = true;
        Some(verdict)
    }

    fn is_forgotten(&self, index: u64) -> bool {
        self.marks.len() >= DIGEST_MARKS_KEPT && self.marks.keys().next().is_some_and(|first| index < *first)
    }

    fn mark(&mut self, index: u64) -> &mut Mark {
        if !self.marks.contains_key(&index) && self.marks.len() >= DIGEST_MARKS_KEPT {
            self.marks.pop_first();
        }
        self.marks.entry(index).or_default()
    }
}

/// What the rest of the member knows of the comparison.
pub struct DigestState {
    /// The newest mark at which a majority agreed and this member with it.
    pub agreed_index: AtomicU64,
    /// Marks at which this member differed, or no majority was found.
    pub mismatches: AtomicU64,
    /// The mark since which this member's tree is known to be wrong; 0: it is not.
    pub differs_since: AtomicU64,
    reports: mpsc::Sender<Report>,
}

/// Ends with the member.
pub type Reports = mpsc::Receiver<Report>;

impl DigestState {
    pub fn new() -> (DigestState, Reports) {
        let (reports, to_send) = mpsc::channel(DIGEST_MARKS_KEPT);
        let state = DigestState {
            agreed_index: AtomicU64::new(0),
            mismatches: AtomicU64::new(0),
            differs_since: AtomicU64::new(0),
            reports,
        };
        (state, to_send)
    }

    pub fn differs(&self) -> bool {
        self.differs_since.load(Ordering::Relaxed) != 0
    }

    /// A report that finds no room is left out: the next mark comes soon enough.
    pub fn report(&self, report: Report) {
        let _ = self.reports.try_send(report);
    }
}

/// Acts on a verdict about the mark at `index`.
pub fn settle(shared: &Shared, index: u64, verdict: Verdict) {
    let state = &shared.digests;
    match verdict {
        Verdict::Same => {
            state.agreed_index.fetch_max(index, Ordering::Relaxed);
        }
        Verdict::Differs { mine, theirs } => {
            state.mismatches.fetch_add(1, Ordering::Relaxed);
            let first = state.differs_since.compare_exchange(0, index, Ordering::Relaxed, Ordering::Relaxed);
            tracing::error!(
                index,
                mine = format_args!("{mine:016x}"),
                theirs = format_args!("{theirs:016x}"),
                agreed_before = state.agreed_index.load(Ordering::Relaxed),
                "this member's tree differs from what a majority has: it serves nobody any more. Keep its data folder \
                 for a report, then replace the member: remove it and let it join with an empty folder"
            );
            if first.is_ok() {
                shared.sessions.close_all(CloseReason::TreeDiffers);
            }
        }
        Verdict::NoMajority => {
            state.mismatches.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                index,
                agreed_before = state.agreed_index.load(Ordering::Relaxed),
                "the voters' trees differ from each other and no majority agrees: nobody can say which is right. Take \
                 a copy of every member's data folder before anything else"
            );
        }
    }
}

/// Sends this member's reports; on the leader, sets a mark each `period` in which something was written. A leader whose
/// tree is wrong hands over.
pub async fn run(
    shared: Arc<Shared>,
    consensus: Consensus,
    dispatch: Dispatch,
    mut reports: Reports,
    period: Duration,
) {
    let mut ticks = keeper_rt::interval(period);
    let mut marked_zxid = 0;
    let submit = |kind, body| {
        let nobody = (SessionId(0), Generation(0));
        dispatch.submit(Submission::command(kind, nobody, body, Target::Nobody));
    };
    loop {
        tokio::select! {
            biased;
            report = reports.recv() => match report {
                Some(report) => submit(Kind::DigestReport, Bytes::copy_from_slice(&report.body())),
                None => return,
            },
            _ = ticks.tick() => {
                if consensus.status().role != Role::Leader {
                    continue;
                }
                if shared.digests.differs() {
                    hand_over(&consensus).await;
                    continue;
                }
                let zxid = shared.read_tree().zxid().0;
                if zxid != marked_zxid {
                    marked_zxid = zxid;
                    submit(Kind::DigestMark, Bytes::new());
                }
            }
        }
    }
}

async fn hand_over(consensus: &Consensus) {
    let Some(heir) = heir(&consensus.status()) else { return };
    let transfer = consensus.transfer_leadership(heir, Precondition::default());
    match keeper_rt::timeout(HAND_OVER_TIME_MAX, transfer).await {
        Ok(Ok(_)) => tracing::info!(to = %heir, "leadership handed over by a member whose tree differs"),
        Ok(Err(error)) => tracing::warn!(to = %heir, %error, "leadership not handed over"),
        Err(_) => tracing::warn!(to = %heir, "leadership not handed over in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voters(count: u64) -> BTreeSet<ServerId> {
        (1..=count).map(ServerId).collect()
    }

    fn at(index: u64, digest: u64) -> Report {
        Report { index, digest }
    }

    #[test]
    fn the_majority_is_right() {
        let mut wrong = Comparison::default();
        wrong.take(at(5, 0xbad));
        assert_eq!(wrong.hear(ServerId(3), at(5, 0xbad), &voters(3)), None);
        assert_eq!(wrong.hear(ServerId(1), at(5, 0xf00d), &voters(3)), None);
        let verdict = wrong.hear(ServerId(2), at(5, 0xf00d), &voters(3));
        assert_eq!(verdict, Some(Verdict::Differs { mine: 0xbad, theirs: 0xf00d }));

        let mut right = Comparison::default();
        right.take(at(5, 0xf00d));
        assert_eq!(right.hear(ServerId(1), at(5, 0xf00d), &voters(3)), None);
        assert_eq!(right.hear(ServerId(2), at(5, 0xf00d), &voters(3)), Some(Verdict::Same));
        assert_eq!(right.hear(ServerId(3), at(5, 0xbad), &voters(3)), None, "settled");
    }

    #[test]
    fn without_a_majority_nobody_is_declared_wrong() {
        let mut comparison = Comparison::default();
        comparison.take(at(5, 1));
        assert_eq!(comparison.hear(ServerId(1), at(5, 1), &voters(2)), None);
        assert_eq!(comparison.hear(ServerId(2), at(5, 2), &voters(2)), Some(Verdict::NoMajority));
    }

    #[test]
    fn strangers_and_learners_have_no_say_and_one_voter_reports_once() {
        let mut comparison = Comparison::default();
        comparison.take(at(5, 1));
        assert_eq!(comparison.hear(ServerId(9), at(5, 2), &voters(3)), None);
        assert_eq!(comparison.hear(ServerId(1), at(5, 2), &voters(3)), None);
        assert_eq!(comparison.hear(ServerId(1), at(5, 2), &voters(3)), None);
    }

    #[test]
    fn a_member_that_was_not_there_has_nothing_to_differ_with() {
        let mut comparison = Comparison::default();
        comparison.hear(ServerId(1), at(5, 2), &voters(3));
        assert_eq!(comparison.hear(ServerId(2), at(5, 2), &voters(3)), Some(Verdict::Same));
    }

    #[test]
    fn only_the_last_marks_are_kept() {
        let mut comparison = Comparison::default();
        for index in 1..=3 * DIGEST_MARKS_KEPT as u64 {
            comparison.take(at(index, 0));
            comparison.hear(ServerId(1), at(index, 0), &voters(3));
        }
        assert_eq!(comparison.marks.len(), DIGEST_MARKS_KEPT);
        assert_eq!(comparison.hear(ServerId(2), at(1, 0), &voters(3)), None);
        assert!(!comparison.marks.contains_key(&1));
    }

    #[test]
    fn a_report_reads_back_and_any_other_length_is_refused() {
        let report = at(u64::MAX - 1, 0x0123_4567_89ab_cdef);
        assert_eq!(Report::decode(&report.body()).unwrap(), report);
        for length in [0, 8, 15, 17] {
            assert!(Report::decode(&vec![0; length]).is_err());
        }
    }
}
