//! The whole server under chaos.

use super::*;
use crate::executor::{Options, run};
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
    assert!(report.outcome.seen.acknowledged > 300, "{report}");
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
fn clients_of_the_other_members_keep_sessions_and_connections_when_the_leader_dies() {
    for seed in 1..=3 {
        let report = Report::new(seed, run(seed, Options::default(), leader_crash_keeps_sessions));
        assert!(report.is_good(), "{report}");
    }
}

#[test]
fn disks_that_lie_about_syncs_are_found_by_what_clients_are_told() {
    let lying = Parameters { sync_lies: true, ..Parameters::default() };
    assert!((1..=20).any(|seed| !report(seed, &lying).is_good()));
}
