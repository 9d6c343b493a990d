//! Everything that an installation without Helm needs, as one YAML stream: `manifests/install.yaml`.
//!
//! Permissions come from the chart's own files, so that chart and manifest cannot differ in them; that the Deployment
//! is the same is shown by a test that renders the chart where Helm is at hand.

use serde_json::{Value, json};

use crate::to_yaml;

/// Namespace that the operator is installed in.
pub const DEFAULT_NAMESPACE: &str = "castellan-system";

/// Image of operator and members: both binaries are in it.
pub const DEFAULT_IMAGE: &str = concat!("castellan.local/castellan:", env!("CARGO_PKG_VERSION"));

/// Name of the operator's objects. The members' NetworkPolicy selects the operator's pods by it.
pub const NAME: &str = "castellan-operator";

const CLUSTER_RULES: &str = include_str!("../../../charts/castellan-operator/files/cluster-rules.yaml");
const OWN_RULES: &str = include_str!("../../../charts/castellan-operator/files/own-rules.yaml");

const REPLICAS: u32 = 2;
const HTTP_PORT: u16 = 8080;

/// The whole manifest.
pub fn manifest(namespace: &str, image: &str) -> String {
    let mut text = String::from(
        "# Written by `cargo xtask generate`: definitions, namespace, permissions and Deployment of the operator.\n",
    );
    for (_, crd) in crate::crds() {
        text.push_str("---\n");
        text.push_str(&to_yaml(&crd));
    }
    for object in objects(namespace, image) {
        text.push_str("---\n");
        text.push_str(&to_yaml(&object));
    }
    text
}

/// The objects of the operator itself.
pub fn objects(namespace: &str, image: &str) -> Vec<Value> {
    let metadata = json!({"name": NAME, "namespace": namespace, "labels": labels()});
    let subjects = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}]);
    let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": NAME});
    vec![
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        }),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": NAME, "labels": labels()}, "rules": rules(CLUSTER_RULES)
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME, "labels": labels()}, "roleRef": role("ClusterRole"), "subjects": subjects
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": metadata, "rules": rules(OWN_RULES)
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": metadata, "roleRef": role("Role"), "subjects": subjects
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": REPLICAS,
                "selector": {"matchLabels": selector()},
                "template": {"metadata": {"labels": labels()}, "spec": pod(image)}
            }
        }),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata,
            "spec": {
                "maxUnavailable": 1,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {"matchLabels": selector()}
            }
        }),
    ]
}

fn labels() -> Value {
    json!({"app.kubernetes.io/name": NAME})
}

fn selector() -> Value {
    json!({"app.kubernetes.io/name": NAME})
}

fn rules(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("the rules in the chart are YAML; a test reads them")
}

/// The operator's pod, under the restricted Pod Security Standard.
fn pod(image: &str) -> Value {
    let field =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let probe = |path: &str, period: u32| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": period, "timeoutSeconds": 3});
    json!({
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 15,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"}
        },
        "containers": [{
            "name": "operator",
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["/keeper-operator"],
            "env": [
                field("POD_NAME", "metadata.name"),
                field("OPERATOR_NAMESPACE", "metadata.namespace"),
                {"name": "KEEPER_IMAGE", "value": image}
            ],
            "ports": [{"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"}],
            "livenessProbe": probe("/livez", 10),
            "readinessProbe": probe("/readyz", 2),
            "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]}
            }
        }],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": selector()}
            }
        }]}}
    })
}
