//! How soon others notice that a client is gone: its connection breaks without a close, and a stopwatch runs until a
//! watcher on another member hears that its ephemeral node was deleted.
//!
//! Too soon would be wrong too: within its timeout the client may come back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;

use crate::bench::wire::i32_at;
use crate::cluster::Cluster;
use crate::random::Random;
use crate::robustness::frame::{self, Frame};
use crate::robustness::raw::RawSession;

/// Less than both servers grant when they are not told to.
pub const SESSION_TIMEOUT_MS: i32 = 3_000;
const WATCHER_TIMEOUT_MS: i32 = 30_000;
/// A node that is there so long after its client broke off has been forgotten.
const GONE_WITHIN: Duration = Duration::from_secs(20);
/// A client pings at a third of its timeout: this long it may have been silent when its connection breaks.
const SILENT_MS_MAX: usize = SESSION_TIMEOUT_MS as usize / 3;
const XID_EVENT: i32 = -1;
const EVENT_DELETED: i32 = 2;

/// `clients` of them vanish at about the same time, each from the next member; returns what each of their watchers
/// measured, in microseconds.
pub async fn run(cluster: &mut Cluster, clients: usize) -> Result<Vec<u64>> {
    cluster.wait_ready().await?;
    let hosts = cluster.hosts();
    let mut random = Random::new()?;
    let mut pairs = Vec::new();
    for client in 0..clients {
        let [owner, watcher] = [client, client + 1].map(|member| hosts[member % hosts.len()]);
        let silent = Duration::from_millis(random.below(SILENT_MS_MAX) as u64);
        pairs.push(tokio::spawn(one(owner, watcher, silent)));
    }
    let mut gone_us = Vec::new();
    for pair in pairs {
        gone_us.push(pair.await??.as_micros() as u64);
    }
    Ok(gone_us)
}

async fn one(owner_host: SocketAddr, watcher_host: SocketAddr, silent: Duration) -> Result<Duration> {
    let mut owner = RawSession::new(owner_host, SESSION_TIMEOUT_MS).await?;
    let granted_ms = owner.timeout_ms;
    ensure!(
        granted_ms == SESSION_TIMEOUT_MS,
        "{owner_host} grants {granted_ms} ms where {SESSION_TIMEOUT_MS} are asked for: configure it"
    );
    let path = format!("/castellan-vanish-{:x}", owner.id);
    let created = owner.call(&frame::create(1, &path, b"", frame::EPHEMERAL)).await?;
    ensure!(created.error == 0, "{owner_host} answered a create with error {}", created.error);
    let mut watcher = RawSession::new(watcher_host, WATCHER_TIMEOUT_MS).await?;
    for request in [frame::sync(1, &path), get_and_watch(2, &path)] {
        let error = watcher.call(&request).await?.error;
        ensure!(error == 0, "{watcher_host} does not watch {path}: error {error}");
    }
    tokio::time::sleep(silent).await;
    let broken_at = Instant::now();
    drop(owner);
    let gone = tokio::time::timeout(GONE_WITHIN, deleted(&mut watcher));
    gone.await.with_context(|| format!("{path} is there after {} s", GONE_WITHIN.as_secs()))??;
    let took = broken_at.elapsed();
    watcher.stream.shutdown().await?;
    Ok(took)
}

fn get_and_watch(xid: i32, path: &str) -> Vec<u8> {
    Frame::request(xid, frame::OP_GET_DATA).text(path).byte(1).done()
}

async fn deleted(watcher: &mut RawSession) -> Result<()> {
    let event = watcher.next_reply().await?;
    let kind = i32_at(&event.body, 0);
    ensure!(
        event.xid == XID_EVENT && kind == Some(EVENT_DELETED),
        "an event of type {kind:?} with xid {} where a deletion is due",
        event.xid
    );
    Ok(())
}
