//! A real ZooKeeper ensemble from the jars that Maven brought.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Cluster, Launch, MEMBERS};
use crate::process::free_ports;

/// Room for a few hundred thousand znodes without long collections, and less than a test machine has.
const HEAP: [&str; 2] = ["-Xms1g", "-Xmx2g"];
/// What each server gets beside its defaults: durable writes (the default, spelled out since it is what is compared),
/// and no performance data file in a shared folder.
const JVM_FLAGS: [&str; 3] =
    ["-Dzookeeper.forceSync=yes", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true"];

/// Starts three servers with everything they write under `folder`, and waits until they serve. `more_config` is put
/// behind the generated zoo.cfg.
pub async fn start(jars: &Path, folder: &Path, more_config: &str) -> Result<Cluster> {
    ensure!(jars.is_dir(), "no ZooKeeper jars in {}: `cargo xtask compare` fetches them", jars.display());
    let ports = free_ports(MEMBERS * 3)?;
    let (client_ports, rest) = ports.split_at(MEMBERS);
    let (peer_ports, election_ports) = rest.split_at(MEMBERS);
    let servers: String = (0..MEMBERS)
        .map(|i| format!("server.{}=127.0.0.1:{}:{}\n", i + 1, peer_ports[i], election_ports[i]))
        .collect();
    let mut launches = Vec::new();
    for (member, port) in client_ports.iter().enumerate() {
        let home = folder.join(format!("zookeeper-{}", member + 1));
        let config = write_config(&home, member + 1, *port, &format!("{servers}{more_config}"))
            .with_context(|| format!("cannot write the configuration in {}", home.display()))?;
        let classes = format!("{}/*", jars.display());
        let mut arguments: Vec<String> = HEAP.into_iter().chain(JVM_FLAGS).map(String::from).collect();
        arguments.extend(["-cp".into(), classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain".into()]);
        arguments.push(config.display().to_string());
        launches.push(Launch {
            program: PathBuf::from("java"),
            arguments,
            log: home.join("server.log"),
            client: SocketAddr::from((Ipv4Addr::LOCALHOST, *port)),
        });
    }
    let mut cluster = Cluster::start("zookeeper", launches)?;
    cluster.wait_ready().await?;
    Ok(cluster)
}

fn write_config(home: &Path, id: usize, client_port: u16, more: &str) -> Result<PathBuf> {
    let data = home.join("data");
    fs::create_dir_all(&data)?;
    fs::write(data.join("myid"), id.to_string())?;
    let config = home.join("zoo.cfg");
    let text = format!(
        "tickTime=2000\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\nadmin.enableServer=false\n\
         4lw.commands.whitelist=*\ndataDir={}\nclientPort={client_port}\nclientPortAddress=127.0.0.1\n{more}",
        data.display()
    );
    fs::write(&config, text)?;
    Ok(config)
}
