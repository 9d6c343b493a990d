//! `keeper serve`: one member as a process. Its clients have threads apart from consensus (`runtimes.rs`).

use crate::config::{Auth, Config};
use crate::runtimes::{ConsensusThread, STOP_GRACE, client_runtime};
use crate::users;
use crate::zoo_cfg::founding::Founding;
use anyhow::{Context, Result, bail};
use keeper_consensus::TcpNetwork;
use keeper_log::RealDisk;
use keeper_rt::Pool;
use keeper_server::auth::Secret;
use keeper_server::listener::TlsClients;
use keeper_server::{AuthOptions, Node, NodeOptions, Rules, TlsCollector, admin, http, listener};
use keeper_tls::{Port, Tls, TlsConfig};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// Runs one member until SIGTERM or SIGINT, or until consensus fails. `founding`: of a member of a zoo.cfg.
pub fn run(config: &Config, founding: Option<Founding>) -> Result<()> {
    let consensus = ConsensusThread::start()?;
    let clients = client_runtime()?;
    let pool = consensus.pool();
    let outcome = clients.block_on(async {
        let member = Member::start(config, pool).await?;
        if let Some(founding) = founding {
            keeper_rt::spawn("founding", founding.run(member.node.clone(), member.tls.admin.clone()));
        }
        let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
        let mut hang_up = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
        loop {
            tokio::select! {
                biased;
                failure = member.node.failed() => bail!("consensus stopped: {failure}"),
                _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
                _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
                _ = hang_up.recv() => {
                    tracing::info!("SIGHUP: looking at the certificate files");
                    member.tls.ports().iter().for_each(|tls| tls.look_now());
                    continue;
                }
            }
            break;
        }
        member.node.shutdown().await;
        Ok(())
    });
    clients.shutdown_timeout(STOP_GRACE);
    drop(consensus);
    outcome
}

/// A started member.
pub struct Member {
    pub node: Node,
    tls: TlsPorts,
}

/// The TLS of each port that has it.
struct TlsPorts {
    client: Option<Arc<Tls>>,
    peer: Option<Arc<Tls>>,
    admin: Option<Arc<Tls>>,
}

impl TlsPorts {
    fn open(config: &Config) -> Result<TlsPorts> {
        let open = |port, section: &str, config: &Option<TlsConfig>| {
            let tls = config.as_ref().map(|config| Tls::open(port, config)).transpose();
            tls.with_context(|| format!("[{section}] cannot be used"))
        };
        let ports = TlsPorts {
            client: open(Port::Client, "tls", &config.tls)?,
            peer: open(Port::Peer, "peer_tls", &config.peer_tls)?,
            admin: open(Port::Admin, "admin_tls", &config.admin_tls)?,
        };
        ports.ports().iter().for_each(Tls::watch);
        Ok(ports)
    }

    fn ports(&self) -> Vec<Arc<Tls>> {
        [&self.client, &self.peer, &self.admin].into_iter().flatten().cloned().collect()
    }
}

/// The sockets of a member, bound.
struct Sockets {
    client: Option<TcpListener>,
    client_tls: Option<TcpListener>,
    admin: TcpListener,
    http: TcpListener,
    metrics: Option<TcpListener>,
}

impl Sockets {
    async fn bind(listen: &crate::config::Listen) -> Result<Sockets> {
        let client = match listen.plain_client() {
            Some(address) => Some(listener::bind("clients", address).await?),
            None => None,
        };
        let client_tls = match listen.client_tls {
            Some(address) => Some(listener::bind("clients with TLS", address).await?),
            None => None,
        };
        let admin = listener::bind("admin calls", listen.admin).await?;
        let http = listener::bind("HTTP", listen.http).await?;
        let metrics = match listen.metrics {
            Some(address) => Some(listener::bind("metrics", address).await?),
            None => None,
        };
        Ok(Sockets { client, client_tls, admin, http, metrics })
    }
}

impl Member {
    pub async fn start(config: &Config, pool: Pool) -> Result<Member> {
        let secret = secret(config.cluster.secret_file.as_deref(), "cluster.secret_file")?;
        let token = secret_text(config.cluster.admin_token_file.as_deref(), "cluster.admin_token_file")?;
        let tls = TlsPorts::open(config)?;
        // All sockets before the disk: a port in use says so at once and changes nothing.
        let sockets = Sockets::bind(&config.listen).await?;
        let data_dir = &config.server.data_dir;
        let disk = RealDisk::open(data_dir)
            .with_context(|| format!("cannot open the data folder {}", data_dir.display()))?;
        let network = match &tls.peer {
            None => TcpNetwork::new(config.listen.peer),
            Some(tls) => TcpNetwork::with_tls(config.listen.peer, tls.clone()),
        };
        let options = node_options(config, disk, network, pool, secret)?;
        let node = Node::start(options).await?;
        let (client, client_tls) = (config.listen.plain_client(), config.listen.client_tls);
        tracing::info!(name = config.server.name, ?client, ?client_tls, peer = %config.listen.peer, "started");
        spawn_servers(&node, sockets, &tls, config, token);
        Ok(Member { node, tls })
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
    options.connections_per_address_max = config.limits.connections_per_address_max;
    options.memory_soft_bytes = config.limits.memory_soft_bytes();
    options.four_letter_words = config.four_letter_words.allow.iter().cloned().collect();
    options.auth = auth_options(&config.auth)?;
    options.rules = Rules {
        enforce_quota: config.quota.enforce,
        reconfig: config.reconfig.enabled,
        read_only: config.read_only.enabled,
    };
    options.features = config.features.offered();
    options.ttl_period = Duration::from_millis(config.cleanup.ttl_period_ms);
    options.container_period = Duration::from_millis(config.cleanup.container_period_ms);
    options.snapshot_log_bytes = config.log.snapshot_log_bytes;
    options.log.segment_bytes = config.log.segment_bytes;
    options.configuration = config.lines();
    Ok(options)
}

fn auth_options(config: &Auth) -> Result<AuthOptions> {
    let mut required_schemes: BTreeSet<String> = config.require_schemes.iter().cloned().collect();
    required_schemes.extend(config.require_sasl.then(|| "sasl".to_owned()));
    Ok(AuthOptions {
        super_digest: config.super_digest.clone(),
        sasl_users: config.sasl_users_file.as_deref().map(users::follow).transpose()?,
        super_users: config.super_user.iter().cloned().collect(),
        required_schemes,
        allow_failed_sasl: config.allow_failed_sasl,
        clickhouse_password: config.clickhouse_password.as_deref().and_then(Secret::for_clickhouse),
        skip_acl: config.skip_acl,
        unredacted_acl: !config.redact_acl,
    })
}

fn spawn_servers(node: &Node, sockets: Sockets, tls: &TlsPorts, config: &Config, token: String) {
    let Sockets { client, client_tls, admin: admin_socket, http: http_socket, metrics } = sockets;
    let super_subject = config.auth.x509_super.clone();
    let tls_clients = tls.client.clone().map(|tls| TlsClients { tls, super_subject });
    if let Some(socket) = client {
        let unified = tls_clients.clone().filter(|_| config.listen.client_takes_tls);
        keeper_rt::spawn("clients-accept", listener::serve_clients(node.clone(), socket, unified));
    }
    if let (Some(socket), Some(clients)) = (client_tls, tls_clients) {
        keeper_rt::spawn("clients-accept", listener::serve_tls_clients(node.clone(), socket, clients));
    }
    node.shared().metrics.collect_from(Box::new(TlsCollector::new(tls.ports())));
    let (for_admin, admin_tls) = (node.clone(), tls.admin.clone());
    keeper_rt::spawn("admin", async move {
        if let Err(error) = admin::serve(for_admin, admin_socket, token, admin_tls).await {
            tracing::error!(%error, "the admin server ended");
        }
    });
    let for_http = node.clone();
    keeper_rt::spawn("http", async move {
        if let Err(error) = http::serve(for_http, http_socket).await {
            tracing::error!(%error, "the HTTP server ended");
        }
    });
    let Some(socket) = metrics else { return };
    let for_metrics = node.clone();
    keeper_rt::spawn("metrics", async move {
        if let Err(error) = http::serve_metrics(for_metrics, socket).await {
            tracing::error!(%error, "the server of metrics ended");
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
