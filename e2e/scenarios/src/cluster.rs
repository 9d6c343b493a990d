//! One KeeperCluster in a namespace of its own, as the API shows it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use castellan_api::{KeeperCluster, KeeperClusterStatus};
use castellan_load::four_letter;
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};
use rustix::process::{Pid, Signal};

pub const NAME: &str = "main";
pub const MEMBERS: usize = 3;
const CLIENT_PORT: u16 = 2181;
const CLUSTER_LABEL: &str = "castellan.rs/cluster";
pub const READY_TIMEOUT: Duration = Duration::from_secs(180);
pub const POLL: Duration = Duration::from_millis(200);
/// Path of castellan-kube, when the cluster is our own: then processes can be killed by id.
const LAUNCHER_VARIABLE: &str = "CASTELLAN_KUBE";

pub struct TestCluster {
    pub client: Client,
    pub namespace: String,
}

impl TestCluster {
    /// Makes a fresh namespace; remains of an earlier run are removed first.
    pub async fn new(client: Client, scenario: &str) -> Result<TestCluster> {
        let cluster = TestCluster { client, namespace: format!("e2e-{scenario}") };
        cluster.remove().await?;
        let labels = BTreeMap::from([
            ("pod-security.kubernetes.io/enforce".to_string(), "restricted".to_string()),
            ("castellan.rs/e2e".to_string(), scenario.to_string()),
        ]);
        let metadata = ObjectMeta {
            name: Some(cluster.namespace.clone()),
            labels: Some(labels),
            ..ObjectMeta::default()
        };
        let namespace = Namespace { metadata, ..Namespace::default() };
        cluster
            .namespaces()
            .create(&PostParams::default(), &namespace)
            .await
            .context("cannot create a namespace")?;
        Ok(cluster)
    }

    /// Removes the namespace with everything in it and waits until it is gone.
    pub async fn remove(&self) -> Result<()> {
        let namespaces = self.namespaces();
        wait(Duration::from_secs(120), "the namespace to be gone", async || {
            let found = namespaces.get_opt(&self.namespace).await?;
            if found.as_ref().is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_none()) {
                namespaces.delete(&self.namespace, &DeleteParams::default()).await?;
            }
            Ok(found.is_none().then_some(()))
        })
        .await
    }

    fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The manifest of the cluster, as a user would write it.
    pub fn manifest(&self, replicas: u32, size: &str) -> Result<KeeperCluster> {
        let text = format!(
            "apiVersion: castellan.rs/v1alpha1\nkind: KeeperCluster\nmetadata:\n  name: {NAME}\n\
             spec:\n  replicas: {replicas}\n  storage:\n    size: {size}\n"
        );
        serde_saphyr::from_str(&text).context("the manifest is not a KeeperCluster")
    }

    /// Creates three members and waits until they are Ready; returns how long that took.
    pub async fn create(&self) -> Result<Duration> {
        let begin = Instant::now();
        self.create_only().await?;
        self.wait_ready().await?;
        Ok(begin.elapsed())
    }

    pub async fn create_only(&self) -> Result<()> {
        let manifest = self.manifest(MEMBERS as u32, "1Gi")?;
        let created = self.api::<KeeperCluster>().create(&PostParams::default(), &manifest).await;
        created.context("the API server refuses the KeeperCluster").map(drop)
    }

    pub async fn status(&self) -> Result<KeeperClusterStatus> {
        let cluster = self.api::<KeeperCluster>().get(NAME).await.context("cannot read the KeeperCluster")?;
        Ok(cluster.status.unwrap_or_default())
    }

    /// Ready as the operator says, and all members serve as they say themselves.
    pub async fn wait_ready(&self) -> Result<()> {
        let mut last = String::new();
        let ready = wait(READY_TIMEOUT, "the cluster to be Ready", async || {
            let status = self.status().await?;
            let condition = status.conditions.iter().find(|condition| condition.type_ == "Ready");
            let ready = condition.is_some_and(|condition| condition.status == "True");
            last = format!("{:?} {:?}", status.phase, condition.map(|condition| &condition.message));
            if !ready || status.ready_replicas != MEMBERS as i32 || status.voters != MEMBERS as i32 {
                return Ok(None);
            }
            Ok(self.modes().await?.is_complete().then_some(()))
        });
        let ready = ready.await;
        ready.with_context(|| format!("last seen: {last}"))
    }

    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let selector = format!("{CLUSTER_LABEL}={NAME}");
        let list = self.api::<Pod>().list(&ListParams::default().labels(&selector)).await;
        Ok(list.context("cannot list the pods")?.items)
    }

    /// Addresses of the members' pods, and of the client Service in front of them.
    pub async fn hosts(&self) -> Result<Vec<String>> {
        let mut hosts: Vec<String> =
            self.pods().await?.iter().filter_map(client_address).map(|address| address.to_string()).collect();
        let service =
            self.api::<Service>().get(&format!("{NAME}-client")).await.context("no client Service")?;
        if let Some(address) = service.spec.and_then(|spec| spec.cluster_ip) {
            hosts.push(format!("{address}:{CLIENT_PORT}"));
        }
        Ok(hosts)
    }

    /// What each pod says of itself.
    pub async fn modes(&self) -> Result<Modes> {
        let mut modes = Modes::default();
        for pod in self.pods().await? {
            let Some(address) = client_address(&pod) else { continue };
            match four_letter::mode(address).await.as_deref() {
                Some("leader") => modes.leaders.push(pod.name_any()),
                Some("follower") => modes.followers.push(pod.name_any()),
                _ => {}
            }
        }
        Ok(modes)
    }

    /// The pod that leads, as it says itself.
    pub async fn leader(&self) -> Result<String> {
        wait(READY_TIMEOUT, "a leader", async || Ok(self.modes().await?.leaders.pop())).await
    }

    /// Deletes a pod with grace period 0.
    pub async fn delete_pod_now(&self, pod: &str) -> Result<()> {
        let parameters = DeleteParams::default().grace_period(0);
        self.api::<Pod>()
            .delete(pod, &parameters)
            .await
            .with_context(|| format!("cannot delete pod {pod}"))?;
        Ok(())
    }

    /// Process ids of a pod's containers on this machine; `None` when the cluster is not our own.
    pub fn processes(&self, namespace: &str, pod: &str) -> Result<Option<Vec<i32>>> {
        let Some(launcher) = std::env::var_os(LAUNCHER_VARIABLE) else { return Ok(None) };
        let output = Command::new(launcher).args(["pod-pids", namespace, pod]).output()?;
        if !output.status.success() {
            bail!("castellan-kube pod-pids: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let ids: std::result::Result<Vec<i32>, _> = text.split_whitespace().map(str::parse).collect();
        ids.context("castellan-kube pod-pids did not answer numbers").map(Some)
    }

    /// kill -9 of the pods' processes, all looked up before the first is killed. False when that cannot be done here.
    pub fn kill_processes(&self, pods: &[String]) -> Result<bool> {
        let mut all = Vec::new();
        for pod in pods {
            match self.processes(&self.namespace, pod)? {
                Some(ids) => all.extend(ids),
                None => return Ok(false),
            }
        }
        for id in all {
            let pid = Pid::from_raw(id).context("a process id of 0")?;
            match rustix::process::kill_process(pid, Signal::KILL) {
                // A child of one that was killed before it.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error).with_context(|| format!("cannot kill process {id}")),
            }
        }
        Ok(true)
    }
}

/// Which pods lead and which follow.
#[derive(Default)]
pub struct Modes {
    pub leaders: Vec<String>,
    pub followers: Vec<String>,
}

impl Modes {
    fn is_complete(&self) -> bool {
        self.leaders.len() == 1 && self.followers.len() == MEMBERS - 1
    }
}

fn client_address(pod: &Pod) -> Option<SocketAddr> {
    let address = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
    Some(SocketAddr::new(address, CLIENT_PORT))
}

/// Asks again and again until there is an answer.
pub async fn wait<T>(
    timeout: Duration,
    what: &str,
    mut ask: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + timeout;
    loop {
        let error = match ask().await {
            Ok(Some(answer)) => return Ok(answer),
            Ok(None) => None,
            // An API server under load may miss one call.
            Err(error) => Some(error),
        };
        if Instant::now() >= end {
            let why = error.map(|error| format!(": {error:#}")).unwrap_or_default();
            bail!("waited {} s for {what}{why}", timeout.as_secs());
        }
        tokio::time::sleep(POLL).await;
    }
}
