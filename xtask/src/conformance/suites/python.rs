//! Suites in Python, each in a virtual environment of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::super::Context;
use super::super::ensemble::Ensemble;
use super::super::report::{self, Report};
use crate::{command, kazoo as environment, paths, progress};

/// One test may take so long; kazoo's own limit is higher than its longest test by much less.
const TEST_SECONDS_MAX: &str = "180";

/// kazoo's tests; with `--hosts` against those members.
pub async fn kazoo(context: &Context) -> Result<Report> {
    let home = environment::prepare()?;
    let tests = match context.only.is_empty() {
        true => vec!["kazoo/tests".to_owned()],
        false => context.only.iter().map(|test| format!("kazoo/tests/{test}")).collect(),
    };
    pytest(context, &home.join("venv"), &home.join(environment::source()), &tests).await
}

/// zk-shell's tests use kazoo's harness, and so the same plugin.
pub async fn zk_shell(context: &Context) -> Result<Report> {
    let requirements = read(&context.glue.join("requirements.txt"))?;
    super::once(&context.home, &requirements, || {
        progress::step("making the Python environment for zk-shell");
        let pip = make_environment(&context.home, &context.glue.join("requirements.txt"))?;
        unpack(&pip, &context.home, "zk-shell", "1.3.4")
    })?;
    let source = context.home.join("zk-shell-1.3.4");
    let tests = match context.only.is_empty() {
        true => vec!["zk_shell/tests".to_owned()],
        false => context.only.clone(),
    };
    pytest(context, &context.home.join("venv"), &source, &tests).await
}

pub async fn chdb(context: &Context) -> Result<Report> {
    let requirements = read(&context.glue.join("requirements.txt"))?;
    super::once(&context.home, &requirements, || {
        progress::step("installing chdb (some hundred megabytes)");
        make_environment(&context.home, &context.glue.join("requirements.txt")).map(drop)
    })?;
    let ensemble = Ensemble::start(context).await?;
    let data = context.run.join("chdb");
    std::fs::create_dir_all(&data)?;
    let mut command = super::command(context, context.home.join("venv/bin/python"))?;
    command.arg(context.glue.join("chdb_checks.py")).arg(&data).arg(ensemble.connect_string());
    report::tap(&super::output(context, "chdb", command).await?).some("chdb")
}

async fn pytest(context: &Context, venv: &Path, source: &Path, tests: &[String]) -> Result<Report> {
    let results = context.run.join("results");
    let mut command = super::command(context, venv.join("bin/python"))?;
    command.args(["-m", "pytest", "-p", "conformance_kazoo", "-p", "no:cacheprovider", "-o", "addopts="]);
    command.args(["-o", "log_cli=false", "-q", "-rfE", "--tb=short", "--timeout", TEST_SECONDS_MAX]);
    command.args(tests).current_dir(source);
    command
        .env("PYTHONPATH", paths::root().join("e2e/conformance/kazoo"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("CASTELLAN_RESULTS", &results).env("CASTELLAN_HOSTS", context.hosts.join(","));
    let name = context.glue.file_name().unwrap_or_default().to_string_lossy().into_owned();
    super::output(context, &name, command).await?;
    let text = read(&results).context("pytest wrote no results: see its log in target/conformance/logs")?;
    report::lines(&text).some("pytest")
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// `home/venv` with the listed packages; returns its pip.
fn make_environment(home: &Path, requirements: &Path) -> Result<PathBuf> {
    command::need("python3", "python3")?;
    environment::make_environment(home)?;
    let pip = home.join("venv/bin/pip");
    let requirements = requirements.display().to_string();
    run_pip(&pip, &["install", "--requirement", &requirements])?;
    Ok(pip)
}

/// Installs a package from its source distribution and leaves the source, with its tests, in `home`.
fn unpack(pip: &Path, home: &Path, package: &str, version: &str) -> Result<()> {
    let folder = home.display().to_string();
    let wanted = format!("{package}=={version}");
    let source = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation"];
    run_pip(pip, &[&["download", "--dest", &folder, &wanted], &source[..]].concat())?;
    let archives = std::fs::read_dir(home)?.flatten().map(|entry| entry.path());
    let archive = archives.into_iter().find(|path| path.to_string_lossy().ends_with(".tar.gz"));
    let archive = archive.context("pip downloaded no archive")?.display().to_string();
    command::run_quiet(&mut command::command("tar", &["-xzf", &archive, "-C", &folder]))?;
    // Archives name themselves with `_` since some release of the packaging tools.
    let (dashed, lined) =
        (format!("{package}-{version}"), format!("{}-{version}", package.replace('-', "_")));
    if !home.join(&dashed).exists() {
        std::fs::rename(home.join(lined), home.join(dashed))?;
    }
    run_pip(pip, &["install", "--no-deps", "--no-build-isolation", &archive])
}

fn run_pip(pip: &Path, arguments: &[&str]) -> Result<()> {
    let arguments = [arguments, &["--quiet", "--disable-pip-version-check"]].concat();
    command::run_quiet(&mut command::command(&pip.display().to_string(), &arguments))
        .context("cannot install Python packages; is PyPI reachable?")
}
