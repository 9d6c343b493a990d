//! The table of suites, and what they share: installing once, running, reading the output.

mod clickhouse;
mod go;
mod java;
mod npm;
mod python;
mod rust;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::Context;
use super::command::{self, End};
use super::report::Report;
pub use java::curator_jars;

/// In the order in which they run: short ones first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suite {
    WatchBurst,
    KeeperClient,
    Npm,
    ZkShell,
    Curator,
    GoZk,
    RustZookeeper,
    ZookeeperClient,
    Kazoo,
    Clickhouse,
    Chdb,
}

impl Suite {
    pub const ALL: [Suite; 11] = [
        Suite::WatchBurst,
        Suite::KeeperClient,
        Suite::Npm,
        Suite::ZkShell,
        Suite::Curator,
        Suite::GoZk,
        Suite::RustZookeeper,
        Suite::ZookeeperClient,
        Suite::Kazoo,
        Suite::Clickhouse,
        Suite::Chdb,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Suite::WatchBurst => "watch-burst",
            Suite::KeeperClient => "keeper-client",
            Suite::Npm => "npm",
            Suite::ZkShell => "zk-shell",
            Suite::Curator => "curator",
            Suite::GoZk => "go-zk",
            Suite::RustZookeeper => "rust-zookeeper",
            Suite::ZookeeperClient => "zookeeper-client",
            Suite::Kazoo => "kazoo",
            Suite::Clickhouse => "clickhouse",
            Suite::Chdb => "chdb",
        }
    }

    pub fn about(self) -> &'static str {
        match self {
            Suite::WatchBurst => "a persistent watch sees all of 208 sets of another client",
            Suite::KeeperClient => "our own Rust client: every operation, and sessions that move",
            Suite::Npm => "npm: zookeeper 7.3.0 (the C client), node-zookeeper-client 1.1.3",
            Suite::ZkShell => "PyPI: zk-shell 1.3.4's own tests",
            Suite::Curator => "Java: Apache Curator 5.9.0's recipes, also across a member's death",
            Suite::GoZk => "Go: github.com/go-zookeeper/zk 1.0.4's own tests",
            Suite::RustZookeeper => "crates: zookeeper 0.8.0's and zookeeper-async 5.0.0's own tests",
            Suite::ZookeeperClient => "crate: zookeeper-client 0.11.2's own tests",
            Suite::Kazoo => "PyPI: kazoo 2.11.0's own tests, which start and stop servers",
            Suite::Clickhouse => "two ClickHouse servers 18.16.1 replicate, also across a member's death",
            Suite::Chdb => "PyPI: chdb 4.4.0 (ClickHouse's engine): KeeperMap, series, replicated tables",
        }
    }

    /// Installing not counted. A suite that takes longer than this hangs.
    pub fn time_max(self) -> Duration {
        Duration::from_secs(match self {
            Suite::WatchBurst | Suite::Npm => 120,
            Suite::KeeperClient | Suite::ZkShell | Suite::Chdb => 300,
            Suite::Curator | Suite::Clickhouse => 600,
            Suite::GoZk | Suite::RustZookeeper => 900,
            Suite::ZookeeperClient => 1_500,
            Suite::Kazoo => 1_800,
        })
    }

    /// Together about eight minutes on two cores. Those left out install a ClickHouse of some hundred megabytes, or compile
    /// much and count seconds that a busy machine may not have.
    pub fn in_ci(self) -> bool {
        use Suite::{Chdb, Clickhouse, ZookeeperClient};
        !matches!(self, ZookeeperClient | Clickhouse | Chdb)
    }

    /// Whether members that run already can be given to it.
    pub fn takes_hosts(self) -> bool {
        matches!(self, Suite::KeeperClient | Suite::ZkShell | Suite::Kazoo)
    }

    pub async fn run(self, context: &Context) -> Result<Report> {
        match self {
            Suite::WatchBurst => java::watch_burst(context).await,
            Suite::KeeperClient => rust::keeper_client(context).await,
            Suite::Npm => npm::run(context).await,
            Suite::ZkShell => python::zk_shell(context).await,
            Suite::Curator => java::curator(context).await,
            Suite::GoZk => go::run(context).await,
            Suite::RustZookeeper => rust::zookeeper(context).await,
            Suite::ZookeeperClient => rust::zookeeper_client(context).await,
            Suite::Kazoo => python::kazoo(context).await,
            Suite::Clickhouse => clickhouse::run(context).await,
            Suite::Chdb => python::chdb(context).await,
        }
    }
}

/// Runs `install` unless it was done with the same `recipe` before. The recipe is written last: what lies beside it is
/// whole. Sources of truth are part of it: versions, lists of packages, stand-ins that are copied.
fn once(home: &Path, recipe: &str, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = home.join("installed");
    if std::fs::read_to_string(&done).is_ok_and(|had| had == recipe) {
        return Ok(());
    }
    if home.exists() {
        std::fs::remove_dir_all(home).with_context(|| format!("cannot empty {}", home.display()))?;
    }
    std::fs::create_dir_all(home)?;
    install()?;
    std::fs::write(done, recipe)?;
    Ok(())
}

/// The suite's command with the launcher's variables and a temporary folder of the run's own.
fn command(context: &Context, program: impl AsRef<std::ffi::OsStr>) -> Result<tokio::process::Command> {
    let temporary = context.run.join("tmp");
    std::fs::create_dir_all(&temporary)?;
    let mut command = tokio::process::Command::new(program);
    command.envs(context.launcher.iter().map(|(name, value)| (name, value)));
    command.env("TMPDIR", &temporary).env_remove("CI").current_dir(&context.run);
    // What our own cargo says of xtask would make the suite's cargo build again.
    let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST");
    for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    Ok(command)
}

/// Runs it and returns its output, which stays in `home/NAME.log`. Its exit code is not judged: its tests are.
async fn output(context: &Context, name: &str, mut command: tokio::process::Command) -> Result<String> {
    let log = log(context, name);
    match command::run(&mut command, &log, context.time_max).await? {
        End::Exited => {}
        End::TimedOut => bail!("no end within {} s; see {}", context.time_max.as_secs(), log.display()),
    }
    Ok(String::from_utf8_lossy(&std::fs::read(&log)?).into_owned())
}

fn log(context: &Context, name: &str) -> PathBuf {
    let folder = crate::paths::target().join("conformance/logs");
    // A failure shows when the log is opened.
    let _ = std::fs::create_dir_all(&folder);
    let suite = context.home.file_name().unwrap_or_default().to_string_lossy().into_owned();
    folder.join(if suite == name { format!("{name}.log") } else { format!("{suite}-{name}.log") })
}
