//! Members that cannot hear each other: both ways or one, one of them or all, by silence or by resets.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Ground;
use super::wires::Wires;
use crate::proxy::Behaviour;

const CUT_MS_MIN: u64 = 200;
const CUT_MS_MAX: u64 = 8_000;
/// Between two attempts to write.
const PAUSE: Duration = Duration::from_millis(20);
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
        let how = if by_reset { Behaviour::Reset } else { Behaviour::Stall };
        let leader = ground.keepers.cluster.wait_leader().await?;
        let member = match cut {
            Cut::LeaderAlone | Cut::LeaderMute | Cut::LeaderDeaf | Cut::Everybody => leader,
            Cut::FollowerAlone | Cut::OneLink | Cut::FollowerMute | Cut::FollowerDeaf => {
                ground.random_follower().await?
            }
            Cut::HalfWithClients => ground.random_member(),
        };
        let time = ground.random_ms(CUT_MS_MIN, CUT_MS_MAX);
        let before = ground.load.acknowledged();
        apply(wires, cut, member, leader, ground.keepers.cluster.members(), how);
        let begin = Instant::now();
        let others = ground.hosts.iter().enumerate().filter(|(other, _)| *other != member);
        let others: Vec<String> = others.map(|(_, host)| host.clone()).collect();
        let written = write(&others, time.min(WRITES_WITHIN)).await;
        tokio::time::sleep(time.saturating_sub(begin.elapsed())).await;
        let writes = ground.load.acknowledged() - before;
        wires.heal();
        let others = match &written {
            Ok(after) => format!("the others take a new client's write after {} ms", after.as_millis()),
            Err(_) => "the others take no new client's write".to_owned(),
        };
        let role = if member == leader { "leader" } else { "follower" };
        let text = format!("{cut:?} of {role} {} by {how:?} for {} ms", member + 1, time.as_millis());
        ground.say(format_args!("{text}: {others}; {writes} writes of the load"));
        if cut.leaves_a_majority() && WRITES_WITHIN <= time {
            written.with_context(|| format!("{text}: a majority hears each other"))?;
        }
        ground.recover().await?;
    }
    Ok(())
}

/// How long it took until a new client of `hosts` could write.
async fn write(hosts: &[String], within: Duration) -> Result<Duration> {
    let begin = Instant::now();
    let attempts = async {
        while super::probe(hosts).await.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(within, attempts).await.context("no write was acknowledged in time")?;
    Ok(begin.elapsed())
}

fn apply(wires: &Wires, cut: Cut, member: usize, leader: usize, members: usize, how: Behaviour) {
    let others = |member: usize| (0..members).filter(move |other| *other != member);
    let mute = |member: usize| others(member).for_each(|other| wires.set(member, other, how));
    let deaf = |member: usize| others(member).for_each(|other| wires.set(other, member, how));
    match cut {
        Cut::LeaderAlone | Cut::FollowerAlone => {
            mute(member);
            deaf(member);
        }
        Cut::HalfWithClients => {
            wires.set_to_clients(member, how);
            wires.set_from_clients(member, how);
            mute(member);
            deaf(member);
        }
        Cut::OneLink => {
            wires.set(leader, member, how);
            wires.set(member, leader, how);
        }
        Cut::LeaderMute | Cut::FollowerMute => mute(member),
        Cut::LeaderDeaf | Cut::FollowerDeaf => deaf(member),
        Cut::Everybody => (0..members).for_each(mute),
    }
}
