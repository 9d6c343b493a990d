//! `KeeperCluster`: what its author wants. The operator reads it and never writes it.
//!
//! Defaults stand in the schema only where they can never change; all others belong to the operator, which keeps what
//! it accepted, so that a newer operator cannot move a running cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, LocalObjectReference, ResourceRequirements, Toleration, TopologySpreadConstraint,
};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::status::KeeperClusterStatus;

/// A cluster of keeper servers, which speak the ZooKeeper protocol.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "castellan.rs",
    version = "v1alpha1",
    kind = "KeeperCluster",
    plural = "keeperclusters",
    shortname = "kpc",
    category = "castellan",
    namespaced,
    status = "KeeperClusterStatus",
    derive = "PartialEq",
    doc = "A cluster of keeper servers, which speak the ZooKeeper protocol.",
    cel,
    validation = (
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 40",
        "metadata.name: write at most 40 small letters, digits and '-', beginning with a letter; members and Services are named after it"
    ),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "True when clients are served with a quorum"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Voters", type_ = "integer", json_path = ".status.voters", description = "Voters in the committed configuration"),
    printcolumn(name = "Leader", type_ = "string", json_path = ".status.leader"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Members", type_ = "integer", json_path = ".status.readyReplicas", description = "Members that serve clients", priority = 1),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoints.client", priority = 1),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct KeeperClusterSpec {
    /// Number of members, all of them voters: 1, 3, 5, 7 or 9.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 9))]
    #[x_kube(validation = (
        "self % 2 == 1",
        "replicas: write an odd number, 1, 3, 5, 7 or 9; an even size survives no more losses than one member fewer"
    ))]
    pub replicas: i32,

    /// The image of the members. Without it the operator uses the image that it was installed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageSpec>,

    /// The volume of each member.
    pub storage: StorageSpec,

    /// CPU and memory of each member. Without it: requests of 100m and 256Mi, no limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,

    /// Settings of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<ConfigSpec>,

    /// The Service that clients use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceSpec>,

    /// Protection against voluntary evictions. A cluster of one member never has it, since it would block every drain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_disruption_budget: Option<PodDisruptionBudgetSpec>,

    /// What to add to the members' pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodSpec>,

    /// Who may open connections to the members' ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicySpec>,

    /// DNS domain of the Kubernetes cluster. Cannot be changed later, since members know each other by full names.
    #[serde(default = "default_cluster_domain")]
    #[schemars(
        length(min = 1, max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    #[x_kube(validation = Rule::new("self == oldSelf").message(Message::Expression(
        "'clusterDomain cannot be changed: write ' + oldSelf + ' back, or create a new cluster'".into()
    )))]
    pub cluster_domain: String,

    /// How a new cluster comes to its first data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<BootstrapSpec>,

    /// While true the operator only refreshes the status and changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

fn default_replicas() -> i32 {
    3
}

fn default_cluster_domain() -> String {
    "cluster.local".into()
}

/// Where the image of the members comes from.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(cel, validation = (
    "!(has(self.tag) && has(self.digest))",
    "image: write tag or digest, not both; a digest already names one exact image"
))]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    /// Image name without tag, such as `registry.example/castellan`. Without it: that of the operator's default image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub repository: Option<String>,
    /// Tag of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128), regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"))]
    pub tag: Option<String>,
    /// Digest of the image, `sha256:` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71), regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// When the kubelet pulls the image. Without it: IfNotPresent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<PullPolicy>,
    /// Secrets with the registry's credentials, in the namespace of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub pull_secrets: Vec<LocalObjectReference>,
}

/// When the kubelet pulls an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    pub fn as_str(self) -> &'static str {
        match self {
            PullPolicy::Always => "Always",
            PullPolicy::IfNotPresent => "IfNotPresent",
            PullPolicy::Never => "Never",
        }
    }
}

/// The volume of each member.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(
    cel,
    validation = Rule::new("quantity(self.size).compareTo(quantity(oldSelf.size)) >= 0").message(Message::Expression(
        "'storage.size can only grow: write ' + oldSelf.size + ' or more'".into()
    )),
    validation = (
        "quantity(self.size).compareTo(quantity('256Mi')) >= 0",
        "storage.size: write 256Mi or more; log and snapshots need that much"
    ),
    validation = (
        "has(self.storageClassName) == has(oldSelf.storageClassName) && (!has(self.storageClassName) || self.storageClassName == oldSelf.storageClassName)",
        "storage.storageClassName cannot be changed: write the old value back, or create a new cluster and copy the data"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct StorageSpec {
    /// Size of the volume of each member, such as `10Gi`. Can only grow.
    #[schemars(length(max = 20), regex(pattern = r"^[1-9][0-9]*(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$"))]
    pub size: String,
    /// StorageClass of the volumes. Without it: the default class of the Kubernetes cluster. Cannot be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub storage_class_name: Option<String>,
    /// What becomes of the volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<RetentionSpec>,
}

/// What becomes of the volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetentionSpec {
    /// When the KeeperCluster is deleted: keep the volumes (the default) or delete them too.
    #[serde(default)]
    pub when_deleted: RetentionPolicy,
}

/// Keep or delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RetentionPolicy {
    #[default]
    Retain,
    Delete,
}

/// Settings of the server. What is not set here has the server's own default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSpec {
    /// Sessions of clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionSpec>,
    /// Limits that protect the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsSpec>,
    /// Four-letter words that are answered on the client port. Without it: those that reveal and change nothing sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "set"))]
    pub four_letter_words: Option<Vec<FourLetterWord>>,
    /// The write-ahead log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogSpec>,
}

/// Sessions of clients.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[x_kube(cel, validation = (
    "(has(self.timeoutMsMin) ? self.timeoutMsMin : 4000) <= (has(self.timeoutMsMax) ? self.timeoutMsMax : 40000)",
    "config.session: write timeoutMsMin not above timeoutMsMax (without them: 4000 and 40000)"
))]
#[serde(rename_all = "camelCase")]
pub struct SessionSpec {
    /// Shortest session timeout that a client can get, in milliseconds. Default 4000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 500, max = 3_600_000))]
    pub timeout_ms_min: Option<i32>,
    /// Longest session timeout that a client can get, in milliseconds. Default 40000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 500, max = 3_600_000))]
    pub timeout_ms_max: Option<i32>,
}

/// Limits that protect the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsSpec {
    /// Largest request, in bytes (ZooKeeper's jute.maxbuffer). Default 1048575.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1024, max = 67_108_864))]
    pub frame_bytes_max: Option<i64>,
}

/// A four-letter word of the client port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FourLetterWord {
    Ruok,
    Srvr,
    Stat,
    Mntr,
    Conf,
    Cons,
    Envi,
    Isro,
    Wchs,
}

impl FourLetterWord {
    pub fn as_str(self) -> &'static str {
        match self {
            FourLetterWord::Ruok => "ruok",
            FourLetterWord::Srvr => "srvr",
            FourLetterWord::Stat => "stat",
            FourLetterWord::Mntr => "mntr",
            FourLetterWord::Conf => "conf",
            FourLetterWord::Cons => "cons",
            FourLetterWord::Envi => "envi",
            FourLetterWord::Isro => "isro",
            FourLetterWord::Wchs => "wchs",
        }
    }
}

/// The write-ahead log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogSpec {
    /// A snapshot is taken after this many bytes of log. Default 67108864.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1_048_576, max = 1_099_511_627_776_i64))]
    pub snapshot_log_bytes: Option<i64>,
}

/// The Service that clients use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Type of the Service. Without it: ClusterIP.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ServiceType>,
    /// Annotations of the Service, such as those that a load balancer reads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
}

/// Type of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ServiceType {
    #[serde(rename = "ClusterIP")]
    ClusterIp,
    NodePort,
    LoadBalancer,
}

impl ServiceType {
    pub fn as_str(self) -> &'static str {
        match self {
            ServiceType::ClusterIp => "ClusterIP",
            ServiceType::NodePort => "NodePort",
            ServiceType::LoadBalancer => "LoadBalancer",
        }
    }
}

/// Protection against voluntary evictions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudgetSpec {
    /// Whether the budget exists. Without it: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// Who may open connections to the members' ports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicySpec {
    /// Whether the policy exists: clients and metrics from anywhere, peers only from members, admin only from members
    /// and the operator. Without it: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// What to add to the members' pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Labels to add. Those that the operator writes itself win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub node_selector: BTreeMap<String, String>,
    /// Affinity. Without it: members prefer different nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints that members tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,
    /// Spread over the topology. Without it: members prefer different zones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub topology_spread: Option<Vec<TopologySpreadConstraint>>,
    /// PriorityClass of the members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// ServiceAccount of the members; its token is never mounted. Without it: the namespace's default account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// How long a member has to hand over leadership and let its clients go. Without it: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 5, max = 3600))]
    pub termination_grace_period_seconds: Option<i64>,
}

/// How a new cluster comes to its first data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapSpec {
    /// Take over the volumes that a deleted cluster of the same name left behind, with their data.
    /// Without it volumes that are in the way stop the creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopt_existing: Option<bool>,
}
