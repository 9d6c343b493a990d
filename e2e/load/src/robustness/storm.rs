//! `reconnect-storm`: thousands of clients on all members, the leader's process killed, and how soon each has its
//! session back.
//!
//! Each client owns an ephemeral node and writes to it right after the kill, again on a new connection if its own was
//! lost, until the write is acknowledged. The reply's owner shows that node and session lived on. Two session timeouts
//! after the kill nobody waits any more.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use super::figures::{Figure, spread_ms};
use super::frame;
use super::raw::{Opened, Opening, RawSession};
use crate::bench::wire::i64_at;
use crate::cluster::Cluster;

#[derive(Clone, Debug)]
pub struct Options {
    pub clients: usize,
}

const ROOT: &str = "/castellan-storm";
const TIMEOUT: Duration = Duration::from_secs(10);
/// All have to be back within it.
const BACK_WITHIN: Duration = Duration::from_secs(2 * TIMEOUT.as_secs());
const PING_PERIOD: Duration = Duration::from_secs(3);
/// The kernel takes so long at most to end a process.
const KILL_SAID_WITHIN: Duration = Duration::from_secs(5);
/// Clients that connect at once before the kill.
const OPENING_MAX: usize = 128;
/// A client that has tried every member waits so long before it goes round again.
const ROUND_PAUSE: Duration = Duration::from_millis(50);
/// Offset of `ephemeralOwner` in a Stat: four int64 and three int32 stand before it.
const OWNER_AT: usize = 44;

/// How one client came through.
enum Fate {
    /// When its write was acknowledged, and when it had its session back if its connection was lost; microseconds after
    /// the kill.
    Back {
        written_us: u64,
        attached_us: Option<u64>,
    },
    Expired,
    Late(String),
}

pub async fn run(cluster: &mut Cluster, options: &Options) -> Result<Vec<Figure>> {
    cluster.wait_ready().await?;
    let hosts = cluster.hosts();
    let mut first = RawSession::new(hosts[0], TIMEOUT.as_millis() as i32).await?;
    first.call(&frame::create(1, ROOT, b"", 0)).await?;
    // A parent made on one member shows on another only after a sync: each client makes its own way there.
    let (kill, killed) = watch::channel(None);
    let ready = std::sync::Arc::new(tokio::sync::Semaphore::new(OPENING_MAX));
    let (opened, mut openings) = tokio::sync::mpsc::unbounded_channel();
    let clients: Vec<_> = (0..options.clients)
        .map(|index| {
            let client = Client { hosts: hosts.clone(), index, killed: killed.clone() };
            let (ready, opened) = (ready.clone(), opened.clone());
            tokio::spawn(async move {
                let permit = ready.acquire_owned().await?;
                let session = client.open().await;
                drop(permit);
                // The receiver is gone only when the run has failed already.
                let _ = opened.send(session.is_ok());
                client.live(session?).await
            })
        })
        .collect();
    drop(opened);
    for opened in 0..options.clients {
        let one = openings.recv().await;
        ensure!(one == Some(true), "a client after {opened} others cannot open its session");
    }
    let leader = cluster.wait_leader().await?;
    let at = Instant::now();
    cluster.kill(leader)?;
    kill.send(Some(at)).context("no client has come so far")?;
    let mut fates = Vec::with_capacity(clients.len());
    for (index, client) in clients.into_iter().enumerate() {
        fates.push(client.await?.with_context(|| format!("client {}", index + 1))?);
    }
    cluster.restart(leader)?;
    cluster.wait_ready().await?;
    figures(&fates)
}

fn figures(fates: &[Fate]) -> Result<Vec<Figure>> {
    let (mut written, mut attached, mut expired, mut late) = (Vec::new(), Vec::new(), 0, 0);
    for fate in fates {
        match fate {
            Fate::Back { written_us, attached_us } => {
                written.push(*written_us);
                attached.extend(attached_us);
            }
            Fate::Expired => expired += 1,
            Fate::Late(_) => late += 1,
        }
    }
    if let Some(why) = fates.iter().find_map(|fate| if let Fate::Late(why) = fate { Some(why) } else { None })
    {
        eprintln!("one of the late clients: {why}");
    }
    let bound = BACK_WITHIN.as_millis() as f64;
    let mut figures = vec![
        Figure::of("clients", fates.len() as f64, ""),
        Figure::of("connections lost with the leader", attached.len() as f64, ""),
    ];
    let [p50, p99, max] = spread_ms("session back by id and password", &attached);
    figures.extend([p50, p99, max.at_most(bound)]);
    let first = written.iter().min().copied().unwrap_or(0) as f64 / 1000.0;
    figures.push(Figure::of("first write acknowledged by anybody", first, "ms"));
    let [p50, p99, max] = spread_ms("first write of each client", &written);
    figures.extend([p50, p99, max.at_most(bound)]);
    figures.push(Figure::of("sessions expired", f64::from(expired), "").at_most(0.0));
    let late_name = format!("clients not back after {} s", BACK_WITHIN.as_secs());
    figures.push(Figure::of(late_name, f64::from(late), "").at_most(0.0));
    ensure!(!fates.is_empty(), "there were no clients");
    Ok(figures)
}

struct Client {
    hosts: Vec<SocketAddr>,
    index: usize,
    killed: watch::Receiver<Option<Instant>>,
}

impl Client {
    fn node(&self) -> String {
        format!("{ROOT}/c{:05}", self.index)
    }

    async fn open(&self) -> Result<RawSession> {
        let host = self.hosts[self.index % self.hosts.len()];
        let mut session = RawSession::new(host, TIMEOUT.as_millis() as i32).await?;
        let synced = session.call(&frame::sync(1, ROOT)).await?;
        let created = session.call(&frame::create(2, &self.node(), b"", frame::EPHEMERAL)).await?;
        ensure!(synced.error == 0 && created.error == 0, "cannot create {}: {created:?}", self.node());
        Ok(session)
    }

    /// Pings until the kill, then comes through it.
    async fn live(mut self, mut session: RawSession) -> Result<Fate> {
        let at = loop {
            tokio::select! {
                biased;
                at = kill_time(&mut self.killed) => break at?,
                frame = session.next_frame() => if frame.is_err() {
                    // The end of the leader's connections is seen before it is said that it is dead.
                    let said = tokio::time::timeout(KILL_SAID_WITHIN, kill_time(&mut self.killed)).await;
                    break said.context("the connection ended before the kill")??;
                },
                () = tokio::time::sleep(PING_PERIOD) => session.stream.write_all(&frame::ping()).await?,
            }
        };
        let end = at + BACK_WITHIN;
        let outcome = tokio::time::timeout_at(end.into(), self.come_through(session, at)).await;
        Ok(outcome.unwrap_or_else(|_| Fate::Late(format!("client {} waits", self.index))))
    }

    async fn come_through(&self, mut session: RawSession, at: Instant) -> Fate {
        let since = || u64::try_from(at.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut resume = (session.id, session.password.clone(), 0);
        let mut attached_us = None;
        loop {
            match session.call(&frame::set(3, &self.node(), b"after")).await {
                Ok(reply) if reply.error == 0 => {
                    let owner = i64_at(&reply.body, OWNER_AT);
                    return match owner == Some(session.id) {
                        true => Fate::Back { written_us: since(), attached_us },
                        false => {
                            Fate::Late(format!("its node belongs to {owner:x?}, not to {:x}", session.id))
                        }
                    };
                }
                // Its node is gone, and so was its session.
                Ok(_) => return Fate::Expired,
                Err(_lost) => {}
            }
            resume.0 = session.id;
            session = match self.again(&resume).await {
                Some(session) => session,
                None => return Fate::Expired,
            };
            attached_us.get_or_insert_with(since);
        }
    }

    /// `None`: the server says that the session is gone.
    async fn again(&self, resume: &(i64, Vec<u8>, i64)) -> Option<RawSession> {
        let opening = Opening { resume: Some(resume.clone()), ..Opening::new(TIMEOUT.as_millis() as i32) };
        // Every second one goes round the other way, as client libraries shuffle their hosts.
        let hosts = self.hosts.len();
        let backwards = (self.index / hosts).is_multiple_of(2);
        loop {
            for step in 1..=hosts {
                let at = self.index + if backwards { hosts - step } else { step };
                match RawSession::open(self.hosts[at % hosts], &opening).await {
                    Ok(Opened::Session(session)) => return Some(session),
                    Ok(Opened::Expired) => return None,
                    Err(_refused) => {}
                }
            }
            tokio::time::sleep(ROUND_PAUSE).await;
        }
    }
}

async fn kill_time(killed: &mut watch::Receiver<Option<Instant>>) -> Result<Instant> {
    let at = *killed.wait_for(Option::is_some).await.context("the run was given up")?;
    at.context("no time of the kill")
}
