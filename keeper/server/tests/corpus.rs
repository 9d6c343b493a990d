//! Replays the seeds of the fuzz targets of SASL, without a fuzz engine (docs/fuzzing.md).
#![allow(clippy::disallowed_methods)]

#[path = "../../../fuzz/targets/sasl.rs"]
mod targets;

use keeper_server::sasl;
use std::path::Path;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let files = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        let path = file.expect("a file").path();
        // A panic names no input: this line does.
        println!("{}", path.display());
        let data = std::fs::read(&path).expect("readable");
        for length in 0..=data.len() {
            target(&data[..length]);
        }
        count += 1;
    }
    assert!(count >= 3, "{} holds {count} files", folder.display());
}

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
