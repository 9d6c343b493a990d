//! One byte of a stopped member's files turns into another, in one kind of file after the other. The member has to start
//! and be right, or to refuse and say where; never to serve what it cannot know.

mod place;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Ground, Length, lost_folder};
use crate::four_letter;
use place::{Found, Kind};

/// Several snapshots soon, and segments that fill up.
pub const CONFIG: &str = "\n[log]\nsegment_bytes = 8388608\nsnapshot_log_bytes = 262144\n";

/// A start ends in one of the two ways within it.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const SNAPSHOTS_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// The two others go on meanwhile.
const WRITES_WITHIN: Duration = Duration::from_secs(15);

/// How a start with a flipped byte ended.
enum Start {
    Serves,
    /// The process ended by itself; what it had written by then.
    Refuses(String),
}

pub async fn run(ground: &mut Ground<'_>) -> Result<()> {
    loop {
        for kind in Kind::ALL {
            ground.rounds += 1;
            one(ground, kind).await.with_context(|| format!("{kind:?}"))?;
        }
        let goes_on = match ground.length {
            Length::Rounds(rounds) => ground.rounds < rounds * Kind::ALL.len(),
            Length::Time(time) => ground.begun.elapsed() < time,
        };
        if !goes_on {
            return Ok(());
        }
    }
}

async fn one(ground: &mut Ground<'_>, kind: Kind) -> Result<()> {
    let member = ground.random_member();
    let data = ground.keepers.places[member].data.clone();
    if matches!(kind, Kind::SnapshotNewest | Kind::SnapshotOlder) {
        wait_snapshots(ground, member).await?;
    }
    stop(ground, member)?;
    if kind == Kind::BootNewest && place::boot_number(&data)? == 1 {
        // Its only number: without it nobody knows whether there were others.
        ground.keepers.cluster.restart(member)?;
        ground.recover().await?;
        stop(ground, member)?;
    }
    let boot = place::boot_number(&data)?;
    let Some(found) = place::find(kind, &data, &mut ground.random)? else {
        ground.say(format_args!("{kind:?}: member {} has no such file now", member + 1));
        ground.keepers.cluster.restart(member)?;
        return ground.recover().await;
    };
    let said = fs::metadata(ground.keepers.cluster.log(member)).map_or(0, |log| log.len() as usize);
    found.flip()?;
    ground.keepers.cluster.restart(member)?;
    let end = match start(ground, member, said).await? {
        Start::Serves => {
            ensure!(kind.may_serve(), "the member serves with {found} flipped");
            let now = place::boot_number(&data)?;
            ensure!(boot < now, "its start has number {now} after {boot}, with {found} flipped");
            "serves".to_owned()
        }
        Start::Refuses(text) => {
            ensure!(kind.may_refuse(), "the member does not start with {found} flipped:\n{text}");
            let reason = found.named_in(&text)?;
            ground.writes_go_on(WRITES_WITHIN).await.context("beside a member that refuses to start")?;
            let repaired = repair(ground, member, &found).await?;
            format!("refuses ({reason}); {repaired}")
        }
    };
    ground.say(format_args!("{kind:?}: member {}, {found}: {end}", member + 1));
    ground.recover().await
}

fn stop(ground: &mut Ground<'_>, member: usize) -> Result<()> {
    match ground.random.below(2) {
        0 => ground.keepers.cluster.kill(member),
        _ => ground.keepers.cluster.stop(member),
    }
}

/// Waits until the member serves or its process has ended.
async fn start(ground: &mut Ground<'_>, member: usize, said: usize) -> Result<Start> {
    let end = Instant::now() + START_TIMEOUT;
    loop {
        if !ground.keepers.cluster.is_running(member) {
            let log = ground.keepers.cluster.log(member).to_path_buf();
            // Reaps it: it is not one that should run.
            ground.keepers.cluster.kill(member)?;
            let text = fs::read(&log).with_context(|| format!("cannot read {}", log.display()))?;
            return Ok(Start::Refuses(String::from_utf8_lossy(&text[said.min(text.len())..]).into_owned()));
        }
        let mode = four_letter::mode(ground.keepers.cluster.host(member)).await;
        if matches!(mode.as_deref(), Some("leader" | "follower")) {
            return Ok(Start::Serves);
        }
        if Instant::now() >= end {
            bail!("member {} neither serves (mode {mode:?}) nor ends", member + 1);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// By turns: the byte is put back, or another server takes the member's place.
async fn repair(ground: &mut Ground<'_>, member: usize, found: &Found) -> Result<String> {
    if ground.rounds.is_multiple_of(2) {
        found.put_back()?;
        ground.keepers.cluster.restart(member)?;
        return Ok("the byte was put back".into());
    }
    lost_folder::empty(ground, member)?;
    ground.keepers.cluster.restart(member)?;
    let old = ground.keepers.id(member);
    ground.keepers.replace(member).await?;
    Ok(format!("server {} took the place of {old}", ground.keepers.id(member)))
}

/// A server that was taken in a moment ago has none yet.
async fn wait_snapshots(ground: &Ground<'_>, member: usize) -> Result<()> {
    let data = &ground.keepers.places[member].data;
    let end = Instant::now() + SNAPSHOTS_TIMEOUT;
    while place::snapshots(data)?.len() < 2 {
        ensure!(Instant::now() < end, "no two snapshots in {}", data.display());
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}
