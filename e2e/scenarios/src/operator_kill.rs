//! `operator-kill`: the operator's pods die at every step of a creation and while a member must be healed. Nothing goes
//! wrong in its absence, and whoever comes next finishes the work.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};

use crate::cluster::TestCluster;
use crate::kill::recover;
use crate::load::{self, WRITES, WRITES_TIMEOUT};

const OPERATOR_NAMESPACE: &str = "castellan-system";
const OPERATOR_LABEL: &str = "app.kubernetes.io/name=castellan-operator";
/// Deaths while the cluster is made: they fall between its pods, its first member and its later ones.
const DEATHS: usize = 3;
const PAUSE: Duration = Duration::from_millis(1500);

pub async fn run(cluster: &TestCluster) -> Result<String> {
    cluster.create_only().await?;
    for _ in 0..DEATHS {
        tokio::time::sleep(PAUSE).await;
        kill_operators(cluster).await?;
    }
    cluster.wait_ready().await.context("the operator died while it made the cluster")?;
    let ids: Vec<Option<i64>> =
        cluster.status().await?.members.iter().map(|member| member.server_id).collect();
    let mut different = ids.clone();
    different.sort_unstable();
    different.dedup();
    ensure!(different.len() == ids.len() && !ids.contains(&None), "server ids of the members: {ids:?}");

    let load = load::start(cluster).await?;
    kill_operators(cluster).await?;
    let leader = cluster.leader().await?;
    cluster.delete_pod_now(&leader).await?;
    // Nobody need be there for the others to go on.
    load.wait_writes(WRITES, WRITES_TIMEOUT).await?;
    recover(cluster, &load).await.context("a member died together with the operator")?;
    let verdict = load::finish(cluster, load).await?;
    Ok(format!("{} deaths of the operator; {verdict}", DEATHS + 1))
}

async fn kill_operators(cluster: &TestCluster) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), OPERATOR_NAMESPACE);
    let list = pods
        .list(&ListParams::default().labels(OPERATOR_LABEL))
        .await
        .context("cannot list the operators")?;
    ensure!(!list.items.is_empty(), "no operator in {OPERATOR_NAMESPACE}");
    for pod in list.items {
        let deleted = pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
        match deleted {
            Ok(_) => {}
            // One that was dying already.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).context("cannot delete an operator's pod"),
        }
    }
    Ok(())
}
