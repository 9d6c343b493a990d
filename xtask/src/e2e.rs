//! `e2e`: the scenarios of `e2e/scenarios` on a real Kubernetes.

use anyhow::{Result, bail};
use clap::Args;

use crate::kube::Kube;
use crate::test::Counts;
use crate::{command, paths, progress, test, up};

#[derive(Args)]
pub struct Arguments {
    /// Scenarios such as leader-kill; all of them when none is named
    names: Vec<String>,
    /// Shorter loads, as in CI
    #[arg(long)]
    short: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let kube = up::install()?;
    let counts = run_on(&kube, &arguments.names, arguments.short)?;
    match counts.failed {
        0 => Ok(()),
        failed => bail!("{failed} scenarios failed"),
    }
}

/// Runs scenarios on a cluster that has the operator.
pub fn run_on(kube: &Kube, names: &[String], short: bool) -> Result<Counts> {
    progress::step(match names.is_empty() {
        true => "running all scenarios".to_string(),
        false => format!("running {}", names.join(", ")),
    });
    let mut words = vec!["run", "--quiet", "--package", "castellan-e2e", "--"];
    if short {
        words.push("--short");
    }
    words.extend(names.iter().map(String::as_str));
    let mut cargo = command::cargo(&words);
    cargo.env("KUBECONFIG", kube.kubeconfig());
    if let Some(launcher) = kube.launcher() {
        cargo.env("CASTELLAN_KUBE", launcher);
    }
    cargo.env("CASTELLAN_OUT", paths::target().join("e2e"));
    test::counted(&mut cargo, scenario_line)
}

/// `PASSED name …` or `FAILED name …`, as the scenarios' program prints it.
fn scenario_line(line: &str) -> Option<Counts> {
    let passed = u64::from(line.starts_with("PASSED "));
    let failed = u64::from(line.starts_with("FAILED "));
    (passed + failed > 0).then_some(Counts { passed, failed })
}
