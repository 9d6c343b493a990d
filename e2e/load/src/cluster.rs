//! A local three-member cluster of one kind of server: start, kill, pause, restart, and who leads.
//!
//! What differs between the kinds is how one member is started and how the cluster is founded: [`keeper`] and
//! [`zookeeper`]. Everything else is asked through the client port, so that both are treated alike.

pub mod keeper;
pub mod zookeeper;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::four_letter;
use crate::process::{Process, Spawner};

/// How one member is started; enough to start it again.
struct Launch {
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    client: SocketAddr,
}

/// A running cluster. All its processes end with it.
pub struct Cluster {
    name: &'static str,
    launches: Vec<Launch>,
    /// `None`: killed or stopped. Same order as `launches`.
    processes: Vec<Option<Process>>,
    /// Last, so that its thread outlives the processes.
    spawner: Spawner,
}

pub const MEMBERS: usize = 3;
/// A member gets so long to serve after its start.
pub const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

impl Cluster {
    fn start(name: &'static str, launches: Vec<Launch>) -> Result<Cluster> {
        let processes = launches.iter().map(|_| None).collect();
        let mut cluster = Cluster { name, launches, processes, spawner: Spawner::new()? };
        for member in 0..cluster.launches.len() {
            cluster.restart(member)?;
        }
        Ok(cluster)
    }

    /// `keeper` or `zookeeper`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn members(&self) -> usize {
        self.launches.len()
    }

    /// Client addresses of all members, running or not.
    pub fn hosts(&self) -> Vec<SocketAddr> {
        self.launches.iter().map(|launch| launch.client).collect()
    }

    pub fn host(&self, member: usize) -> SocketAddr {
        self.launches[member].client
    }

    pub fn log(&self, member: usize) -> &Path {
        &self.launches[member].log
    }

    pub fn is_running(&mut self, member: usize) -> bool {
        self.processes[member].as_mut().is_some_and(Process::is_running)
    }

    pub fn pid(&self, member: usize) -> Option<u32> {
        self.processes[member].as_ref().map(Process::pid)
    }

    /// Of all that run.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().flatten().map(Process::pid).collect()
    }

    /// kill -9; on return the member's sockets are closed.
    pub fn kill(&mut self, member: usize) -> Result<()> {
        match self.processes[member].take() {
            Some(mut process) => process.kill(),
            None => Ok(()),
        }
    }

    /// SIGTERM; an error when the member does not end in time.
    pub fn stop(&mut self, member: usize) -> Result<()> {
        match self.processes[member].take() {
            Some(mut process) => process.stop(STOP_TIMEOUT),
            None => Ok(()),
        }
    }

    pub fn pause(&mut self, member: usize) -> Result<()> {
        self.running(member)?.pause()
    }

    pub fn resume(&mut self, member: usize) -> Result<()> {
        self.running(member)?.resume()
    }

    fn running(&mut self, member: usize) -> Result<&mut Process> {
        let name = self.name;
        match self.processes[member].as_mut() {
            Some(process) => Ok(process),
            None => bail!("{name} member {} does not run", member + 1),
        }
    }

    /// Starts a killed or stopped member; does not wait until it serves.
    pub fn restart(&mut self, member: usize) -> Result<()> {
        if !self.is_running(member) {
            let launch = &self.launches[member];
            let process = self.spawner.spawn(&launch.program, &launch.arguments, &launch.log)?;
            self.processes[member] = Some(process);
        }
        Ok(())
    }

    /// An error with the end of its log when a member that should run has ended.
    pub fn check_alive(&mut self) -> Result<()> {
        for (member, process) in self.processes.iter_mut().enumerate() {
            if let Some(process) = process
                && !process.is_running()
            {
                bail!("{} member {} ended by itself\n{}", self.name, member + 1, process.log_tail());
            }
        }
        Ok(())
    }

    /// The member that leads now, as the members say themselves.
    pub async fn leader(&self) -> Option<usize> {
        for (member, launch) in self.launches.iter().enumerate() {
            if self.processes[member].is_some()
                && four_letter::mode(launch.client).await.as_deref() == Some("leader")
            {
                return Some(member);
            }
        }
        None
    }

    pub async fn wait_leader(&mut self) -> Result<usize> {
        let end = Instant::now() + READY_TIMEOUT;
        loop {
            if let Some(leader) = self.leader().await {
                return Ok(leader);
            }
            self.check_alive()?;
            if Instant::now() >= end {
                bail!("{}: no leader within {} s", self.name, READY_TIMEOUT.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until every running member follows or leads, and one leads.
    pub async fn wait_ready(&mut self) -> Result<usize> {
        let end = Instant::now() + READY_TIMEOUT;
        for member in 0..self.members() {
            while self.processes[member].is_some() {
                let mode = four_letter::mode(self.host(member)).await;
                if matches!(mode.as_deref(), Some("leader" | "follower")) {
                    break;
                }
                self.check_alive()?;
                if Instant::now() >= end {
                    let tail = self.running(member)?.log_tail();
                    bail!("{} member {} does not serve (mode {mode:?})\n{tail}", self.name, member + 1);
                }
                tokio::time::sleep(POLL).await;
            }
        }
        self.wait_leader().await
    }

    /// Resident memory of each running member in bytes.
    pub fn resident_bytes(&self) -> Vec<u64> {
        let resident = |process: &Process| {
            let statm = std::fs::read_to_string(format!("/proc/{}/statm", process.pid())).ok()?;
            let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
            Some(pages * rustix::param::page_size() as u64)
        };
        self.processes.iter().flatten().filter_map(resident).collect()
    }
}
