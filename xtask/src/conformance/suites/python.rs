//! Suites in Python, each in a virtual environment of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::super::Context;
use super::super::ensemble::Ensemble;
use super::super::report::{self, Report};
use crate::{command, paths, progress};

/// One test may take so long; kazoo's own limit is higher than its longest test by much less.
const TEST_SECONDS_MAX: &str = "180";

/// kazoo's tests.
pub async fn kazoo(context: &Context) -> Result<Report> {
    let tests = match context.only.is_empty() {
        true => vec!["kazoo/tests".to_owned()],
        false => context.only.iter().map(|test| format!("kazoo/tests/{test}")).collect(),
    };
    pytest(context, "kazoo", "2.11.0", &tests).await
}

/// zk-shell's tests use kazoo's harness, and so the same plugin.
pub async fn zk_shell(context: &Context) -> Result<Report> {
    let tests = match context.only.is_empty() {
        true => vec!["zk_shell/tests".to_owned()],
        false => context.only.clone(),
    };
    pytest(context, "zk-shell", "1.3.4", &tests).await
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

/// Tests that lie in a package's source distribution, under kazoo's harness; with `--hosts` against those members.
async fn pytest(context: &Context, package: &str, version: &str, tests: &[String]) -> Result<Report> {
    let requirements = context.glue.join("requirements.txt");
    super::once(&context.home, &read(&requirements)?, || {
        progress::step(format_args!("making the Python environment for {package}"));
        let pip = make_environment(&context.home, &requirements)?;
        unpack(&pip, &context.home, package, version)
    })?;
    let results = context.run.join("results");
    let mut command = super::command(context, context.home.join("venv/bin/python"))?;
    // kazoo's own settings log every line and colour the rest.
    command.args(["-m", "pytest", "-p", "conformance_kazoo", "-p", "no:cacheprovider", "-o", "addopts="]);
    command.args(["-o", "log_cli=false", "-q", "-rfE", "--tb=short", "--timeout", TEST_SECONDS_MAX]);
    command.args(tests).current_dir(context.home.join(format!("{package}-{version}")));
    let plugin = paths::root().join("e2e/conformance/kazoo");
    command.env("PYTHONPATH", plugin).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("CASTELLAN_RESULTS", &results).env("CASTELLAN_HOSTS", context.hosts.join(","));
    let exclusions = context.glue.join("exclusions.txt");
    if exclusions.exists() {
        command.env("CASTELLAN_EXCLUSIONS", exclusions);
    }
    super::output(context, package, command).await?;
    let text = read(&results).context("pytest wrote no results: see its log in target/conformance/logs")?;
    report::lines(&text).some("pytest")
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// `home/venv` with the listed packages; returns its pip.
fn make_environment(home: &Path, requirements: &Path) -> Result<PathBuf> {
    command::need("python3", "python3")?;
    let folder = home.join("venv").display().to_string();
    let make = || command::run_quiet(&mut command::command("python3", &["-m", "venv", &folder]));
    if make().is_err() {
        // Debian keeps venv apart from python3.
        progress::step("installing the Debian package python3-venv");
        command::apt_install("python3-venv")?;
        make().context("cannot make a Python environment; on Debian: `apt-get install python3-venv`")?;
    }
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
