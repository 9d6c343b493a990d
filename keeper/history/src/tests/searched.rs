//! The search for a linearization on histories small enough to be judged by eye.

use crate::{Answer, Ask, Call, Verdict, linearizable};

fn done(version: i32) -> Answer {
    Answer::Done { version: Some(version), value: None }
}

fn read(version: i32, value: &str) -> Answer {
    Answer::Done { version: Some(version), value: Some(value.into()) }
}

fn call(invoked_at_ns: u64, returned_at_ns: u64, ask: Ask, answer: Answer) -> Call {
    Call { invoked_at_ns, returned_at_ns, ask, answer }
}

fn create(value: &str) -> Ask {
    Ask::Create { value: value.into() }
}

fn set(value: &str, expected: Option<i32>) -> Ask {
    Ask::Set { value: value.into(), expected }
}

#[test]
fn an_order_against_the_order_of_arrival_is_found() {
    let calls = [
        call(0, 100, set("y", None), done(1)),
        call(10, 20, create("x"), done(0)),
        call(30, 40, Ask::Get, read(0, "x")),
        call(50, 60, Ask::Get, read(1, "y")),
    ];
    assert_eq!(linearizable(&calls), Verdict::Linearizable);
}

#[test]
fn a_read_that_goes_back_is_not_explained() {
    let calls = [
        call(0, 5, create("x"), done(0)),
        call(6, 100, set("y", None), done(1)),
        call(10, 20, Ask::Get, read(1, "y")),
        call(30, 40, Ask::Get, read(0, "x")),
    ];
    assert_eq!(linearizable(&calls), Verdict::NotLinearizable { explained: 3 });
}

#[test]
fn of_two_compare_and_sets_of_one_version_one_fails() {
    let calls = |second| {
        [
            call(0, 5, create("x"), done(0)),
            call(10, 20, set("y", Some(0)), done(1)),
            call(10, 20, set("z", Some(0)), second),
        ]
    };
    assert_eq!(linearizable(&calls(Answer::Failed { code: -103 })), Verdict::Linearizable);
    assert_eq!(linearizable(&calls(done(1))), Verdict::NotLinearizable { explained: 2 });
}

#[test]
fn an_unknown_write_may_be_done_late_once_or_never() {
    let unknown = || call(10, 0, set("y", None), Answer::Unknown);
    let first = || call(0, 5, create("x"), done(0));
    let sees = |at, version, value: &str| call(at, at + 5, Ask::Get, read(version, value));
    assert_eq!(linearizable(&[first(), unknown(), sees(20, 0, "x")]), Verdict::Linearizable);
    assert_eq!(
        linearizable(&[first(), unknown(), sees(20, 0, "x"), sees(30, 1, "y")]),
        Verdict::Linearizable
    );
    let early = call(2, 8, Ask::Get, read(1, "y"));
    assert_eq!(linearizable(&[first(), unknown(), early]), Verdict::NotLinearizable { explained: 1 });
    let twice =
        [first(), unknown(), sees(20, 1, "y"), call(30, 35, set("z", None), done(2)), sees(40, 3, "y")];
    assert_eq!(linearizable(&twice), Verdict::NotLinearizable { explained: 4 - 1 });
}

#[test]
fn a_node_is_gone_after_its_deletion() {
    let calls = |last| {
        [
            call(0, 5, create("x"), done(0)),
            call(10, 15, Ask::Delete { expected: None }, Answer::Done { version: None, value: None }),
            call(20, 25, Ask::Get, last),
        ]
    };
    assert_eq!(linearizable(&calls(Answer::Failed { code: -101 })), Verdict::Linearizable);
    assert_eq!(linearizable(&calls(read(0, "x"))), Verdict::NotLinearizable { explained: 2 });
}

#[test]
fn more_calls_than_fit_are_refused() {
    let calls: Vec<_> = (0..129).map(|at| call(at, at, Ask::Get, Answer::Failed { code: -101 })).collect();
    assert_eq!(linearizable(&calls), Verdict::TooLarge);
    assert_eq!(linearizable(&calls[..128]), Verdict::Linearizable);
}
