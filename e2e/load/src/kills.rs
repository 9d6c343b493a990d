//! kill -9 of members, again and again, under the checked loader.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use keeper_client::{ANY_VERSION, Client};

use crate::checked::{self, Load, Verdict};
use crate::cluster::Cluster;
use crate::random::Random;

#[derive(Clone, Debug)]
pub struct Options {
    pub kills: usize,
    pub sessions: usize,
    pub seed: u64,
}

/// Writes that must be acknowledged between two kills: the cluster works again before it is hurt again.
const WRITES_BETWEEN: u64 = 20;
/// Enough for a load that shall be judged without any kill.
const WRITES_TO_JUDGE: u64 = 200;
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// A dead member stays away for up to so long.
const AWAY_MS_MAX: usize = 400;

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Leader,
    Random,
    /// All at once, as when a rack loses power.
    All,
}

impl Victim {
    fn choose(random: &mut Random) -> Victim {
        match random.below(10) {
            0..=3 => Victim::Leader,
            9 => Victim::All,
            _ => Victim::Random,
        }
    }
}

/// `progress` is told each kill: its number and who died.
pub async fn run(
    cluster: &mut Cluster,
    options: &Options,
    progress: &mut dyn FnMut(usize, &str),
) -> Result<Verdict> {
    let mut random = Random::from_seed(options.seed);
    let hosts: Vec<String> = cluster.hosts().iter().map(ToString::to_string).collect();
    let mut load_options = checked::Options::new(hosts.clone(), options.seed);
    load_options.sessions = options.sessions;
    load_options.read_at_its_zxid = cluster.name() == "keeper";
    let load = Load::start(load_options).await?;
    load.wait_writes(WRITES_BETWEEN, RECOVERY_TIMEOUT).await?;
    for kill in 0..options.kills {
        let victim = Victim::choose(&mut random);
        let members = match victim {
            Victim::All => (0..cluster.members()).collect(),
            Victim::Leader => vec![cluster.wait_leader().await?],
            Victim::Random => vec![random.below(cluster.members())],
        };
        let names: Vec<String> = members.iter().map(|member| (member + 1).to_string()).collect();
        progress(kill + 1, &format!("{victim:?} ({})", names.join(", ")));
        for member in &members {
            cluster.kill(*member)?;
        }
        tokio::time::sleep(Duration::from_millis(random.below(AWAY_MS_MAX) as u64)).await;
        for member in &members {
            cluster.restart(*member)?;
        }
        let recovered = recover(cluster, &load).await;
        recovered.with_context(|| format!("after kill {} of {victim:?} {}", kill + 1, names.join(", ")))?;
    }
    load.finish(hosts).await
}

/// A checker that finds nothing proves nothing: a node deleted behind its back must be found, by the read-back and by
/// the rules over the history.
pub async fn prove_checker(cluster: &Cluster) -> Result<()> {
    let hosts: Vec<String> = cluster.hosts().iter().map(ToString::to_string).collect();
    let mut options = checked::Options::new(hosts.clone(), 1);
    options.sessions = 2;
    let load = Load::start(options).await?;
    load.wait_writes(WRITES_TO_JUDGE, RECOVERY_TIMEOUT).await?;
    let stopped = load.stop().await?;
    let node = stopped.created().next().context("the load created no node")?.to_string();
    let client = Client::connect(&hosts, keeper_client::Options::default()).await?;
    client.delete(&node, ANY_VERSION).await.with_context(|| format!("cannot delete {node}"))?;
    client.close().await?;
    let verdict = stopped.judge(hosts).await?;
    let lost = verdict.violations.iter().any(|text| text.starts_with("LOST") && text.contains(&node));
    ensure!(lost, "the read-back does not miss {node}, which was deleted behind its back");
    ensure!(!verdict.report.is_clean(), "the history's checker does not miss {node}, which is gone");
    Ok(())
}

async fn recover(cluster: &mut Cluster, load: &Load) -> Result<()> {
    let begin = Instant::now();
    cluster.wait_ready().await?;
    let left = RECOVERY_TIMEOUT.saturating_sub(begin.elapsed());
    load.wait_writes(WRITES_BETWEEN, left).await
}
