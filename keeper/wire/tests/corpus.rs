//! Replays the seeds of the fuzz targets, without a fuzz engine (docs/fuzzing.md).
#![allow(clippy::disallowed_methods)]

#[path = "../../../fuzz/targets/replay.rs"]
mod replay;
#[path = "../../../fuzz/targets/wire.rs"]
mod targets;

use replay::replay;

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
fn clickhouses_dialects_in_any_pieces() {
    replay("dialect", targets::dialect);
}

#[test]
fn frames_in_any_pieces() {
    replay("frames", targets::frames);
}
