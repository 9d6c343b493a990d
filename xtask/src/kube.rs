//! The Kubernetes that commands work on: the one that `KUBECONFIG` names, else our own on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{command, paths, progress};

pub struct Kube {
    /// Path of castellan-kube; `None` when the cluster is somebody else's.
    launcher: Option<PathBuf>,
    kubectl: PathBuf,
    helm: PathBuf,
    kubeconfig: PathBuf,
}

/// Set: use that cluster and never start, stop or import anything below its API.
const GIVEN: &str = "KUBECONFIG";

/// Path of the command that runs our own Kubernetes, built when its sources changed.
pub fn launcher() -> Result<PathBuf> {
    if !command::exists("go") {
        bail!(
            "`go` is missing: install a Go toolchain (1.26 or later); our own Kubernetes is built from Go modules"
        );
    }
    let out = paths::target().join("kubernetes/castellan-kube");
    let mut build = command::command("go", &["build", "-trimpath", "-o"]);
    build
        .arg(&out)
        .arg(".")
        .current_dir(paths::root().join("e2e/kubernetes/launcher"))
        .env("CGO_ENABLED", "0");
    command::run_quiet(&mut build).context("cannot build castellan-kube")?;
    Ok(out)
}

pub fn is_given() -> bool {
    std::env::var_os(GIVEN).is_some_and(|value| !value.is_empty())
}

/// Starts our own Kubernetes when it is to be used and is not up.
pub fn up() -> Result<Kube> {
    if is_given() {
        return given();
    }
    let launcher = launcher()?;
    progress::step("starting Kubernetes (the first build of its programs takes about ten minutes)");
    command::run_quiet(&mut launch(&launcher, &["up"])).context(
        "cannot start our own Kubernetes; `cargo xtask down` removes what is left, or set KUBECONFIG to use another",
    )?;
    own(launcher)
}

fn launch(launcher: &Path, arguments: &[&str]) -> Command {
    command::command(&launcher.display().to_string(), arguments)
}

fn given() -> Result<Kube> {
    let kubeconfig = PathBuf::from(std::env::var_os(GIVEN).unwrap_or_default());
    progress::step(format_args!("using the Kubernetes that KUBECONFIG names: {}", kubeconfig.display()));
    for program in ["kubectl", "helm"] {
        if !command::exists(program) {
            bail!("`{program}` is missing: with KUBECONFIG set it must be in PATH");
        }
    }
    Ok(Kube { launcher: None, kubectl: "kubectl".into(), helm: "helm".into(), kubeconfig })
}

fn own(launcher: PathBuf) -> Result<Kube> {
    let output = launch(&launcher, &["paths"]).output().context("cannot run castellan-kube paths")?;
    let found: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("castellan-kube paths did not answer JSON")?;
    let path = |name: &str| {
        let text = found.get(name).and_then(serde_json::Value::as_str);
        text.map(PathBuf::from).with_context(|| format!("castellan-kube paths names no {name}"))
    };
    let (kubectl, helm, kubeconfig) = (path("kubectl")?, path("helm")?, path("kubeconfig")?);
    Ok(Kube { launcher: Some(launcher), kubectl, helm, kubeconfig })
}

/// The cluster to use, if it runs now.
pub fn running() -> Result<Option<Kube>> {
    if is_given() {
        return given().map(Some);
    }
    let launcher = launcher()?;
    let output =
        launch(&launcher, &["status", "--json"]).output().context("cannot run castellan-kube status")?;
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match status.get("up").and_then(serde_json::Value::as_bool) {
        Some(true) => own(launcher).map(Some),
        _ => Ok(None),
    }
}

/// Ends our own Kubernetes and everything on it. Also cleans up after a killed run.
pub fn down_own() -> Result<()> {
    let launcher = launcher()?;
    progress::step("ending Kubernetes");
    command::run_quiet(&mut launch(&launcher, &["down"]))
}

impl Kube {
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub fn is_own(&self) -> bool {
        self.launcher.is_some()
    }

    /// The command that runs our own Kubernetes, when this is it.
    pub fn launcher(&self) -> Option<&Path> {
        self.launcher.as_deref()
    }

    fn client(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut client = command::command(&program.display().to_string(), arguments);
        client.env(GIVEN, &self.kubeconfig);
        client
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Command {
        self.client(&self.kubectl, arguments)
    }

    pub fn helm(&self, arguments: &[&str]) -> Command {
        self.client(&self.helm, arguments)
    }

    /// The command a person types to get what `kubectl` is here.
    pub fn shown_kubectl(&self) -> String {
        match &self.launcher {
            Some(launcher) => format!("{} kubectl", launcher.display()),
            None => "kubectl".into(),
        }
    }

    /// What a kubectl command prints.
    pub fn ask(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl(arguments).output().context("cannot start kubectl")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_string();
            bail!("`kubectl {}` failed: {why}", arguments.join(" "));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    }

    /// Puts the image on every node of our own cluster.
    pub fn import(&self, archive: &Path) -> Result<()> {
        match &self.launcher {
            Some(launcher) => {
                progress::step("putting the image on the nodes");
                command::run_quiet(launch(launcher, &["import"]).arg(archive))
            }
            None => {
                progress::step(format_args!(
                    "this cluster must be able to pull the image itself; its archive is {}",
                    archive.display()
                ));
                Ok(())
            }
        }
    }
}
