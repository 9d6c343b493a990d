//! The threads of one member: the clients' runtime, and one thread apart for consensus.

use anyhow::{Context, Result};
use keeper_rt::Pool;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// What is left running after the orderly stop gets so long.
pub const STOP_GRACE: Duration = Duration::from_secs(1);

pub fn client_runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .thread_name("clients")
        .enable_all()
        .build()
        .context("cannot start the clients' threads")
}

/// Consensus runs on one thread: a write passes a dozen tasks of it (peers' sockets, Raft's core, replication, apply),
/// and each step from thread to thread would cost a wake-up that is dearer than the task itself.
pub struct ConsensusThread {
    pool: Pool,
    /// Dropped to stop it.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ConsensusThread {
    #[allow(clippy::disallowed_methods, reason = "a runtime's own thread is no task of the server")]
    pub fn start() -> Result<ConsensusThread> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the consensus thread")?;
        let pool = Pool::of(runtime.handle().clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("consensus".into())
            .spawn(move || {
                let _ = runtime.block_on(stopped);
                runtime.shutdown_timeout(STOP_GRACE);
            })
            .context("cannot start the consensus thread")?;
        Ok(ConsensusThread { pool, stop: Some(stop), thread: Some(thread) })
    }

    pub fn pool(&self) -> Pool {
        self.pool.clone()
    }
}

impl Drop for ConsensusThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It panicked, which has been said.
            let _ = thread.join();
        }
    }
}
