//! Slow links: whatever a member sends arrives later, all the time. Nobody may be taken for dead for it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::wires::Wires;
use super::{Ground, Length};
use crate::proxy::Behaviour;

/// Of each shape, where rounds are counted.
const SHAPE_TIME: Duration = Duration::from_secs(5);
/// Less says nothing about elections.
const SHAPE_TIME_MIN: Duration = Duration::from_millis(1500);

/// What members are slow in, and how slow.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    /// (base, jitter) in milliseconds of what a leader and a follower send; 0 passes at once.
    leader_ms: (u64, u64),
    follower_ms: (u64, u64),
    only: Only,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    All,
    /// Of the followers only one.
    OneFollower,
    /// Of what the leader sends only its answers to clients.
    Clients,
}

/// The shapes on which Keepers are measured, without the packets that one of them loses: TCP repeats those.
const SHAPES: [Shape; 7] = [
    Shape { name: "uniform", leader_ms: (10, 5), follower_ms: (10, 5), only: Only::All },
    Shape { name: "multi-region", leader_ms: (10, 5), follower_ms: (80, 20), only: Only::All },
    Shape { name: "WAN", leader_ms: (25, 7), follower_ms: (25, 7), only: Only::All },
    Shape { name: "jitter", leader_ms: (20, 15), follower_ms: (20, 15), only: Only::All },
    Shape { name: "slow followers", leader_ms: (0, 0), follower_ms: (80, 20), only: Only::All },
    Shape { name: "single slow follower", leader_ms: (0, 0), follower_ms: (80, 20), only: Only::OneFollower },
    Shape { name: "WAN client path", leader_ms: (50, 10), follower_ms: (0, 0), only: Only::Clients },
];

pub async fn run(ground: &mut Ground<'_>, wires: &Wires) -> Result<()> {
    let (rounds, time) = match ground.length {
        Length::Rounds(rounds) => (rounds, SHAPE_TIME),
        Length::Time(time) => (1, (time / SHAPES.len() as u32).max(SHAPE_TIME_MIN)),
    };
    for shape in (0..rounds).flat_map(|_| SHAPES) {
        ground.rounds += 1;
        let leader = ground.keepers.cluster.wait_leader().await?;
        let terms = terms(ground).await?;
        let follower = ground.random_follower().await?;
        apply(wires, shape, leader, follower, ground.keepers.cluster.members());
        let (begin, before) = (Instant::now(), ground.load.acknowledged());
        tokio::time::sleep(time).await;
        let rate = (ground.load.acknowledged() - before) as f64 / begin.elapsed().as_secs_f64();
        ground.say(format_args!("{}: {rate:.0} writes a second", shape.name));
        let now = self::terms(ground).await?;
        ensure!(now == terms, "{}: an election; terms {terms:?} became {now:?}", shape.name);
        wires.heal();
        ground.recover().await?;
    }
    Ok(())
}

/// The term in which each member is. A vote asked for in vain raises it as well.
async fn terms(ground: &Ground<'_>) -> Result<Vec<u64>> {
    let mut terms = Vec::new();
    for member in 0..ground.keepers.places.len() {
        terms.push(ground.keepers.status(member).await?.term);
    }
    Ok(terms)
}

fn apply(wires: &Wires, shape: Shape, leader: usize, slow_follower: usize, members: usize) {
    let behaviour = |(base, jitter): (u64, u64)| match (base, jitter) {
        (0, 0) => Behaviour::Pass,
        _ => Behaviour::Delay { base: Duration::from_millis(base), jitter: Duration::from_millis(jitter) },
    };
    if shape.only == Only::Clients {
        return wires.set_to_clients(leader, behaviour(shape.leader_ms));
    }
    wires.set_outgoing(leader, behaviour(shape.leader_ms));
    let is_slow = |member: &usize| match shape.only {
        Only::OneFollower => *member == slow_follower,
        Only::All | Only::Clients => *member != leader,
    };
    for member in (0..members).filter(is_slow) {
        wires.set_outgoing(member, behaviour(shape.follower_ms));
    }
}
