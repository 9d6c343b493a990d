//! How long writes stand still when the leader's process dies or freezes: kill -9 or SIGSTOP, then a stopwatch to the
//! next acknowledged write.
//!
//! One session on each surviving member. The writes are sent after the leader is gone, so that an answer can only
//! come from its successor. A server may close its clients' connections meanwhile; then the session comes back with
//! its id and password, as a client library would do it, and writes again. What fails meanwhile is counted by others:
//! [`Bystanders`], from before the fault until the old leader is back.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::bench::session::Session;
use crate::bench::wire;
use crate::bystanders::{Bystanders, Tally};
use crate::cluster::Cluster;

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// kill -9; started again after the write.
    Kill,
    /// SIGSTOP: its connections stay open and say nothing; continued after the write.
    Freeze,
}

#[derive(Clone, Debug, Default)]
pub struct Failover {
    /// From the fault to the first acknowledged write on any surviving member; one a fault.
    pub first_us: Vec<u64>,
    /// The same to the first acknowledged write of the last survivor.
    pub last_us: Vec<u64>,
    /// Of the bystanders on the survivors.
    pub tally: Tally,
}

/// The value that `quantile` of the sorted `values` do not exceed (nearest rank).
pub fn quantile(values: &[u64], quantile: f64) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

const NODE: &str = "/castellan-failover";
/// A cluster that acknowledges nothing for so long after a fault has failed.
const OUTAGE_MAX: Duration = Duration::from_secs(60);
/// Between attempts of a client whose connection was refused or closed.
const RECONNECT_PAUSE: Duration = Duration::from_millis(2);
/// Calm between two faults, so that a restarted member has caught up.
const SETTLE: Duration = Duration::from_millis(500);
/// The bystanders have asked a few times by then.
const UNDER_WAY: Duration = Duration::from_millis(100);

/// The leader of the moment meets `fault` so many `times`, and comes back after each. `progress` is told each figure.
pub async fn run(
    cluster: &mut Cluster,
    fault: Fault,
    times: usize,
    progress: &mut dyn FnMut(usize, u64),
) -> Result<Failover> {
    let mut result = Failover::default();
    for time in 1..=times {
        cluster.wait_ready().await?;
        tokio::time::sleep(SETTLE).await;
        let leader = cluster.wait_leader().await?;
        let mut survivors = cluster.hosts();
        survivors.remove(leader);
        let bystanders = Bystanders::start(&survivors)?;
        tokio::time::sleep(UNDER_WAY).await;
        let outage = once(cluster, leader, &survivors, fault).await;
        let (first, last) = outage.with_context(|| format!("{fault:?} {time}"))?;
        result.first_us.push(first.as_micros() as u64);
        result.last_us.push(last.as_micros() as u64);
        progress(time, first.as_micros() as u64);
        cluster.wait_ready().await?;
        result.tally.add(tokio::task::spawn_blocking(move || bystanders.stop()).await??);
    }
    Ok(result)
}

/// Times from the fault to the first acknowledged write of the quickest and of the slowest survivor.
async fn once(
    cluster: &mut Cluster,
    leader: usize,
    survivors: &[SocketAddr],
    fault: Fault,
) -> Result<(Duration, Duration)> {
    let (answers, answered) = mpsc::channel();
    let mut starts = Vec::new();
    for host in survivors.iter().copied() {
        let mut session = Session::connect(host, None, OUTAGE_MAX)?;
        session.ensure_node(NODE)?;
        let (start, started) = mpsc::channel::<Instant>();
        starts.push(start);
        let answers = answers.clone();
        std::thread::spawn(move || {
            // A dropped sender means that the run failed before the fault.
            if let Ok(began_at) = started.recv() {
                let _ = answers.send(write_until_acknowledged(session, host, began_at));
            }
        });
    }
    drop(answers);
    let began_at = Instant::now();
    match fault {
        Fault::Kill => cluster.kill(leader)?,
        Fault::Freeze => cluster.pause(leader)?,
    }
    for start in &starts {
        start.send(began_at).context("a client ended before the fault")?;
    }
    let collect = move || answered.into_iter().collect::<Result<Vec<Duration>>>();
    let times = tokio::task::spawn_blocking(collect).await?;
    match fault {
        Fault::Kill => cluster.restart(leader)?,
        Fault::Freeze => cluster.resume(leader)?,
    }
    let times = times?;
    let first = times.iter().min().context("no client was left")?;
    let last = times.iter().max().context("no client was left")?;
    Ok((*first, *last))
}

fn write_until_acknowledged(mut session: Session, host: SocketAddr, began_at: Instant) -> Result<Duration> {
    loop {
        let left = OUTAGE_MAX.checked_sub(began_at.elapsed()).unwrap_or_default();
        if left.is_zero() {
            bail!("no write was acknowledged by {host} within {} s of the fault", OUTAGE_MAX.as_secs());
        }
        match session.call(|out, xid| wire::set(out, xid, NODE.as_bytes(), b"after")) {
            Ok(0) => return Ok(began_at.elapsed()),
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
