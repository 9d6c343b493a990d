//! npm: the package `zookeeper` brings its tests (ava); `node-zookeeper-client` is used by a script of ours.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::super::Context;
use super::super::ensemble::Ensemble;
use super::super::report::{self, Report};
use crate::{command, progress};

pub async fn run(context: &Context) -> Result<Report> {
    command::need("npm", "npm")?;
    let package = std::fs::read_to_string(context.glue.join("package.json"))?;
    super::once(&context.home, &package, || install(&context.home, &package))?;
    let ensemble = Ensemble::start(context).await?;
    let host = ensemble.hosts[0].to_string();
    let mut report = Report::default();
    for (part, files) in [("unit", "tests/unit/**/*.js"), ("integration", "tests/integration/*.js")] {
        let mut command = super::command(context, context.home.join("node_modules/.bin/ava"))?;
        command.args(["--tap", files, "--"]).arg(&host).current_dir(context.home.join("zookeeper"));
        let text = super::output(context, part, command).await?;
        report.join(&format!("{part}: "), report::tap(&text).some("ava")?);
    }
    let mut command = super::command(context, "node")?;
    command.arg(context.glue.join("pure_client.js")).arg(&host);
    command.env("NODE_PATH", context.home.join("node_modules"));
    let text = super::output(context, "pure-client", command).await?;
    report.join("node-zookeeper-client: ", report::tap(&text).some("the script")?);
    Ok(report)
}

/// Packages with their native part built; the package under test is copied out of `node_modules`, where ava runs
/// nothing.
fn install(home: &Path, package: &str) -> Result<()> {
    progress::step("installing npm's packages; one of them compiles the C client");
    std::fs::write(home.join("package.json"), package)?;
    let mut npm = command::command("npm", &["install", "--no-audit", "--no-fund", "--loglevel=error"]);
    command::run_quiet(npm.current_dir(home))
        .context("cannot install npm's packages; is the npm registry reachable?")?;
    let from = home.join("node_modules/zookeeper").display().to_string();
    let to = home.join("zookeeper").display().to_string();
    command::run_quiet(&mut command::command("cp", &["-r", &from, &to]))
}
