//! A member's pod: one container without a shell, with nothing to write on but its volume, under the restricted
//! Pod Security Standard. Liveness never depends on a quorum; readiness means that clients are served.

use std::collections::BTreeMap;

use castellan_api::PullPolicy;
use k8s_openapi::{
    api::core::v1::{
        Affinity, Capabilities, ConfigMapVolumeSource, Container, ContainerPort, EnvVar, EnvVarSource,
        HTTPGetAction, ObjectFieldSelector, PodAffinityTerm, PodAntiAffinity, PodSecurityContext,
        PodSpec as KubernetesPodSpec, PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile,
        SecretVolumeSource, SecurityContext, TopologySpreadConstraint, Volume, VolumeMount,
        WeightedPodAffinityTerm,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};

use super::{
    Context,
    config::{CONFIG_DIR, CONFIG_FILE, DATA_DIR, SECRET_DIR},
};
use crate::cluster::names::{ADMIN_PORT, CLIENT_PORT, HTTP_PORT, PEER_PORT};

pub const CONTAINER: &str = "keeper";
pub const DATA_VOLUME: &str = "data";
/// The user that the image runs as, and the group that owns the volume.
const USER_ID: i64 = 65_532;
/// Time to hand leadership over and let clients go.
const GRACE_SECONDS: i64 = 30;

pub fn template(context: &Context<'_>, ordinal: u32) -> PodTemplateSpec {
    let wanted = context.render.spec.pod.clone().unwrap_or_default();
    let mut labels = wanted.labels;
    labels.extend(context.names.member_labels(ordinal));
    // People select pods by it; pods have an owner, so that nobody takes them for objects of their own.
    labels.insert("app.kubernetes.io/instance".into(), context.names.cluster.clone());
    let annotations = Some(wanted.annotations).filter(|annotations| !annotations.is_empty());
    PodTemplateSpec {
        metadata: Some(ObjectMeta { labels: Some(labels), annotations, ..ObjectMeta::default() }),
        spec: Some(spec(context)),
    }
}

fn spec(context: &Context<'_>) -> KubernetesPodSpec {
    let wanted = context.render.spec.pod.clone().unwrap_or_default();
    let image = context.render.spec.image.clone().unwrap_or_default();
    KubernetesPodSpec {
        containers: vec![container(context)],
        volumes: Some(volumes(context)),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(USER_ID),
            run_as_group: Some(USER_ID),
            fs_group: Some(USER_ID),
            fs_group_change_policy: Some("OnRootMismatch".into()),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".into(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        service_account_name: wanted.service_account_name,
        image_pull_secrets: Some(image.pull_secrets).filter(|secrets| !secrets.is_empty()),
        termination_grace_period_seconds: Some(
            wanted.termination_grace_period_seconds.unwrap_or(GRACE_SECONDS),
        ),
        node_selector: Some(wanted.node_selector).filter(|selector| !selector.is_empty()),
        tolerations: Some(wanted.tolerations).filter(|tolerations| !tolerations.is_empty()),
        priority_class_name: wanted.priority_class_name,
        affinity: Some(wanted.affinity.unwrap_or_else(|| different_nodes(context))),
        topology_spread_constraints: Some(wanted.topology_spread.unwrap_or_else(|| different_zones(context)))
            .filter(|constraints| !constraints.is_empty()),
        ..KubernetesPodSpec::default()
    }
}

fn container(context: &Context<'_>) -> Container {
    let image = context.render.spec.image.clone().unwrap_or_default();
    let mount = |name: &str, path: &str, read_only: bool| VolumeMount {
        name: name.into(),
        mount_path: path.into(),
        read_only: Some(true).filter(|_| read_only),
        ..VolumeMount::default()
    };
    Container {
        name: CONTAINER.into(),
        image: Some(context.render.image.clone()),
        image_pull_policy: Some(image.pull_policy.unwrap_or(PullPolicy::IfNotPresent).as_str().into()),
        command: Some(vec!["/keeper".into()]),
        args: Some(vec!["serve".into(), "--config".into(), format!("{CONFIG_DIR}/{CONFIG_FILE}")]),
        env: Some(vec![EnvVar {
            name: "KEEPER__SERVER__NAME".into(),
            value_from: Some(EnvVarSource {
                field_ref: Some(ObjectFieldSelector {
                    field_path: "metadata.name".into(),
                    ..ObjectFieldSelector::default()
                }),
                ..EnvVarSource::default()
            }),
            ..EnvVar::default()
        }]),
        ports: Some(vec![
            port("client", CLIENT_PORT),
            port("peer", PEER_PORT),
            port("admin", ADMIN_PORT),
            port("http", HTTP_PORT),
        ]),
        resources: Some(context.render.spec.resources.clone().unwrap_or_else(modest_resources)),
        startup_probe: Some(probe("/livez", 1, 600)),
        liveness_probe: Some(probe("/livez", 10, 6)),
        readiness_probe: Some(probe("/readyz", 1, 3)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".into()]), ..Capabilities::default() }),
            ..SecurityContext::default()
        }),
        // The last log lines of a crash end up in the pod's status, and from there in ours.
        termination_message_policy: Some("FallbackToLogsOnError".into()),
        volume_mounts: Some(vec![
            mount(DATA_VOLUME, DATA_DIR, false),
            mount("config", CONFIG_DIR, true),
            mount("secret", SECRET_DIR, true),
        ]),
        ..Container::default()
    }
}

fn volumes(context: &Context<'_>) -> Vec<Volume> {
    vec![
        Volume {
            name: "config".into(),
            config_map: Some(ConfigMapVolumeSource {
                name: context.names.config(),
                ..ConfigMapVolumeSource::default()
            }),
            ..Volume::default()
        },
        Volume {
            name: "secret".into(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(context.names.credentials()),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
    ]
}

fn port(name: &str, port: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.into()),
        container_port: i32::from(port),
        protocol: Some("TCP".into()),
        ..ContainerPort::default()
    }
}

fn probe(path: &str, period_seconds: i32, failure_threshold: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.into()),
            port: IntOrString::String("http".into()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(3),
        failure_threshold: Some(failure_threshold),
        ..Probe::default()
    }
}

/// Enough to be scheduled with care; no limits, since a throttled member looks like a dead one.
fn modest_resources() -> ResourceRequirements {
    ResourceRequirements {
        requests: Some(BTreeMap::from([
            ("cpu".into(), Quantity("100m".into())),
            ("memory".into(), Quantity("256Mi".into())),
        ])),
        ..ResourceRequirements::default()
    }
}

/// A wish, not a must: three members on one machine are better than a cluster that does not start.
fn different_nodes(context: &Context<'_>) -> Affinity {
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![WeightedPodAffinityTerm {
                weight: 100,
                pod_affinity_term: PodAffinityTerm {
                    topology_key: "kubernetes.io/hostname".into(),
                    label_selector: Some(cluster_selector(context)),
                    ..PodAffinityTerm::default()
                },
            }]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

fn different_zones(context: &Context<'_>) -> Vec<TopologySpreadConstraint> {
    vec![TopologySpreadConstraint {
        max_skew: 1,
        topology_key: "topology.kubernetes.io/zone".into(),
        when_unsatisfiable: "ScheduleAnyway".into(),
        label_selector: Some(cluster_selector(context)),
        ..TopologySpreadConstraint::default()
    }]
}

fn cluster_selector(context: &Context<'_>) -> LabelSelector {
    LabelSelector { match_labels: Some(context.names.selector()), ..LabelSelector::default() }
}
