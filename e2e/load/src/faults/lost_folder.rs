//! A member whose whole data folder is gone. It has to know that it knows nothing: no second cluster, no vote. Another
//! server takes its place.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use keeper_client::admin::{Role, StatusResponse};

use super::{Ground, WRITES_BETWEEN};

/// Snapshots early, so that the new server gets one and not the log alone.
pub const CONFIG: &str = "\n[log]\nsnapshot_log_bytes = 262144\n";

/// Longer than it takes to elect a leader when there are votes for it.
const NO_VOTE_TIME: Duration = Duration::from_secs(4);
const STATUS_TRIES: usize = 100;
const STATUS_PAUSE: Duration = Duration::from_millis(50);
/// The others go on, after an election at most.
const WRITES_WITHIN: Duration = Duration::from_secs(15);

pub async fn run(ground: &mut Ground<'_>) -> Result<()> {
    while ground.next_round() {
        let member = ground.random_member();
        let led = ground.keepers.cluster.wait_leader().await? == member;
        lose(ground, member)?;
        let status = status(ground, member).await?;
        ensure!(knows_nothing(&status), "a member with an empty disk says of itself {status:?}");
        ground.writes_go_on(WRITES_WITHIN).await.context("beside a member with an empty disk")?;
        does_not_vote(ground, member).await?;
        let old = ground.keepers.id(member);
        ground.keepers.replace(member).await?;
        let new = ground.keepers.id(member);
        let role = if led { "leader" } else { "follower" };
        ground.say(format_args!(
            "the {role} {} lost its folder; server {new} in the place of {old}",
            member + 1
        ));
        ground.recover().await?;
    }
    Ok(())
}

/// Kills the member, takes its folder away and starts it again.
fn lose(ground: &mut Ground<'_>, member: usize) -> Result<()> {
    ground.keepers.cluster.kill(member)?;
    empty(ground, member)?;
    ground.keepers.cluster.restart(member)
}

/// Takes a stopped member's folder away.
pub fn empty(ground: &Ground<'_>, member: usize) -> Result<()> {
    let data = &ground.keepers.places[member].data;
    fs::remove_dir_all(data).with_context(|| format!("cannot remove {}", data.display()))
}

/// What the member says of itself as soon as it says something.
async fn status(ground: &mut Ground<'_>, member: usize) -> Result<StatusResponse> {
    let mut last = None;
    for _ in 0..STATUS_TRIES {
        ground.keepers.cluster.check_alive()?;
        match ground.keepers.status(member).await {
            Ok(status) => return Ok(status),
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(STATUS_PAUSE).await;
    }
    bail!("member {} says nothing of itself: {last:?}", member + 1);
}

fn knows_nothing(status: &StatusResponse) -> bool {
    status.role() == Role::Uninitialized && status.server_id == 0 && !status.ready
}

/// One of the two others dies as well: with the vote of an empty disk the third could lead on, and must not.
async fn does_not_vote(ground: &mut Ground<'_>, empty: usize) -> Result<()> {
    let members = ground.keepers.cluster.members();
    let dead = (empty + 1 + ground.random.below(members - 1)) % members;
    ground.keepers.cluster.kill(dead)?;
    // What had been proposed before may still be answered by nobody: its quorum is gone.
    let before = ground.load.acknowledged();
    tokio::time::sleep(NO_VOTE_TIME).await;
    let writes = ground.load.acknowledged() - before;
    ensure!(writes <= WRITES_UNDERWAY, "{writes} writes were acknowledged by one of three members");
    let status = status(ground, empty).await?;
    ensure!(knows_nothing(&status), "a member with an empty disk and one other make {status:?}");
    ground.keepers.cluster.restart(dead)?;
    ground.load.wait_writes(WRITES_BETWEEN, super::RECOVERY_TIMEOUT).await
}

/// Answers that were on their way to clients when the second member died.
const WRITES_UNDERWAY: u64 = 64;
