//! `leader-kill` and `all-kill`: members die without warning under load.
//!
//! On our own Kubernetes each death is a kill -9 of the process, followed by deletion of its pod with grace period 0;
//! on another one the deletion alone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kube::ResourceExt;

use crate::cluster::TestCluster;
use crate::load::{self, WRITES, WRITES_TIMEOUT};

/// Kills the leader `rounds` times: in turn only its process, and its whole pod.
pub async fn leader(cluster: &TestCluster, rounds: usize) -> Result<String> {
    cluster.create().await?;
    let load = load::start(cluster).await?;
    let mut gaps = Vec::new();
    for round in 0..rounds {
        let leader = cluster.leader().await?;
        let begin = Instant::now();
        let killed = cluster.kill_processes(std::slice::from_ref(&leader))?;
        if !killed || round % 2 == 1 {
            cluster.delete_pod_now(&leader).await?;
        }
        load.wait_writes(1, WRITES_TIMEOUT).await?;
        gaps.push(begin.elapsed());
        recover(cluster, &load).await.with_context(|| format!("after the death of {leader}"))?;
    }
    let verdict = load::finish(cluster, load).await?;
    Ok(format!("next write after {}; {verdict}", shown(&gaps)))
}

/// Kills all members at once, `rounds` times.
pub async fn all(cluster: &TestCluster, rounds: usize) -> Result<String> {
    cluster.create().await?;
    let load = load::start(cluster).await?;
    let mut gaps = Vec::new();
    for _ in 0..rounds {
        let pods: Vec<String> = cluster.pods().await?.iter().map(ResourceExt::name_any).collect();
        let begin = Instant::now();
        cluster.kill_processes(&pods)?;
        for pod in &pods {
            cluster.delete_pod_now(pod).await?;
        }
        load.wait_writes(WRITES, WRITES_TIMEOUT).await?;
        gaps.push(begin.elapsed());
        recover(cluster, &load).await.context("after the death of all members")?;
    }
    let verdict = load::finish(cluster, load).await?;
    Ok(format!("writes again after {}; {verdict}", shown(&gaps)))
}

/// All members serve again, and so they do for the load.
pub async fn recover(cluster: &TestCluster, load: &castellan_load::checked::Load) -> Result<()> {
    cluster.wait_ready().await?;
    load.wait_writes(WRITES, WRITES_TIMEOUT).await
}

fn shown(gaps: &[Duration]) -> String {
    let texts: Vec<String> = gaps.iter().map(|gap| format!("{:.0}", gap.as_secs_f64() * 1000.0)).collect();
    format!("{} ms", texts.join(", "))
}
