//! Disks that fill up under a running member: writes are refused, nothing ends, and with room it goes on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use keeper_client::{ClientError, ErrorCode};

use super::volume::Volume;
use super::{Ground, RECOVERY_TIMEOUT, probe};

/// Segments and snapshots that fit the volume a few times.
pub const CONFIG: &str = "\n[log]\nsegment_bytes = 8388608\nsnapshot_log_bytes = 8388608\n";

/// A member's last segment has room for this long at most under the load.
const FULL_TIMEOUT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(50);
/// Writes are refused for so long before there is room again.
const REFUSED_MS_MIN: u64 = 200;
const REFUSED_MS_MAX: u64 = 3_000;

/// Whose disk.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Follower,
    Leader,
    All,
}

pub async fn run(ground: &mut Ground<'_>, volumes: &[Volume]) -> Result<()> {
    let mut victims = [Victim::All, Victim::Leader, Victim::Follower].into_iter().cycle();
    while ground.next_round() {
        let Some(victim) = victims.next() else { return Ok(()) };
        let members = match victim {
            Victim::All => (0..volumes.len()).collect(),
            Victim::Leader => vec![ground.keepers.cluster.wait_leader().await?],
            Victim::Follower => vec![ground.random_follower().await?],
        };
        let begin = Instant::now();
        fill(ground, volumes, &members).await.with_context(|| format!("{victim:?}, disk full"))?;
        let (full_after, before) = (begin.elapsed(), ground.load.acknowledged());
        let time = ground.random_ms(REFUSED_MS_MIN, REFUSED_MS_MAX);
        tokio::time::sleep(time).await;
        let writes = ground.load.acknowledged() - before;
        members.iter().try_for_each(|member| volumes[*member].make_room())?;
        let begin = Instant::now();
        for member in &members {
            let taken = until(ground, *member, |answer| answer.is_none(), RECOVERY_TIMEOUT).await;
            taken.with_context(|| format!("{victim:?}, with room again"))?;
        }
        let names: Vec<String> = members.iter().map(|member| (member + 1).to_string()).collect();
        ground.say(format_args!(
            "{victim:?} ({}): refused after {:.1} s, {writes} writes in the next {} ms; taken again after {} ms of room",
            names.join(", "),
            full_after.as_secs_f64(),
            time.as_millis(),
            begin.elapsed().as_millis()
        ));
        ground.recover().await?;
    }
    Ok(())
}

/// Leaves no room until each of `members` refuses writes. What a snapshot or a released segment gives back is taken too.
async fn fill(ground: &mut Ground<'_>, volumes: &[Volume], members: &[usize]) -> Result<()> {
    let end = Instant::now() + FULL_TIMEOUT;
    for member in members {
        loop {
            members.iter().try_for_each(|member| volumes[*member].fill())?;
            if until(ground, *member, is_refusal, POLL).await.is_ok() {
                break;
            }
            if Instant::now() >= end {
                bail!("member {} still takes writes after {} s", member + 1, FULL_TIMEOUT.as_secs());
            }
        }
    }
    Ok(())
}

fn is_refusal(answer: &Option<ClientError>) -> bool {
    matches!(answer, Some(ClientError::Server(ErrorCode::OutOfMemory)))
}

/// Asks one member to write, as a client of it alone, until its answer is `wanted`; `None` is success.
async fn until(
    ground: &mut Ground<'_>,
    member: usize,
    wanted: impl Fn(&Option<ClientError>) -> bool,
    timeout: Duration,
) -> Result<()> {
    let end = Instant::now() + timeout;
    loop {
        ground.keepers.cluster.check_alive()?;
        let answer = probe(&ground.hosts[member..=member]).await.err();
        if wanted(&answer) {
            return Ok(());
        }
        if Instant::now() >= end {
            bail!("member {} answers a write with {answer:?}", member + 1);
        }
        tokio::time::sleep(POLL).await;
    }
}
