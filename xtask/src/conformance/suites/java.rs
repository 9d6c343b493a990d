//! Java: an own JUnit class over Apache Curator's recipes, and a small program over ZooKeeper's own client.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::super::Context;
use super::super::ensemble::Ensemble;
use super::super::report::{self, Report};
use crate::{command, paths, progress};

const CLASS: &str = "CuratorRecipesTest";

/// Curator, JUnit's console and a logger, brought by Maven once.
pub fn curator_jars() -> Result<PathBuf> {
    let pom = paths::root().join("e2e/conformance/curator/pom.xml");
    let home = paths::target().join("conformance/curator-jars");
    let recipe = std::fs::read_to_string(&pom).with_context(|| format!("cannot read {}", pom.display()))?;
    let jars = home.join("jars");
    super::once(&home, &recipe, || {
        command::need("mvn", "maven")?;
        progress::step("fetching Curator's jars with Maven");
        let output = format!("-DoutputDirectory={}", jars.display());
        let pom = pom.display().to_string();
        command::run_quiet(&mut command::command(
            "mvn",
            &["-B", "-q", "-f", &pom, "dependency:copy-dependencies", &output],
        ))
        .context("cannot fetch Curator's jars; is Maven Central reachable?")
    })?;
    Ok(jars)
}

pub async fn curator(context: &Context) -> Result<Report> {
    command::need("javac", "default-jdk-headless")?;
    let jars = format!("{}/*", curator_jars()?.display());
    let classes = context.run.join("classes").display().to_string();
    let source = context.glue.join(format!("{CLASS}.java")).display().to_string();
    command::run_quiet(&mut command::command("javac", &["-nowarn", "-d", &classes, "-cp", &jars, &source]))?;
    let ensemble = Ensemble::start(context).await?;
    let mut command = super::command(context, "java")?;
    command.args(["-Xmx512m", "-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]);
    command.arg(format!("-Dcastellan.hosts={}", ensemble.connect_string()));
    command.arg(format!("-Dcastellan.pids={}", ensemble.pids()));
    command.args([
        "-cp",
        &format!("{classes}:{jars}"),
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
    ]);
    command.args(["--details=testfeed", "--disable-banner", "--disable-ansi-colors"]);
    match context.only.first() {
        Some(method) => command.args(["--select-method", &format!("{CLASS}#{method}")]),
        None => command.args(["--select-class", CLASS]),
    };
    report::junit(&super::output(context, "curator", command).await?).some("JUnit")
}

/// One source file, run as it is.
pub async fn watch_burst(context: &Context) -> Result<Report> {
    command::need("javac", "default-jdk-headless")?;
    let jars = format!("{}/*", curator_jars()?.display());
    let ensemble = Ensemble::start(context).await?;
    let mut command = super::command(context, "java")?;
    command.args(["-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", &jars]);
    command.arg(context.glue.join("WatchBurst.java")).arg(ensemble.connect_string());
    report::tap(&super::output(context, "watch-burst", command).await?).some("the burst")
}
