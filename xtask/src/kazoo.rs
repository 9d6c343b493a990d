//! `kazoo`: the test files of the Python client kazoo, untouched, against running members.
//!
//! Python packages live in a virtual environment under `target/`, made once and again when the list of them changes.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::local::{self, Kind};
use crate::{command, paths, progress, up};

#[derive(Args, Default)]
pub struct Arguments {
    /// Members that run already, such as 127.0.0.1:2181,127.0.0.1:2182; without it a local cluster is started
    #[arg(long, value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// What to start when no hosts are given
    #[arg(long, value_enum, default_value = "keeper")]
    pub kind: Kind,
    /// Use this keeper binary instead of building one
    #[arg(long)]
    pub binary: Option<PathBuf>,
    /// Run against the pods of the KeeperCluster that `cargo xtask up` makes
    #[arg(long, conflicts_with = "hosts")]
    pub kubernetes: bool,
    /// Only the basic files: client, watchers, lock, queue, barrier, connection, counter, election, party
    #[arg(long)]
    pub basic: bool,
    /// Test files such as test_lock.py, or FILE::CLASS::TEST; all of them when none is named
    pub tests: Vec<String>,
}

/// Release of kazoo whose tests run.
const VERSION: &str = "2.11.0";
const TEST_TIMEOUT_SECONDS: &str = "90";
const BASIC: [&str; 9] = [
    "test_client.py",
    "test_watchers.py",
    "test_lock.py",
    "test_queue.py",
    "test_barrier.py",
    "test_connection.py",
    "test_counter.py",
    "test_election.py",
    "test_party.py",
];

/// What a run ended with, as pytest's last line says.
pub struct Outcome {
    pub passed: u64,
    pub failed: u64,
    pub summary: String,
}

pub async fn run(arguments: &Arguments) -> Result<()> {
    let outcome = run_tests(arguments).await?;
    println!("{}", outcome.summary);
    if outcome.failed > 0 {
        bail!("{} of kazoo's tests failed", outcome.failed);
    }
    Ok(())
}

pub async fn run_tests(arguments: &Arguments) -> Result<Outcome> {
    let home = prepare()?;
    if arguments.kubernetes {
        let hosts = up::create_sample(&up::install()?)?;
        return pytest(&home, &hosts, arguments).await;
    }
    if !arguments.hosts.is_empty() {
        return pytest(&home, &arguments.hosts, arguments).await;
    }
    let folder = paths::fresh("kazoo")?;
    let mut cluster = local::start(arguments.kind, arguments.binary.clone(), &folder).await?;
    let hosts: Vec<String> = cluster.hosts().iter().map(ToString::to_string).collect();
    let outcome = pytest(&home, &hosts, arguments).await?;
    cluster.check_alive().context("a member died under kazoo's tests")?;
    if outcome.failed == 0 {
        drop(cluster);
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(outcome)
}

/// The folder that holds the virtual environment and kazoo's sources.
pub fn prepare() -> Result<PathBuf> {
    let requirements = paths::root().join("e2e/kazoo/requirements.txt");
    let wanted =
        std::fs::read(&requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
    let home = paths::target().join("kazoo");
    // Written last: the environment beside it is whole.
    let done = home.join("requirements.txt");
    if std::fs::read(&done).is_ok_and(|had| had == wanted) {
        return Ok(home);
    }
    progress::step("making the Python environment for kazoo's tests");
    command::need("python3", "python3")?;
    if home.exists() {
        std::fs::remove_dir_all(&home)?;
    }
    std::fs::create_dir_all(&home)?;
    make_environment(&home)?;
    let pip = home.join("venv/bin/pip").display().to_string();
    let requirements = requirements.display().to_string();
    let quiet = ["--quiet", "--disable-pip-version-check"];
    let run_pip = |arguments: &[&str]| {
        command::run_quiet(&mut command::command(&pip, &[arguments, &quiet].concat()))
            .context("cannot install Python packages; is PyPI reachable?")
    };
    run_pip(&["install", "--requirement", &requirements])?;
    let source = home.display().to_string();
    let kazoo = format!("kazoo=={VERSION}");
    run_pip(&[
        "download",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--no-build-isolation",
        "--dest",
        &source,
        &kazoo,
    ])?;
    let archive = home.join(format!("kazoo-{VERSION}.tar.gz")).display().to_string();
    command::run_quiet(&mut command::command("tar", &["-xzf", &archive, "-C", &source]))?;
    run_pip(&["install", "--no-deps", "--no-build-isolation", &archive])?;
    std::fs::write(&done, wanted)?;
    Ok(home)
}

/// A virtual environment in `home/venv`.
pub fn make_environment(home: &Path) -> Result<()> {
    let folder = home.join("venv").display().to_string();
    let make = || command::run_quiet(&mut command::command("python3", &["-m", "venv", &folder]));
    if make().is_ok() {
        return Ok(());
    }
    // Debian keeps venv apart from python3.
    progress::step("installing the Debian package python3-venv");
    command::apt_install("python3-venv")?;
    make().context("cannot make a Python environment; on Debian: `apt-get install python3-venv`")
}

/// kazoo's sources below the folder that [`prepare`] returns.
pub fn source() -> String {
    format!("kazoo-{VERSION}")
}

async fn pytest(home: &Path, hosts: &[String], arguments: &Arguments) -> Result<Outcome> {
    let source = home.join(source());
    let mut tests = arguments.tests.clone();
    if tests.is_empty() && arguments.basic {
        tests = BASIC.map(String::from).to_vec();
    }
    let tests: Vec<String> = match tests.is_empty() {
        true => vec!["kazoo/tests".into()],
        false => tests.into_iter().map(|test| format!("kazoo/tests/{test}")).collect(),
    };
    let log = home.join("last-run.log");
    progress::step(format_args!("running kazoo's tests; output in {}", log.display()));
    let file = std::fs::File::create(&log)?;
    let mut command = tokio::process::Command::new(home.join("venv/bin/python"));
    // kazoo's own settings log every line and colour the rest.
    command.args(["-m", "pytest", "-p", "castellan_kazoo", "-p", "no:cacheprovider", "-o", "addopts="]);
    command.args(["-o", "log_cli=false", "-q", "-rfE", "--tb=short", "--timeout", TEST_TIMEOUT_SECONDS]);
    command.args(tests).current_dir(&source).env("CASTELLAN_HOSTS", hosts.join(","));
    command.env("PYTHONPATH", paths::root().join("e2e/kazoo")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env_remove("CI").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let status = command.status().await.context("cannot start pytest")?;
    let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let outcome =
        read_outcome(&text).with_context(|| format!("pytest ended with {status}; see {}", log.display()))?;
    if !status.success() && outcome.failed == 0 {
        bail!("pytest ended with {status}:\n{}", outcome.summary);
    }
    Ok(outcome)
}

/// Cuts the plugin's table and pytest's closing lines out of its output.
fn read_outcome(text: &str) -> Option<Outcome> {
    let from = text.find("kazoo's own tests against")?;
    // Threads that outlive their test go on logging: only these lines are the summary.
    let wanted = |line: &&str| {
        ["kazoo's own", "  test_", "ERROR", "FAILED"].iter().any(|start| line.starts_with(start))
    };
    let table: Vec<&str> = text[from..].lines().filter(wanted).collect();
    let closing = text.lines().rev().find(|line| line.contains(" passed") && line.contains(" in "))?;
    let count = |word: &str| {
        let words: Vec<&str> = closing.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let at = words.iter().position(|found| *found == word)?;
        words.get(at.checked_sub(1)?)?.parse::<u64>().ok()
    };
    let closing = closing.trim_matches(['=', ' ']);
    let failed = count("failed").unwrap_or(0) + count("errors").or_else(|| count("error")).unwrap_or(0);
    Some(Outcome {
        passed: count("passed").unwrap_or(0),
        failed,
        summary: format!("{}\n{closing}", table.join("\n")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_those_of_the_closing_line() {
        let text = "...\nkazoo's own tests against a:1:\n  test_lock.py  31 passed\nTransition to CONNECTING\n\
                    FAILED kazoo/tests/test_lock.py::A::b\n2 failed, 474 passed, 3 skipped, 1 error in 178.10s\nSession lost\n";
        let outcome = read_outcome(text).unwrap();
        assert_eq!((outcome.passed, outcome.failed), (474, 3));
        assert!(outcome.summary.contains("test_lock.py  31") && !outcome.summary.contains("Transition"));
    }

    #[test]
    fn output_without_a_closing_line_is_no_outcome() {
        assert!(read_outcome("ImportError").is_none());
    }
}
