//! Prints for how long a snapshot in slices holds the tree and what memory it takes, while another thread writes.
//! `cargo run --release -p keeper-tree --example snapshot_pause [NODES]`.
#![allow(
    clippy::disallowed_methods,
    reason = "a measurement needs threads and the clock; nothing of this runs in a server"
)]

#[path = "../tests/profile/mod.rs"]
mod profile;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use profile::{Grower, resident_bytes};

const HOT_NODES: usize = 10_000;
/// As consensus makes it: `SNAPSHOT_PACE`.
const PACE: Duration = Duration::from_millis(1);
/// Writes between two sleeps of the writer, about 10,000 a second.
const BURST: usize = 10;

fn main() {
    let nodes: usize =
        std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number of nodes"));
    let mut grower = Grower::new();
    grower.grow(nodes);
    grower.create("/hot", b"", 0);
    (0..HOT_NODES).for_each(|number| grower.create(&format!("/hot/{number:08}"), b"before", 0));
    let digest = grower.tree.digest();
    let tree = Mutex::new(grower);
    let done = AtomicBool::new(false);
    let before = resident_bytes();
    std::thread::scope(|scope| {
        scope.spawn(|| write(&tree, &done));
        let mut holds = Vec::new();
        let started = Instant::now();
        let lock = || tree.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = |work: &mut dyn FnMut(&mut Grower)| {
            let mut grower = lock();
            let from = Instant::now();
            work(&mut grower);
            holds.push(from.elapsed());
        };
        let mut walk = None;
        held(&mut |grower| walk = Some(grower.tree.begin_snapshot()));
        let mut walk = walk.expect("begun");
        let (mut bytes, mut resident_max, mut header) = (0, 0, Vec::new());
        while !walk.is_complete() {
            held(&mut |grower| grower.tree.snapshot_slice(&mut walk).expect("the only one"));
            while let Some(chunk) = walk.take_chunk() {
                bytes += chunk.len();
                if header.is_empty() {
                    header = chunk;
                }
                resident_max = resident_max.max(resident_bytes());
                std::thread::sleep(PACE);
            }
        }
        held(&mut |grower| grower.tree.end_snapshot(&walk));
        done.store(true, Ordering::Relaxed);
        assert_eq!(header[36..44], digest.to_be_bytes(), "the state is that of the begin");
        let took = started.elapsed();
        println!("{bytes} bytes in {took:?}; begin {:?}", holds[0]);
        holds.sort_unstable();
        let at = |part: usize| holds[(holds.len() - 1) * part / 1000];
        println!(
            "{} holds: half {:?}, p99 {:?}, p99.9 {:?}, longest {:?}",
            holds.len(),
            at(500),
            at(990),
            at(999),
            at(1000)
        );
        let more = resident_max.saturating_sub(before);
        println!(
            "resident {before} before, {more} more meanwhile: {:.1} %",
            more as f64 * 100.0 / before as f64
        );
    });
}

fn write(tree: &Mutex<Grower>, done: &AtomicBool) {
    let (mut number, mut longest) = (0, Duration::ZERO);
    while !done.load(Ordering::Relaxed) {
        for _ in 0..BURST {
            let path = format!("/hot/{:08}", number % HOT_NODES);
            let from = Instant::now();
            tree.lock().unwrap_or_else(PoisonError::into_inner).set(&path, b"after.");
            longest = longest.max(from.elapsed());
            number += 1;
        }
        std::thread::sleep(PACE);
    }
    println!("{number} writes meanwhile, the longest {longest:?}");
}
