//! What the server's code sees of the simulation: every call of `keeper_rt` concerns the node being polled.

use super::Simulator;
use keeper_rt::{Simulation, SleepFuture, TaskFuture};

pub(super) struct Hook(pub(super) Simulator);

impl Simulation for Hook {
    fn spawn(&self, name: &'static str, task: TaskFuture) {
        self.0.spawn_on(self.0.current_node(), name, task);
    }

    fn now_ns(&self) -> u64 {
        self.0.node_monotonic_ns(self.0.current_node())
    }

    fn wall_ms(&self) -> i64 {
        self.0.node_wall_ms(self.0.current_node())
    }

    fn sleep_until(&self, deadline_ns: u64) -> SleepFuture {
        Box::pin(self.0.sleep_until_local(self.0.current_node(), deadline_ns))
    }

    fn random_u64(&self) -> u64 {
        self.0.random_u64()
    }

    fn point(&self, name: &'static str) {
        self.0.reached_point(name);
    }

    fn is_planted(&self, name: &'static str) -> bool {
        name.strip_prefix(keeper_rt::PLANTED_MARK).is_some_and(|name| self.0.is_planted(name))
    }
}
