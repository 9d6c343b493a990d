//! `keeper-operator`: the process. Reads its settings, takes part in the election, and reconciles while it leads.
// It runs outside the simulator's reach: time and sockets are tokio's own.
#![allow(clippy::disallowed_methods)]

use std::{net::SocketAddr, process::ExitCode, sync::Arc};

use anyhow::Context;
use castellan_api::{KeeperCluster, install};
use clap::{Args, Parser, Subcommand};
use keeper_operator::{
    cluster::{build::Surroundings, decide::Defaults},
    controller::{self, Shared},
    http,
    lease::Election,
    member::GrpcAdmin,
    metrics::Metrics,
};
use kube::{Api, Client, api::ListParams};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Runs clusters of keeper servers on Kubernetes.
#[derive(Parser)]
#[command(name = "keeper-operator", version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Subcommand)]
enum Command {
    /// Print the definitions of our kinds as YAML.
    Crds,
    /// Ask the API server whether our kinds are known and may be read, and end.
    Check,
    /// Print everything that an installation without Helm needs, as YAML.
    Install {
        #[arg(long, default_value = install::DEFAULT_NAMESPACE)]
        namespace: String,
        #[arg(long, default_value = install::DEFAULT_IMAGE)]
        image: String,
    },
}

#[derive(Args)]
struct Options {
    /// Only watch this namespace; without it all of them.
    #[arg(long, env = "WATCH_NAMESPACE", global = true)]
    watch_namespace: Option<String>,
    /// Namespace of the operator itself: holds its Lease, and may reach the members' admin port.
    #[arg(long, env = "OPERATOR_NAMESPACE", default_value = install::DEFAULT_NAMESPACE)]
    operator_namespace: String,
    /// Image of members whose KeeperCluster names none.
    #[arg(long, env = "KEEPER_IMAGE", default_value = install::DEFAULT_IMAGE)]
    image: String,
    /// Address of /livez, /readyz and /metrics.
    #[arg(long, env = "HTTP_LISTEN", default_value = "0.0.0.0:8080")]
    http_listen: SocketAddr,
    /// Name of this replica in the election, by default the pod's name.
    #[arg(long, env = "POD_NAME", default_value = "castellan-operator")]
    identity: String,
    /// What to log, such as `info` or `keeper_operator=debug`.
    #[arg(long, env = "LOG", default_value = "info")]
    log: String,
    /// Log as JSON, a line an event.
    #[arg(long, env = "LOG_JSON")]
    log_json: bool,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("keeper-operator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Some(Command::Crds) => print!("{}", castellan_api::crds_yaml()),
        Some(Command::Install { namespace, image }) => print!("{}", install::manifest(&namespace, &image)),
        Some(Command::Check) => runtime()?.block_on(check(&cli.options))?,
        None => {
            start_logging(&cli.options);
            runtime()?.block_on(operate(cli.options))?;
        }
    }
    Ok(())
}

/// The runtime, with the one TLS provider of the process in place.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("another TLS provider was installed before ours"))?;
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

async fn check(options: &Options) -> anyhow::Result<()> {
    let client = Client::try_default().await.context("cannot find the API server")?;
    let clusters: Api<KeeperCluster> = match &options.watch_namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let found = clusters.list(&ListParams::default()).await.context("cannot list KeeperClusters")?;
    println!("KeeperClusters can be read; there are {}", found.items.len());
    Ok(())
}

fn start_logging(options: &Options) {
    let filter = tracing_subscriber::EnvFilter::new(&options.log);
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    if options.log_json {
        subscriber.json().init();
    } else {
        subscriber.init();
    }
}

async fn operate(options: Options) -> anyhow::Result<()> {
    let client = Client::try_default().await.context("cannot find the API server")?;
    let metrics = Metrics::new();
    let (ready, ready_seen) = watch::channel(false);
    let serving = tokio::spawn(http::serve(options.http_listen, metrics.clone(), ready_seen));
    let defaults = Defaults { image: options.image.clone() };
    let surroundings = Surroundings { operator_namespace: options.operator_namespace.clone() };
    let shared = Arc::new(Shared::new(
        client.clone(),
        Box::new(GrpcAdmin),
        defaults,
        surroundings,
        metrics.clone(),
        &options.identity,
    ));
    let election = Election::new(client.clone(), &options.operator_namespace, &options.identity);
    let working = async {
        let version = client.apiserver_version().await.context("the API server does not answer")?;
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            kubernetes = version.git_version,
            image = options.image,
            namespace = options.watch_namespace.as_deref().unwrap_or("all"),
            "started"
        );
        let _ = ready.send(true);
        lead(election, shared, options.watch_namespace.as_deref(), &metrics).await;
        anyhow::Ok(())
    };
    tokio::select! {
        biased;
        result = working => result,
        result = serving => result?.context("cannot serve health and metrics"),
    }
}

/// Stands by, leads, and stands by again when the lease is lost; returns when the process is told to end.
async fn lead(mut election: Election, shared: Arc<Shared>, watch_namespace: Option<&str>, metrics: &Metrics) {
    let mut ending = std::pin::pin!(told_to_end());
    loop {
        tokio::select! {
            biased;
            () = &mut ending => return,
            () = election.acquire() => {}
        }
        tracing::info!("leading");
        metrics.set_leading(true);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = async move {
            let _ = stopped.await;
        };
        let mut working = std::pin::pin!(controller::run(shared.clone(), watch_namespace, stopped));
        tokio::select! {
            biased;
            () = &mut ending => {
                // Passes under way end before the lease is given away, so that no two replicas act.
                let _ = stop.send(());
                let patience = std::time::Duration::from_secs(5);
                let _ = tokio::time::timeout(patience, working).await;
                election.release().await;
                tracing::info!("ended");
                return;
            }
            // Dropping the work at once is safe: every step can be repeated.
            () = election.hold() => {}
            () = &mut working => {}
        }
        metrics.set_leading(false);
        tracing::warn!("standing by");
    }
}

async fn told_to_end() {
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(signal) => signal,
        Err(error) => {
            tracing::warn!(%error, "cannot listen for SIGTERM");
            return std::future::pending().await;
        }
    };
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
