//! `create`: from manifest to Ready, what the API server refuses, and what deletion leaves.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use castellan_api::KeeperCluster;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};

use crate::cluster::{MEMBERS, NAME, TestCluster, wait};
use crate::load;

/// From manifest to Ready on a warm machine. Twice the promise, since CI shares its cores.
const CREATE_MAX: Duration = Duration::from_secs(60);
/// A cluster that needs nothing must not be written to for so long.
const CALM: Duration = Duration::from_secs(5);

pub async fn run(cluster: &TestCluster) -> Result<String> {
    refuse_even_replicas(cluster).await?;
    let took = cluster.create().await?;
    ensure!(took <= CREATE_MAX, "Ready only after {:.1} s", took.as_secs_f64());
    let status = cluster.status().await?;
    let leader = cluster.leader().await?;
    ensure!(status.voters == MEMBERS as i32 && status.learners == 0, "{} voters", status.voters);
    ensure!(
        status.leader.as_deref() == Some(leader.as_str()),
        "status names {:?}, {leader} leads",
        status.leader
    );
    ensure!(status.members.len() == MEMBERS, "status lists {} members", status.members.len());
    refuse_shrinking(cluster).await?;
    let load = load::start(cluster).await?;
    let verdict = load::finish(cluster, load).await?;
    stays_calm(cluster).await?;
    delete_keeps_volumes(cluster).await?;
    Ok(format!("Ready after {:.1} s; {verdict}", took.as_secs_f64()))
}

async fn refuse_even_replicas(cluster: &TestCluster) -> Result<()> {
    let manifest = cluster.manifest(2, "1Gi")?;
    match cluster.api::<KeeperCluster>().create(&PostParams::default(), &manifest).await {
        Ok(_) => bail!("two replicas were accepted"),
        Err(kube::Error::Api(status)) if status.message.contains("odd") => Ok(()),
        Err(error) => bail!("two replicas were refused without a hint what to write: {error}"),
    }
}

async fn refuse_shrinking(cluster: &TestCluster) -> Result<()> {
    let patch = Patch::Merge(serde_json::json!({"spec": {"storage": {"size": "512Mi"}}}));
    let answer = cluster.api::<KeeperCluster>().patch(NAME, &PatchParams::default(), &patch).await;
    match answer {
        Ok(_) => bail!("a shrinking volume was accepted"),
        Err(kube::Error::Api(status)) if status.message.contains("size") => Ok(()),
        Err(error) => bail!("a shrinking volume was refused without a hint what to write: {error}"),
    }
}

/// A reconcile that has nothing to do writes nothing. What the StatefulSet controller writes into their status is its
/// own business.
async fn stays_calm(cluster: &TestCluster) -> Result<()> {
    let written = async || -> Result<Vec<(Option<i64>, Vec<ManagedFieldsEntry>)>> {
        let sets = cluster.api::<StatefulSet>().list(&ListParams::default()).await?;
        let of = |set: StatefulSet| {
            let mut fields = set.metadata.managed_fields.unwrap_or_default();
            fields.retain(|entry| entry.subresource.is_none());
            (set.metadata.generation, fields)
        };
        Ok(sets.items.into_iter().map(of).collect())
    };
    let before = written().await?;
    tokio::time::sleep(CALM).await;
    ensure!(before == written().await?, "StatefulSets of a cluster at rest are written");
    Ok(())
}

async fn delete_keeps_volumes(cluster: &TestCluster) -> Result<()> {
    cluster.api::<KeeperCluster>().delete(NAME, &DeleteParams::default()).await?;
    let begin = Instant::now();
    wait(Duration::from_secs(90), "the pods of a deleted cluster to be gone", async || {
        Ok(cluster.pods().await?.is_empty().then_some(()))
    })
    .await?;
    let claims = cluster.api::<PersistentVolumeClaim>().list(&ListParams::default()).await?;
    let kept: Vec<String> = claims.items.iter().map(ResourceExt::name_any).collect();
    let seconds = begin.elapsed().as_secs();
    ensure!(kept.len() == MEMBERS, "after deletion ({seconds} s) these volume claims are left: {kept:?}");
    Ok(())
}
