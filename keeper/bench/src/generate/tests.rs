//! What lanes draw: the shares of the mix, removals of what was made, names that nobody else uses.

use super::plan::Known;
use super::random::{Random, unique_name};
use super::{Lane, Plan};
use crate::config::Config;
use crate::request::{Kind, Planned, ReadKind, Write};
use crate::workloads;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// As the built-in workloads' trees look on a server.
fn known() -> Known {
    let pool: Vec<String> = (0..64).map(|child| format!("/e2e/prod/pool/child{child}")).collect();
    let below = ["hot", "pool", "churn"].map(|name| format!("/e2e/prod/{name}")).to_vec();
    let children = [("/e2e/prod/pool".to_owned(), pool), ("/e2e/prod".to_owned(), below)];
    Known { tagged: BTreeMap::new(), children: children.into_iter().collect() }
}

fn plan(workload: &str) -> Arc<Plan> {
    let config = Config::parse(workloads::find(workload).unwrap()).unwrap();
    Arc::new(Plan::new(config.generator.as_ref().unwrap(), &known()).unwrap())
}

/// So many requests of one lane.
fn drawn(workload: &str, count: usize) -> Vec<Planned> {
    let mut lane = Lane::new(plan(workload), 5, 0, 1);
    (0..count).map(|_| lane.next()).collect()
}

fn share(requests: &[Planned], pick: impl Fn(&Planned) -> bool) -> f64 {
    requests.iter().filter(|request| pick(request)).count() as f64 / requests.len() as f64
}

#[track_caller]
fn check_near(actual: f64, expected: f64) {
    // With 100,000 draws the standard deviation of a share is below 0.0016.
    assert!((actual - expected).abs() < 0.008, "{actual} is not near {expected}");
}

#[test]
fn the_mix_has_the_shares_of_its_weights() {
    let requests = drawn("prod-mix", 100_000);
    let of = |kind| share(&requests, |request| request.kind() == kind);
    check_near(of(Kind::Get), 38.0 / 96.0);
    check_near(of(Kind::List), 4.0 / 96.0);
    check_near(of(Kind::Multi), 11.0 / 96.0);
    check_near(of(Kind::Set), 9.0 / 96.0);
    check_near(of(Kind::Create) + of(Kind::Remove), 34.0 / 96.0);
    check_near(of(Kind::Remove), 0.49 * 34.0 / 96.0);
}

#[test]
fn multis_have_their_sizes_and_writes_alone() {
    let mut sizes = BTreeSet::new();
    for request in drawn("multi-large", 5_000) {
        let Planned::Multi(writes) = request else { panic!("multis alone") };
        sizes.insert(writes.len());
    }
    assert_eq!((sizes.first(), sizes.last(), sizes.len()), (Some(&10), Some(&30), 21));
    for request in drawn("read-multi", 100) {
        let Planned::MultiRead(reads) = request else { panic!("multiReads alone") };
        assert_eq!(reads.len(), 10);
    }
}

#[test]
fn paths_are_chosen_evenly_and_values_have_their_sizes() {
    let requests = drawn("prod-mix", 100_000);
    // hot is named, and it is a child of prod as well: two of four.
    let gets: Vec<Planned> = requests.iter().filter(|request| request.kind() == Kind::Get).cloned().collect();
    let is_hot = |request: &Planned| matches!(request, Planned::Read(read) if read.path.ends_with("/hot"));
    check_near(share(&gets, is_hot), 0.5);
    let mut lengths = BTreeSet::new();
    for request in &requests {
        if let Planned::Write(Write::Create { path, data, .. }) = request {
            lengths.insert(data.len());
            let name = path.rsplit('/').next().unwrap();
            assert!(
                (8..=16).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric()),
                "{path}"
            );
        }
    }
    assert_eq!((lengths.first(), lengths.last(), lengths.len()), (Some(&0), Some(&162), 163));
}

#[test]
fn only_nodes_of_the_lane_are_removed_and_each_once() {
    let mut alive = BTreeSet::new();
    for request in drawn("churn", 50_000) {
        match request {
            Planned::Write(Write::Create { path, .. }) => assert!(alive.insert(path), "made twice"),
            Planned::Write(Write::Remove { path, .. }) => {
                assert!(alive.remove(&path), "{path} does not stand")
            }
            _ => {}
        }
    }
}

#[test]
fn nothing_is_removed_below_the_number_to_keep() {
    let text = "generator:\n  requests:\n    create: {path: /a, remove_factor: 0.9, keep_count: 50}\n";
    let config = Config::parse(text).unwrap();
    let plan = Arc::new(Plan::new(&config.generator.unwrap(), &Known::default()).unwrap());
    let mut lane = Lane::new(plan, 1, 0, 1);
    let mut alive = 0_i64;
    for index in 0..2_000 {
        alive += if lane.next().kind() == Kind::Create { 1 } else { -1 };
        assert!(index < 50 || 49 <= alive, "{alive} after {index}");
    }
    assert!(alive < 60, "and hardly more are kept: {alive}");
}

#[test]
fn watches_are_asked_for_as_often_as_told() {
    let requests = drawn("watch-heavy", 10_000);
    let watched = |request: &Planned| matches!(request, Planned::Read(read) if read.watch && read.kind == ReadKind::Get);
    check_near(share(&requests, watched), share(&requests, |request| request.kind() == Kind::Get));
}

#[test]
fn a_seed_gives_each_lane_the_same_requests_again_and_others_to_the_next() {
    let plan = plan("prod-mix");
    let requests = |seed, lane| {
        let mut lane = Lane::new(Arc::clone(&plan), seed, lane, 4);
        (0..200).map(|_| lane.next()).collect::<Vec<_>>()
    };
    assert_eq!(requests(1, 2), requests(1, 2));
    assert_ne!(requests(1, 2), requests(1, 3));
    assert_ne!(requests(1, 2), requests(2, 2));
}

#[test]
fn names_of_all_lanes_differ_even_when_they_are_short() {
    let mut random = Random::new(1, 1);
    // 238,328 names have three letters.
    let names: BTreeSet<String> = (0..200_000).map(|number| unique_name(number, 3, &mut random)).collect();
    assert_eq!(names.len(), 200_000);
    let long: BTreeSet<String> = (0..50_000).map(|number| unique_name(number, 16, &mut random)).collect();
    assert_eq!(long.len(), 50_000);
}

#[test]
fn paths_that_come_to_nothing_are_an_error_that_names_them() {
    let config = Config::parse(workloads::find("read").unwrap()).unwrap();
    let error = Plan::new(&config.generator.unwrap(), &Known::default()).map(|_| ());
    // hot is there by name; the pool's children are not asked for by reads.
    assert_eq!(error, Ok(()));
    let text = "generator:\n  requests:\n    get: {path: {children_of: /empty}}\n";
    let config = Config::parse(text).unwrap();
    let error = Plan::new(&config.generator.unwrap(), &Known::default()).map(|_| ()).unwrap_err();
    assert!(error.contains("/empty"), "{error}");
}
