//! How long writes stand still when the leader's process dies: kill -9, then a stopwatch to the next acknowledged write.
//!
//! One session on each surviving member. The writes are sent after the leader is dead, so that an answer can only
//! come from its successor. A server may close its clients' connections meanwhile; then the session comes back with
//! its id and password, as a client library would do it, and writes again.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::bench::session::Session;
use crate::bench::wire;
use crate::cluster::Cluster;

#[derive(Clone, Debug, Default)]
pub struct Failover {
    /// From the kill to the first acknowledged write on any surviving member; one a kill.
    pub first_us: Vec<u64>,
    /// The same to the first acknowledged write of the last survivor.
    pub last_us: Vec<u64>,
}

/// The value that `quantile` of the sorted `values` do not exceed (nearest rank).
pub fn quantile(values: &[u64], quantile: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

const NODE: &str = "/castellan-failover";
/// A cluster that acknowledges nothing for so long after a kill has failed.
const OUTAGE_MAX: Duration = Duration::from_secs(60);
/// Between attempts of a client whose connection was refused or closed.
const RECONNECT_PAUSE: Duration = Duration::from_millis(2);
/// Calm between two kills, so that a restarted member has caught up.
const SETTLE: Duration = Duration::from_millis(500);

/// Kills the leader `kills` times, restarting it after each. `progress` is told each figure.
pub async fn run(
    cluster: &mut Cluster,
    kills: usize,
    progress: &mut dyn FnMut(usize, u64),
) -> Result<Failover> {
    let mut result = Failover::default();
    for kill in 0..kills {
        cluster.wait_ready().await?;
        tokio::time::sleep(SETTLE).await;
        let leader = cluster.wait_leader().await?;
        let (first, last) = kill_once(cluster, leader).await.with_context(|| format!("kill {}", kill + 1))?;
        result.first_us.push(first.as_micros() as u64);
        result.last_us.push(last.as_micros() as u64);
        progress(kill + 1, first.as_micros() as u64);
        cluster.restart(leader)?;
    }
    cluster.wait_ready().await?;
    Ok(result)
}

/// Times from the kill to the first acknowledged write of the quickest and of the slowest survivor.
async fn kill_once(cluster: &mut Cluster, leader: usize) -> Result<(Duration, Duration)> {
    let (answers, answered) = mpsc::channel();
    let mut starts = Vec::new();
    for (member, host) in cluster.hosts().into_iter().enumerate() {
        if member == leader {
            continue;
        }
        let mut session = Session::connect(host, None, OUTAGE_MAX)?;
        session.ensure_node(NODE)?;
        let (start, started) = mpsc::channel::<Instant>();
        starts.push(start);
        let answers = answers.clone();
        std::thread::spawn(move || {
            // A dropped sender means that the run failed before the kill.
            if let Ok(killed_at) = started.recv() {
                let _ = answers.send(write_until_acknowledged(session, host, killed_at));
            }
        });
    }
    drop(answers);
    let killed_at = Instant::now();
    cluster.kill(leader)?;
    for start in &starts {
        start.send(killed_at).context("a client ended before the kill")?;
    }
    let collect = move || answered.into_iter().collect::<Result<Vec<Duration>>>();
    let times = tokio::task::spawn_blocking(collect).await??;
    let first = times.iter().min().context("no client was left")?;
    let last = times.iter().max().context("no client was left")?;
    Ok((*first, *last))
}

fn write_until_acknowledged(mut session: Session, host: SocketAddr, killed_at: Instant) -> Result<Duration> {
    loop {
        let left = OUTAGE_MAX.checked_sub(killed_at.elapsed()).unwrap_or_default();
        if left.is_zero() {
            bail!("no write was acknowledged by {host} within {} s of the kill", OUTAGE_MAX.as_secs());
        }
        match session.call(|out, xid| wire::set(out, xid, NODE.as_bytes(), b"after")) {
            Ok(0) => return Ok(killed_at.elapsed()),
            Ok(error) => bail!("{host} answered a write with error {error}"),
            Err(_closed) => {
                let password = session.password.clone();
                match Session::connect(host, Some((session.id, &password)), left) {
                    Ok(again) => session = again,
                    Err(_refused) => std::thread::sleep(RECONNECT_PAUSE),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_rank() {
        let values: Vec<u64> = (1..=20).rev().collect();
        assert_eq!(quantile(&values, 0.5), 10);
        assert_eq!(quantile(&values, 0.99), 20);
        assert_eq!(quantile(&values, 1.0), 20);
        assert_eq!(quantile(&[], 0.5), 0);
    }
}
