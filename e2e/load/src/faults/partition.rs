//! Members that cannot hear each other: both ways or one, one of them or all, by silence or by resets.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Ground;
use super::wires::Wires;
use crate::proxy::Behaviour;

const CUT_MS_MIN: u64 = 200;
const CUT_MS_MAX: u64 = 8_000;
/// More than can have been on their way when the cut was made.
const WRITES_THROUGH: u64 = 100;
/// A majority whose members hear each other writes again within this: it needs an election at most.
const WRITES_WITHIN: Duration = Duration::from_secs(6);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The leader on one side, the others on the other.
    LeaderAlone,
    FollowerAlone,
    /// Halves with their clients: who is with one member hears nothing of the others' side.
    HalfWithClients,
    /// Between two members, who both hear the third.
    OneLink,
    /// Nobody hears the leader, who hears everybody.
    LeaderMute,
    /// The leader hears nobody, and everybody hears it.
    LeaderDeaf,
    FollowerMute,
    FollowerDeaf,
    Everybody,
}

impl Cut {
    const ALL: [Cut; 9] = [
        Cut::LeaderAlone,
        Cut::FollowerAlone,
        Cut::HalfWithClients,
        Cut::OneLink,
        Cut::LeaderMute,
        Cut::LeaderDeaf,
        Cut::FollowerMute,
        Cut::FollowerDeaf,
        Cut::Everybody,
    ];

    fn is_one_way(self) -> bool {
        matches!(self, Cut::LeaderMute | Cut::LeaderDeaf | Cut::FollowerMute | Cut::FollowerDeaf)
    }

    /// Whether a majority of members hear each other and everybody that they need.
    fn leaves_a_majority(self) -> bool {
        matches!(self, Cut::LeaderAlone | Cut::FollowerAlone | Cut::HalfWithClients | Cut::OneLink)
    }
}

pub async fn run(ground: &mut Ground<'_>, wires: &Wires) -> Result<()> {
    while ground.next_round() {
        let cut = Cut::ALL[ground.random.below(Cut::ALL.len())];
        // A connection has one reset for both directions.
        let by_reset = !cut.is_one_way() && ground.random.below(2) == 0;
        let behaviour = if by_reset { Behaviour::Reset } else { Behaviour::Stall };
        let (leader, follower) =
            (ground.keepers.cluster.wait_leader().await?, ground.random_follower().await?);
        let time = ground.random_ms(CUT_MS_MIN, CUT_MS_MAX);
        let before = ground.load.acknowledged();
        apply(ground, wires, cut, (leader, follower), behaviour);
        let begin = Instant::now();
        let within = time.min(WRITES_WITHIN);
        let again = ground.load.wait_writes(WRITES_THROUGH, within).await.map(|()| begin.elapsed());
        let kept = match &again {
            Ok(after) => format!("{WRITES_THROUGH} writes after {} ms", after.as_millis()),
            Err(_) => format!("no {WRITES_THROUGH} writes in {} ms", within.as_millis()),
        };
        tokio::time::sleep(time.saturating_sub(begin.elapsed())).await;
        let writes = ground.load.acknowledged() - before;
        wires.heal();
        let (who, how) = (format!("leader {}, follower {}", leader + 1, follower + 1), behaviour);
        ground.say(format_args!(
            "{cut:?} ({who}) by {how:?} for {} ms: {kept}, {writes} in all",
            time.as_millis()
        ));
        if cut.leaves_a_majority() && WRITES_WITHIN <= time {
            again.with_context(|| format!("{cut:?} ({who}) leaves a majority that hears each other"))?;
        }
        ground.recover().await?;
    }
    Ok(())
}

fn apply(
    ground: &mut Ground<'_>,
    wires: &Wires,
    cut: Cut,
    (leader, follower): (usize, usize),
    how: Behaviour,
) {
    let members = ground.keepers.cluster.members();
    let others = |member: usize| (0..members).filter(move |other| *other != member);
    let mute = |member: usize| others(member).for_each(|other| wires.set(member, other, how));
    let deaf = |member: usize| others(member).for_each(|other| wires.set(other, member, how));
    match cut {
        Cut::LeaderAlone => [mute(leader), deaf(leader)],
        Cut::FollowerAlone => [mute(follower), deaf(follower)],
        Cut::HalfWithClients => {
            let member = ground.random.below(members);
            wires.set_to_clients(member, how);
            wires.set_from_clients(member, how);
            [mute(member), deaf(member)]
        }
        Cut::OneLink => [wires.set(leader, follower, how), wires.set(follower, leader, how)],
        Cut::LeaderMute => [mute(leader), ()],
        Cut::LeaderDeaf => [deaf(leader), ()],
        Cut::FollowerMute => [mute(follower), ()],
        Cut::FollowerDeaf => [deaf(follower), ()],
        Cut::Everybody => [(0..members).for_each(mute), ()],
    };
}
