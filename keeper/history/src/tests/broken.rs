//! For each rule a history that breaks it, and only it, and the message that says so.

use crate::{Counts, History, Kind, Operation, Options, Outcome, Rule, Seen, check, check_with};

/// An operation of process 1 in session 1 that took from `from` to `to`.
fn op(kind: Kind, path: &str, from: u64, to: u64) -> Operation {
    Operation {
        session: 1,
        process: 1,
        kind,
        path: path.into(),
        value: None,
        expected_version: None,
        watch: false,
        is_final: false,
        invoked_at_ns: from,
        returned_at_ns: Some(to),
        outcome: Outcome::Ok(Seen::default()),
    }
}

fn by(session: i64, operation: Operation) -> Operation {
    Operation { session, process: session as u32, ..operation }
}

fn unknown(operation: Operation) -> Operation {
    Operation { outcome: Outcome::Unknown, returned_at_ns: None, ..operation }
}

fn err(operation: Operation, code: i32, zxid: i64) -> Operation {
    Operation { outcome: Outcome::Err { code, zxid }, ..operation }
}

fn at_end(operation: Operation) -> Operation {
    Operation { is_final: true, ..operation }
}

fn watching(operation: Operation) -> Operation {
    Operation { watch: true, ..operation }
}

fn create(path: &str, value: &str, zxid: i64, from: u64, to: u64) -> Operation {
    let seen = Seen { zxid, path: Some(path.into()), ..Seen::default() };
    Operation { value: Some(value.into()), outcome: Outcome::Ok(seen), ..op(Kind::Create, path, from, to) }
}

fn sequential(prefix: &str, name: &str, value: &str, zxid: i64, from: u64, to: u64) -> Operation {
    let seen = Seen { zxid, path: Some(name.into()), ..Seen::default() };
    Operation {
        value: Some(value.into()),
        outcome: Outcome::Ok(seen),
        ..op(Kind::CreateSequential, prefix, from, to)
    }
}

fn set(path: &str, value: &str, zxid: i64, version: i32, from: u64, to: u64) -> Operation {
    let seen = Seen { zxid, czxid: Some(1), mzxid: Some(zxid), version: Some(version), ..Seen::default() };
    Operation { value: Some(value.into()), outcome: Outcome::Ok(seen), ..op(Kind::Set, path, from, to) }
}

fn delete(path: &str, zxid: i64, from: u64, to: u64) -> Operation {
    Operation { outcome: Outcome::Ok(Seen { zxid, ..Seen::default() }), ..op(Kind::Delete, path, from, to) }
}

/// A get as of `zxid` of a node created with zxid 1.
fn get(path: &str, value: &str, zxid: i64, mzxid: i64, version: i32, from: u64, to: u64) -> Operation {
    let seen = Seen {
        zxid,
        czxid: Some(1),
        mzxid: Some(mzxid),
        version: Some(version),
        value: Some(value.into()),
        path: None,
    };
    Operation { outcome: Outcome::Ok(seen), ..op(Kind::Get, path, from, to) }
}

fn sync(zxid: i64, from: u64, to: u64) -> Operation {
    Operation { outcome: Outcome::Ok(Seen { zxid, ..Seen::default() }), ..op(Kind::Sync, "/a", from, to) }
}

/// The history breaks this rule once and no other, and says so like this.
fn broken(operations: Vec<Operation>, rule: Rule, message: &str) {
    let report = check(&History { operations });
    let found: Vec<_> =
        report.violations.iter().map(|violation| (violation.rule, violation.message.as_str())).collect();
    assert_eq!(found, [(rule, message)]);
    assert!(!report.is_clean());
}

fn clean(operations: Vec<Operation>) -> Counts {
    let report = check_with(&History { operations }, Options { read_at_its_zxid: true });
    assert!(report.is_clean(), "{report}");
    report.counts
}

#[test]
fn two_writes_with_one_zxid() {
    let history = vec![create("/a", "x", 1, 0, 10), create("/b", "y", 2, 0, 20), create("/c", "z", 2, 5, 15)];
    broken(history, Rule::UniqueZxid, "the writes of /b and /c both have zxid 2");
}

#[test]
fn a_version_that_is_skipped() {
    let history = vec![create("/a", "x", 1, 0, 10), set("/a", "y", 2, 2, 20, 30)];
    broken(history, Rule::Versions, "/a went 1 versions further than its known writes, 0 are possible");
    clean(vec![
        create("/a", "x", 1, 0, 10),
        unknown(by(2, set("/a", "lost", 0, 0, 0, 0))),
        set("/a", "y", 3, 2, 20, 30),
    ]);
}

#[test]
fn a_version_that_does_not_grow() {
    let history =
        vec![create("/a", "x", 1, 0, 10), set("/a", "y", 2, 1, 20, 30), set("/a", "z", 3, 1, 40, 50)];
    broken(history, Rule::Versions, "/a has version 1 at mzxid 2, but 1 at mzxid 3");
}

#[test]
fn one_mzxid_with_two_versions() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        set("/a", "y", 2, 1, 20, 30),
        unknown(by(2, set("/a", "lost", 0, 0, 0, 0))),
        get("/a", "y", 2, 2, 2, 40, 50),
    ];
    broken(history, Rule::Versions, "/a has version 1 at mzxid 2, but 2 at mzxid 2");
}

#[test]
fn a_compare_and_set_that_did_not_compare() {
    let second = Operation { expected_version: Some(0), ..set("/a", "z", 3, 2, 40, 50) };
    let history = vec![create("/a", "x", 1, 0, 10), set("/a", "y", 2, 1, 20, 30), second];
    broken(history, Rule::Versions, "a set of /a at version 0 made version 2");
    let second = Operation { expected_version: Some(0), ..unknown(by(2, set("/a", "z", 0, 0, 40, 0))) };
    let read = by(3, get("/a", "z", 3, 3, 2, 60, 70));
    let history = vec![create("/a", "x", 1, 0, 10), set("/a", "y", 2, 1, 20, 30), second, read];
    broken(history, Rule::Versions, "a set of /a at version 0 made version 2");
}

#[test]
fn a_write_ordered_before_one_that_had_returned() {
    let history = vec![by(2, create("/b", "y", 7, 0, 10)), create("/a", "x", 1, 20, 30)];
    let message = "a write with zxid 7 had returned before the write of /a began, which has zxid 1";
    broken(history, Rule::RealTimeOrder, message);
    clean(vec![by(2, create("/b", "y", 7, 0, 25)), create("/a", "x", 1, 20, 30)]);
}

#[test]
fn a_write_of_unknown_outcome_is_ordered_too_once_it_is_seen() {
    let history = vec![
        by(2, create("/b", "y", 7, 0, 10)),
        unknown(create("/a", "x", 0, 20, 0)),
        by(3, get("/a", "x", 8, 1, 0, 40, 50)),
    ];
    let message = "a write with zxid 7 had returned before the write of /a began, which has zxid 1";
    broken(history, Rule::RealTimeOrder, message);
}

#[test]
fn a_value_that_nobody_wrote() {
    let history =
        vec![create("/a", "x", 1, 0, 10), set("/a", "y", 2, 1, 20, 30), get("/a", "z", 2, 2, 1, 40, 50)];
    let message = "/a shows Some(\"z\") at mzxid 2, where Some(\"y\") was written";
    broken(history, Rule::ReadsWhatWasWritten, message);
    let history = vec![get("/a", "z", 2, 1, 0, 40, 50)];
    broken(history, Rule::ReadsWhatWasWritten, "/a shows \"z\", which nobody wrote");
}

#[test]
fn a_value_of_another_node() {
    let history = vec![
        unknown(create("/a", "x", 0, 0, 0)),
        by(2, create("/b", "y", 2, 0, 10)),
        by(3, get("/a", "y", 3, 1, 0, 40, 50)),
    ];
    broken(history, Rule::ReadsWhatWasWritten, "/a shows \"y\", which was written to /b");
}

#[test]
fn a_value_whose_write_failed() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        err(by(2, set("/a", "y", 0, 0, 0, 10)), -103, 2),
        unknown(by(3, set("/a", "z", 0, 0, 0, 0))),
        get("/a", "y", 4, 3, 1, 40, 50),
    ];
    broken(history, Rule::ReadsWhatWasWritten, "/a shows \"y\", whose write failed with -103");
}

#[test]
fn a_value_from_the_future() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        get("/a", "y", 2, 2, 1, 20, 30),
        by(2, set("/a", "y", 2, 1, 40, 50)),
    ];
    broken(history, Rule::ReadsWhatWasWritten, "/a shows \"y\" before anybody began to write it");
}

#[test]
fn a_read_of_what_was_deleted() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        by(2, delete("/a", 2, 20, 30)),
        by(3, get("/a", "x", 2, 2, 0, 40, 50)),
    ];
    let report = check(&History { operations: history });
    let found = report.violations.iter().find(|violation| violation.rule == Rule::ReadsWhatWasWritten);
    assert_eq!(
        found.map(|found| found.message.as_str()),
        Some("/a shows mzxid 2, which is the Delete of /a")
    );
}

#[test]
fn a_write_that_was_refused_wrongly() {
    let refused = |kind, code, more: Vec<Operation>| {
        let mut history = vec![create("/a", "x", 1, 0, 10)];
        history.extend(more);
        history.push(err(Operation { expected_version: Some(0), ..op(kind, "/a", 40, 50) }, code, 9));
        history
    };
    let message = "the Set of /a with zxid 9 failed with -103, but the last write was the Create with zxid 1";
    broken(refused(Kind::Set, -103, vec![]), Rule::RefusedRightly, message);
    clean(refused(Kind::Set, -103, vec![set("/a", "y", 2, 1, 20, 30)]));
    let message =
        "the Delete of /a with zxid 9 failed with -101, but the last write was the Create with zxid 1";
    broken(refused(Kind::Delete, -101, vec![]), Rule::RefusedRightly, message);
    clean(refused(Kind::Delete, -101, vec![unknown(by(2, delete("/a", 0, 20, 0)))]));
    let message =
        "the Create of /a with zxid 9 failed with -110, but the last write was the Delete with zxid 2";
    broken(refused(Kind::Create, -110, vec![delete("/a", 2, 20, 30)]), Rule::RefusedRightly, message);
    clean(refused(Kind::Create, -110, vec![]));
}

#[test]
fn a_write_that_was_done_wrongly() {
    let deleted = |version, more: Vec<Operation>| {
        let mut history = vec![create("/a", "x", 1, 0, 10)];
        history.extend(more);
        history.push(Operation { expected_version: Some(version), ..delete("/a", 9, 40, 50) });
        history
    };
    let message = "the Delete of /a with zxid 9 was done, but the last write was the Set with zxid 2";
    broken(deleted(0, vec![set("/a", "y", 2, 1, 20, 30)]), Rule::DoneRightly, message);
    clean(deleted(1, vec![set("/a", "y", 2, 1, 20, 30)]));
    clean(deleted(1, vec![unknown(by(2, set("/a", "y", 0, 0, 0, 0)))]));
    let message = "the Delete of /a with zxid 9 was done, but the last write was the Delete with zxid 2";
    broken(deleted(0, vec![delete("/a", 2, 20, 30)]), Rule::DoneRightly, message);
    let message = "the Create of /a with zxid 2 was done, but the last write was the Create with zxid 1";
    broken(vec![create("/a", "x", 1, 0, 10), create("/a", "y", 2, 20, 30)], Rule::DoneRightly, message);
}

#[test]
fn a_write_that_was_done_twice() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        unknown(by(2, set("/a", "y", 0, 0, 0, 0))),
        unknown(by(3, set("/a", "z", 0, 0, 0, 0))),
        get("/a", "y", 2, 2, 1, 20, 30),
        get("/a", "y", 4, 4, 2, 40, 50),
    ];
    broken(history, Rule::AppliedOnce, "\"y\" was read of /a at mzxid 2 and of /a at mzxid 4");
    let history = vec![
        create("/a", "x", 1, 0, 10),
        set("/a", "y", 2, 1, 20, 30),
        unknown(by(3, set("/a", "z", 0, 0, 0, 0))),
        get("/a", "y", 4, 4, 2, 40, 50),
    ];
    broken(history, Rule::AppliedOnce, "/a shows \"y\" at mzxid 4, which was written with zxid 2");
}

#[test]
fn a_read_behind_its_own_zxid() {
    let operations = vec![
        create("/a", "x", 1, 0, 10),
        by(2, set("/a", "y", 2, 1, 20, 30)),
        by(3, get("/a", "x", 3, 1, 0, 40, 50)),
    ];
    assert!(check(&History { operations: operations.clone() }).is_clean(), "ZooKeeper may do that");
    let report = check_with(&History { operations }, Options { read_at_its_zxid: true });
    assert_eq!(report.violations[0].rule, Rule::ReadAtItsZxid);
    assert_eq!(report.violations[0].message, "/a shows mzxid 1 as of zxid 3, but was written with zxid 2");
}

#[test]
fn a_stale_read_behind_a_sync() {
    let stale = |sync_from| {
        vec![
            create("/a", "x", 1, 0, 10),
            by(2, set("/a", "y", 2, 1, 20, 30)),
            by(3, sync(0, sync_from, 50)),
            by(3, get("/a", "x", 0, 1, 0, 60, 70)),
        ]
    };
    let message = "/a does not show the write with zxid 2, which had returned before the sync began";
    broken(stale(40), Rule::FreshAfterSync, message);
    assert_eq!(clean(stale(25)).reads_after_sync, 1);
}

#[test]
fn a_node_missing_behind_a_sync() {
    let missing = |more: Vec<Operation>| {
        let read = err(op(Kind::Get, "/a", 60, 70), -101, 0);
        let mut history = vec![create("/a", "x", 1, 0, 10), by(3, sync(0, 40, 50)), by(3, read)];
        history.extend(more);
        history
    };
    let message = "/a does not show the write with zxid 1, which had returned before the sync began";
    broken(missing(vec![]), Rule::FreshAfterSync, message);
    clean(missing(vec![by(4, delete("/a", 2, 55, 90))]));
    clean(missing(vec![unknown(by(4, delete("/a", 0, 20, 0)))]));
    // A deletion that began when the read was over is no excuse.
    broken(missing(vec![by(4, delete("/a", 2, 80, 90))]), Rule::FreshAfterSync, message);
    broken(missing(vec![unknown(by(4, delete("/a", 0, 80, 0)))]), Rule::FreshAfterSync, message);
}

#[test]
fn a_node_missing_as_of_a_zxid_before_its_deletion() {
    let read = |zxid| err(op(Kind::Get, "/a", 60, 70), -101, zxid);
    let history = |zxid| {
        vec![
            create("/a", "x", 1, 0, 10),
            by(3, sync(2, 40, 50)),
            by(3, read(zxid)),
            by(4, delete("/a", 3, 55, 90)),
        ]
    };
    let message = "/a does not show the write with zxid 1, which had returned before the sync began";
    broken(history(2), Rule::FreshAfterSync, message);
    clean(history(3));
}

#[test]
fn an_old_zxid_behind_a_sync() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        by(2, create("/b", "y", 2, 20, 30)),
        by(3, sync(1, 40, 50)),
        by(3, get("/a", "x", 1, 1, 0, 60, 70)),
    ];
    let message = "a read of /a is as of zxid 1, but zxid 2 had returned before the sync began";
    broken(history, Rule::FreshAfterSync, message);
}

#[test]
fn a_session_that_goes_back() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        by(2, set("/a", "y", 2, 1, 12, 18)),
        by(3, get("/a", "y", 2, 2, 1, 20, 30)),
        by(3, err(op(Kind::Exists, "/b", 40, 50), -101, 1)),
    ];
    let message = "session 0x3: a reply is as of zxid 1 after one that is as of zxid 2";
    broken(history, Rule::SessionOrder, message);
}

#[test]
fn a_session_that_does_not_see_its_own_write() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        by(2, set("/a", "y", 2, 1, 12, 18)),
        by(2, get("/a", "x", 0, 1, 0, 20, 30)),
    ];
    let message = "session 0x2, node /a: a reply shows mzxid 1 after one that shows mzxid 2";
    broken(history, Rule::SessionOrder, message);
}

#[test]
fn two_processes_of_a_session_that_overlap_may_record_in_either_order() {
    let second = Operation { process: 9, ..get("/a", "x", 1, 1, 0, 15, 40) };
    clean(vec![create("/a", "x", 1, 0, 10), set("/a", "y", 2, 1, 12, 30), second]);
}

#[test]
fn a_change_shown_before_the_watch_has_fired() {
    let event = |at| by(3, op(Kind::Event, "/a", at, at));
    let history = |event_at: Option<u64>| {
        let mut history = vec![
            create("/a", "x", 1, 0, 10),
            by(3, watching(get("/a", "x", 1, 1, 0, 20, 30))),
            by(2, set("/a", "y", 2, 1, 40, 50)),
            by(3, get("/a", "y", 2, 2, 1, 60, 70)),
            by(3, get("/a", "y", 2, 2, 1, 80, 90)),
        ];
        history.extend(event_at.map(event));
        history
    };
    let message = "session 0x3: a reply shows /a changed (At(1), then At(2)), the watch has not fired";
    broken(history(None), Rule::WatchBeforeReply, message);
    broken(history(Some(75)), Rule::WatchBeforeReply, message);
    clean(history(Some(45)));
    clean(history(Some(70)));
}

#[test]
fn a_creation_shown_before_the_watch_on_nothing_has_fired() {
    let history = vec![
        by(3, watching(err(op(Kind::Exists, "/a", 0, 5), -101, 0))),
        create("/a", "x", 1, 10, 20),
        by(3, get("/a", "x", 1, 1, 0, 60, 70)),
    ];
    let message = "session 0x3: a reply shows /a changed (Absent, then At(1)), the watch has not fired";
    broken(history, Rule::WatchBeforeReply, message);
}

#[test]
fn an_acknowledged_write_that_is_lost() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        by(2, set("/a", "y", 2, 1, 20, 30)),
        at_end(by(3, get("/a", "x", 0, 1, 0, 40, 50))),
    ];
    broken(history, Rule::NothingLost, "the acknowledged write of /a with zxid 2 is lost: it shows mzxid 1");
    let history = vec![create("/a", "x", 1, 0, 10), at_end(by(3, err(op(Kind::Get, "/a", 40, 50), -101, 0)))];
    broken(history, Rule::NothingLost, "the acknowledged write of /a with zxid 1 is lost: it is gone");
}

#[test]
fn an_acknowledged_delete_that_is_lost() {
    let history = vec![
        create("/a", "x", 1, 0, 10),
        by(2, delete("/a", 2, 20, 30)),
        at_end(by(3, get("/a", "x", 0, 1, 0, 40, 50))),
    ];
    broken(history, Rule::NothingLost, "the acknowledged write of /a with zxid 2 is lost: it shows mzxid 1");
}

#[test]
fn a_later_write_stands_for_the_ones_before_it() {
    let counts = clean(vec![
        create("/a", "x", 1, 0, 10),
        set("/a", "y", 2, 1, 20, 30),
        unknown(by(2, set("/a", "z", 0, 0, 20, 0))),
        at_end(by(3, get("/a", "z", 3, 3, 2, 40, 50))),
        create("/b", "b", 4, 60, 70),
    ]);
    assert_eq!((counts.nodes_written, counts.nodes_read_at_end, counts.unknown_done), (2, 1, 1));
}

#[test]
fn a_number_given_twice() {
    let history = vec![
        sequential("/q/a-", "/q/a-0000000004", "x", 1, 0, 10),
        by(2, sequential("/q/b-", "/q/b-0000000004", "y", 2, 0, 10)),
    ];
    broken(history, Rule::SequenceOrder, "under \"/q\" the number 4 (zxid 2) was given twice");
    let history = vec![
        sequential("/q/a-", "/q/a-0000000004", "x", 1, 0, 10),
        by(2, sequential("/q/b-", "/q/b-0000000003", "y", 2, 0, 10)),
    ];
    broken(history, Rule::SequenceOrder, "under \"/q\" the number 3 (zxid 2) came after a higher one");
    let history = vec![sequential("/q/a-", "/r/a-0000000004", "x", 1, 0, 10)];
    broken(history, Rule::SequenceOrder, "\"/r/a-0000000004\" is no sequential name for \"/q/a-\"");
}

#[test]
fn a_recording_that_cannot_be_judged() {
    let history = vec![create("/a", "x", 1, 0, 10), unknown(create("/b", "x", 0, 20, 0))];
    let message = "the value \"x\" is written twice, so nobody can tell which write was read";
    broken(history, Rule::Recording, message);
    broken(vec![create("/a", "x", 1, 20, 10)], Rule::Recording, "the reply came before the request");
    broken(vec![create("/a", "x", 0, 0, 10)], Rule::Recording, "a write of /a was done without a zxid");
}

#[test]
fn many_violations_of_a_rule_are_counted_but_not_all_described() {
    let operations: Vec<_> = (0..100).map(|at| create("/a", &format!("v{at}"), 0, 0, 10)).collect();
    let report = check(&History { operations });
    assert!(report.violations_found >= 100);
    assert!(report.violations.len() < 100);
}

#[test]
fn a_line_that_is_no_operation_is_named() {
    let text = "\n{\"session\":1}\n";
    let error = History::from_jsonl(text).expect_err("refused");
    assert!(error.to_string().starts_with("history, line 2: missing field"), "{error}");
}

#[test]
fn an_operation_is_one_line_of_json() {
    let operation = Operation { expected_version: Some(3), ..set("/a", "y", 2, 4, 20, 30) };
    let line = r#"{"session":1,"process":1,"kind":"set","path":"/a","value":"y","expected_version":3,"invoked_at_ns":20,"returned_at_ns":30,"outcome":{"ok":{"zxid":2,"czxid":1,"mzxid":2,"version":4}}}"#;
    let history = History { operations: vec![operation, unknown(delete("/a", 0, 40, 0))] };
    let lines = format!(
        "{line}\n{}\n",
        r#"{"session":1,"process":1,"kind":"delete","path":"/a","invoked_at_ns":40,"outcome":"unknown"}"#
    );
    assert_eq!(history.to_jsonl(), lines);
    assert_eq!(History::from_jsonl(&lines).expect("read back"), history);
}
