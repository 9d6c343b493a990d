use std::time::Duration;

use super::*;

fn load(ops: f64, p50_us: u64, floor: Option<Floor>) -> Sample {
    let server_cpu = Duration::from_micros(500);
    let result = RowResult { ops_per_second: ops, p50_us, p99_us: 9, max_us: 9, count: 100, server_cpu };
    Sample::Load { result, floor }
}

fn events(times_us: &[u64], failed: u64) -> Sample {
    Sample::Events { times_us: times_us.to_vec(), tally: Tally { requests: 100, failed } }
}

#[test]
fn the_median_of_an_even_number_is_between_both() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    assert_eq!(median(&[]), None);
    assert_eq!(spread(&[3.0, 1.0, 2.0]), Some([1.0, 3.0]));
}

#[test]
fn the_median_round_stands_and_the_ratio_is_that_of_rounds_not_of_medians() {
    let mut rounds = Rounds::new("set-64x16".into());
    for (theirs, ours) in [(100.0, 300.0), (10.0, 90.0), (50.0, 100.0)] {
        rounds.push(Kind::Zookeeper, load(theirs, 4, None));
        rounds.push(Kind::Keeper, load(ours, 2, None));
    }
    let line = rounds.line();
    assert_eq!((line.zookeeper.ops, line.castellan.ops), (50.0, 100.0));
    assert_eq!(line.castellan.ops_spread, Some([90.0, 300.0]));
    assert_eq!((line.ratio, line.ratio_spread), (3.0, Some([2.0, 9.0])));
    assert_eq!(line.castellan.cpu_us_per_request, Some(5.0));
    assert_eq!(line.rounds, 3);
}

#[test]
fn latencies_are_multiples_of_their_own_rounds_floor() {
    let floor = |p50_us| {
        let fsync = FsyncFloor { p50_us, p99_us: 0, count: 1 };
        Some(Floor { fsync, together: fsync, loopback_us: 100 })
    };
    let mut rounds = Rounds::new("create-1x1".into());
    rounds.push(Kind::Keeper, load(1.0, 300, floor(100)));
    rounds.push(Kind::Keeper, load(1.0, 1200, floor(300)));
    rounds.push(Kind::Zookeeper, load(1.0, 400, floor(100)));
    let line = rounds.line();
    assert_eq!(line.castellan.p50_by_fsync, Some(3.5));
    assert_eq!(line.castellan.p50_by_fsync_and_loopback, Some(2.25));
    assert_eq!(line.zookeeper.p50_by_fsync, Some(4.0));
    assert_eq!(rounds.floors().count(), 3);
}

#[test]
fn events_of_all_rounds_stand_together_and_no_failure_is_forgotten() {
    let mut rounds = Rounds::new("failover".into());
    rounds.push(Kind::Zookeeper, events(&[1_000_000], 3));
    rounds.push(Kind::Zookeeper, events(&[3_000_000, 2_000_000], 4));
    rounds.push(Kind::Keeper, events(&[20_000], 0));
    rounds.push(Kind::Keeper, events(&[40_000, 10_000], 0));
    let line = rounds.line();
    assert_eq!(line.zookeeper.failed_of, Some([7, 200]));
    assert_eq!(line.castellan.failed_of, Some([0, 200]));
    assert_eq!(line.castellan.event_us, Some([10_000, 40_000]));
    assert_eq!((line.castellan.p50_us, line.castellan.events), (20_000, Some(3)));
    assert_eq!(line.ratio, 100.0);
}

#[test]
fn a_line_has_the_documented_shape() {
    let figures = Figures { ops: 10.5, p50_us: 2, p99_us: 3, ..Figures::default() };
    let line = Line {
        row: "get-1x1".into(),
        zookeeper: figures.clone(),
        castellan: figures,
        ratio: 1.0,
        ratio_spread: Some([0.5, 1.5]),
        rounds: 2,
        verdicts: Vec::new(),
    };
    assert_eq!(
        serde_json::to_string(&line).unwrap(),
        r#"{"row":"get-1x1","zookeeper":{"ops":10.5,"p50_us":2,"p99_us":3},"castellan":{"ops":10.5,"p50_us":2,"p99_us":3},"ratio":1.0,"ratio_spread":[0.5,1.5],"rounds":2,"verdicts":[]}"#
    );
}
