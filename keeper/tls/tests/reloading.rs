//! New files while connections live.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // outside the simulator: files and clocks of tests

mod support;

use keeper_tls::{ClientAuth, ClientTls, Port, Tls, TlsStream};
use std::sync::Arc;
use std::time::Duration;
use support::{Authority, Folder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        keeper_rt::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came true: {what}");
}

type Pair = (Box<dyn Stream>, Box<dyn Stream>);
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Both ends of a connection; `None` when the client does not believe the server.
async fn connect(tls: &Arc<Tls>, client: &ClientTls) -> Option<Pair> {
    let (ours, theirs): (DuplexStream, DuplexStream) = tokio::io::duplex(1 << 16);
    let (accepted, dialled) =
        tokio::join!(tls.accept(theirs, "10.0.0.9:5"), client.connect(ours, "localhost:1"));
    Some((Box::new(TlsStream::new(accepted?.stream)), Box::new(dialled.ok()?)))
}

async fn carries((served, dialled): &mut Pair) {
    dialled.write_all(b"still here").await.unwrap();
    let mut bytes = [0; 10];
    served.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"still here");
}

#[tokio::test]
async fn new_files_serve_new_connections_and_broken_ones_change_nothing() {
    let (folder, old, new) = (Folder::new(), Authority::new("old"), Authority::new("new"));
    let config = folder.port_asking("server", &old.issue("server"), &old, ClientAuth::None);
    let tls = Tls::open(Port::Client, &config).unwrap();
    tls.watch();
    let (believes_old, believes_new) = (folder.client("a", &old, None), folder.client("b", &new, None));
    let mut first = connect(&tls, &believes_old).await.unwrap();

    let next = new.issue("server");
    folder.put("server", &next);
    tls.look_now();
    // Between the two renames the pair may have been seen broken; what counts is where it ends.
    eventually("the new pair is used", || tls.counts().reloads() == 1 && !tls.counts().is_stale()).await;
    assert!(connect(&tls, &believes_old).await.is_none());
    let mut second = connect(&tls, &believes_new).await.unwrap();
    carries(&mut first).await;

    let failures = tls.counts().reload_failures();
    folder.write("server.key", &old.issue("other").key);
    tls.look_now();
    eventually("the mismatch is noticed", || tls.counts().is_stale()).await;
    assert_eq!(tls.counts().reload_failures(), failures + 1);
    carries(&mut connect(&tls, &believes_new).await.unwrap()).await;
    carries(&mut second).await;

    // Seen again it is not told again.
    tls.look_now();
    keeper_rt::sleep(Duration::from_millis(50)).await;
    assert_eq!(tls.counts().reload_failures(), failures + 1);
    folder.write("server.key", &next.key);
    tls.look_now();
    eventually("the old pair is whole again", || !tls.counts().is_stale()).await;
    carries(&mut first).await;
}

#[tokio::test]
async fn files_are_looked_at_without_being_asked() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let tls = Tls::open(Port::Peer, &folder.port("server", &ours.issue("server"), &ours)).unwrap();
    tls.watch();
    folder.put("server", &ours.issue("server"));
    eventually("the new pair is used", || tls.counts().reloads() >= 1 && !tls.counts().is_stale()).await;
    std::fs::remove_file(folder.path().join("server.pem")).unwrap();
    tls.look_now();
    eventually("the missing file is noticed", || tls.counts().is_stale()).await;
    let client = folder.client("a", &ours, Some(&ours.issue("a")));
    assert!(connect(&tls, &client).await.is_some());
}
