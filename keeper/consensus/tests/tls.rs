//! Members over loopback TCP inside TLS: everything of production but the server above.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "../../tls/tests/support/mod.rs"]
mod certificates;
mod support;

use bytes::Bytes;
use certificates::{Authority, Folder, Issued};
use keeper_consensus::{
    Consensus, ConsensusOptions, DialError, Member, Network, Precondition, Role, TcpNetwork,
};
use keeper_rt::Pool;
use keeper_tls::{Port, Reason, Tls, TlsConfig};
use keeper_types::ServerId;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Applied, CLUSTER, Recorder, SECRET, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;

struct Real {
    runtime: Option<Runtime>,
    consensus: Consensus,
    applied: Applied,
    tls: Arc<Tls>,
}

impl Real {
    async fn open(id: u64, address: SocketAddr, folder: &Folder, config: &TlsConfig) -> Real {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let disk = keeper_log::RealDisk::open(folder.path().join(id.to_string())).unwrap();
        let (tls, applied) = (Tls::open(Port::Peer, config).unwrap(), Applied::default());
        let mut options = ConsensusOptions::new(
            disk,
            TcpNetwork::with_tls(address, tls.clone()),
            Pool::of(runtime.handle().clone()),
            Box::new(Recorder(applied.clone())),
            SECRET.to_vec(),
        );
        options.log = keeper_log::Options::small();
        let (consensus, _) = Consensus::open(options).await.unwrap();
        Real { runtime: Some(runtime), consensus, applied, tls }
    }

    /// kill -9, as far as one process can.
    fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn member(id: u64, address: SocketAddr) -> Member {
    Member { id: ServerId(id), peer_address: format!("localhost:{}", address.port()), ..Member::default() }
}

fn none() -> Precondition {
    Precondition::default()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_members_replicate_inside_tls_notice_a_death_at_once_and_take_new_certificates() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let addresses = [(); 3].map(|()| free_address());
    let config = |id: usize| folder.port(&format!("m{id}"), &ours.issue(&format!("m{id}")), &ours);
    let mut lives = Vec::new();
    for (at, address) in addresses.iter().enumerate() {
        lives.push(Real::open(at as u64 + 1, *address, &folder, &config(at + 1)).await);
    }
    let first = lives[0].consensus.clone();
    first.bootstrap(CLUSTER, member(1, addresses[0])).await.unwrap();
    for id in 2..=3 {
        first.add_learner(member(id, addresses[id as usize - 1]), none()).await.unwrap();
        first.promote(ServerId(id), none()).await.unwrap();
    }
    // Larger than a TLS record, than the writer's buffer, and than the socket's.
    let large = Bytes::from(vec![5; 3 << 20]);
    let index = first.propose(large).await.unwrap().await.unwrap();
    eventually("the entry everywhere", || {
        lives.iter().all(|life| life.applied.lock().unwrap().last().is_some_and(|(last, _)| *last == index))
    })
    .await;
    assert!(lives.iter().all(|life| life.tls.counts().handshakes() > 0));

    // New certificates of the same authority while everything runs: nothing is dialled again for it.
    for (at, life) in lives.iter().enumerate() {
        life.tls.watch();
        config(at + 1);
        life.tls.look_now();
    }
    eventually("the new certificates are used", || {
        lives.iter().all(|life| life.tls.counts().reloads() > 0 && !life.tls.counts().is_stale())
    })
    .await;
    let committed = first.propose(Bytes::from_static(b"before")).await.unwrap().await.unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;

    let before = Instant::now();
    lives.remove(0).kill();
    let next = loop {
        let mut leads = lives.iter().filter(|life| life.consensus.status().role == Role::Leader);
        if let Some(leader) = leads.next()
            && let Ok(proposed) = leader.consensus.propose(Bytes::from_static(b"after")).await
            && let Ok(index) = proposed.await
        {
            break index;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let took_ms = before.elapsed().as_millis();
    eprintln!("over TLS: next acknowledged write after a leader's death: {took_ms} ms");
    // Timers alone would take three seconds and more.
    assert!(committed < next && took_ms < 2_000, "{took_ms} ms");
    for life in lives {
        life.consensus.shutdown().await;
    }
}

/// A member's own network with this certificate; where nobody listens for it.
fn network(
    folder: &Folder,
    name: &str,
    issued: &Issued,
    believes: &Authority,
) -> (Arc<dyn Network>, Arc<Tls>) {
    let tls = Tls::open(Port::Peer, &folder.port(name, issued, believes)).unwrap();
    (TcpNetwork::with_tls(free_address(), tls.clone()), tls)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_proves_no_certificate_gets_no_frame_through() {
    let (folder, ours, other) = (Folder::new(), Authority::new("ours"), Authority::new("other"));
    let address = free_address();
    let here = Real::open(1, address, &folder, &folder.port("m1", &ours.issue("m1"), &ours)).await;
    here.consensus.bootstrap(CLUSTER, member(1, address)).await.unwrap();
    let at = address.to_string();

    // Plain TCP, as a member without [peer_tls] speaks.
    let plain = TcpNetwork::new(free_address());
    let mut conn = plain.dial(&at).await.unwrap();
    conn.sender.send(Bytes::from_static(b"hello")).await.unwrap();
    assert_eq!(conn.receiver.recv().await, None);
    // A certificate of another authority.
    let (stranger, _) = network(&folder, "stranger", &other.issue("m2"), &ours);
    let mut conn = stranger.dial(&at).await.expect("TCP alone says that somebody listens");
    conn.sender.send(Bytes::from_static(b"hello")).await.unwrap();
    assert_eq!(conn.receiver.recv().await, None);
    // A member that does not believe the one it dials sends it nothing.
    let (suspicious, tls) = network(&folder, "suspicious", &ours.issue("m2"), &other);
    let mut conn = suspicious.dial(&at).await.unwrap();
    assert_eq!(conn.receiver.recv().await, None);
    assert_eq!(tls.counts().refused(Reason::UnknownAuthority), 1);
    let counts = here.tls.counts();
    eventually("all three are counted", || {
        [Reason::PlainText, Reason::UnknownAuthority, Reason::RefusedByOtherSide]
            .iter()
            .all(|reason| counts.refused(*reason) == 1)
    })
    .await;
    assert_eq!(here.consensus.status().role, Role::Leader);
    here.consensus.shutdown().await;
}

/// What the failure detector lives on: TLS changes nothing about what a dial proves.
#[tokio::test(flavor = "multi_thread")]
async fn a_dial_says_the_same_about_the_other_process_with_tls_as_without() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let (network, _) = network(&folder, "m1", &ours.issue("m1"), &ours);
    let nobody = free_address();
    assert_eq!(network.dial(&nobody.to_string()).await.err(), Some(DialError::Refused));
    // A listener that outlives its process's connections takes a connection and ends it: that is no refusal.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let mut conn = network.dial(&at).await.unwrap();
    drop(listener.accept().await.unwrap());
    assert_eq!(conn.receiver.recv().await, None);
    // Nor is silence.
    let mut conn = network.dial(&at).await.unwrap();
    let (mut silent, _) = listener.accept().await.unwrap();
    silent.write_all(&[22]).await.unwrap();
    assert_eq!(conn.receiver.recv().await, None, "cut in time");
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).await.unwrap();
    let error = network.dial("no-such-host.invalid:9234").await.err();
    assert!(matches!(error, Some(DialError::Unreachable(_))), "{error:?}");
}
