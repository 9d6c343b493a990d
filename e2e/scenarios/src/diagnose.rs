//! What to look at after a failure: the KeeperCluster, its pods and their logs, in a folder of the scenario.

use std::path::PathBuf;

use anyhow::{Context, Result};
use castellan_api::KeeperCluster;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams};

use crate::cluster::{NAME, TestCluster};

const OUT_VARIABLE: &str = "CASTELLAN_OUT";

/// Folder for what a scenario leaves.
pub fn folder(scenario: &str) -> Result<PathBuf> {
    let out = std::env::var_os(OUT_VARIABLE)
        .map_or_else(|| std::env::temp_dir().join("castellan-e2e"), PathBuf::from);
    let folder = out.join(scenario);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// The scenario has failed already: trouble here is only shown.
pub async fn write(cluster: &TestCluster, scenario: &str) {
    match write_all(cluster).await {
        Ok(folder) => {
            println!("       {scenario}: namespace {} is left; see {}", cluster.namespace, folder.display())
        }
        Err(error) => println!("       {scenario}: cannot write what was there: {error:#}"),
    }
}

async fn write_all(cluster: &TestCluster) -> Result<PathBuf> {
    let folder = folder(&cluster.namespace)?;
    let save = |name: &str, text: String| std::fs::write(folder.join(name), text);
    if let Some(found) = cluster.api::<KeeperCluster>().get_opt(NAME).await? {
        save("keepercluster.yaml", castellan_api::to_yaml(&found))?;
    }
    let events = cluster.api::<Event>().list(&ListParams::default()).await?;
    let lines: Vec<String> = events
        .items
        .iter()
        .map(|event| {
            let object = event.involved_object.name.as_deref().unwrap_or_default();
            let reason = event.reason.as_deref().unwrap_or_default();
            format!("{object} {reason} {}", event.message.as_deref().unwrap_or_default())
        })
        .collect();
    save("events.txt", lines.join("\n"))?;
    let operators: Api<Pod> = Api::namespaced(cluster.client.clone(), "castellan-system");
    for (api, pods) in [
        (cluster.api::<Pod>(), cluster.api::<Pod>().list(&ListParams::default()).await?),
        (operators.clone(), operators.list(&ListParams::default()).await?),
    ] {
        for pod in pods {
            let name = pod.name_any();
            save(&format!("{name}.yaml"), castellan_api::to_yaml(&pod))?;
            for previous in [false, true] {
                let parameters = LogParams { previous, ..LogParams::default() };
                // There is no previous log unless a container ended.
                if let Ok(text) = api.logs(&name, &parameters).await {
                    let which = if previous { "previous" } else { "log" };
                    save(&format!("{name}.{which}"), text)?;
                }
            }
        }
    }
    Ok(folder)
}
