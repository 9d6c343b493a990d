//! `idle-sessions`: what a session costs that does nothing but ping.
//!
//! All sessions are on one member, a follower: its own memory counts, and the leader's shows what each session costs
//! every member. Pings must not reach the log: its end and the zxid stay where they are over several rounds.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::figures::Figure;
use super::frame;
use super::raw::{Opened, Opening, RawSession};
use crate::bench::wire::XID_PING;
use crate::cluster::Cluster;
use crate::four_letter;

#[derive(Clone, Debug)]
pub struct Options {
    pub sessions: usize,
    pub ping_rounds: usize,
}

/// The longest that members grant by default: nothing expires while we count.
const TIMEOUT_MS: i32 = 40_000;
/// Handshakes under way at once.
const OPENING_MAX: usize = 256;
/// Source addresses: each has some 28,000 ports.
const SOURCES: usize = 4;
/// What a session may cost the member that serves it, beside the kernel's socket buffers.
pub const BYTES_PER_SESSION_MAX: f64 = 8192.0;
/// What is left of the handshakes is given back meanwhile.
const SETTLE: Duration = Duration::from_secs(2);
/// Between two rounds of pings.
const ROUND_PAUSE: Duration = Duration::from_millis(500);

pub async fn run(cluster: &mut Cluster, options: &Options) -> Result<Vec<Figure>> {
    let leader = cluster.wait_ready().await?;
    let member =
        (0..cluster.members()).find(|member| *member != leader).context("the cluster has one member")?;
    let before = memory(cluster)?;
    let begin = Instant::now();
    let mut sessions = open_all(cluster.host(member), options.sessions).await?;
    let opened_in = begin.elapsed();
    tokio::time::sleep(SETTLE).await;
    let opened = memory(cluster)?;
    let log_before = log_end(cluster, member).await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..options.ping_rounds {
        slowest = slowest.max(ping_all(&mut sessions).await?);
        tokio::time::sleep(ROUND_PAUSE).await;
    }
    let log_after = log_end(cluster, member).await?;
    let after = memory(cluster)?;
    cluster.check_alive()?;
    let each = |from: &[u64], to: &[u64], member: usize| {
        to[member].saturating_sub(from[member]) as f64 / options.sessions as f64
    };
    // Both ends are numbers that only grow, so their sum stands still only when each does.
    let moved = (log_after.0 - log_before.0) + (log_after.1 - log_before.1);
    let pings = (options.sessions * options.ping_rounds) as f64;
    Ok(vec![
        Figure::of("sessions on one member", options.sessions as f64, ""),
        Figure::of("opened in", opened_in.as_secs_f64(), "s"),
        Figure::of("resident memory a session, after the handshakes", each(&before, &opened, member), "B"),
        Figure::of("resident memory a session, after all pings", each(&before, &after, member), "B")
            .at_most(BYTES_PER_SESSION_MAX),
        Figure::of("the same on the leader, which serves none of them", each(&before, &after, leader), "B"),
        Figure::of("pings answered", pings, ""),
        Figure::of("slowest round of pings", slowest.as_secs_f64() * 1000.0, "ms"),
        Figure::of("log entries and zxids during the pings", moved as f64, "").at_most(0.0),
    ])
}

fn memory(cluster: &Cluster) -> Result<Vec<u64>> {
    let bytes = cluster.resident_bytes();
    ensure!(bytes.len() == cluster.members(), "a member has ended");
    Ok(bytes)
}

async fn open_all(address: SocketAddr, count: usize) -> Result<Vec<RawSession>> {
    let permits = Arc::new(Semaphore::new(OPENING_MAX));
    let mut tasks = Vec::with_capacity(count);
    for index in 0..count {
        let permit = permits.clone().acquire_owned().await?;
        tasks.push(tokio::spawn(async move {
            let source = IpAddr::V4(Ipv4Addr::new(127, 0, 1, (index % SOURCES) as u8 + 1));
            let opening = Opening { source: Some(source), ..Opening::new(TIMEOUT_MS) };
            let opened = RawSession::open(address, &opening).await;
            drop(permit);
            opened
        }));
    }
    let mut sessions = Vec::with_capacity(count);
    for (index, task) in tasks.into_iter().enumerate() {
        match task.await?.with_context(|| format!("session {} cannot be opened", index + 1))? {
            Opened::Session(session) => sessions.push(session),
            Opened::Expired => anyhow::bail!("session {} was refused", index + 1),
        }
    }
    Ok(sessions)
}

/// One ping on each, then all answers: the sockets hold both.
async fn ping_all(sessions: &mut [RawSession]) -> Result<Duration> {
    let begin = Instant::now();
    let ping = frame::ping();
    for session in &mut *sessions {
        session.stream.write_all(&ping).await.context("a session's connection has ended")?;
    }
    for session in sessions {
        let reply = session.next_reply().await.context("a session's connection has ended")?;
        ensure!(reply.xid == XID_PING && reply.error == 0, "a ping was answered {reply:?}");
    }
    Ok(begin.elapsed())
}

/// The last index of the log (0 on a server without the word) and the last zxid.
async fn log_end(cluster: &Cluster, member: usize) -> Result<(i64, i64)> {
    let host = cluster.host(member);
    let answer = four_letter::ask(host, "lgif").await.unwrap_or_default();
    let index = answer.lines().find_map(|line| line.strip_prefix("last_log_idx\t")?.trim().parse().ok());
    let answer = four_letter::ask(host, "srvr").await?;
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    let zxid = zxid.with_context(|| format!("`srvr` names no zxid: {answer}"))?;
    Ok((index.unwrap_or(0), i64::from_str_radix(zxid.trim(), 16)?))
}
