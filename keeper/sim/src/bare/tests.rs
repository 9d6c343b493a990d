//! The bare cluster under chaos.

use super::*;
use crate::executor::{Options, run};
use crate::misfortune::Kind;
use crate::outcome::Report;
use std::time::Duration;

fn report(seed: u64, parameters: &Parameters) -> Report {
    Report::new(seed, run(seed, Options::default(), |simulator| scenario(simulator, parameters.clone())))
}

#[test]
fn a_calm_cluster_serves_its_clients() {
    let calm = Parameters { misfortunes: [].into(), chaos: Duration::from_secs(5), ..Parameters::default() };
    let report = report(1, &calm);
    assert!(report.is_good(), "{report}");
    assert!(report.outcome.seen.acknowledged > 500, "{report}");
    assert_eq!(report.outcome.counts.crashes, 0);
}

#[test]
fn seeds_with_every_misfortune_break_no_promise() {
    for seed in 1..=5 {
        let report = report(seed, &Parameters::default());
        assert!(report.is_good(), "{report}");
    }
}

#[test]
#[ignore = "finds what is open: docs/simulation.md, Found so far"]
fn members_come_go_and_lose_their_disks_and_nothing_is_lost() {
    let kinds = [Kind::Membership, Kind::Crash, Kind::Transfer];
    let changing = Parameters { misfortunes: kinds.into(), ..Parameters::default() };
    let mut changes = 0;
    for seed in 1..=4 {
        let report = report(seed, &changing);
        assert!(report.is_good(), "{report}");
        changes += report.outcome.counts.changes;
    }
    assert!(changes > 5, "only {changes} changes");
}

#[test]
#[ignore = "finds what is open: docs/simulation.md, Found so far"]
fn a_member_with_a_damaged_disk_refuses_to_start_and_is_replaced() {
    let kinds = [Kind::BitRot, Kind::Misdirected, Kind::Crash, Kind::Snapshot];
    let rotting = Parameters { misfortunes: kinds.into(), ..Parameters::default() };
    let mut refusals = 0;
    for seed in 1..=6 {
        let report = report(seed, &rotting);
        assert!(report.is_good(), "{report}");
        refusals += report.outcome.counts.refusals;
    }
    assert!(refusals > 2, "only {refusals} refusals");
}

#[test]
fn a_seed_is_one_run() {
    let short = Parameters { chaos: Duration::from_secs(5), ..Parameters::default() };
    assert_eq!(report(3, &short), report(3, &short));
}

#[test]
fn a_leader_that_comes_back_never_gives_an_index_to_another_entry() {
    for (seed, power) in [(1, false), (2, true), (3, false)] {
        let finished = run(seed, Options::default(), |simulator| {
            restored_leader(simulator, Parameters::default(), power)
        });
        let report = Report::new(seed, finished);
        assert!(report.is_good(), "{report}");
        assert!(report.outcome.seen.terms > 1, "a new term must begin: {report}");
    }
}

#[test]
fn every_kind_of_misfortune_can_be_left_out() {
    assert_eq!(Kind::ALL.iter().collect::<std::collections::BTreeSet<_>>().len(), Kind::ALL.len());
}
