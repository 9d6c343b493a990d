//! A cluster of our own `keeper serve`, founded through its admin protocol as the operator does it.
//!
//! [`Plan`] says where everything will be, so that somebody may stand between the members or under their folders
//! before they start; [`Keepers`] is the running cluster with its admin side.

mod admin;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

pub use admin::{Keepers, Level};

use super::{Cluster, Launch, MEMBERS};
use crate::process::free_ports;

const ADMIN_TOKEN: &str = "castellan-load-admin-token";
const CLUSTER_SECRET: &str = "castellan-load-cluster-secret-0123456789";
const CLUSTER_ID: &str = "ca57e11a00000000000000000000106d";

/// Where one member is, and how others reach it.
pub struct Place {
    /// Configuration, secrets, output, and the data folder.
    pub home: PathBuf,
    pub data: PathBuf,
    pub client: SocketAddr,
    /// Where it listens to other members.
    pub peer: SocketAddr,
    /// Where others dial it: `peer`, or somebody in between.
    pub advertised: SocketAddr,
    pub admin: SocketAddr,
    http: SocketAddr,
}

/// A cluster that was not started yet.
pub struct Plan {
    pub places: Vec<Place>,
}

impl Plan {
    /// Three members with everything they write under `folder`.
    pub fn new(folder: &Path) -> Result<Plan> {
        let loopback = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let ports = free_ports(MEMBERS * 4)?;
        let place = |(member, ports): (usize, &[u16])| {
            let home = folder.join(format!("keeper-{}", member + 1));
            let [client, peer, admin, http] = [0, 1, 2, 3].map(|which| loopback(ports[which]));
            Place { data: home.join("data"), home, client, peer, advertised: peer, admin, http }
        };
        Ok(Plan { places: ports.chunks(4).enumerate().map(place).collect() })
    }

    /// Starts the members, founds a cluster of them and waits until they serve. `more_config` is TOML put behind the
    /// generated configuration.
    pub async fn start(self, binary: &Path, more_config: &str) -> Result<Keepers> {
        ensure!(binary.is_file(), "no keeper binary at {}: build it first", binary.display());
        let mut launches = Vec::new();
        for (member, place) in self.places.iter().enumerate() {
            let config = write_config(place, member + 1, more_config)
                .with_context(|| format!("cannot write the configuration in {}", place.home.display()))?;
            launches.push(Launch {
                program: binary.to_path_buf(),
                arguments: vec!["serve".into(), "--config".into(), config.display().to_string()],
                log: place.home.join("server.log"),
                client: place.client,
            });
        }
        let cluster = Cluster::start("keeper", launches)?;
        let mut keepers = Keepers::new(cluster, self.places);
        keepers.found().await.context("cannot found the keeper cluster")?;
        keepers.cluster.wait_ready().await?;
        Ok(keepers)
    }
}

/// [`Plan::start`] with nobody in between.
pub async fn start(binary: &Path, folder: &Path, more_config: &str) -> Result<Cluster> {
    Ok(Plan::new(folder)?.start(binary, more_config).await?.cluster)
}

fn write_config(place: &Place, id: usize, more_config: &str) -> Result<PathBuf> {
    let Place { home, data, client, peer, admin, http, .. } = place;
    fs::create_dir_all(data)?;
    fs::write(home.join("cluster-secret"), CLUSTER_SECRET)?;
    fs::write(home.join("admin-token"), ADMIN_TOKEN)?;
    let config = home.join("keeper.toml");
    let (home, data) = (home.display(), data.display());
    let text = format!(
        "[server]\nname = \"local-{id}\"\ndata_dir = \"{data}\"\n\n\
         [listen]\nclient = \"{client}\"\npeer = \"{peer}\"\nadmin = \"{admin}\"\nhttp = \"{http}\"\n\n\
         [cluster]\nid = \"{CLUSTER_ID}\"\nsecret_file = \"{home}/cluster-secret\"\n\
         admin_token_file = \"{home}/admin-token\"\n{more_config}"
    );
    fs::write(&config, text)?;
    Ok(config)
}
