//! What the operator last saw of a cluster. Output only, with three exceptions that the operator relies on and writes
//! before it acts on them: `clusterId`, `nextServerId` (with `members[].serverId`) and `accepted`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::KeeperClusterSpec;

/// What the operator last saw of a cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeeperClusterStatus {
    /// Generation of the spec that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Identity of the cluster, 32 hexadecimal digits. Made once, on every member's disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// The next server id that will be given out. Server ids are never used twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_server_id: Option<i64>,
    /// True once a member belonged to the cluster: from then on no member is ever bootstrapped again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrapped: Option<bool>,
    /// The spec as it was accepted, with the image resolved: what the cluster runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<Accepted>,
    /// Lowest version among the members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Pod of the leader, as the members themselves say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// Number of members that have a StatefulSet.
    #[serde(default)]
    pub replicas: i32,
    /// Number of members that serve clients.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Voters in the committed configuration.
    #[serde(default)]
    pub voters: i32,
    /// Learners in the committed configuration.
    #[serde(default)]
    pub learners: i32,
    /// Label selector of the members' pods, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// One line for people: what the cluster is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The members, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub members: Vec<MemberStatus>,
    /// Where clients connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<EndpointsStatus>,
    /// What holds and what does not, with reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
}

/// The spec that a cluster runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// Generation of the KeeperCluster that this copy was taken from.
    pub generation: i64,
    /// The full image name of the members.
    pub image: String,
    /// The spec at that generation.
    #[schemars(schema_with = "any_object")]
    pub spec: KeeperClusterSpec,
}

/// The schema of a copy of our own spec: repeating the whole of it would double the size of the definition.
fn any_object(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// One member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Name of the member and of its pod.
    pub name: String,
    /// Its id in the cluster; none yet while it waits to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_id: Option<i64>,
    /// What it is in the cluster now.
    #[serde(default)]
    pub role: MemberRole,
    /// Whether it serves clients.
    #[serde(default)]
    pub ready: bool,
    /// Log entries it is behind the leader, rounded down to one digit; 0 below 1000, so that it does not change all the time.
    #[serde(default)]
    pub lag: i64,
    /// Version of its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Node its pod runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a member is in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MemberRole {
    /// It could not be asked.
    #[default]
    Unknown,
    /// Its disk is empty; it waits to be added.
    Uninitialized,
    Learner,
    Follower,
    Candidate,
    Leader,
}

/// Where clients connect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointsStatus {
    /// host:port of the Service that leads to members that are ready.
    pub client: String,
    /// host:port of each member, for clients that spread themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_member: Vec<MemberEndpoint>,
}

/// Where clients reach one member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberEndpoint {
    /// Name of the member.
    pub name: String,
    /// host:port.
    pub client: String,
}
