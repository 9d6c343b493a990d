//! What bad clients send in masses: each attack is some connections that do their worst again and again until told to
//! stop. Against the leader, where all writes meet.
//!
//! The attackers run on threads of the lowest priority: in earnest they burn the processors of other machines.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::answers;
use super::frame::{self, Frame};
use super::raw::{self, RawSession};
use crate::random::Random;

/// One kind of bad client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Random bytes, before and after the handshake.
    RandomBytes,
    /// Lengths of 2 GB, negative ones, and one byte over the limit.
    HugeLengths,
    /// The first half of a request of every class, then silence.
    HalfFrames,
    /// Whole requests, one byte at a time.
    SlowFrames,
    /// getData of the largest node, the answers never read.
    UnreadData,
    /// getChildren of ten thousand children, the answers never read.
    UnreadChildren,
    /// Writes, syncs, auth packets and pings, the answers never read.
    UnreadWrites,
    /// Writes with large reads right behind them in the same pipeline, answers never read.
    ReadsBehindWrites,
    /// multiReads of the largest node, thousands of times in one request.
    MultiReads,
    /// ACLs as long as a frame can hold.
    LongAcls,
    /// Multis as long as a frame can hold.
    LongMultis,
    /// setWatches for a million paths on each connection.
    ManyWatches,
    /// Digest identities by the thousand.
    AuthFlood,
    /// Writes that carry as many identities as a connection may have.
    ManyIdentities,
    /// Illegal paths, unknown operations, bodies that end early.
    BadRequests,
    /// Four-letter words, a connection each.
    WordFlood,
    /// Connections that say nothing, and connections that come and go.
    ConnectFlood,
}

const LARGE_NODE: &str = "/castellan-attack/large";
const WIDE_NODE: &str = "/castellan-attack/wide";
const ROOT: &str = "/castellan-attack";
/// Beside the rest of its create request it fits the largest frame.
const LARGE_BYTES: usize = 1_000_000;
const WIDE_CHILDREN: usize = 10_000;
/// Creates in flight while the children are made.
const SETUP_DEPTH: usize = 500;
const TIMEOUT_MS: i32 = 30_000;
/// The largest request by default: ZooKeeper's `jute.maxbuffer`.
pub const FRAME_BYTES_MAX: usize = 0x000f_ffff;
/// As many of the shortest entries as fit into a frame of that size.
pub const LONG_ACL_ENTRIES: usize = 38_000;
pub const LONG_MULTI_CHECKS: usize = 58_000;
pub const WATCHES_PER_FRAME: usize = 60_000;
/// Their replies would have 10 GB.
const MULTI_READS: usize = 10_000;
/// Frames of that make a million watches.
const WATCH_FRAMES: usize = 17;
const _: () = assert!(1_000_000 <= WATCH_FRAMES * WATCHES_PER_FRAME);
/// Connections of most attacks, and of those that only hold them.
const ATTACKERS: usize = 16;
const HOLDERS: usize = 400;
/// Requests sent at once by those that read no answers.
const UNREAD_BURST: usize = 50;
/// Nearly the most that one auth packet may have, and as many of them as ours takes.
const IDENTITY_BYTES: usize = 900;
const IDENTITIES: usize = 4;
/// An attacker waits so long for an answer or for the close that it deserves.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// After a refused connection.
const PAUSE: Duration = Duration::from_millis(5);

impl Attack {
    pub const ALL: [Attack; 17] = [
        Attack::RandomBytes,
        Attack::HugeLengths,
        Attack::HalfFrames,
        Attack::SlowFrames,
        Attack::UnreadData,
        Attack::UnreadChildren,
        Attack::UnreadWrites,
        Attack::ReadsBehindWrites,
        Attack::MultiReads,
        Attack::LongAcls,
        Attack::LongMultis,
        Attack::ManyWatches,
        Attack::AuthFlood,
        Attack::ManyIdentities,
        Attack::BadRequests,
        Attack::WordFlood,
        Attack::ConnectFlood,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Attack::RandomBytes => "random-bytes",
            Attack::HugeLengths => "huge-lengths",
            Attack::HalfFrames => "half-frames",
            Attack::SlowFrames => "slow-frames",
            Attack::UnreadData => "unread-data",
            Attack::UnreadChildren => "unread-children",
            Attack::UnreadWrites => "unread-writes",
            Attack::ReadsBehindWrites => "reads-behind-writes",
            Attack::MultiReads => "multi-reads",
            Attack::LongAcls => "long-acls",
            Attack::LongMultis => "long-multis",
            Attack::ManyWatches => "many-watches",
            Attack::AuthFlood => "auth-flood",
            Attack::ManyIdentities => "many-identities",
            Attack::BadRequests => "bad-requests",
            Attack::WordFlood => "word-flood",
            Attack::ConnectFlood => "connect-flood",
        }
    }

    /// What the p99 of others may be meanwhile. Right requests have to be served, however large: here all three members do
    /// that work on the same few processors.
    pub fn p99_ms_max(self) -> f64 {
        match self {
            Attack::UnreadWrites
            | Attack::ReadsBehindWrites
            | Attack::MultiReads
            | Attack::LongAcls
            | Attack::LongMultis
            | Attack::ManyWatches
            | Attack::ManyIdentities => 100.0,
            _ => 20.0,
        }
    }

    fn connections(self) -> usize {
        match self {
            Attack::HalfFrames | Attack::SlowFrames | Attack::ConnectFlood => HOLDERS,
            // A million watches each: more would measure this process's memory.
            Attack::ManyWatches => 4,
            _ => ATTACKERS,
        }
    }
}

/// Makes the nodes that attacks ask for.
pub async fn prepare(host: SocketAddr) -> Result<()> {
    let mut session = RawSession::new(host, TIMEOUT_MS).await?;
    for (path, data) in [(ROOT, 0), (WIDE_NODE, 0), (LARGE_NODE, LARGE_BYTES)] {
        let reply = session.call(&frame::create(1, path, &vec![b'x'; data], 0)).await?;
        ensure!(reply.error == 0, "cannot create {path}: error {}", reply.error);
    }
    for from in (0..WIDE_CHILDREN).step_by(SETUP_DEPTH) {
        let create = |index: usize| frame::create(1, &format!("{WIDE_NODE}/child-{index:020}"), b"", 0);
        let burst: Vec<u8> = (from..from + SETUP_DEPTH).flat_map(create).collect();
        session.stream.write_all(&burst).await?;
        for _ in 0..SETUP_DEPTH {
            let reply = session.next_reply().await?;
            ensure!(reply.error == 0, "cannot create a child of {WIDE_NODE}: error {}", reply.error);
        }
    }
    Ok(())
}

/// What an attack did, for the report.
#[derive(Debug, Default)]
pub struct Done {
    pub connections: AtomicU64,
    pub requests: AtomicU64,
    /// Connections that the server ended.
    pub closed: AtomicU64,
    stop: AtomicBool,
}

/// A running attack.
pub struct Running {
    done: Arc<Done>,
    runtime: tokio::runtime::Runtime,
}

impl Running {
    pub fn start(attack: Attack, host: SocketAddr) -> Result<Running> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("attack")
            .on_thread_start(|| {
                // Without it the attack only takes more of the processors than it should.
                let _ = rustix::process::nice(19);
            })
            .enable_all()
            .build()
            .context("cannot start the attackers' threads")?;
        let done = Arc::new(Done::default());
        for index in 0..attack.connections() {
            let attacker = Attacker { attack, host, index, done: done.clone() };
            runtime.spawn(attacker.run());
        }
        Ok(Running { done, runtime })
    }

    /// All its connections are gone when this returns.
    pub async fn stop(self) -> Arc<Done> {
        self.done.stop.store(true, Ordering::Relaxed);
        self.runtime.shutdown_background();
        self.done
    }
}

struct Attacker {
    attack: Attack,
    host: SocketAddr,
    index: usize,
    done: Arc<Done>,
}

impl Attacker {
    async fn run(self) {
        let seed = self.index as u64 + 1;
        let mut random = Random::from_seed(seed);
        while !self.done.stop.load(Ordering::Relaxed) {
            self.done.connections.fetch_add(1, Ordering::Relaxed);
            if self.one_connection(&mut random).await.is_err() {
                self.done.closed.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    fn sent(&self, requests: usize) {
        self.done.requests.fetch_add(requests as u64, Ordering::Relaxed);
    }

    async fn session(&self) -> io::Result<RawSession> {
        RawSession::new(self.host, TIMEOUT_MS).await
    }

    /// The life of one connection. An error is its end by the server, as most of them deserve.
    async fn one_connection(&self, random: &mut Random) -> io::Result<()> {
        match self.attack {
            Attack::RandomBytes => {
                let bytes: Vec<u8> = (0..512).flat_map(|_| random.next_u64().to_be_bytes()).collect();
                let after_handshake = random.below(2) == 0;
                let mut stream = match after_handshake {
                    true => self.session().await?.stream,
                    false => raw::connect(self.host, None).await?,
                };
                self.sent(1);
                stream.write_all(&bytes).await?;
                until_closed(&mut stream).await
            }
            Attack::HugeLengths => {
                let lengths = [i32::MAX, -1, i32::MIN, FRAME_BYTES_MAX as i32 + 1];
                let mut stream = match self.index % 2 {
                    0 => self.session().await?.stream,
                    _ => raw::connect(self.host, None).await?,
                };
                self.sent(1);
                stream.write_all(&lengths[random.below(lengths.len())].to_be_bytes()).await?;
                stream.write_all(&[0; 4096]).await?;
                until_closed(&mut stream).await
            }
            Attack::HalfFrames => {
                let mut session = self.session().await?;
                let request = self.of_every_class(random);
                self.sent(1);
                session.stream.write_all(&request[..request.len() / 2]).await?;
                until_closed(&mut session.stream).await
            }
            Attack::SlowFrames => {
                let mut session = self.session().await?;
                let request = self.of_every_class(random);
                for byte in request.iter().take(4096) {
                    session.stream.write_all(&[*byte]).await?;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                self.sent(1);
                Ok(())
            }
            Attack::UnreadData => self.unread(|xid| frame::get(xid, LARGE_NODE)).await,
            Attack::UnreadChildren => self.unread(|xid| frame::children(xid, WIDE_NODE)).await,
            Attack::UnreadWrites => {
                let node = format!("{ROOT}/unread-{}", self.index);
                let mut session = self.session().await?;
                session.call(&frame::create(1, &node, b"", 0)).await?;
                self.unread_on(session, |xid| match xid % 4 {
                    0 => frame::set(xid, &node, &[b'w'; 1000]),
                    1 => frame::sync(xid, &node),
                    2 => frame::auth("digest", b"user:password"),
                    _ => frame::ping(),
                })
                .await
            }
            Attack::ReadsBehindWrites => {
                let node = format!("{ROOT}/behind-{}", self.index);
                let mut session = self.session().await?;
                session.call(&frame::create(1, &node, b"", 0)).await?;
                self.unread_on(session, |xid| match xid % 10 {
                    0 => frame::set(xid, &node, b"small"),
                    1..5 => frame::get(xid, LARGE_NODE),
                    _ => frame::children(xid, WIDE_NODE),
                })
                .await
            }
            Attack::MultiReads => {
                let get = |frame: Frame, _| frame.multi_header(frame::OP_GET_DATA).text(LARGE_NODE).byte(0);
                let reads = (0..MULTI_READS).fold(Frame::request(1, frame::OP_MULTI_READ), get);
                self.repeat(&reads.multi_end().done()).await
            }
            Attack::LongAcls => {
                let node = format!("{ROOT}/acl-{}", self.index);
                let distinct = random.below(2) == 0;
                let request = long_acl(&node, LONG_ACL_ENTRIES, distinct);
                self.repeat(&request).await
            }
            Attack::LongMultis => self.repeat(&frame::multi_of_checks(1, LONG_MULTI_CHECKS)).await,
            Attack::ManyWatches => {
                let mut session = self.session().await?;
                for frame in 0..WATCH_FRAMES {
                    let from = frame * WATCHES_PER_FRAME;
                    let paths = (from..from + WATCHES_PER_FRAME).map(|index| format!("/w/{index:08}"));
                    session.call(&frame::set_watches(paths)).await?;
                    self.sent(1);
                }
                Ok(())
            }
            Attack::AuthFlood => {
                let mut session = self.session().await?;
                let mut flood = Vec::new();
                for index in 0..1000 {
                    flood.extend(frame::auth("digest", format!("user{index}:password").as_bytes()));
                }
                self.sent(1000);
                session.stream.write_all(&flood).await?;
                until_closed(&mut session.stream).await
            }
            Attack::ManyIdentities => {
                let node = format!("{ROOT}/identities-{}", self.index);
                let mut session = self.session().await?;
                session.call(&frame::create(1, &node, b"", 0)).await?;
                for identity in 0..IDENTITIES {
                    let user = format!("{identity:0IDENTITY_BYTES$}:password");
                    session.call(&frame::auth("digest", user.as_bytes())).await?;
                }
                loop {
                    let burst: Vec<u8> = (0..100).flat_map(|xid| frame::set(xid, &node, b"small")).collect();
                    session.stream.write_all(&burst).await?;
                    for _ in 0..100 {
                        session.next_reply().await?;
                    }
                    self.sent(100);
                }
            }
            Attack::BadRequests => {
                let mut session = self.session().await?;
                loop {
                    for case in answers::answered() {
                        session.call(&(case.bytes)()).await?;
                        self.sent(1);
                    }
                }
            }
            Attack::WordFlood => {
                let words = ["ruok", "mntr", "stat", "cons", "conf", "srvr", "wchs", "dirs", "envi", "none"];
                let mut stream = raw::connect(self.host, None).await?;
                self.sent(1);
                stream.write_all(words[random.below(words.len())].as_bytes()).await?;
                // The end is what a word's client waits for.
                let _ = until_closed(&mut stream).await;
                Ok(())
            }
            Attack::ConnectFlood => {
                let mut stream = raw::connect(self.host, None).await?;
                self.sent(1);
                match self.index % 4 {
                    0 => until_closed(&mut stream).await,
                    _ => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        Ok(())
                    }
                }
            }
        }
    }

    /// A request of each class that connections tell apart.
    fn of_every_class(&self, random: &mut Random) -> Vec<u8> {
        match random.below(8) {
            0 => frame::get(1, LARGE_NODE),
            1 => frame::create(1, &format!("{ROOT}/half"), &[b'h'; 1000], 0),
            2 => frame::sync(1, ROOT),
            3 => frame::ping(),
            4 => frame::auth("digest", b"user:password"),
            5 => frame::multi_of_checks(1, 100),
            6 => frame::set_watches((0..100).map(|index| format!("/w/{index}"))),
            _ => Frame::request(1, 16).text("").text("").text("").long(-1).done(),
        }
    }

    async fn unread(&self, request: impl Fn(i32) -> Vec<u8>) -> io::Result<()> {
        self.unread_on(self.session().await?, request).await
    }

    /// Asks as long as the socket takes it, and reads nothing.
    async fn unread_on(&self, mut session: RawSession, request: impl Fn(i32) -> Vec<u8>) -> io::Result<()> {
        loop {
            let burst: Vec<u8> = (0..UNREAD_BURST as i32).flat_map(&request).collect();
            session.stream.write_all(&burst).await?;
            self.sent(UNREAD_BURST);
        }
    }

    /// The same request one after the other, each answered.
    async fn repeat(&self, request: &[u8]) -> io::Result<()> {
        let mut session = self.session().await?;
        loop {
            session.call(request).await?;
            self.sent(1);
        }
    }
}

/// A create with an ACL of `entries`: all the same, or each another.
pub fn long_acl(path: &str, entries: usize, distinct: bool) -> Vec<u8> {
    let frame = Frame::request(1, frame::OP_CREATE).text(path).text("").int(frame::count(entries));
    let entry = |frame: Frame, index: usize| match distinct {
        false => frame.acl("world", "anyone"),
        true => frame.acl("sasl", &format!("{index}")),
    };
    (0..entries).fold(frame, entry).int(0).done()
}

/// Reads until the server ends the connection, which is the error; an end that does not come is none.
pub async fn until_closed(stream: &mut TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let closed = async {
        while stream.read(&mut buffer).await? > 0 {}
        Err(io::ErrorKind::UnexpectedEof.into())
    };
    tokio::time::timeout(ANSWER_TIMEOUT, closed).await.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shall_fit_a_frame_fits_it() {
        let watches = frame::set_watches((0..WATCHES_PER_FRAME).map(|index| format!("/w/{index:08}")));
        let requests = [
            frame::create(1, LARGE_NODE, &vec![0; LARGE_BYTES], 0),
            long_acl("/acl", LONG_ACL_ENTRIES, false),
            long_acl("/acl", LONG_ACL_ENTRIES, true),
            frame::multi_of_checks(1, LONG_MULTI_CHECKS),
            watches,
        ];
        for request in requests {
            assert!(request.len() - 4 <= FRAME_BYTES_MAX, "{} bytes", request.len());
        }
        assert!(frame::multi_of_checks(1, 100_000).len() > FRAME_BYTES_MAX);
    }

    #[test]
    fn every_attack_has_a_name_of_its_own() {
        let mut names = Attack::ALL.map(Attack::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Attack::ALL.len());
    }
}
