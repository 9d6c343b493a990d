//! The clocks of the nodes: each runs a little fast or slow, and its wall clock may jump.

use super::NodeId;
use std::collections::BTreeMap;

/// Where a process's monotonic clock begins: openraft subtracts durations from early instants.
const MONOTONIC_START_NS: u64 = 3_600_000_000_000;
/// The wall clock at the beginning of every simulation: the first of January 2026.
const WALL_START_MS: i64 = 1_767_225_600_000;
const TRUE_RATE_PPM: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct Clock {
    rate_ppm: u64,
    /// True time at which this clock stood at its start.
    since_ns: u64,
    wall_offset_ms: i64,
}

const TRUE_CLOCK: Clock = Clock { rate_ppm: TRUE_RATE_PPM, since_ns: 0, wall_offset_ms: 0 };

impl Clock {
    fn elapsed_ns(&self, true_ns: u64) -> u64 {
        let elapsed = u128::from(true_ns.saturating_sub(self.since_ns));
        saturating(elapsed * u128::from(self.rate_ppm) / u128::from(TRUE_RATE_PPM))
    }
}

fn saturating(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[derive(Default)]
pub(super) struct Clocks(BTreeMap<NodeId, Clock>);

impl Clocks {
    fn of(&self, node: NodeId) -> Clock {
        self.0.get(&node).copied().unwrap_or(TRUE_CLOCK)
    }

    /// A new process of `node` begins: its monotonic clock starts anew, at `rate_ppm` of the true speed. Only when
    /// none of its tasks run: sleeps are converted to true time when they begin.
    pub(super) fn restart(&mut self, node: NodeId, true_ns: u64, rate_ppm: u64) {
        let before = self.of(node);
        let wall_now = Self::wall_of(&before, true_ns);
        let mut clock = Clock { rate_ppm, since_ns: true_ns, wall_offset_ms: 0 };
        clock.wall_offset_ms = wall_now - Self::wall_of(&clock, true_ns);
        self.0.insert(node, clock);
    }

    pub(super) fn jump_wall(&mut self, node: NodeId, by_ms: i64) {
        let mut clock = self.of(node);
        clock.wall_offset_ms += by_ms;
        self.0.insert(node, clock);
    }

    pub(super) fn monotonic_ns(&self, node: NodeId, true_ns: u64) -> u64 {
        MONOTONIC_START_NS.saturating_add(self.of(node).elapsed_ns(true_ns))
    }

    /// True time at which the node's monotonic clock reaches `local_ns`.
    pub(super) fn true_ns(&self, node: NodeId, local_ns: u64) -> u64 {
        let clock = self.of(node);
        let local = u128::from(local_ns.saturating_sub(MONOTONIC_START_NS));
        let elapsed = (local * u128::from(TRUE_RATE_PPM)).div_ceil(u128::from(clock.rate_ppm));
        clock.since_ns.saturating_add(saturating(elapsed))
    }

    pub(super) fn wall_ms(&self, node: NodeId, true_ns: u64) -> i64 {
        Self::wall_of(&self.of(node), true_ns)
    }

    fn wall_of(clock: &Clock, true_ns: u64) -> i64 {
        let elapsed_ms = i64::try_from(clock.elapsed_ns(true_ns) / 1_000_000).unwrap_or(i64::MAX / 2);
        WALL_START_MS + clock.wall_offset_ms + elapsed_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_early_on_a_clock_that_is_fast_or_slow() {
        for rate_ppm in [980_000, 999_983, 1_000_000, 1_020_000] {
            let mut clocks = Clocks::default();
            clocks.restart(3, 12_345, rate_ppm);
            for wanted in [1, 999, 1_000_003, 3_000_000_017] {
                let local = clocks.monotonic_ns(3, 12_345) + wanted;
                let reached = clocks.monotonic_ns(3, clocks.true_ns(3, local));
                assert!(reached >= local && reached - local <= 2, "{rate_ppm} {wanted}: {reached} {local}");
            }
        }
    }

    #[test]
    fn the_wall_clock_goes_on_over_a_restart_and_jumps_on_request() {
        let mut clocks = Clocks::default();
        clocks.restart(1, 0, 1_020_000);
        let before = clocks.wall_ms(1, 10_000_000_000);
        assert_eq!(before - clocks.wall_ms(1, 0), 10_200);
        clocks.restart(1, 10_000_000_000, 980_000);
        assert_eq!(clocks.wall_ms(1, 10_000_000_000), before);
        clocks.jump_wall(1, -5_000);
        assert_eq!(clocks.wall_ms(1, 10_000_000_000), before - 5_000);
    }
}
