//! `keeper serve`: one member as a process. Two runtimes: the clients', and one apart for consensus.

use crate::config::Config;
use crate::zoo_cfg::founding::Founding;
use anyhow::{Context, Result, bail};
use keeper_consensus::TcpNetwork;
use keeper_log::RealDisk;
use keeper_rt::Pool;
use keeper_server::{AuthOptions, Node, NodeOptions, admin, http, listener};
use std::path::Path;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Threads of consensus: its core, the peers' connections, the state machine.
const CONSENSUS_THREADS: usize = 2;
/// What is left running after the orderly stop gets so long.
const STOP_GRACE: Duration = Duration::from_secs(1);

pub fn consensus_runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(CONSENSUS_THREADS)
        .thread_name("consensus")
        .enable_all()
        .build()
        .context("cannot start the consensus threads")
}

pub fn client_runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name("clients")
        .enable_all()
        .build()
        .context("cannot start the clients' threads")
}

/// Runs one member until SIGTERM or SIGINT, or until consensus fails. `founding`: of a member of a zoo.cfg.
pub fn run(config: &Config, founding: Option<Founding>) -> Result<()> {
    let consensus = consensus_runtime()?;
    let clients = client_runtime()?;
    let pool = Pool::of(consensus.handle().clone());
    let outcome = clients.block_on(async {
        let member = Member::start(config, pool).await?;
        if let Some(founding) = founding {
            keeper_rt::spawn("founding", founding.run(member.node.clone()));
        }
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        tokio::select! {
            biased;
            failure = member.node.failed() => bail!("consensus stopped: {failure}"),
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        }
        member.node.shutdown().await;
        Ok(())
    });
    clients.shutdown_timeout(STOP_GRACE);
    consensus.shutdown_timeout(STOP_GRACE);
    outcome
}

/// A started member and where it listens.
pub struct Member {
    pub node: Node,
}

impl Member {
    pub async fn start(config: &Config, pool: Pool) -> Result<Member> {
        let secret = secret(config.cluster.secret_file.as_deref(), "cluster.secret_file")?;
        let token = secret_text(config.cluster.admin_token_file.as_deref(), "cluster.admin_token_file")?;
        // All sockets before the disk: a port in use says so at once and changes nothing.
        let clients = listener::bind("clients", config.listen.client).await?;
        let admin_socket = listener::bind("admin calls", config.listen.admin).await?;
        let http_socket = listener::bind("HTTP", config.listen.http).await?;
        let data_dir = &config.server.data_dir;
        let disk = RealDisk::open(data_dir)
            .with_context(|| format!("cannot open the data folder {}", data_dir.display()))?;
        let network = TcpNetwork::new(config.listen.peer);
        let options = node_options(config, disk, network, pool, secret)?;
        let node = Node::start(options).await?;
        tracing::info!(name = config.server.name, client = %config.listen.client, peer = %config.listen.peer, "started");
        spawn_servers(&node, clients, admin_socket, http_socket, token);
        Ok(Member { node })
    }
}

fn node_options(
    config: &Config,
    disk: keeper_log::SharedDisk,
    network: std::sync::Arc<dyn keeper_consensus::Network>,
    pool: Pool,
    secret: Vec<u8>,
) -> Result<NodeOptions> {
    let mut options = NodeOptions::new(config.server.name.clone(), disk, network, pool, secret);
    options.expected_cluster = config
        .cluster
        .id
        .as_ref()
        .map(|id| id.parse().map_err(|why: String| anyhow::anyhow!("cluster.id: {why}")))
        .transpose()?;
    options.session_timeout_ms = (config.session.timeout_ms_min, config.session.timeout_ms_max);
    options.frame_bytes_max = config.limits.frame_bytes_max;
    options.connections_max = config.limits.connections_max;
    options.four_letter_words = config.four_letter_words.allow.iter().cloned().collect();
    options.auth = AuthOptions { super_digest: config.auth.super_digest.clone() };
    options.snapshot_log_bytes = config.log.snapshot_log_bytes;
    options.log.segment_bytes = config.log.segment_bytes;
    options.configuration = config.lines();
    Ok(options)
}

fn spawn_servers(
    node: &Node,
    clients: TcpListener,
    admin_socket: TcpListener,
    http_socket: TcpListener,
    token: String,
) {
    keeper_rt::spawn("clients-accept", listener::serve_clients(node.clone(), clients));
    let for_admin = node.clone();
    keeper_rt::spawn("admin", async move {
        if let Err(error) = admin::serve(for_admin, admin_socket, token).await {
            tracing::error!(%error, "the admin server ended");
        }
    });
    let for_http = node.clone();
    keeper_rt::spawn("http", async move {
        if let Err(error) = http::serve(for_http, http_socket).await {
            tracing::error!(%error, "the HTTP server ended");
        }
    });
}

/// Least bytes of a secret that is not to be guessed.
const SECRET_BYTES_MIN: usize = 16;

fn secret(file: Option<&Path>, key: &str) -> Result<Vec<u8>> {
    let file = file
        .with_context(|| format!("{key} is not set: name a file with at least {SECRET_BYTES_MIN} bytes"))?;
    let mut bytes = std::fs::read(file).with_context(|| format!("{key}: cannot read {}", file.display()))?;
    while bytes.last().is_some_and(u8::is_ascii_whitespace) {
        bytes.pop();
    }
    if bytes.len() < SECRET_BYTES_MIN {
        bail!(
            "{key}: {} holds {} bytes, at least {SECRET_BYTES_MIN} are needed",
            file.display(),
            bytes.len()
        );
    }
    Ok(bytes)
}

fn secret_text(file: Option<&Path>, key: &str) -> Result<String> {
    String::from_utf8(secret(file, key)?).with_context(|| format!("{key}: the file is not UTF-8 text"))
}
