//! Three servers for suites that are clients only: started by `zkServer.sh`, as a user of a zoo.cfg would.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use castellan_load::four_letter;
use castellan_load::process::{Process, Spawner, free_ports};

use super::Context;

const MEMBERS: usize = 3;
const START_TIME_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
/// TTL nodes and containers within a test's patience.
const FLAGS: &str = "-Dzookeeper.extendedTypesEnabled=true -Dznode.container.checkIntervalMs=1000";

/// All servers end with it.
pub struct Ensemble {
    pub hosts: Vec<SocketAddr>,
    processes: Vec<Process>,
    /// Last, so that its thread outlives the processes.
    _spawner: Spawner,
}

impl Ensemble {
    pub async fn start(context: &Context) -> Result<Ensemble> {
        let ports = free_ports(MEMBERS * 3)?;
        let lines: String = (0..MEMBERS)
            .map(|i| format!("server.{}=127.0.0.1:{}:{}\n", i + 1, ports[3 * i + 1], ports[3 * i + 2]))
            .collect();
        let spawner = Spawner::new()?;
        let mut processes = Vec::new();
        let mut hosts = Vec::new();
        for i in 0..MEMBERS {
            let home = context.run.join(format!("server-{}", i + 1));
            let cfg = write(&home, i + 1, ports[3 * i], &lines)?;
            let variables = context.launcher.iter().map(|(name, value)| format!("{name}={value}"));
            let mut arguments: Vec<String> = variables.collect();
            arguments.push(format!("SERVER_JVMFLAGS={FLAGS}"));
            let bin = crate::paths::root().join("e2e/conformance/bin/zkServer.sh");
            arguments.extend([bin.display().to_string(), "start-foreground".into(), cfg]);
            processes.push(spawner.spawn(Path::new("env"), &arguments, &home.join("log"))?);
            hosts.push(SocketAddr::from((Ipv4Addr::LOCALHOST, ports[3 * i])));
        }
        let mut ensemble = Ensemble { hosts, processes, _spawner: spawner };
        ensemble.wait_ready().await?;
        Ok(ensemble)
    }

    async fn wait_ready(&mut self) -> Result<()> {
        let end = Instant::now() + START_TIME_MAX;
        for (member, host) in self.hosts.iter().enumerate() {
            while !matches!(four_letter::mode(*host).await.as_deref(), Some("leader" | "follower")) {
                let process = &mut self.processes[member];
                if !process.is_running() || Instant::now() >= end {
                    bail!("server {} does not serve\n{}", member + 1, process.log_tail());
                }
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }

    /// `host:port,…`
    pub fn connect_string(&self) -> String {
        self.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// `pid,…`, in the order of the hosts. `zkServer.sh` and `env` give their place to the server, and so their pid.
    pub fn pids(&self) -> String {
        self.processes.iter().map(|process| process.pid().to_string()).collect::<Vec<_>>().join(",")
    }
}

fn write(home: &Path, id: usize, client_port: u16, lines: &str) -> Result<String> {
    let data = home.join("data");
    std::fs::create_dir_all(&data)?;
    std::fs::write(data.join("myid"), id.to_string())?;
    let cfg = home.join("zoo.cfg");
    let text = format!(
        "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={client_port}\nclientPortAddress=127.0.0.1\n\
         maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\nreconfigEnabled=true\n{lines}",
        data.display()
    );
    std::fs::write(&cfg, text)?;
    Ok(cfg.display().to_string())
}
