//! What goes wrong: one misfortune every 20 to 920 ms, chosen by the seed among the kinds that are switched on.

use crate::disk::SimDisk;
use crate::executor::{Event, NodeId, Simulator};
use crate::world::{Crash, World};
use keeper_consensus::Precondition;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Kind {
    /// One process dies; the leader's half of the time.
    Crash,
    /// One machine loses its power; the leader half of the time.
    Power,
    /// Most machines lose their power together.
    PowerLossOfAll,
    /// One machine is cut off, perhaps in one direction only.
    Isolation,
    /// The machines fall into random halves.
    Halves,
    /// The connections of one pair break.
    Reset,
    /// A disk becomes fifty times slower, or quick again.
    SlowDisk,
    /// A disk has no room to grow for a while.
    FullDisk,
    /// A disk fails to sync once or twice.
    SyncError,
    /// The leader is asked to hand over.
    Transfer,
    /// A process is asked to stop, as by a rolling update.
    Stop,
    /// A wall clock jumps.
    WallClock,
    /// One in ten crash points cuts the power.
    Points,
    /// A member writes a snapshot and purges its log.
    Snapshot,
    /// Bits change in a file of one member, which will have to be replaced.
    BitRot,
    /// A batch of one member's log is written over something else.
    Misdirected,
    /// Members are added, removed, and lose their disks.
    Membership,
}

impl Kind {
    pub const ALL: [Kind; 17] = [
        Kind::Crash,
        Kind::Power,
        Kind::PowerLossOfAll,
        Kind::Isolation,
        Kind::Halves,
        Kind::Reset,
        Kind::SlowDisk,
        Kind::FullDisk,
        Kind::SyncError,
        Kind::Transfer,
        Kind::Stop,
        Kind::WallClock,
        Kind::Points,
        Kind::Snapshot,
        Kind::BitRot,
        Kind::Misdirected,
        Kind::Membership,
    ];

    /// What a run has unless it is asked for more: damaged disks and changes of members show a fault that is open
    /// (docs/simulation.md, "Found so far").
    pub const STANDARD: [Kind; 14] = [
        Kind::Crash,
        Kind::Power,
        Kind::PowerLossOfAll,
        Kind::Isolation,
        Kind::Halves,
        Kind::Reset,
        Kind::SlowDisk,
        Kind::FullDisk,
        Kind::SyncError,
        Kind::Transfer,
        Kind::Stop,
        Kind::WallClock,
        Kind::Points,
        Kind::Snapshot,
    ];

    /// How often it comes, against the others.
    fn weight(self) -> usize {
        match self {
            Kind::Crash | Kind::Power | Kind::Isolation => 2,
            Kind::Points | Kind::Membership => 0,
            _ => 1,
        }
    }
}

/// What a run has of `kinds`. Each leaves out some: one that comes all the time hides what the others do.
pub fn choose(simulator: &Simulator, kinds: &BTreeSet<Kind>) -> BTreeSet<Kind> {
    kinds.iter().filter(|_| !simulator.one_in(3)).copied().collect()
}

/// Causes misfortunes until it is told to stop.
pub struct Misfortunes {
    world: World,
    /// One entry a kind and weight; `None` ends all partitions.
    lots: Vec<Option<Kind>>,
    /// When which node starts again.
    restarts: BTreeMap<NodeId, u64>,
    /// When which disk has room again.
    full_until: BTreeMap<NodeId, u64>,
}

impl Misfortunes {
    pub fn new(world: &World, kinds: &BTreeSet<Kind>) -> Misfortunes {
        let mut lots = vec![None, None];
        for kind in kinds {
            lots.extend(std::iter::repeat_n(Some(*kind), kind.weight()));
        }
        if kinds.contains(&Kind::Points) {
            world.cut_power_at_points();
        }
        Misfortunes { world: world.clone(), lots, restarts: BTreeMap::new(), full_until: BTreeMap::new() }
    }

    fn simulator(&self) -> &Simulator {
        self.world.simulator()
    }

    /// Goes on for `duration`, or until the oracle has found something.
    pub async fn cause_for(mut self, duration: Duration) {
        let end = self.simulator().now_ns() + u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2);
        while self.simulator().now_ns() < end && self.world.oracle().is_content() {
            let pause_ms = 20 + self.simulator().below(900);
            self.simulator().sleep_ms(pause_ms).await;
            self.repair_what_is_due();
            let lot = self.simulator().below(self.lots.len() as u64) as usize;
            match self.lots[lot] {
                Some(kind) => self.cause(kind),
                None => self.world.net().heal(),
            }
        }
    }

    fn repair_what_is_due(&mut self) {
        let now = self.simulator().now_ns();
        let (world, restarts) = (&self.world, &mut self.restarts);
        restarts.retain(|node, at| {
            if *at <= now {
                world.start(*node);
            }
            *at > now
        });
        self.full_until.retain(|node, at| {
            if *at <= now {
                world.disk(*node).set_size_bytes(u64::MAX);
            }
            *at > now
        });
    }

    fn any_node(&self) -> NodeId {
        1 + self.simulator().below(self.world.nodes().count() as u64) as NodeId
    }

    /// The leader half of the time.
    fn victim(&self) -> NodeId {
        match self.world.leader() {
            Some(leader) if self.simulator().one_in(2) => leader,
            _ => self.any_node(),
        }
    }

    fn cause(&mut self, kind: Kind) {
        self.simulator().trace(Event::Misfortune, kind as u64);
        match kind {
            Kind::Crash | Kind::Power => self.crash_one(kind == Kind::Power),
            Kind::PowerLossOfAll => self.cut_power_of_most(),
            Kind::Isolation => self.isolate(),
            Kind::Halves => self.split(),
            Kind::Reset => self.world.net().reset_some(),
            Kind::SlowDisk => {
                let slowness = if self.simulator().one_in(2) { 1 } else { 50 };
                self.world.disk(self.any_node()).set_slowness(slowness);
            }
            Kind::FullDisk => self.fill_disk(),
            Kind::SyncError => {
                let count = 1 + self.simulator().below(2) as u32;
                self.world.disk(self.any_node()).set_failing_syncs(count);
            }
            Kind::Transfer => self.transfer(),
            Kind::Stop => self.world.stop_and_restart(self.victim(), 2_000),
            Kind::WallClock => {
                let by_ms = self.simulator().below(120_000) as i64 - 60_000;
                self.simulator().jump_wall_clock(self.any_node(), by_ms);
            }
            Kind::Snapshot => self.snapshot(),
            Kind::BitRot => self.damage(SimDisk::rot),
            Kind::Misdirected => self.damage(SimDisk::misdirect_next_write),
            Kind::Points | Kind::Membership => {}
        }
    }

    fn plan_restart(&mut self, node: NodeId, within_ms: u64) {
        let ms = self.simulator().below(within_ms);
        self.restarts.insert(node, self.simulator().now_ns() + ms * 1_000_000);
    }

    fn crash_one(&mut self, power: bool) {
        let node = self.victim();
        let down = self.world.nodes().filter(|node| !self.world.is_up(*node)).count();
        if !self.world.is_up(node) || down > self.world.nodes().count() / 2 {
            return;
        }
        let silent_ms = if self.simulator().one_in(2) { self.simulator().below(4_000) } else { 0 };
        let crash = match power {
            true => Crash::Power { silent_for: Duration::from_millis(silent_ms) },
            false => Crash::Process,
        };
        self.world.crash(node, crash);
        let within_ms = if self.simulator().one_in(2) { 50 } else { 4_000 };
        self.plan_restart(node, within_ms);
    }

    fn cut_power_of_most(&mut self) {
        for node in self.world.nodes() {
            if self.world.is_up(node) && !self.simulator().one_in(5) {
                self.world.crash(node, Crash::Power { silent_for: Duration::ZERO });
                self.plan_restart(node, 1_500);
            }
        }
    }

    fn isolate(&self) {
        let node = self.victim();
        let direction = self.simulator().below(3);
        for other in self.world.nodes().filter(|other| *other != node) {
            if direction != 1 {
                self.world.net().block(node, other);
            }
            if direction != 2 {
                self.world.net().block(other, node);
            }
        }
    }

    fn split(&self) {
        let sides: BTreeMap<NodeId, bool> =
            self.world.nodes().map(|node| (node, self.simulator().one_in(2))).collect();
        for (from, from_side) in &sides {
            for (to, to_side) in &sides {
                match from_side == to_side {
                    true => self.world.net().unblock(*from, *to),
                    false => self.world.net().block(*from, *to),
                }
            }
        }
    }

    fn fill_disk(&mut self) {
        let node = self.any_node();
        let disk = self.world.disk(node);
        disk.set_size_bytes(disk.used_bytes() + self.simulator().below(64 * 1024));
        let until = self.simulator().now_ns() + self.simulator().below(3_000) * 1_000_000;
        self.full_until.insert(node, until);
    }

    fn damage(&self, how: fn(&SimDisk)) {
        let node = self.any_node();
        if self.world.may_damage(node) {
            how(self.world.disk(node));
        }
    }

    fn snapshot(&self) {
        let node = self.any_node();
        let Some(consensus) = self.world.consensus(node) else { return };
        self.simulator().spawn_on(node, "snapshot", async move {
            // Refusals are part of the game.
            let _ = consensus.snapshot_now().await;
        });
    }

    fn transfer(&self) {
        let Some(to) = self.world.members().get(&self.any_node()).copied() else { return };
        let Some(leader) = self.world.leader() else { return };
        let Some(consensus) = self.world.consensus(leader) else { return };
        self.simulator().spawn_on(leader, "transfer", async move {
            // Refusals are part of the game.
            let _ = consensus.transfer_leadership(to, Precondition::default()).await;
        });
    }
}
