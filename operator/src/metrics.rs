//! What the operator counts, in the OpenMetrics text format. Belongs to one operator object, never to the process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use castellan_api::KeeperClusterStatus;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Outcome {
    Done,
    Conflict,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabels {
    namespace: String,
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabels {
    namespace: String,
    cluster: String,
    r#type: String,
}

#[derive(Default)]
struct Known {
    /// The last leader, to count changes.
    leader: Option<String>,
    /// Types of the conditions that have a series.
    conditions: Vec<String>,
}

/// All metrics of the operator. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    passes: Family<OutcomeLabels, Counter>,
    pass_seconds: Histogram,
    leading: Gauge,
    clusters: Gauge,
    replicas_desired: Family<ClusterLabels, Gauge>,
    replicas_ready: Family<ClusterLabels, Gauge>,
    voters: Family<ClusterLabels, Gauge>,
    learners: Family<ClusterLabels, Gauge>,
    leader_changes: Family<ClusterLabels, Counter>,
    conditions: Family<ConditionLabels, Gauge>,
    /// What is remembered of each cluster, by namespace and name.
    known: Arc<Mutex<BTreeMap<(String, String), Known>>>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    pub fn new() -> Metrics {
        let metrics = Metrics {
            registry: Arc::default(),
            passes: Family::default(),
            pass_seconds: Histogram::new([0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]),
            leading: Gauge::default(),
            clusters: Gauge::default(),
            replicas_desired: Family::default(),
            replicas_ready: Family::default(),
            voters: Family::default(),
            learners: Family::default(),
            leader_changes: Family::default(),
            conditions: Family::default(),
            known: Arc::default(),
        };
        let mut registry = Registry::with_prefix("castellan_operator");
        registry.register("reconciles", "Passes over a cluster, by how they ended", metrics.passes.clone());
        registry.register("reconcile_seconds", "Duration of a pass", metrics.pass_seconds.clone());
        registry.register(
            "leading",
            "1 when this replica acts, 0 when it stands by",
            metrics.leading.clone(),
        );
        registry.register("clusters", "Clusters that were seen", metrics.clusters.clone());
        registry.register("cluster_replicas_desired", "Members wanted", metrics.replicas_desired.clone());
        registry.register(
            "cluster_replicas_ready",
            "Members that serve clients",
            metrics.replicas_ready.clone(),
        );
        registry.register("cluster_voters", "Voters in the committed configuration", metrics.voters.clone());
        registry.register(
            "cluster_learners",
            "Learners in the committed configuration",
            metrics.learners.clone(),
        );
        registry.register(
            "cluster_leader_changes",
            "Changes of leader that were seen",
            metrics.leader_changes.clone(),
        );
        registry.register("cluster_condition", "1 true, 0 false, -1 unknown", metrics.conditions.clone());
        *metrics.registry.lock().unwrap_or_else(PoisonError::into_inner) = registry;
        metrics
    }

    pub fn pass(&self, outcome: Outcome, duration: Duration) {
        self.passes.get_or_create(&OutcomeLabels { outcome }).inc();
        self.pass_seconds.observe(duration.as_secs_f64());
    }

    pub fn set_leading(&self, leading: bool) {
        self.leading.set(i64::from(leading));
    }

    pub fn cluster(&self, namespace: &str, name: &str, status: &KeeperClusterStatus) {
        let labels = ClusterLabels { namespace: namespace.into(), cluster: name.into() };
        let desired = status.accepted.as_ref().map_or(0, |accepted| accepted.spec.replicas);
        self.replicas_desired.get_or_create(&labels).set(i64::from(desired));
        self.replicas_ready.get_or_create(&labels).set(i64::from(status.ready_replicas));
        self.voters.get_or_create(&labels).set(i64::from(status.voters));
        self.learners.get_or_create(&labels).set(i64::from(status.learners));
        for condition in &status.conditions {
            let labels = ConditionLabels {
                namespace: namespace.into(),
                cluster: name.into(),
                r#type: condition.type_.clone(),
            };
            let value = match condition.status.as_str() {
                "True" => 1,
                "False" => 0,
                _ => -1,
            };
            self.conditions.get_or_create(&labels).set(value);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = known.entry((namespace.to_owned(), name.to_owned())).or_default();
        cluster.conditions = status.conditions.iter().map(|condition| condition.type_.clone()).collect();
        if let Some(leader) = &status.leader
            && cluster.leader.replace(leader.clone()).is_some_and(|before| before != *leader)
        {
            self.leader_changes.get_or_create(&labels).inc();
        }
        self.clusters.set(i64::try_from(known.len()).unwrap_or(i64::MAX));
    }

    /// Drops the series of a cluster that is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        let labels = ClusterLabels { namespace: namespace.into(), cluster: name.into() };
        self.replicas_desired.remove(&labels);
        self.replicas_ready.remove(&labels);
        self.voters.remove(&labels);
        self.learners.remove(&labels);
        self.leader_changes.remove(&labels);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = known.remove(&(namespace.to_owned(), name.to_owned())).unwrap_or_default();
        for r#type in cluster.conditions {
            self.conditions.remove(&ConditionLabels {
                namespace: namespace.into(),
                cluster: name.into(),
                r#type,
            });
        }
        self.clusters.set(i64::try_from(known.len()).unwrap_or(i64::MAX));
    }

    /// The page for a scrape.
    pub fn page(&self) -> Result<String, std::fmt::Error> {
        let mut page = String::new();
        encode(&mut page, &self.registry.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_gone_leaves_no_series_behind() {
        let metrics = Metrics::new();
        let condition = serde_json::json!({
            "type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"
        });
        let status = KeeperClusterStatus {
            voters: 3,
            conditions: vec![serde_json::from_value(condition).unwrap()],
            ..KeeperClusterStatus::default()
        };
        metrics.cluster("prod", "main", &status);
        let page = metrics.page().unwrap();
        assert!(
            page.contains(r#"castellan_operator_cluster_voters{namespace="prod",cluster="main"} 3"#),
            "{page}"
        );
        assert!(page.contains(r#"type="Ready"} 1"#), "{page}");
        metrics.forget("prod", "main");
        assert!(!metrics.page().unwrap().contains("main"));
    }

    #[test]
    fn a_leader_change_is_counted_and_a_gap_is_not() {
        let metrics = Metrics::new();
        for leader in [Some("main-0-0"), None, Some("main-0-0"), Some("main-1-0")] {
            let status =
                KeeperClusterStatus { leader: leader.map(Into::into), ..KeeperClusterStatus::default() };
            metrics.cluster("prod", "main", &status);
        }
        let page = metrics.page().unwrap();
        assert!(
            page.contains(r#"cluster_leader_changes_total{namespace="prod",cluster="main"} 1"#),
            "{page}"
        );
    }
}
