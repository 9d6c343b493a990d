//! What protects the members: from too many evictions at once, and from connections that are none of others' business.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        networking::v1::{
            NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
        },
        policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

use super::Context;

/// One member may be evicted at a time. Members that are down already may always be evicted, so that no drain hangs on them.
pub fn disruption_budget(context: &Context<'_>) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: context.metadata(context.names.policy()),
        spec: Some(PodDisruptionBudgetSpec {
            max_unavailable: Some(IntOrString::Int(1)),
            selector: Some(selector(context.names.selector())),
            unhealthy_pod_eviction_policy: Some("AlwaysAllow".into()),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}

/// Clients, probes and metrics from anywhere; peers only from members; admin only from members and the operator.
pub fn network_policy(context: &Context<'_>) -> NetworkPolicy {
    let members = NetworkPolicyPeer {
        pod_selector: Some(selector(context.names.selector())),
        ..NetworkPolicyPeer::default()
    };
    let namespace = context.surroundings.operator_namespace.clone();
    let operator = NetworkPolicyPeer {
        namespace_selector: Some(selector(BTreeMap::from([(
            "kubernetes.io/metadata.name".into(),
            namespace,
        )]))),
        pod_selector: Some(selector(BTreeMap::from([(
            "app.kubernetes.io/name".into(),
            castellan_api::install::NAME.into(),
        )]))),
        ..NetworkPolicyPeer::default()
    };
    NetworkPolicy {
        metadata: context.metadata(context.names.policy()),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(context.names.selector())),
            policy_types: Some(vec!["Ingress".into()]),
            ingress: Some(vec![
                rule(&["client", "http"], None),
                rule(&["peer"], Some(vec![members.clone()])),
                rule(&["admin"], Some(vec![members, operator])),
            ]),
            ..NetworkPolicySpec::default()
        }),
    }
}

fn rule(ports: &[&str], from: Option<Vec<NetworkPolicyPeer>>) -> NetworkPolicyIngressRule {
    let port = |name: &&str| NetworkPolicyPort {
        port: Some(IntOrString::String((*name).into())),
        protocol: Some("TCP".into()),
        ..NetworkPolicyPort::default()
    };
    NetworkPolicyIngressRule { from, ports: Some(ports.iter().map(port).collect()) }
}

fn selector(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}
