//! The commands, their flags, and what their exit codes mean.

mod bench;
mod data;
mod files;
mod member;
mod output;
mod status;
mod tls;

use crate::config::{Config, ConfigError};
use crate::zoo_cfg::ZooCfg;
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};

/// A coordination server that speaks ZooKeeper's protocol.
///
/// Exit codes: 0 done; 1 failed; 2 wrong usage; 3 the node does not exist; 4 the server refused;
/// 5 nobody could be reached in time, nothing was applied; 6 the outcome of a write is unknown.
#[derive(Parser)]
#[command(version, name = "keeper")]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one member.
    Serve(Serve),
    /// Run three members on loopback, for development.
    Dev(crate::dev::Dev),
    /// Show who leads, who follows and how far.
    Status(status::StatusCommand),
    /// Membership: bootstrap, add, promote, remove, transfer.
    Member(member::MemberCommand),
    /// Show or check the log in a stopped member's data folder.
    #[command(subcommand)]
    Log(files::LogCommand),
    /// Show or check the snapshots in a stopped member's data folder.
    #[command(subcommand)]
    Snapshot(files::SnapshotCommand),
    /// Print a node's data.
    Get(data::Get),
    /// Change a node's data.
    Set(data::Set),
    /// Create a node.
    Create(data::Create),
    /// List a node's children.
    Ls(data::Ls),
    /// Delete a node, with all below it if asked.
    Rm(data::Rm),
    /// Show a node's Stat.
    Stat(data::StatCommand),
    /// Put load on any server that speaks ZooKeeper's protocol, and measure it.
    Bench(Box<bench::Bench>),
}

#[derive(Args)]
struct Serve {
    /// The TOML file (docs/configuration.md).
    #[arg(long, env = "KEEPER_CONFIG", required_unless_present = "zoo_cfg")]
    config: Option<PathBuf>,
    /// ZooKeeper's configuration file instead, with -D flags in SERVER_JVMFLAGS and JVMFLAGS (docs/zoo-cfg.md).
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    zoo_cfg: Option<PathBuf>,
    /// Lay one value over file and environment: section.key=value. May be repeated.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Check the configuration, say what it is, and start nothing.
    #[arg(long)]
    check: bool,
}

/// A failure and its exit code.
pub struct Failure {
    pub error: anyhow::Error,
    pub code: u8,
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Failure {
        let error = error.into();
        let code = error.downcast_ref::<keeper_client::ClientError>().map_or(1, output::exit_code);
        Failure { error, code }
    }
}

impl Cli {
    pub fn run(self) -> Result<(), Failure> {
        match self.command {
            Command::Serve(serve) => serve.run(),
            Command::Dev(dev) => Ok(dev.run()?),
            Command::Status(command) => output::block_on(command.run()),
            Command::Member(command) => output::block_on(command.run()),
            Command::Log(command) => output::block_on(command.run()),
            Command::Snapshot(command) => output::block_on(command.run()),
            Command::Get(command) => output::block_on(command.run()),
            Command::Set(command) => output::block_on(command.run()),
            Command::Create(command) => output::block_on(command.run()),
            Command::Ls(command) => output::block_on(command.run()),
            Command::Rm(command) => output::block_on(command.run()),
            Command::Stat(command) => output::block_on(command.run()),
            Command::Bench(command) => command.run(),
        }
    }
}

impl Serve {
    fn run(&self) -> Result<(), Failure> {
        let wrong = |error: ConfigError| Failure { error: error.into(), code: 2 };
        match (&self.zoo_cfg, &self.config) {
            (Some(file), _) => self.run_zoo_cfg(file),
            (None, Some(file)) => {
                let config = Config::load(file, std::env::vars(), &self.set).map_err(wrong)?;
                if self.check {
                    return show(file, &config, &[]);
                }
                crate::telemetry::install("info");
                Ok(crate::serve::run(&config, None)?)
            }
            (None, None) => Err(anyhow::anyhow!("--config or --zoo-cfg is needed").into()),
        }
    }

    fn run_zoo_cfg(&self, file: &Path) -> Result<(), Failure> {
        let wrong = |error: ConfigError| Failure { error: error.into(), code: 2 };
        let zoo_cfg =
            ZooCfg::load(file, |name| std::env::var(name).ok()).map_err(|error| wrong(error.into()))?;
        let config = zoo_cfg.config().map_err(|error| wrong(error.into()))?;
        let name = file.display().to_string();
        let config = config.overlaid(&name, std::env::vars(), &self.set).map_err(wrong)?;
        if self.check {
            let notes: Vec<String> = zoo_cfg.warnings.iter().chain(&zoo_cfg.remarks).cloned().collect();
            return show(file, &config, &notes);
        }
        crate::telemetry::install("info");
        zoo_cfg.log();
        zoo_cfg.prepare().map_err(|error| wrong(error.into()))?;
        Ok(crate::serve::run(&config, Some(zoo_cfg.founding()))?)
    }
}

/// The checked configuration as TOML, with what was to be said about it.
fn show(file: &Path, config: &Config, notes: &[String]) -> Result<(), Failure> {
    let notes: String = notes.iter().map(|note| format!("# {note}\n")).collect();
    let text = toml::to_string_pretty(config)?;
    Ok(output::print(&format!("# {} is good:\n{notes}{text}", file.display()))?)
}
