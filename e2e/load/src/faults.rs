//! Real misfortunes of a local three-member cluster, under the checked loader: stopped processes, partitions, slow links,
//! full disks, damaged files, lost folders. docs/faults.md says what each asks.
//!
//! Each scenario is a file that hurts the cluster round by round; what is common is here: the loader runs all the time,
//! after each round the cluster has to work again, and in the end nothing acknowledged may be missing and all members
//! have to hold the same tree.

mod delay;
mod disk_full;
mod flipped_byte;
mod freeze;
mod lost_folder;
mod partition;
mod volume;
mod wires;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use keeper_client::{Client, ClientError, CreateMode, ErrorCode};

use crate::checked::{self, Load, Verdict};
use crate::cluster::keeper::{Keepers, Level, Plan};
use crate::random::Random;
use wires::Wires;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    Freeze,
    Partition,
    Delay,
    DiskFull,
    FlippedByte,
    LostFolder,
}

/// How long a scenario goes on. Those that walk through a list walk through all of it at least once.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    Rounds(usize),
    Time(Duration),
}

#[derive(Clone, Debug)]
pub struct Options {
    pub binary: PathBuf,
    /// Everything is written there.
    pub folder: PathBuf,
    pub length: Length,
    pub sessions: usize,
    pub seed: u64,
}

/// What a scenario showed.
pub enum Ended {
    Done {
        rounds: usize,
        verdict: Box<Verdict>,
        level: Level,
    },
    /// Not possible here, and why.
    Skipped(String),
}

/// Writes that must be acknowledged between two rounds: the cluster works again before it is hurt again.
const WRITES_BETWEEN: u64 = 20;
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// A probe's connection and its write take so long each at most.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const PROBE: &str = "/castellan-probe";

/// `say` is told each round.
pub async fn run(scenario: Scenario, options: &Options, say: &mut dyn FnMut(&str)) -> Result<Ended> {
    let mut plan = Plan::new(&options.folder)?;
    let direct: Vec<SocketAddr> = plan.places.iter().map(|place| place.client).collect();
    let between = matches!(scenario, Scenario::Partition | Scenario::Delay);
    // Until the end: the loader comes through them too.
    let wires = if between { Some(Wires::start(&mut plan).await?) } else { None };
    let hosts = wires.as_ref().map_or(direct, Wires::client_hosts);
    // Before the cluster, so that it is taken away after the processes in it.
    let volumes = match scenario {
        Scenario::DiskFull => match volume::mount_all(&mut plan) {
            Ok(volumes) => volumes,
            Err(error) => return Ok(Ended::Skipped(format!("{error:#}"))),
        },
        _ => Vec::new(),
    };
    let config = match scenario {
        Scenario::DiskFull => disk_full::CONFIG,
        Scenario::FlippedByte => flipped_byte::CONFIG,
        Scenario::LostFolder => lost_folder::CONFIG,
        Scenario::Freeze | Scenario::Partition | Scenario::Delay => "",
    };
    let keepers = plan.start(&options.binary, config).await?;
    let mut ground = Ground::begin(keepers, hosts, scenario == Scenario::DiskFull, options, say).await?;
    match scenario {
        Scenario::Freeze => freeze::run(&mut ground).await?,
        Scenario::Partition => partition::run(&mut ground, wires.as_ref().context("no wires")?).await?,
        Scenario::Delay => delay::run(&mut ground, wires.as_ref().context("no wires")?).await?,
        Scenario::DiskFull => disk_full::run(&mut ground, &volumes).await?,
        Scenario::FlippedByte => flipped_byte::run(&mut ground).await?,
        Scenario::LostFolder => lost_folder::run(&mut ground).await?,
    }
    ground.end().await
}

/// A cluster under load, and what a scenario needs to hurt it.
struct Ground<'a> {
    keepers: Keepers,
    load: Load,
    random: Random,
    length: Length,
    begun: Instant,
    rounds: usize,
    /// Where the loader finds the members.
    hosts: Vec<String>,
    say: &'a mut dyn FnMut(&str),
}

impl<'a> Ground<'a> {
    async fn begin(
        keepers: Keepers,
        hosts: Vec<SocketAddr>,
        full_disks: bool,
        options: &Options,
        say: &'a mut dyn FnMut(&str),
    ) -> Result<Ground<'a>> {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut load_options = checked::Options::new(hosts.clone(), options.seed);
        load_options.sessions = options.sessions;
        load_options.full_disks = full_disks;
        let load = Load::start(load_options).await?;
        load.wait_writes(WRITES_BETWEEN, RECOVERY_TIMEOUT).await?;
        Ok(Ground {
            keepers,
            load,
            random: Random::from_seed(options.seed),
            length: options.length,
            begun: Instant::now(),
            rounds: 0,
            hosts,
            say,
        })
    }

    /// Whether another round is due; each costs whoever asks one of them.
    fn next_round(&mut self) -> bool {
        let goes_on = match self.length {
            Length::Rounds(rounds) => self.rounds < rounds,
            Length::Time(time) => self.rounds == 0 || self.begun.elapsed() < time,
        };
        self.rounds += usize::from(goes_on);
        goes_on
    }

    fn say(&mut self, text: impl std::fmt::Display) {
        (self.say)(&format!("{}: {text}", self.rounds));
    }

    /// From `from` to `to` milliseconds.
    fn random_ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.random.below((to - from + 1) as usize) as u64)
    }

    fn random_member(&mut self) -> usize {
        self.random.below(self.keepers.cluster.members())
    }

    /// One that does not lead.
    async fn random_follower(&mut self) -> Result<usize> {
        let leader = self.keepers.cluster.wait_leader().await?;
        let members = self.keepers.cluster.members();
        Ok((leader + 1 + self.random.below(members - 1)) % members)
    }

    /// The writes go on although something is broken.
    async fn writes_go_on(&self, within: Duration) -> Result<()> {
        self.load.wait_writes(WRITES_BETWEEN, within).await
    }

    /// All members that run serve again, and writes are acknowledged.
    async fn recover(&mut self) -> Result<()> {
        let recovered = async {
            let begin = Instant::now();
            self.keepers.cluster.wait_ready().await?;
            self.load.wait_writes(WRITES_BETWEEN, RECOVERY_TIMEOUT.saturating_sub(begin.elapsed())).await
        };
        recovered.await.with_context(|| format!("after round {}", self.rounds))
    }

    /// Ends the load, waits until the members are level, and judges.
    async fn end(mut self) -> Result<Ended> {
        let stopped = self.load.stop().await?;
        let level = self.keepers.level().await?;
        let verdict = Box::new(stopped.judge(self.hosts).await?);
        Ok(Ended::Done { rounds: self.rounds, verdict, level })
    }
}

/// A client of these members alone, a create, and the end of its session; the node goes with that.
async fn probe(hosts: &[String]) -> Result<(), ClientError> {
    let mut options = keeper_client::Options {
        operation_timeout: Some(PROBE_TIMEOUT),
        ..keeper_client::Options::default()
    };
    options.connect_timeout = PROBE_TIMEOUT;
    let client = Client::connect(hosts, options).await?;
    let created = client.create(PROBE, b"", CreateMode::Ephemeral).await;
    // Whether it was heard is not what was asked.
    let _ = client.close().await;
    match created {
        Ok(_) | Err(ClientError::Server(ErrorCode::NodeExists)) => Ok(()),
        Err(error) => Err(error),
    }
}
