//! What the client commands share: hosts, output formats, exit codes.

use super::Failure;
use super::tls::TlsFlags;
use clap::{Args, ValueEnum};
use keeper_client::{Client, ClientError, ErrorCode, Options, Stat, TlsConnector};
use std::io::Write;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
}

/// Where the servers are, and how to answer.
#[derive(Args)]
pub struct Target {
    /// Members' client addresses, with commas between.
    #[arg(long, env = "KEEPER_HOSTS", default_value = "127.0.0.1:2181", value_delimiter = ',')]
    pub hosts: Vec<String>,
    /// Identity to show first: scheme:data, such as digest:user:password. May be repeated.
    #[arg(long)]
    pub auth: Vec<String>,
    /// Longest wait for the whole command, milliseconds.
    #[arg(long, default_value_t = 10_000)]
    pub timeout_ms: u32,
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    #[command(flatten)]
    pub tls: TlsFlags,
}

impl Target {
    pub async fn connect(&self) -> Result<Client, Failure> {
        let identities = self
            .auth
            .iter()
            .map(|identity| {
                identity
                    .split_once(':')
                    .map(|(scheme, data)| (scheme.to_owned(), data.as_bytes().to_vec()))
                    .ok_or_else(|| ClientError::Invalid(format!("--auth {identity}: write scheme:data")))
            })
            .collect::<Result<Vec<_>, ClientError>>()?;
        let options = Options {
            session_timeout_ms: self.timeout_ms.min(i32::MAX as u32) as i32,
            identities,
            ..Options::default()
        };
        match self.tls.open()? {
            None => Ok(Client::connect(&self.hosts, options).await?),
            Some(tls) => Ok(Client::connect_with(TlsConnector(tls), &self.hosts, options).await?),
        }
    }

    pub fn is_json(&self) -> bool {
        self.output == Format::Json
    }
}

pub fn exit_code(error: &ClientError) -> u8 {
    if error.maybe_applied() {
        return 6;
    }
    match error.code() {
        Some(ErrorCode::NoNode) => 3,
        Some(_) => 4,
        None if matches!(error, ClientError::Invalid(_)) => 2,
        None => 5,
    }
}

/// Client commands need no more than one thread.
pub fn block_on(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    crate::telemetry::install("warn");
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

/// Writes to standard output; a reader that left early is no failure.
pub fn print(text: &str) -> std::io::Result<()> {
    print_bytes(text.as_bytes())
}

pub fn print_bytes(bytes: &[u8]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

pub fn print_json(value: &serde_json::Value) -> std::io::Result<()> {
    print(&format!("{value}\n"))
}

pub fn stat_json(stat: &Stat) -> serde_json::Value {
    serde_json::json!({
        "czxid": stat.czxid, "mzxid": stat.mzxid, "pzxid": stat.pzxid,
        "ctime": stat.ctime, "mtime": stat.mtime,
        "version": stat.version, "cversion": stat.cversion, "aversion": stat.aversion,
        "ephemeralOwner": stat.ephemeral_owner,
        "dataLength": stat.data_length, "numChildren": stat.num_children,
    })
}

pub fn stat_text(stat: &Stat) -> String {
    format!(
        "cZxid = {:#x}\nctime = {}\nmZxid = {:#x}\nmtime = {}\npZxid = {:#x}\ncversion = {}\n\
         dataVersion = {}\naclVersion = {}\nephemeralOwner = {:#x}\ndataLength = {}\nnumChildren = {}\n",
        stat.czxid,
        stat.ctime,
        stat.mzxid,
        stat.mtime,
        stat.pzxid,
        stat.cversion,
        stat.version,
        stat.aversion,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
    )
}
