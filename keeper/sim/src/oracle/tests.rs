//! The oracle notices what it is there for.

use super::*;
use crate::executor::{Options, run};

fn entry(index: u64, seq: u64) -> Applied {
    let done = Some(Operation { origin: 1, epoch: 1, seq });
    Applied { index, payload_hash: seq + 100, done, digest: index * 7 }
}

/// The findings after `tell`.
fn findings(tell: impl FnOnce(&Oracle) + Send + 'static) -> Vec<String> {
    let finished = run(1, Options::default(), |simulator| async move {
        let oracle = Oracle::new(&simulator);
        tell(&oracle);
        oracle.findings()
    });
    finished.output.unwrap()
}

#[track_caller]
fn assert_found(needle: &str, tell: impl FnOnce(&Oracle) + Send + 'static) {
    let findings = findings(tell);
    assert!(findings.len() == 1 && findings[0].contains(needle), "{findings:?}");
}

#[test]
fn a_good_run_finds_nothing() {
    let found = findings(|oracle| {
        for node in 1..=3 {
            for index in 2..20 {
                oracle.applied(node, entry(index, index));
            }
        }
        oracle.acknowledged(Operation { origin: 1, epoch: 1, seq: 7 });
        oracle.process_started(2);
        oracle.restored(2, 10, 70);
        oracle.applied(2, entry(11, 11));
    });
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn another_payload_or_digest_at_an_index_is_found() {
    assert_found("another node before it", |oracle| {
        oracle.applied(1, entry(2, 1));
        oracle.applied(2, entry(2, 9));
    });
    assert_found("another node before it", |oracle| {
        oracle.applied(1, entry(2, 1));
        oracle.applied(2, Applied { digest: 1, ..entry(2, 1) });
    });
}

#[test]
fn a_skipped_or_repeated_index_is_found() {
    assert_found("skipped index 3", |oracle| {
        for index in [2, 3, 4] {
            oracle.applied(1, entry(index, index));
        }
        oracle.applied(2, entry(2, 2));
        oracle.applied(2, entry(4, 4));
    });
    assert_found("skipped by a node", |oracle| {
        oracle.applied(1, entry(2, 2));
        oracle.applied(1, entry(4, 4));
        oracle.applied(2, entry(2, 2));
        oracle.applied(2, entry(3, 3));
    });
    assert_found("after 2", |oracle| {
        oracle.applied(1, entry(2, 2));
        oracle.applied(1, entry(2, 2));
    });
}

#[test]
fn an_operation_that_takes_effect_twice_is_found() {
    assert_found("took effect twice", |oracle| {
        oracle.applied(1, entry(2, 5));
        oracle.applied(1, entry(3, 5));
    });
}

#[test]
fn an_acknowledged_operation_that_nobody_has_is_found() {
    assert_found("no node applied", |oracle| {
        oracle.acknowledged(Operation { origin: 1, epoch: 1, seq: 0 });
    });
    assert_found("lost acknowledged operations", |oracle| {
        oracle.applied(1, entry(2, 0));
        oracle.acknowledged(Operation { origin: 1, epoch: 1, seq: 0 });
        oracle.holds_all_acknowledged(2, &BTreeMap::new(), 14);
    });
}

#[test]
fn a_snapshot_with_another_digest_is_found() {
    assert_found("restored a snapshot", |oracle| {
        oracle.applied(1, entry(2, 0));
        oracle.restored(2, 3, 15);
    });
}

#[test]
fn two_leaders_of_a_term_are_found() {
    assert_found("two leaders in term 4", |oracle| {
        let status = Status { role: Role::Leader, term: 4, ..Status::default() };
        oracle.status(1, &status);
        oracle.status(1, &status);
        oracle.status(2, &status);
    });
}

fn shows(oracle: &Oracle, disk: (NodeId, u64), process: u64, server: u64, boot: u64) {
    let cluster_id = keeper_types::ClusterId([1; 16]);
    oracle.identity(disk, process, &Identity { server_id: ServerId(server), cluster_id, boot });
}

#[test]
fn a_server_id_on_two_disks_is_found() {
    assert_found("server id 4 is used twice", |oracle| {
        shows(oracle, (1, 0), 1, 4, 1);
        shows(oracle, (1, 0), 2, 4, 2);
        shows(oracle, (1, 1), 3, 4, 3);
    });
}

#[test]
fn two_lives_with_one_number_are_found() {
    assert_found("server 4 has started twice as number 2", |oracle| {
        shows(oracle, (1, 0), 1, 4, 2);
        shows(oracle, (1, 0), 1, 4, 2);
        shows(oracle, (1, 0), 2, 4, 2);
    });
}

#[test]
fn a_removed_server_that_leads_is_found() {
    let leads = |oracle: &Oracle, term| {
        let identity =
            Some(Identity { server_id: ServerId(2), cluster_id: keeper_types::ClusterId([1; 16]), boot: 1 });
        oracle.status(2, &Status { role: Role::Leader, term, identity, ..Status::default() });
    };
    assert_found("server 2, removed in term 5, leads in term 6", move |oracle| {
        oracle.removed(ServerId(2), 5);
        leads(oracle, 4);
        leads(oracle, 6);
    });
}
