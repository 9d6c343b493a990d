//! What each row is held against. One table: a target is changed here and nowhere else.

use std::fmt;

use serde::Serialize;

use super::figures::{Figures, Line, round_to};
use super::page::number;

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

struct Target {
    row: &'static str,
    /// What the figure is, for people.
    what: &'static str,
    bound: Bound,
    figure: Figure,
}

#[derive(Clone, Copy)]
enum Figure {
    /// One that either side has, ours is judged.
    OfSide(fn(&Figures) -> Option<f64>),
    /// One of both together.
    OfLine(fn(&Line) -> Option<f64>),
}

/// One target beside what was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub what: &'static str,
    /// `None`: not measured, and so not met.
    pub castellan: Option<f64>,
    /// The same figure of ZooKeeper; of ratios there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zookeeper: Option<f64>,
    /// Such as `>= 5` or `<= 1.2`.
    pub asked: String,
    pub met: bool,
}

impl Verdict {
    pub fn word(&self) -> &'static str {
        if self.met { "met" } else { "missed" }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |figure: Option<f64>| figure.map_or("not measured".into(), number);
        write!(f, "{:6} {}: {}, asked {}", self.word(), self.what, shown(self.castellan), self.asked)?;
        match self.zookeeper {
            Some(figure) => write!(f, " (ZooKeeper {})", number(figure)),
            None => Ok(()),
        }
    }
}

const OPS_RATIO: &str = "requests a second, times ZooKeeper's";
const FAILED: &str = "failed requests of clients of surviving members";

const RATIO: Figure = Figure::OfLine(|line| Some(line.ratio));
const LONGEST_MS: Figure = Figure::OfSide(|side| side.event_us.map(|[_, most]| most as f64 / 1e3));
const FAILED_COUNT: Figure = Figure::OfSide(|side| side.failed_of.map(|[failed, _]| failed as f64));

const TARGETS: [Target; 14] = [
    Target { row: "create-64x16", what: OPS_RATIO, bound: Bound::AtLeast(5.0), figure: RATIO },
    Target { row: "set-64x16", what: OPS_RATIO, bound: Bound::AtLeast(5.0), figure: RATIO },
    Target { row: "mixed-64x16", what: OPS_RATIO, bound: Bound::AtLeast(4.0), figure: RATIO },
    Target { row: "get-64x16", what: OPS_RATIO, bound: Bound::AtLeast(2.0), figure: RATIO },
    Target {
        row: "get-64x16",
        what: "servers' processor time per get, parts of ZooKeeper's",
        bound: Bound::AtMost(0.25),
        figure: Figure::OfLine(cpu_by_zookeeper),
    },
    Target {
        row: "create-1x1",
        what: "p50, times one fdatasync and one loopback round trip",
        bound: Bound::AtMost(1.2),
        figure: Figure::OfSide(|side| side.p50_by_fsync_and_loopback),
    },
    Target {
        row: "create-256x1",
        what: "p50, times one fdatasync",
        bound: Bound::AtMost(1.7),
        figure: Figure::OfSide(|side| side.p50_by_fsync),
    },
    Target {
        row: "failover",
        what: "leader killed to next write, p50 in ms",
        bound: Bound::AtMost(100.0),
        figure: Figure::OfSide(|side| Some(side.p50_us as f64 / 1e3)),
    },
    Target { row: "failover", what: "the same, longest", bound: Bound::AtMost(500.0), figure: LONGEST_MS },
    Target { row: "failover", what: FAILED, bound: Bound::AtMost(0.0), figure: FAILED_COUNT },
    Target {
        row: "freeze",
        what: "leader frozen to next write, longest in ms",
        bound: Bound::AtMost(2_500.0),
        figure: LONGEST_MS,
    },
    Target { row: "freeze", what: FAILED, bound: Bound::AtMost(0.0), figure: FAILED_COUNT },
    Target {
        row: "vanish",
        what: "connection broken to ephemeral node gone, shortest in ms",
        bound: Bound::AtLeast(3_000.0),
        figure: Figure::OfSide(|side| side.event_us.map(|[least, _]| least as f64 / 1e3)),
    },
    Target { row: "vanish", what: "the same, longest", bound: Bound::AtMost(3_300.0), figure: LONGEST_MS },
];

fn cpu_by_zookeeper(line: &Line) -> Option<f64> {
    let theirs = line.zookeeper.cpu_us_per_request.filter(|us| *us > 0.0)?;
    line.castellan.cpu_us_per_request.map(|us| us / theirs)
}

/// What the row's targets say of it; nothing of a row that has none.
pub fn judge(line: &Line) -> Vec<Verdict> {
    let of_row = TARGETS.iter().filter(|target| target.row == line.row);
    of_row.map(|target| judge_one(target, line)).collect()
}

fn judge_one(target: &Target, line: &Line) -> Verdict {
    let (castellan, zookeeper) = match target.figure {
        Figure::OfSide(figure) => (figure(&line.castellan), figure(&line.zookeeper)),
        Figure::OfLine(figure) => (figure(line), None),
    };
    let (asked, met) = match target.bound {
        Bound::AtLeast(least) => (format!(">= {least}"), castellan.is_some_and(|figure| least <= figure)),
        Bound::AtMost(most) => (format!("<= {most}"), castellan.is_some_and(|figure| figure <= most)),
    };
    let shown = |figure: Option<f64>| figure.map(|figure| round_to(figure, 3));
    Verdict { what: target.what, castellan: shown(castellan), zookeeper: shown(zookeeper), asked, met }
}

/// The rows that have a target, each once, in order: a full comparison.
pub fn rows() -> Vec<&'static str> {
    let mut rows: Vec<&str> = TARGETS.iter().map(|target| target.row).collect();
    rows.dedup();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(row: &str, castellan: Figures, zookeeper: Figures, ratio: f64) -> Line {
        let (row, verdicts) = (row.to_string(), Vec::new());
        Line { row, zookeeper, castellan, ratio, ratio_spread: None, rounds: 1, verdicts }
    }

    fn met(line: &Line) -> Vec<bool> {
        judge(line).iter().map(|verdict| verdict.met).collect()
    }

    #[test]
    fn a_get_row_is_judged_by_its_ratio_and_by_its_processor_time() {
        let side = |us| Figures { cpu_us_per_request: Some(us), ..Figures::default() };
        assert_eq!(met(&line("get-64x16", side(5.0), side(20.0), 2.0)), [true, true]);
        assert_eq!(met(&line("get-64x16", side(5.1), side(20.0), 1.99)), [false, false]);
        assert_eq!(met(&line("get-64x16", Figures::default(), side(20.0), 2.0)), [true, false]);
        assert_eq!(met(&line("get-2x2", side(5.0), side(20.0), 2.0)), [false; 0]);
    }

    #[test]
    fn a_client_may_be_given_up_neither_too_late_nor_too_soon() {
        let side = |least, most| Figures { event_us: Some([least, most]), ..Figures::default() };
        let judged = |least, most| met(&line("vanish", side(least, most), side(0, 0), 1.0));
        assert_eq!(judged(3_000_000, 3_300_000), [true, true]);
        assert_eq!(judged(2_999_999, 3_300_001), [false, false]);
    }

    #[test]
    fn one_failed_request_is_one_too_many_and_zookeepers_stands_beside_it() {
        let side = |failed| Figures {
            failed_of: Some([failed, 9]),
            p50_us: 1,
            event_us: Some([1, 1]),
            ..Figures::default()
        };
        let verdicts = judge(&line("failover", side(1), side(8), 1.0));
        let failed = verdicts.last().unwrap();
        assert_eq!((failed.castellan, failed.zookeeper, failed.met), (Some(1.0), Some(8.0), false));
        assert!(verdicts[..2].iter().all(|verdict| verdict.met), "{verdicts:?}");
    }

    #[test]
    fn every_row_with_a_target_can_be_asked_for() {
        for row in rows() {
            assert!(row.parse::<super::super::plan::Measured>().is_ok(), "{row}");
        }
    }
}
