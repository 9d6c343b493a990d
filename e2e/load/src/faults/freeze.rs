//! Processes that stop for a while without dying: SIGSTOP, later SIGCONT.
//!
//! A stopped leader knows nothing of the one elected meanwhile and wakes up with requests in hand; what it says then must
//! not be believed by anybody.

use anyhow::Result;

use super::Ground;

const STOPPED_MS_MIN: u64 = 200;
const STOPPED_MS_MAX: u64 = 6_000;

/// Who stops.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Leader,
    Follower,
    /// The leader and a follower: no quorum is left.
    Two,
}

pub async fn run(ground: &mut Ground<'_>) -> Result<()> {
    while ground.next_round() {
        let victim = match ground.random.below(10) {
            0..=4 => Victim::Leader,
            5..=7 => Victim::Follower,
            _ => Victim::Two,
        };
        let (leader, follower) =
            (ground.keepers.cluster.wait_leader().await?, ground.random_follower().await?);
        let members = match victim {
            Victim::Leader => vec![leader],
            Victim::Follower => vec![follower],
            Victim::Two => vec![leader, follower],
        };
        let time = ground.random_ms(STOPPED_MS_MIN, STOPPED_MS_MAX);
        let before = ground.load.acknowledged();
        for member in &members {
            ground.keepers.cluster.pause(*member)?;
        }
        tokio::time::sleep(time).await;
        let writes = ground.load.acknowledged() - before;
        for member in &members {
            ground.keepers.cluster.resume(*member)?;
        }
        let names: Vec<String> = members.iter().map(|member| (member + 1).to_string()).collect();
        let names = names.join(", ");
        ground.say(format_args!("{victim:?} ({names}) stopped for {} ms, {writes} writes", time.as_millis()));
        ground.recover().await?;
    }
    Ok(())
}
