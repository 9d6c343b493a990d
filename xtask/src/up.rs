//! `up`: Kubernetes, images, operator and a three-member KeeperCluster that is Ready. `down`: all of it away.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::kube::{self, Kube};
use crate::{command, images, paths, progress};

const OPERATOR_NAMESPACE: &str = "castellan-system";
const SAMPLE: &str = "manifests/samples/main.yaml";
const SAMPLE_NAMESPACE: &str = "default";
const SAMPLE_NAME: &str = "main";
const READY_TIMEOUT: Duration = Duration::from_secs(180);
const READY_POLL: Duration = Duration::from_millis(300);

/// Kubernetes with our image and the operator of this checkout.
pub fn install() -> Result<Kube> {
    let kube = kube::up()?;
    let archive = images::build()?;
    kube.import(&archive)?;
    progress::step("installing the resource definitions and the operator");
    let charts = paths::root().join("charts");
    let (crds, operator) = (
        charts.join("castellan-crds").display().to_string(),
        charts.join("castellan-operator").display().to_string(),
    );
    // The definitions come first: the operator watches their kind from its first second.
    command::run_quiet(&mut kube.helm(&["upgrade", "--install", "castellan-crds", &crds, "--wait"]))?;
    let image = images::name();
    let (repository, tag) = split_image(&image)?;
    let (repository, tag) = (format!("image.repository={repository}"), format!("image.tag={tag}"));
    command::run_quiet(&mut kube.helm(&[
        "upgrade",
        "--install",
        "castellan-operator",
        &operator,
        "--namespace",
        OPERATOR_NAMESPACE,
        "--create-namespace",
        "--set-string",
        &repository,
        "--set-string",
        &tag,
    ]))?;
    // The same tag may hold other bytes than last time; a restart takes what is on the nodes now.
    let namespace = ["--namespace", OPERATOR_NAMESPACE];
    let deployment = "deployment/castellan-operator";
    command::run_quiet(&mut kube.kubectl(&[&["rollout", "restart", deployment], &namespace[..]].concat()))?;
    let status = ["rollout", "status", deployment, "--timeout=120s"];
    command::run_quiet(&mut kube.kubectl(&[&status[..], &namespace[..]].concat())).context(
        "the operator does not become ready; look at its log with kubectl logs -n castellan-system",
    )?;
    Ok(kube)
}

/// `name:tag` into its two parts.
fn split_image(image: &str) -> Result<(&str, &str)> {
    // A port of the registry has a colon too, but a slash behind it.
    match image.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => Ok((repository, tag)),
        _ => bail!("the image `{image}` has no tag: write NAME:TAG in {}", images::IMAGE_VARIABLE),
    }
}

/// The three-member KeeperCluster of the samples, Ready; returns the addresses of its pods.
pub fn create_sample(kube: &Kube) -> Result<Vec<String>> {
    progress::step("creating the KeeperCluster `main`");
    let sample = paths::root().join(SAMPLE).display().to_string();
    command::run_quiet(&mut kube.kubectl(&["apply", "--filename", &sample]))?;
    wait_ready(kube)?;
    hosts(kube)
}

pub fn up() -> Result<()> {
    let kube = install()?;
    let hosts = create_sample(&kube)?.join(",");
    let table = kube.ask(&["get", "kpc", SAMPLE_NAME, "--namespace", SAMPLE_NAMESPACE])?;
    let kubectl = kube.shown_kubectl();
    println!("{table}\n");
    println!("Kubernetes:  export KUBECONFIG={}", kube.kubeconfig().display());
    println!("Look at it:  {kubectl} get kpc,pods");
    println!("Log:         {kubectl} logs -n {OPERATOR_NAMESPACE} deployment/castellan-operator");
    if kube.is_own() {
        println!("Hosts:       {hosts}   (reachable from this machine)");
        println!("Try:         KEEPER_HOSTS={hosts} cargo run --release --bin keeper -- create /hello world");
    } else {
        println!("In the cluster: {SAMPLE_NAME}-client.{SAMPLE_NAMESPACE}.svc:2181");
        println!("From here:   kubectl port-forward service/{SAMPLE_NAME}-client 2181");
    }
    println!("Away again:  cargo xtask down");
    Ok(())
}

/// Client addresses of the sample's members.
fn hosts(kube: &Kube) -> Result<Vec<String>> {
    let selector = format!("castellan.rs/cluster={SAMPLE_NAME}");
    let path = "jsonpath={.items[*].status.podIP}";
    let addresses = kube.ask(&["get", "pods", "-n", SAMPLE_NAMESPACE, "-l", &selector, "-o", path])?;
    Ok(addresses.split_whitespace().map(|address| format!("{address}:2181")).collect())
}

fn wait_ready(kube: &Kube) -> Result<()> {
    progress::step("waiting until it is Ready");
    let begin = Instant::now();
    let path = "jsonpath={.status.phase}|{.status.conditions[?(@.type==\"Ready\")].status}|\
                {.status.conditions[?(@.type==\"Ready\")].message}";
    let mut said = String::new();
    loop {
        let now = kube.ask(&["get", "kpc", SAMPLE_NAME, "-n", SAMPLE_NAMESPACE, "-o", path])?;
        let parts: Vec<&str> = now.splitn(3, '|').collect();
        if parts.get(1) == Some(&"True") {
            progress::step(format_args!("Ready after {:.1} s", begin.elapsed().as_secs_f64()));
            return Ok(());
        }
        if now != said {
            progress::step(format_args!("  {}: {}", parts[0], parts.get(2).unwrap_or(&"")));
            said = now;
        }
        if begin.elapsed() > READY_TIMEOUT {
            bail!(
                "not Ready after {} s: {said}; `kubectl describe kpc main` says more",
                READY_TIMEOUT.as_secs()
            );
        }
        std::thread::sleep(READY_POLL);
    }
}

pub fn down() -> Result<()> {
    if !kube::is_given() {
        return kube::down_own();
    }
    let kube = kube::up()?;
    progress::step(
        "removing the sample, the operator and the definitions; volumes stay as their policy says",
    );
    let sample = paths::root().join(SAMPLE).display().to_string();
    let absent = "--ignore-not-found";
    // A cluster without our kind is already as it should be.
    let _ = command::run_quiet(&mut kube.kubectl(&["delete", "--filename", &sample, absent]));
    command::run_quiet(&mut kube.helm(&[
        "uninstall",
        "castellan-operator",
        "-n",
        OPERATOR_NAMESPACE,
        absent,
    ]))?;
    command::run_quiet(&mut kube.helm(&["uninstall", "castellan-crds", absent]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_split_at_its_tag_and_not_at_a_port() {
        assert_eq!(split_image("a.local/b:1").unwrap(), ("a.local/b", "1"));
        assert_eq!(split_image("a:5000/b:1").unwrap(), ("a:5000/b", "1"));
        assert!(split_image("a:5000/b").is_err());
        assert!(split_image("b").is_err());
    }
}
