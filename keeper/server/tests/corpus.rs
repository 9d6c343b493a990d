//! Replays the seeds of the fuzz targets of SASL, without a fuzz engine (docs/fuzzing.md).
#![allow(clippy::disallowed_methods)]

#[path = "../../../fuzz/targets/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/sasl.rs"]
mod targets;

use keeper_server::sasl;
use replay::replay;
use std::path::Path;

#[test]
fn tokens() {
    replay("sasl", targets::token);
}

#[test]
fn files_of_users() {
    replay("sasl_users", targets::users);
}

#[test]
fn the_corpus_holds_an_answer_that_logs_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sasl");
    let answer = std::fs::read(folder.join("seed-right")).expect("readable");
    let users = sasl::Users::parse("bob:secret").expect("users");
    let nonce = || [7; sasl::limits::NONCE_BYTES];
    let mut login = sasl::Login::default();
    login.step(&[], nonce, &users).expect("a challenge");
    assert!(matches!(login.step(&answer, nonce, &users), Ok(sasl::Step::Done { user, .. }) if user == "bob"));
}
