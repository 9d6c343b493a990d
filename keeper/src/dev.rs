//! `keeper dev`: three members on loopback in one process, ready in a moment. Not for data one would miss.

use crate::config::Config;
use crate::runtimes::{ConsensusThread, STOP_GRACE, client_runtime};
use crate::serve::Member;
use anyhow::{Context, Result, bail};
use clap::Args;
use keeper_consensus::{Member as Peer, Precondition, Role};
use keeper_rt::Pool;
use keeper_server::Readiness;
use keeper_types::{ClusterId, ServerId};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Until all members are ready.
const START_TIME_MAX: Duration = Duration::from_secs(20);

#[derive(Args)]
pub struct Dev {
    /// Folder for the members' data, kept; without it a temporary one, removed at the end.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Client port of the first member; the others follow it. The other ports lie 1000, 2000 and 3000 above.
    #[arg(long, default_value_t = 2181)]
    port: u16,
    /// How many members.
    #[arg(long, default_value_t = 3)]
    members: u16,
}

impl Dev {
    pub fn run(self) -> Result<()> {
        crate::telemetry::install("warn");
        if !(1..=9).contains(&self.members) || self.port.checked_add(3_000 + self.members).is_none() {
            bail!("--members is 1 to 9, and --port leaves room for ports 3000 above it");
        }
        let temporary;
        let folder: &Path = match &self.dir {
            Some(dir) => dir,
            None => {
                temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
                temporary.path()
            }
        };
        let consensus = ConsensusThread::start()?;
        let clients = client_runtime()?;
        let outcome = clients.block_on(self.serve(folder, consensus.pool()));
        clients.shutdown_timeout(STOP_GRACE);
        drop(consensus);
        outcome
    }

    async fn serve(&self, folder: &Path, pool: Pool) -> Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut members = Vec::new();
        for number in 1..=self.members {
            members.push(Member::start(&self.config(folder, number)?, pool.clone()).await?);
        }
        keeper_rt::timeout(START_TIME_MAX, self.form(&members))
            .await
            .context("the members did not become ready in time")??;
        let hosts: Vec<String> = (1..=self.members).map(|number| self.address(number, 0)).collect();
        let hosts = hosts.join(",");
        let kept = if self.dir.is_none() { " (removed at the end)" } else { "" };
        let text = format!(
            "ready: {hosts}\ndata:  {}{kept}\ntry:   keeper --help, or KEEPER_HOSTS={hosts} keeper ls /\n",
            folder.display()
        );
        // In one piece, and a reader that has left (`keeper dev | head -1`) is no reason to end.
        let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        // All at once: there is nobody to hand leadership to.
        let stops: Vec<_> = members
            .iter()
            .map(|member| {
                let node = member.node.clone();
                keeper_rt::spawn("stop", async move { node.shutdown().await })
            })
            .collect();
        for stop in stops {
            stop.await?;
        }
        Ok(())
    }

    fn address(&self, number: u16, above: u16) -> String {
        format!("127.0.0.1:{}", self.port + above + number - 1)
    }

    fn config(&self, folder: &Path, number: u16) -> Result<Config> {
        let data_dir = folder.join(format!("member-{number}"));
        std::fs::create_dir_all(&data_dir).with_context(|| format!("cannot make {}", data_dir.display()))?;
        let secret_file = folder.join("secret");
        if !secret_file.exists() {
            let text: String =
                keeper_rt::random_bytes::<32>().iter().map(|byte| format!("{byte:02x}")).collect();
            write_private(&secret_file, &text)?;
        }
        let file = folder.join(format!("member-{number}.toml"));
        let text = format!(
            "[server]\nname = \"dev-{number}\"\ndata_dir = {data_dir:?}\n\
             [listen]\nclient = \"{}\"\npeer = \"{}\"\nadmin = \"{}\"\nhttp = \"{}\"\n\
             [cluster]\nsecret_file = {secret_file:?}\nadmin_token_file = {secret_file:?}\n\
             [session]\ntimeout_ms_min = 500\n\
             [log]\nsegment_bytes = 16777216\n",
            self.address(number, 0),
            self.address(number, 1_000),
            self.address(number, 2_000),
            self.address(number, 3_000),
        );
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Config::load(&file, std::iter::empty(), &[])?)
    }

    /// Founds the cluster with the first member and takes the others in, one at a time; nothing when the folder
    /// holds a cluster already.
    async fn form(&self, members: &[Member]) -> Result<()> {
        let peer = |number: u16| Peer {
            id: ServerId(u64::from(number)),
            peer_address: self.address(number, 1_000),
            client_address: self.address(number, 0),
            name: format!("dev-{number}"),
            election_port: 0,
        };
        let first = members[0].node.consensus();
        if first.status().role == Role::Uninitialized {
            first.bootstrap(ClusterId(keeper_rt::random_bytes()), peer(1)).await?;
            for number in 2..=self.members {
                first.add_learner(peer(number), Precondition::default()).await?;
                first.promote(ServerId(u64::from(number)), Precondition::default()).await?;
            }
        }
        for member in members {
            while member.node.readiness() != Readiness::Ready {
                keeper_rt::sleep(Duration::from_millis(5)).await;
            }
        }
        Ok(())
    }
}

/// For the owner's eyes only.
fn write_private(file: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut out = options.open(file).with_context(|| format!("cannot write {}", file.display()))?;
    out.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))
}
