//! `pod-delete`: every pod is deleted in the ordinary way, then objects that belong to the cluster; all come back, and
//! the load goes on.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};

use crate::cluster::{NAME, TestCluster, wait};
use crate::kill::recover;
use crate::load;

const HEAL_TIMEOUT: Duration = Duration::from_secs(60);

pub async fn run(cluster: &TestCluster) -> Result<String> {
    cluster.create().await?;
    let load = load::start(cluster).await?;
    let pods: Vec<String> = cluster.pods().await?.iter().map(ResourceExt::name_any).collect();
    ensure!(pods.len() == 3, "pods: {pods:?}");
    for pod in &pods {
        let api = cluster.api::<Pod>();
        let before = api.get(pod).await?.uid();
        api.delete(pod, &DeleteParams::default()).await.with_context(|| format!("cannot delete {pod}"))?;
        wait(HEAL_TIMEOUT, "the pod to come back", async || {
            let now = api.get_opt(pod).await?;
            Ok(now.is_some_and(|now| now.uid() != before).then_some(()))
        })
        .await
        .with_context(|| format!("after the deletion of {pod}"))?;
        recover(cluster, &load).await.with_context(|| format!("after the deletion of {pod}"))?;
    }
    heal(&cluster.api::<Service>(), &format!("{NAME}-headless")).await?;
    heal(&cluster.api::<ConfigMap>(), &format!("{NAME}-config")).await?;
    heal(&cluster.api::<StatefulSet>(), &format!("{NAME}-1")).await?;
    recover(cluster, &load).await.context("after the deletion of objects")?;
    let verdict = load::finish(cluster, load).await?;
    Ok(format!("3 pods and 3 objects came back; {verdict}"))
}

/// Deletes an object and waits until the operator made it again.
async fn heal<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: kube::Resource + Clone + std::fmt::Debug + serde_json_compatible::Object,
{
    let before = api.get(name).await.with_context(|| format!("no object {name}"))?.uid();
    api.delete(name, &DeleteParams::default()).await.with_context(|| format!("cannot delete {name}"))?;
    wait(HEAL_TIMEOUT, "the object to come back", async || {
        let now = api.get_opt(name).await?;
        Ok(now.is_some_and(|now| now.uid() != before).then_some(()))
    })
    .await
    .with_context(|| format!("after the deletion of {name}"))
}

/// What kube asks of an object's type, under one name.
mod serde_json_compatible {
    pub trait Object: k8s_openapi::serde::de::DeserializeOwned {}
    impl<T: k8s_openapi::serde::de::DeserializeOwned> Object for T {}
}
