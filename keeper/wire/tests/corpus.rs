//! Replays the seeds of the fuzz targets, without a fuzz engine (docs/fuzzing.md).
#![allow(clippy::disallowed_methods)]

#[path = "../../../fuzz/targets/wire.rs"]
mod targets;

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
fn handshakes() {
    replay("handshake", targets::handshake);
}

#[test]
fn requests() {
    replay("request", targets::request);
}

#[test]
fn first_bytes() {
    replay("first", targets::first);
}

#[test]
fn frames_in_any_pieces() {
    replay("frames", targets::frames);
}
