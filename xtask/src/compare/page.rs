//! `docs/benchmarks.md`: written from one run, never by hand.

use std::fmt::Write as _;

use super::figures::{Figures, Floor, Line, Spread, median};
use super::plan::Plan;
use super::{Machine, Report};

pub fn of(report: &Report, plan: &Plan) -> String {
    let mut page = String::from(
        "# Castellan beside ZooKeeper\n\n\
         Written by `cargo xtask compare --write` from one run; not to be edited by hand.\n\n",
    );
    for text in [machine(report), method(report, plan), verdicts(report), loads(report), events(report)] {
        page.push_str(&text);
        page.push('\n');
    }
    page.push_str(ROWS);
    page
}

/// What the rows' names mean. The only part that no run changes.
const ROWS: &str = "\
## The rows

OPERATION-SESSIONSxDEPTH: so many sessions, each with so many requests in flight, in a closed loop. Values have 100 bytes; get, set
and mixed (80 % get) choose among 100 nodes a session. Sessions are spread over the three members; a single one is on the leader.
Processor time is user and system time of the three servers inside the measured seconds.

- `failover`: the leader is killed (-9); the time until a write that was sent after it is acknowledged by a survivor. Four
  clients on each survivor read and write from before the kill until the member is back; a request of theirs has failed when
  it was answered with an error or when its connection ended before the answer.
- `freeze`: the same with SIGSTOP, and SIGCONT after the write.
- `vanish`: a client with a session timeout of 3 s loses its connection without a close; the time until a watcher on
  another member hears that its ephemeral node is gone. Both sides are configured to grant 3 s.
";

fn machine(report: &Report) -> String {
    let Machine { cores, memory_gib, disk } = report.machine;
    let mut text = format!("Machine: {cores} cores, {memory_gib} GiB, {disk}");
    let of = |get: fn(&Floor) -> u64| {
        median(&report.floors.iter().map(|floor| get(floor) as f64).collect::<Vec<_>>())
    };
    if let Some(((fsync, p99), (together, loopback))) = of(|floor| floor.fsync.p50_us)
        .zip(of(|floor| floor.fsync.p99_us))
        .zip(of(|floor| floor.together.p50_us).zip(of(|floor| floor.loopback_us)))
    {
        let _ = write!(
            text,
            " with fdatasync p50 {fsync:.0} us, p99 {p99:.0} us (4 KiB into a preallocated, written file; p50 of three \
             such files at once {together:.0} us). One round trip on loopback: p50 {loopback:.0} us. These are medians of \
             {} measurements in the same run, each right before a row that is stated as a multiple of them, with idle \
             servers",
            report.floors.len()
        );
    }
    let _ = writeln!(text, ". Load average before the run: {}.", report.load_average);
    text
}

fn method(report: &Report, plan: &Plan) -> String {
    let rounds = plan.rounds;
    format!(
        "Three members of Castellan {} and three of ZooKeeper 3.9.5 (`forceSync=yes`, 2 GiB of heap each), the same load \
         generator on the same cores, all data on the same disk. {rounds} rounds: in each one side runs alone, then the other, \
         each freshly started on empty folders, first all {} rows once unmeasured, then {} s of each. Figures are medians of \
         the rounds, in brackets the least and the most; ratios are medians of the rounds' ratios.\n",
        env!("CARGO_PKG_VERSION"),
        report.lines.iter().filter(|line| line.castellan.events.is_none()).count(),
        plan.measure.as_secs_f64(),
    )
}

fn verdicts(report: &Report) -> String {
    let mut text = String::from(
        "## Targets\n\n| row | figure | asked | Castellan | ZooKeeper | |\n|---|---|---|---|---|---|\n",
    );
    for line in &report.lines {
        for verdict in &line.verdicts {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} | {} | {} |",
                line.row,
                verdict.what,
                verdict.asked,
                verdict.castellan.map_or("–".into(), number),
                verdict.zookeeper.map_or("–".into(), number),
                verdict.word()
            );
        }
    }
    text
}

fn loads(report: &Report) -> String {
    let mut text = String::from(
        "## Under load\n\n| row | | requests/s | p50 µs | p99 µs | servers' CPU µs a request | ratio |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|\n");
    for line in report.lines.iter().filter(|line| line.castellan.events.is_none()) {
        let ratio = format!("{:.2}{}", line.ratio, brackets(line.ratio_spread));
        let sides = [("ZooKeeper", &line.zookeeper, String::new()), ("Castellan", &line.castellan, ratio)];
        for (name, side, ratio) in sides {
            let _ = writeln!(
                text,
                "| `{}` | {name} | {}{} | {}{} | {} | {} | {ratio} |",
                line.row,
                number(side.ops),
                brackets(side.ops_spread),
                side.p50_us,
                brackets(side.p50_us_spread.map(|ends| ends.map(|us| us as f64))),
                side.p99_us,
                side.cpu_us_per_request.map_or("–".into(), number),
            );
        }
    }
    text
}

fn events(report: &Report) -> String {
    let mut text = String::from(
        "## Events\n\n| row | | events | shortest ms | p50 ms | p99 ms | longest ms | failed requests |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    for line in &report.lines {
        for (name, side) in [("ZooKeeper", &line.zookeeper), ("Castellan", &line.castellan)] {
            text.push_str(&event_row(line, name, side).unwrap_or_default());
        }
    }
    text
}

fn event_row(line: &Line, name: &str, side: &Figures) -> Option<String> {
    let (events, [least, most]) = side.events.zip(side.event_us)?;
    let [least, p50, p99, most] = [least, side.p50_us, side.p99_us, most].map(|us| number(us as f64 / 1e3));
    let failed = side.failed_of.map_or("–".into(), |[failed, of]| format!("{failed} of {of}"));
    Some(format!("| `{}` | {name} | {events} | {least} | {p50} | {p99} | {most} | {failed} |\n", line.row))
}

fn brackets(spread: Spread<f64>) -> String {
    spread.map(|ends| ends.map(number)).map_or_else(String::new, |[least, most]| format!(" ({least}–{most})"))
}

/// As many digits as say something.
pub fn number(value: f64) -> String {
    match value {
        _ if value.fract() == 0.0 || value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use castellan_load::fsync_floor::FsyncFloor;

    use super::super::{Arguments, targets};
    use super::*;

    fn line(row: &str, castellan: Figures, zookeeper: Figures) -> Line {
        let (row, verdicts) = (row.to_string(), Vec::new());
        let mut line = Line {
            row,
            zookeeper,
            castellan,
            ratio: 5.25,
            ratio_spread: Some([5.0, 6.0]),
            rounds: 2,
            verdicts,
        };
        line.verdicts = targets::judge(&line);
        line
    }

    fn page() -> String {
        let load =
            |ops| Figures { ops, p50_us: 7, p99_us: 9, ops_spread: Some([ops, ops]), ..Figures::default() };
        let kills = |us| Figures {
            p50_us: us,
            p99_us: us,
            events: Some(3),
            event_us: Some([us, us]),
            failed_of: Some([us / 1_000_000, 50]),
            ..Figures::default()
        };
        let fsync = FsyncFloor { p50_us: 150, p99_us: 900, count: 1 };
        let report = Report {
            lines: vec![
                line("create-64x16", load(52_500.0), load(10_000.0)),
                line("failover", kills(120_000), kills(1_100_000)),
            ],
            floors: vec![Floor { fsync, together: fsync, loopback_us: 20 }],
            machine: Machine { cores: 2, memory_gib: 24, disk: "virtual disk" },
            load_average: "0.10".into(),
        };
        of(&report, &Plan::of(&Arguments::default()).unwrap())
    }

    #[test]
    fn every_target_stands_beside_its_figure_with_a_verdict() {
        let page = page();
        for text in [
            "| `create-64x16` | requests a second, times ZooKeeper's | >= 5 | 5.25 | – | met |",
            "| `failover` | leader killed to next write, p50 in ms | <= 100 | 120 | 1100 | missed |",
            "| `create-64x16` | Castellan | 52500 (52500–52500) | 7 | 9 | – | 5.25 (5–6) |",
            "| `failover` | ZooKeeper | 3 | 1100 | 1100 | 1100 | 1100 | 1 of 50 |",
            "Machine: 2 cores, 24 GiB, virtual disk with fdatasync p50 150 us, p99 900 us",
        ] {
            assert!(page.contains(text), "{text} is not in\n{page}");
        }
    }

    #[test]
    fn the_page_names_no_place_of_this_machine() {
        let page = page();
        let root = crate::paths::root().display().to_string();
        assert!(!page.contains(&root) && !page.contains("127.0.0.1"), "{page}");
    }
}
