//! Every rule that the API server will check, evaluated here with the same text; and the shape of the definition.

// Tests read files of the repository.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use super::*;

fn cluster(edit: impl FnOnce(&mut KeeperClusterSpec)) -> KeeperCluster {
    let mut spec: KeeperClusterSpec =
        serde_json::from_value(serde_json::json!({"storage": {"size": "10Gi"}})).unwrap();
    edit(&mut spec);
    KeeperCluster::new("main", spec)
}

fn refusal(cluster: &KeeperCluster) -> String {
    cluster.validate_cel().expect_err("must be refused").to_string()
}

fn update_refusal(new: &KeeperCluster, old: &KeeperCluster) -> String {
    new.validate_cel_update(old).expect_err("must be refused").to_string()
}

#[test]
fn the_smallest_manifest_is_accepted_and_defaults_to_three_members() {
    let cluster = cluster(|_| {});
    cluster.validate_cel().unwrap();
    assert_eq!(cluster.spec.replicas, 3);
    assert_eq!(cluster.spec.cluster_domain, "cluster.local");
}

#[test]
fn even_replicas_are_refused_with_what_to_write() {
    for replicas in [2, 4, 6, 8] {
        let text = refusal(&cluster(|spec| spec.replicas = replicas));
        assert!(text.contains("write an odd number, 1, 3, 5, 7 or 9"), "{text}");
    }
    for replicas in [1, 3, 5, 7, 9] {
        cluster(|spec| spec.replicas = replicas).validate_cel().unwrap();
    }
}

#[test]
fn a_volume_may_grow_and_never_shrink() {
    let old = cluster(|_| {});
    cluster(|spec| spec.storage.size = "20Gi".into()).validate_cel_update(&old).unwrap();
    cluster(|spec| spec.storage.size = "10240Mi".into()).validate_cel_update(&old).unwrap();
    let text = update_refusal(&cluster(|spec| spec.storage.size = "9Gi".into()), &old);
    assert!(text.contains("storage.size can only grow: write 10Gi or more"), "{text}");
}

#[test]
fn a_volume_too_small_for_log_and_snapshots_is_refused() {
    let text = refusal(&cluster(|spec| spec.storage.size = "255Mi".into()));
    assert!(text.contains("write 256Mi or more"), "{text}");
}

#[test]
fn the_storage_class_cannot_be_changed_added_or_removed() {
    let plain = cluster(|_| {});
    let fast = cluster(|spec| spec.storage.storage_class_name = Some("fast".into()));
    let slow = cluster(|spec| spec.storage.storage_class_name = Some("slow".into()));
    fast.validate_cel_update(&fast).unwrap();
    for (new, old) in [(&slow, &fast), (&fast, &plain), (&plain, &fast)] {
        let text = update_refusal(new, old);
        assert!(
            text.contains("storage.storageClassName cannot be changed: write the old value back"),
            "{text}"
        );
    }
}

#[test]
fn the_cluster_domain_cannot_be_changed() {
    let old = cluster(|_| {});
    let text = update_refusal(&cluster(|spec| spec.cluster_domain = "other.local".into()), &old);
    assert!(text.contains("clusterDomain cannot be changed: write cluster.local back"), "{text}");
}

#[test]
fn an_image_has_a_tag_or_a_digest_not_both() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let image = |tag: Option<&str>, digest: Option<&str>| {
        let image =
            ImageSpec { tag: tag.map(Into::into), digest: digest.map(Into::into), ..ImageSpec::default() };
        cluster(|spec| spec.image = Some(image))
    };
    image(Some("1.0"), None).validate_cel().unwrap();
    image(None, Some(&digest)).validate_cel().unwrap();
    let text = refusal(&image(Some("1.0"), Some(&digest)));
    assert!(text.contains("write tag or digest, not both"), "{text}");
}

#[test]
fn session_timeouts_must_be_in_order_also_against_the_defaults() {
    let session = |min, max| {
        let session = SessionSpec { timeout_ms_min: min, timeout_ms_max: max };
        cluster(|spec| spec.config = Some(ConfigSpec { session: Some(session), ..ConfigSpec::default() }))
    };
    session(Some(2000), Some(2000)).validate_cel().unwrap();
    session(None, Some(60_000)).validate_cel().unwrap();
    for (min, max) in [(Some(5000), Some(4000)), (Some(50_000), None), (None, Some(1000))] {
        let text = refusal(&session(min, max));
        assert!(text.contains("timeoutMsMin not above timeoutMsMax"), "{text}");
    }
}

#[test]
fn a_name_that_members_and_services_cannot_carry_is_refused() {
    for name in ["1main", "main.prod", &"m".repeat(41)] {
        let mut cluster = cluster(|_| {});
        cluster.metadata.name = Some((*name).into());
        let text = refusal(&cluster);
        assert!(text.contains("metadata.name: write at most 40 small letters"), "{text}");
    }
}

/// Rules that the schema itself states, which `validate_cel` does not look at.
#[test]
fn every_number_and_text_of_ours_has_bounds() {
    let crd = serde_json::to_value(&crds()[0].1).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(spec["replicas"]["minimum"], 1.0);
    assert_eq!(spec["replicas"]["maximum"], 9.0);
    assert_eq!(spec["replicas"]["default"], 3);
    assert!(spec["storage"]["properties"]["size"]["pattern"].is_string());
    assert_eq!(spec["storage"]["properties"]["retention"]["properties"]["whenDeleted"]["default"], "Retain");
    let session = &spec["config"]["properties"]["session"]["properties"];
    assert_eq!(session["timeoutMsMin"]["minimum"], 500.0);
    assert!(spec["config"]["properties"]["fourLetterWords"]["items"]["enum"].as_array().unwrap().len() == 9);
    assert_eq!(spec["image"]["properties"]["digest"]["pattern"], "^sha256:[0-9a-f]{64}$");
}

#[test]
fn the_definition_fits_into_an_annotation_so_that_plain_kubectl_apply_works() {
    for (name, text) in crd_files() {
        let crd = serde_json::to_string(&crds()[0].1).unwrap();
        assert!(crd.len() < 200_000, "{name} has {} bytes as JSON, {} as YAML", crd.len(), text.len());
    }
}

/// Argo CD shows a difference for ever when a definition holds empty lists that the API server drops.
#[test]
fn the_definition_holds_no_empty_lists() {
    fn walk(value: &serde_json::Value, path: &str) {
        match value {
            serde_json::Value::Array(items) => {
                assert!(!items.is_empty(), "empty list at {path}");
                items.iter().enumerate().for_each(|(index, item)| walk(item, &format!("{path}[{index}]")));
            }
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(key, item)| walk(item, &format!("{path}.{key}")))
            }
            _ => {}
        }
    }
    for (name, crd) in crds() {
        walk(&serde_json::to_value(crd).unwrap(), name);
    }
}

#[test]
fn names_scale_and_columns_are_those_that_users_rely_on() {
    let crd = serde_json::to_value(&crds()[0].1).unwrap();
    assert_eq!(crd["metadata"]["name"], "keeperclusters.castellan.rs");
    assert_eq!(crd["spec"]["names"]["shortNames"], serde_json::json!(["kpc"]));
    assert_eq!(crd["spec"]["names"]["categories"], serde_json::json!(["castellan"]));
    let version = &crd["spec"]["versions"][0];
    assert_eq!(version["name"], "v1alpha1");
    assert_eq!(
        version["subresources"]["scale"],
        serde_json::json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector"
        })
    );
    let columns: Vec<&str> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|column| column.get("priority").is_none_or(|priority| priority == 0))
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Ready", "Phase", "Voters", "Leader", "Version", "Age"]);
    let conditions =
        &version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-map-keys"], serde_json::json!(["type"]));
}

#[test]
fn the_yaml_stream_reads_back_as_the_same_definition() {
    for (index, (_, text)) in crd_files().into_iter().enumerate() {
        let read: CustomResourceDefinition = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, crds()[index].1);
    }
}

/// `UPDATE_GENERATED=1 cargo test -p castellan-api` writes them, as `cargo xtask generate` does.
#[test]
fn committed_files_are_those_that_the_types_make() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in generated_files() {
        let file = root.join(&path);
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(committed == text, "{path} is not what the types make: run `cargo xtask generate`");
    }
}

/// The manifest's objects are those of the chart with its default values, except for what only Helm writes.
#[test]
fn the_manifest_and_the_chart_install_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Some(rendered) = chart(&root, &[]) else { return };
    let manifest = install::objects(install::DEFAULT_NAMESPACE, install::DEFAULT_IMAGE);
    let key = |object: &serde_json::Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    let mut seen = 0;
    for object in manifest.iter().filter(|object| object["kind"] != "Namespace") {
        let same = rendered.iter().find(|rendered| key(rendered) == key(object));
        assert_eq!(same, Some(object), "{}", key(object));
        seen += 1;
    }
    assert_eq!(rendered.len(), seen, "the chart has objects that the manifest lacks");
}

#[test]
fn an_operator_for_one_namespace_has_no_permission_outside_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for namespace in ["prod", install::DEFAULT_NAMESPACE] {
        let Some(rendered) = chart(&root, &["--set", &format!("watchNamespace={namespace}")]) else { return };
        assert!(!rendered.iter().any(|object| object["kind"].as_str().unwrap().starts_with("ClusterRole")));
        let rules =
            install::objects("", "").into_iter().find(|object| object["kind"] == "ClusterRole").unwrap();
        let role = rendered.iter().find(|object| {
            object["kind"] == "Role"
                && object["metadata"]["namespace"] == namespace
                && object["rules"] == rules["rules"]
        });
        assert!(role.is_some(), "no Role in {namespace}");
    }
}

/// The chart's objects, without what only Helm writes; None, with a word, where no Helm is at hand.
fn chart(root: &Path, arguments: &[&str]) -> Option<Vec<serde_json::Value>> {
    let Some(helm) = helm(root) else {
        eprintln!("no helm in target/kubernetes/bin and none named by HELM: not compared");
        return None;
    };
    let output = std::process::Command::new(helm)
        .args(["template", install::NAME])
        .arg(root.join("charts/castellan-operator"))
        .args(["--namespace", install::DEFAULT_NAMESPACE, "--skip-tests", "--set", "rbac.aggregate=false"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let objects = text.split("\n---\n").filter(|part| part.contains("kind:"));
    let read = |part| serde_saphyr::from_str::<serde_json::Value>(part).unwrap();
    Some(objects.map(read).map(without_helms_labels).collect())
}

fn helm(root: &Path) -> Option<std::path::PathBuf> {
    if let Some(helm) = std::env::var_os("HELM") {
        return Some(helm.into());
    }
    let folders = std::fs::read_dir(root.join("target/kubernetes/bin")).ok()?;
    folders.filter_map(|folder| Some(folder.ok()?.path().join("helm"))).find(|helm| helm.is_file())
}

fn without_helms_labels(mut object: serde_json::Value) -> serde_json::Value {
    if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
        labels.retain(|label, _| label == "app.kubernetes.io/name");
    }
    object
}
