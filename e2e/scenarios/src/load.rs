//! The checked loader against a cluster's pods.

use std::time::Duration;

use anyhow::{Context, Result};
use castellan_load::checked::{Load, Options, Verdict};

use crate::cluster::TestCluster;

/// Writes that must be acknowledged before and after each fault.
pub const WRITES: u64 = 50;
pub const WRITES_TIMEOUT: Duration = Duration::from_secs(60);
/// A pod that is gone does not refuse connections, it does not answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Sessions on every pod, and a way back through the Service for those whose pod gets another address.
pub async fn start(cluster: &TestCluster) -> Result<Load> {
    let mut options = Options::new(cluster.hosts().await?, 1);
    options.connect_timeout = CONNECT_TIMEOUT;
    let load = Load::start(options).await.context("cannot start the load")?;
    load.wait_writes(WRITES, WRITES_TIMEOUT).await?;
    Ok(load)
}

/// Ends the load; an error unless nothing was lost, applied twice or out of order, and no session ended.
pub async fn finish(cluster: &TestCluster, load: Load) -> Result<Verdict> {
    let verdict = load.finish(cluster.hosts().await?).await.context("cannot finish the load")?;
    verdict.check(&crate::diagnose::folder(&cluster.namespace)?)?;
    Ok(verdict)
}
