//! What the tree says of its memory is what the system says. One test only: others would allocate meanwhile.

mod profile;

use profile::{Grower, resident_bytes};

/// The same with more nodes is `examples/memory.rs`.
#[test]
fn the_estimate_is_within_a_tenth_of_what_the_system_counts() {
    let before = resident_bytes();
    let mut grower = Grower::new();
    let empty = grower.tree.memory();
    grower.grow(400_000);
    let grown = (resident_bytes() - before) as f64;
    let estimate = (grower.tree.memory() - empty) as f64;
    let nodes = grower.tree.counts().znodes as f64;
    let [measured_each, estimate_each] = [grown, estimate].map(|bytes| bytes / nodes);
    assert!(
        (grown - estimate).abs() < grown / 10.0,
        "measured {measured_each:.1}, estimate {estimate_each:.1}"
    );
    assert!(measured_each <= 200.0, "{measured_each:.1} bytes a znode");
    let lengths = &grower.lengths;
    let mean = |sum: usize| sum as f64 / lengths.nodes as f64;
    let means = [lengths.path, lengths.name, lengths.data].map(mean);
    for (mean, wanted) in means.into_iter().zip([117.0, 23.0, 46.0]) {
        assert!((mean - wanted).abs() < 1.0, "{means:?} is not the profile");
    }
}
