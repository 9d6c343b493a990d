//! The bare cluster under chaos; and what is planted is found.

use super::*;
use crate::executor::{Options, run};
use crate::misfortune::Kind;
use crate::outcome::Report;
use std::time::Duration;

fn report(seed: u64, parameters: &Parameters) -> Report {
    Report::new(seed, run(seed, Options::default(), |simulator| scenario(simulator, parameters.clone())))
}

/// How many of the seeds it takes until the planted fault is found.
fn seeds_until_found(fault: Fault, seeds: u64) -> Option<u64> {
    let parameters = Parameters { fault: Some(fault), ..Parameters::default() };
    (1..=seeds).find(|seed| !report(*seed, &parameters).is_good())
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
fn a_disk_that_lies_about_syncs_is_found() {
    assert!(seeds_until_found(Fault::SyncLies, 40).is_some());
}

#[test]
fn a_snapshot_that_forgets_the_sequence_numbers_is_found() {
    assert!(seeds_until_found(Fault::SnapshotForgetsNext, 10).is_some());
}

#[test]
fn an_operation_applied_twice_is_found() {
    assert!(seeds_until_found(Fault::AppliesTwice, 10).is_some());
}

#[test]
fn every_kind_of_misfortune_can_be_left_out() {
    assert_eq!(Kind::ALL.iter().collect::<std::collections::BTreeSet<_>>().len(), Kind::ALL.len());
}
