//! Child processes that never outlive the test: killed by pid at drop, by the kernel when this process dies.
//!
//! The kernel's signal (PR_SET_PDEATHSIG) comes when the *thread* that spawned the child ends, and async runtimes
//! end threads. So a [`Spawner`] owns one thread that does nothing but spawn; it lives as long as its cluster.

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

use crate::random::Random;

type Job = (Command, mpsc::SyncSender<std::io::Result<Child>>);

/// The thread that spawns. Its children are killed by the kernel when it is dropped.
pub struct Spawner {
    jobs: mpsc::SyncSender<Job>,
}

impl Spawner {
    pub fn new() -> Result<Spawner> {
        let (jobs, receiver) = mpsc::sync_channel::<Job>(1);
        std::thread::Builder::new().name("spawner".into()).spawn(move || {
            for (mut command, answer) in receiver {
                // The asker may have gone; then the child dies with the handle.
                let _ = answer.send(command.spawn());
            }
        })?;
        Ok(Spawner { jobs })
    }

    /// Starts `program` with its output appended to `log`.
    pub fn spawn(&self, program: &Path, arguments: &[String], log: &Path) -> Result<Process> {
        let out = open_log(log)?;
        // setpriv sets the signal and becomes the program: same pid, and no unsafe code here.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program).args(arguments);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let (answer, spawned) = mpsc::sync_channel(1);
        self.jobs.send((command, answer)).ok().context("the spawning thread is gone")?;
        let child = spawned.recv().context("the spawning thread is gone")?;
        let child = child.with_context(|| format!("cannot start {} (through setpriv)", program.display()))?;
        Ok(Process { child, name: program.display().to_string(), log: log.to_path_buf(), exited: false })
    }
}

fn open_log(log: &Path) -> Result<File> {
    let open = || OpenOptions::new().create(true).append(true).open(log);
    open().with_context(|| format!("cannot open log file {}", log.display()))
}

/// One running child.
pub struct Process {
    child: Child,
    name: String,
    log: PathBuf,
    exited: bool,
}

/// Pause between looks at a child that was told to stop.
const STOP_POLL: Duration = Duration::from_millis(5);
/// Lines of its log shown when a child fails.
const LOG_TAIL_LINES: usize = 20;

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// False once the child has ended, by itself or by us.
    pub fn is_running(&mut self) -> bool {
        if !self.exited && !matches!(self.child.try_wait(), Ok(None)) {
            self.exited = true;
        }
        !self.exited
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        // A reaped pid may belong to somebody else by now.
        if !self.is_running() {
            bail!("{} (pid {}) has ended\n{}", self.name, self.pid(), self.log_tail());
        }
        let pid = Pid::from_raw(self.child.id() as i32).context("pid 0")?;
        rustix::process::kill_process(pid, signal)
            .with_context(|| format!("cannot send {signal:?} to {pid:?}"))
    }

    /// kill -9; on return the process is gone and its sockets are closed.
    pub fn kill(&mut self) -> Result<()> {
        if self.is_running() {
            self.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
            self.child.wait()?;
            self.exited = true;
        }
        Ok(())
    }

    /// SIGTERM, then waits; an error when it is still there after `timeout` (and then it is killed).
    pub fn stop(&mut self, timeout: Duration) -> Result<()> {
        self.signal(Signal::TERM)?;
        let end = Instant::now() + timeout;
        while self.is_running() {
            if Instant::now() >= end {
                self.kill()?;
                bail!("{} did not stop within {} s\n{}", self.name, timeout.as_secs(), self.log_tail());
            }
            std::thread::sleep(STOP_POLL);
        }
        Ok(())
    }

    pub fn pause(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// The last lines of its log, for error messages.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(LOG_TAIL_LINES);
        format!("--- end of {} ---\n{}", self.log.display(), lines[from..].join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing more can be done here than to try; the kernel's signal stands behind it.
        let _ = self.kill();
    }
}

/// Below the range that the kernel gives to outgoing connections, so that a killed member finds its port free again.
const PORTS: std::ops::Range<u16> = 15_000..32_000;
const PORT_TRIES: usize = 1_000;

/// `count` different loopback ports that nobody listens on now.
pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    let mut random = Random::new()?;
    // Held until all are found, so that none is given twice.
    let mut listeners = Vec::new();
    for _ in 0..PORT_TRIES {
        if listeners.len() == count {
            break;
        }
        listeners.extend(TcpListener::bind(("127.0.0.1", PORTS.start + random.below(PORTS.len()) as u16)));
    }
    if listeners.len() < count {
        bail!("no {count} free ports between {} and {}", PORTS.start, PORTS.end);
    }
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(folder: &Path) -> (Spawner, Process) {
        let spawner = Spawner::new().unwrap();
        let process = spawner.spawn(Path::new("sleep"), &["60".into()], &folder.join("log")).unwrap();
        (spawner, process)
    }

    fn exists(pid: u32) -> bool {
        // A zombie of another parent counts as gone.
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (_spawner, process) = sleeper(folder.path());
        let pid = process.pid();
        assert!(exists(pid));
        drop(process);
        assert!(!exists(pid));
    }

    #[test]
    fn the_kernel_kills_the_children_of_a_dropped_spawner() {
        let folder = tempfile::tempdir().unwrap();
        let (spawner, mut process) = sleeper(folder.path());
        // setpriv must have run first: sleep shows that it did.
        let end = Instant::now() + Duration::from_secs(10);
        let comm = format!("/proc/{}/comm", process.pid());
        while std::fs::read_to_string(&comm).unwrap().trim() != "sleep" && Instant::now() < end {
            std::thread::sleep(STOP_POLL);
        }
        drop(spawner);
        while process.is_running() && Instant::now() < end {
            std::thread::sleep(STOP_POLL);
        }
        assert!(!process.is_running());
    }

    #[test]
    fn a_signal_to_an_ended_process_is_an_error_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let spawner = Spawner::new().unwrap();
        let arguments = ["-c".to_string(), "echo no such option; exit 3".into()];
        let mut process = spawner.spawn(Path::new("sh"), &arguments, &folder.path().join("log")).unwrap();
        process.child.wait().unwrap();
        let error = process.pause().unwrap_err().to_string();
        assert!(error.contains("no such option"), "{error}");
    }

    #[test]
    fn ports_are_different_and_free() {
        let mut ports = free_ports(30).unwrap();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 30);
    }
}
