//! Progress for people: one line a step on standard error, with the seconds since the command began.

use std::sync::OnceLock;
use std::time::Instant;

static BEGIN: OnceLock<Instant> = OnceLock::new();

/// Says what is being done now.
pub fn step(text: impl std::fmt::Display) {
    let seconds = BEGIN.get_or_init(Instant::now).elapsed().as_secs_f64();
    eprintln!("[{seconds:7.1} s] {text}");
}
