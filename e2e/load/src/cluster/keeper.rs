//! A cluster of our own `keeper serve`, founded through its admin protocol as the operator does it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use keeper_admin_api::v1::admin_client::AdminClient;
use keeper_admin_api::v1::{AddLearnerRequest, BootstrapRequest, Member, MemberRequest};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Channel;

use super::{Cluster, Launch, MEMBERS, READY_TIMEOUT};
use crate::process::free_ports;

const ADMIN_TOKEN: &str = "castellan-load-admin-token";
const CLUSTER_SECRET: &str = "castellan-load-cluster-secret-0123456789";
const CLUSTER_ID: &str = "ca57e11a00000000000000000000106d";
const RETRY: Duration = Duration::from_millis(20);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

struct Ports {
    client: u16,
    peer: u16,
    admin: u16,
    http: u16,
}

/// Starts three members with everything they write under `folder`, founds a cluster of them and waits until they
/// serve. `more_config` is TOML put behind the generated configuration.
pub async fn start(binary: &Path, folder: &Path, more_config: &str) -> Result<Cluster> {
    ensure!(binary.is_file(), "no keeper binary at {}: build it first", binary.display());
    let ports = free_ports(MEMBERS * 4)?;
    let ports: Vec<Ports> =
        ports.chunks(4).map(|p| Ports { client: p[0], peer: p[1], admin: p[2], http: p[3] }).collect();
    let mut launches = Vec::new();
    for (member, ports) in ports.iter().enumerate() {
        let home = folder.join(format!("keeper-{}", member + 1));
        let config = write_config(&home, member + 1, ports, more_config)
            .with_context(|| format!("cannot write the configuration in {}", home.display()))?;
        launches.push(Launch {
            program: binary.to_path_buf(),
            arguments: vec!["serve".into(), "--config".into(), config.display().to_string()],
            log: home.join("server.log"),
            client: SocketAddr::from((Ipv4Addr::LOCALHOST, ports.client)),
        });
    }
    let mut cluster = Cluster::start("keeper", launches)?;
    found(&mut cluster, &ports).await.context("cannot found the keeper cluster")?;
    cluster.wait_ready().await?;
    Ok(cluster)
}

fn write_config(home: &Path, id: usize, ports: &Ports, more_config: &str) -> Result<PathBuf> {
    fs::create_dir_all(home.join("data"))?;
    fs::write(home.join("cluster-secret"), CLUSTER_SECRET)?;
    fs::write(home.join("admin-token"), ADMIN_TOKEN)?;
    let config = home.join("keeper.toml");
    let Ports { client, peer, admin, http } = ports;
    let home = home.display();
    let text = format!(
        "[server]\nname = \"local-{id}\"\ndata_dir = \"{home}/data\"\n\n\
         [listen]\nclient = \"127.0.0.1:{client}\"\npeer = \"127.0.0.1:{peer}\"\nadmin = \"127.0.0.1:{admin}\"\n\
         http = \"127.0.0.1:{http}\"\n\n\
         [cluster]\nid = \"{CLUSTER_ID}\"\nsecret_file = \"{home}/cluster-secret\"\n\
         admin_token_file = \"{home}/admin-token\"\n{more_config}"
    );
    fs::write(&config, text)?;
    Ok(config)
}

/// Bootstraps the first member; the others become learners and then voters, one at a time.
async fn found(cluster: &mut Cluster, ports: &[Ports]) -> Result<()> {
    let member = |index: usize| Member {
        server_id: index as u64 + 1,
        peer_address: format!("127.0.0.1:{}", ports[index].peer),
        client_address: format!("127.0.0.1:{}", ports[index].client),
        name: format!("local-{}", index + 1),
    };
    let bootstrap = BootstrapRequest { cluster_id: CLUSTER_ID.into(), member: Some(member(0)) };
    retry(cluster, ports[0].admin, "Bootstrap", async |mut admin| {
        admin.bootstrap(request(bootstrap.clone())).await.map(drop)
    })
    .await?;
    for index in 1..ports.len() {
        let learner = AddLearnerRequest { member: Some(member(index)), precondition: None };
        retry(cluster, ports[0].admin, "AddLearner", async |mut admin| {
            admin.add_learner(request(learner.clone())).await.map(drop)
        })
        .await?;
        let promote = MemberRequest { server_id: index as u64 + 1, precondition: None };
        retry(cluster, ports[0].admin, "Promote", async |mut admin| {
            admin.promote(request(promote)).await.map(drop)
        })
        .await?;
    }
    Ok(())
}

fn request<T>(body: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(body);
    let token: MetadataValue<Ascii> =
        format!("Bearer {ADMIN_TOKEN}").parse().expect("the token is plain ASCII, written above");
    request.metadata_mut().insert("authorization", token);
    request.set_timeout(CALL_TIMEOUT);
    request
}

/// The calls are safe to repeat, and a member that starts or a learner that lags refuses for a while.
async fn retry(
    cluster: &mut Cluster,
    admin_port: u16,
    what: &str,
    call: impl AsyncFn(AdminClient<Channel>) -> Result<(), tonic::Status>,
) -> Result<()> {
    let end = Instant::now() + READY_TIMEOUT;
    loop {
        let attempt = async {
            let client = AdminClient::connect(format!("http://127.0.0.1:{admin_port}")).await?;
            call(client).await?;
            Ok::<_, anyhow::Error>(())
        };
        let Err(error) = attempt.await else { return Ok(()) };
        cluster.check_alive()?;
        if Instant::now() >= end {
            bail!("{what} does not succeed within {} s: {error:#}", READY_TIMEOUT.as_secs());
        }
        tokio::time::sleep(RETRY).await;
    }
}
