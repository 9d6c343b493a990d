//! Runs a suite's own command: output into a file, bounded in time, and nothing of it left behind.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exited,
    TimedOut,
}

/// Runs `command` in a process group of its own, both outputs into `log`. When it ends, when its time is up, and on
/// Ctrl-C, everything that is left of the group is killed.
pub async fn run(command: &mut tokio::process::Command, log: &Path, time_max: Duration) -> Result<End> {
    let shown = format!("{:?}", command.as_std().get_program());
    let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| format!("cannot start {shown}"))?;
    // Not reaped before `wait` below returns, so the number is still its own.
    let group = child.id().and_then(|id| Pid::from_raw(id as i32)).context("the command has no pid")?;
    let _group = Group(group);
    tokio::select! {
        status = child.wait() => status.map(|_| End::Exited).context("cannot wait for it"),
        () = tokio::time::sleep(time_max) => Ok(End::TimedOut),
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
    }
}

/// Kills what is left of the group when dropped.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        // An error says that nobody is left.
        let _ = rustix::process::kill_process_group(self.0, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shell's child writes its pid and outlives the shell.
    fn leaver(script: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn runs(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| !stat.contains(") Z "))
    }

    async fn check(script: &str, time_max: Duration, timed_out: bool) {
        let log = std::env::temp_dir().join(format!("conformance-{}-{timed_out}", std::process::id()));
        let end = run(&mut leaver(script), &log, time_max).await.unwrap();
        assert_eq!(end == End::TimedOut, timed_out);
        let pid = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        for _ in 0..500 {
            if !runs(&pid) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{pid} still runs");
    }

    #[tokio::test]
    async fn nothing_outlives_a_command_that_ends() {
        check("sleep 600 & echo $!", Duration::from_secs(60), false).await;
    }

    #[tokio::test]
    async fn nothing_outlives_a_command_that_is_too_slow() {
        check("sleep 600 & echo $!; wait", Duration::from_millis(500), true).await;
    }
}
