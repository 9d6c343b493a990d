//! Prints what a znode, a session, an ephemeral node and a node whose data was set cost, as the growth of this process.
//! `cargo run --release -p keeper-tree --example memory [NODES]`; the figures are in docs/memory.md.

#[path = "../tests/profile/mod.rs"]
mod profile;

use profile::{Grower, resident_bytes};

const SESSIONS: usize = 100_000;
const EPHEMERALS_EACH: usize = 3;

fn main() {
    let nodes: usize =
        std::env::args().nth(1).map_or(3_000_000, |text| text.parse().expect("a number of nodes"));
    let mut grower = Grower::new();
    let start = resident_bytes();
    let mut meter = Meter { resident: start, estimate: grower.tree.memory() };
    grower.grow(nodes);
    let lengths = &grower.lengths;
    let mean = |sum: usize| sum as f64 / lengths.nodes as f64;
    println!(
        "{} nodes: path {:.1}, name {:.1}, data {:.1}, with data {:.3}",
        lengths.nodes,
        mean(lengths.path),
        mean(lengths.name),
        mean(lengths.data),
        mean(lengths.with_data)
    );
    meter.grew(&grower, "a znode", lengths.nodes);
    let sessions: Vec<_> = (0..SESSIONS).map(|_| grower.open_session()).collect();
    meter.grew(&grower, "a session", SESSIONS);
    grower.create("/leases", b"", 0);
    for (number, session) in sessions.into_iter().enumerate() {
        grower.become_session(session);
        for lease in 0..EPHEMERALS_EACH {
            let path = format!("/leases/lease-{number:08}-{lease:04}-x");
            grower.create(&path, b"a-host-of-the-cluster.example.internal:9000/12", 1);
        }
    }
    meter.grew(&grower, "an ephemeral node (name 23, data 46)", SESSIONS * EPHEMERALS_EACH);
    let sets = SESSIONS * EPHEMERALS_EACH;
    for number in 0..sets {
        grower.create(&format!("/leases/config-{number:016}"), &[b'y'; 46], 0);
    }
    meter.grew(&grower, "a node (name 23, data 46)", sets);
    (0..sets).for_each(|number| grower.set(&format!("/leases/config-{number:016}"), &[b'z'; 46]));
    meter.grew(&grower, "more for the first setData of a node", sets);
}

struct Meter {
    resident: usize,
    estimate: usize,
}

impl Meter {
    fn grew(&mut self, grower: &Grower, what: &str, count: usize) {
        let (resident, estimate) = (resident_bytes(), grower.tree.memory());
        let each = |now: usize, before: usize| now.saturating_sub(before) as f64 / count as f64;
        println!(
            "{what:40} {:7.1} bytes measured, {:7.1} by Tree::memory",
            each(resident, self.resident),
            each(estimate, self.estimate)
        );
        *self = Meter { resident, estimate };
    }
}
