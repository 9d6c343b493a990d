//! Every rendered object, word for word: a change of one of these files is a change of running clusters.
//! `UPDATE_GOLDEN=1 cargo test -p keeper-operator` writes them again.
// Tests read and write files of the repository.
#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;

use castellan_api::{Accepted, KeeperClusterSpec, KeeperClusterStatus, to_yaml};
use serde_json::json;

use super::*;
use crate::cluster::difference::is_as_wanted;

fn render_of(spec: Value) -> (KeeperCluster, Render) {
    let spec: KeeperClusterSpec = serde_json::from_value(spec).unwrap();
    let mut cluster = KeeperCluster::new("main", spec.clone());
    cluster.metadata.namespace = Some("prod".into());
    cluster.metadata.uid = Some("6f1f9a52-5c8f-4d4c-9d1b-0c7a3f1f2a10".into());
    let accepted = Accepted { generation: 1, image: "castellan:1".into(), spec: spec.clone() };
    cluster.status = Some(KeeperClusterStatus { accepted: Some(accepted), ..KeeperClusterStatus::default() });
    let render =
        Render { cluster_id: "0123456789abcdef0123456789abcdef".into(), image: "castellan:1".into(), spec };
    (cluster, render)
}

fn objects(spec: Value) -> Vec<Desired> {
    let (cluster, render) = render_of(spec);
    build(&cluster, &render, &Surroundings { operator_namespace: "castellan-system".into() })
}

fn compare(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/cluster/build/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, golden, "{} differs", path.display());
}

#[test]
fn a_plain_cluster_of_three_is_rendered_as_it_always_was() {
    let objects = objects(json!({"storage": {"size": "10Gi"}}));
    let names: Vec<String> =
        objects.iter().map(|object| format!("{}-{}", object.kind.name(), object.name)).collect();
    assert_eq!(
        names,
        [
            "ConfigMap-main-config",
            "Service-main-headless",
            "Service-main-client",
            "NetworkPolicy-main",
            "PodDisruptionBudget-main",
            "StatefulSet-main-0",
            "StatefulSet-main-1",
            "StatefulSet-main-2",
        ]
    );
    for (object, name) in objects.iter().zip(names).take(6) {
        compare(&format!("plain-{name}.yaml"), &to_yaml(&object.value));
    }
}

#[test]
fn a_cluster_with_every_setting_is_rendered_as_it_always_was() {
    let objects = objects(json!({
        "replicas": 1,
        "image": {"pullPolicy": "Never", "pullSecrets": [{"name": "registry"}]},
        "storage": {"size": "10Gi", "storageClassName": "fast"},
        "resources": {"limits": {"memory": "2Gi"}},
        "config": {
            "session": {"timeoutMsMin": 2000, "timeoutMsMax": 60000},
            "limits": {"frameBytesMax": 4194304},
            "fourLetterWords": ["ruok", "mntr"],
            "log": {"snapshotLogBytes": 1048576}
        },
        "service": {"type": "LoadBalancer", "annotations": {"example.com/internal": "true"}},
        "networkPolicy": {"enabled": false},
        "pod": {
            "labels": {"team": "data", "castellan.rs/cluster": "not-mine"},
            "annotations": {"example.com/scrape": "true"},
            "nodeSelector": {"disk": "nvme"},
            "affinity": {},
            "tolerations": [{"key": "keeper", "operator": "Exists"}],
            "topologySpread": [],
            "priorityClassName": "high",
            "serviceAccountName": "keeper",
            "terminationGracePeriodSeconds": 60
        },
        "clusterDomain": "k8s.example"
    }));
    for object in &objects {
        compare(&format!("full-{}-{}.yaml", object.kind.name(), object.name), &to_yaml(&object.value));
    }
    assert_eq!(objects.len(), 4);
}

#[test]
fn a_single_member_has_no_budget_that_would_block_its_node() {
    let has_budget = |replicas: i32| {
        let objects = objects(json!({"replicas": replicas, "storage": {"size": "1Gi"}}));
        objects.iter().any(|object| object.kind == Kind::PodDisruptionBudget)
    };
    assert!(!has_budget(1));
    assert!(has_budget(3));
}

#[test]
fn rendering_twice_gives_the_same_bytes() {
    let spec = json!({"storage": {"size": "1Gi"}, "pod": {"labels": {"b": "1", "a": "2"}}});
    assert_eq!(objects(spec.clone()), objects(spec));
}

/// What the restricted Pod Security Standard asks for, read from the rendered pods.
#[test]
fn pods_keep_to_the_restricted_standard_and_bear_no_foreign_labels() {
    for object in objects(json!({"storage": {"size": "1Gi"}})) {
        let text = object.value.to_string();
        for foreign in ["clickhouse", "altinity", "\"app\":"] {
            assert!(!text.contains(foreign), "{} contains {foreign}", object.name);
        }
        if object.kind != Kind::StatefulSet {
            continue;
        }
        let pod = &object.value["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(pod["automountServiceAccountToken"], false);
        let container = &pod["containers"][0]["securityContext"];
        assert_eq!(container["allowPrivilegeEscalation"], false);
        assert_eq!(container["readOnlyRootFilesystem"], true);
        assert_eq!(container["capabilities"]["drop"], json!(["ALL"]));
        assert!(container["capabilities"].get("add").is_none());
    }
}

#[test]
fn no_probe_of_liveness_asks_for_a_quorum() {
    let objects = objects(json!({"storage": {"size": "1Gi"}}));
    let set = objects.iter().find(|object| object.kind == Kind::StatefulSet).unwrap();
    let container = &set.value["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez");
    assert_eq!(container["startupProbe"]["httpGet"]["path"], "/livez");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
}

/// Objects as a real API server stored them: with its defaults, and without a word from us it would fill in otherwise.
#[test]
fn what_a_real_api_server_stored_is_as_wanted_so_nothing_is_written_again() {
    let stored: Vec<Value> = serde_json::from_str(include_str!("../fixtures/as-stored.json")).unwrap();
    let (mut cluster, mut render) = render_of(json!({"storage": {"size": "1Gi"}}));
    cluster.metadata.namespace = Some("default".into());
    cluster.metadata.uid = Some("a2f55fbd-d2f5-4b91-9e89-64350930d3fc".into());
    render.image = "castellan.local/castellan:0.1.0".into();
    render.cluster_id = "370f8bd445c5a5e22dc314f801b17122".into();
    let surroundings = Surroundings { operator_namespace: "castellan-system".into() };
    let wanted = build(&cluster, &render, &surroundings);
    let find = |object: &Value| {
        let same = |wanted: &&Desired| {
            object["kind"] == wanted.kind.name() && object["metadata"]["name"] == wanted.name.as_str()
        };
        wanted.iter().find(same).expect("an object of ours")
    };
    assert_eq!(stored.len(), 6);
    for object in &stored {
        let wanted = find(object);
        assert!(is_as_wanted(&wanted.value, object), "{} {}", wanted.kind.name(), wanted.name);
    }
    // And a field that is no longer wanted is noticed by the checksum.
    let (_, other) =
        render_of(json!({"storage": {"size": "1Gi"}, "pod": {"nodeSelector": {"disk": "nvme"}}}));
    let other = build(&cluster, &Render { cluster_id: render.cluster_id.clone(), ..other }, &surroundings);
    let set = stored.iter().find(|object| object["kind"] == "StatefulSet").unwrap();
    let wanted = other.iter().find(|object| object.name == "main-0").unwrap();
    assert!(!is_as_wanted(&wanted.value, set));
}
