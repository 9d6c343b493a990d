//! Handshakes over pipes: who is let in, as whom, and why others are not.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // outside the simulator: files and clocks of tests

mod support;

use keeper_tls::limits::{HANDSHAKES_MAX, PEER_HANDSHAKE_TIME_MAX};
use keeper_tls::{ClientAuth, ClientTls, Port, Reason, Tls, TlsConfig, TlsStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Authority, Folder};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The subject that the port believes; the connection carries bytes both ways.
async fn let_in(tls: &Tls, client: &ClientTls) -> Option<String> {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (accepted, dialled) =
        tokio::join!(tls.accept(theirs, "10.0.0.9:5"), client.connect(ours, "localhost:2281"));
    let (accepted, mut dialled) = (accepted.expect("let in"), dialled.expect("a handshake"));
    let mut served = TlsStream::new(accepted.stream);
    dialled.write_all(b"ping").await.unwrap();
    let mut bytes = [0; 4];
    served.read_exact(&mut bytes).await.unwrap();
    served.write_all(&bytes).await.unwrap();
    dialled.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"ping");
    accepted.subject
}

/// What the client sees of its being turned away.
async fn turned_away(tls: &Tls, client: &ClientTls, expected: Reason) -> String {
    let before = tls.counts().refused(expected);
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let dial = async {
        match client.connect(ours, "localhost:2281").await {
            Err(error) => error.to_string(),
            // TLS 1.3 tells a client only afterwards that its certificate was refused.
            Ok(mut stream) => stream.read_u8().await.unwrap_err().to_string(),
        }
    };
    let (accepted, seen) = tokio::join!(tls.accept(theirs, "10.0.0.9:5"), dial);
    assert!(accepted.is_none());
    let counted: Vec<_> =
        Reason::ALL.iter().map(|reason| (reason.name(), tls.counts().refused(*reason))).collect();
    assert_eq!(tls.counts().refused(expected), before + 1, "{counted:?}");
    seen
}

fn port(folder: &Folder, ours: &Authority, asked: ClientAuth) -> Arc<Tls> {
    let config = folder.port_asking("server", &ours.issue("server"), ours, asked);
    Tls::open(Port::Client, &config).unwrap()
}

#[tokio::test]
async fn a_required_certificate_is_checked_and_names_its_holder() {
    let (folder, ours, other) = (Folder::new(), Authority::new("ours"), Authority::new("other"));
    let tls = port(&folder, &ours, ClientAuth::Required);
    let client = folder.client("good", &ours, Some(&ours.issue("a, b")));
    assert_eq!(let_in(&tls, &client).await.as_deref(), Some("CN=a\\, b,O=Castellan"));

    let nobody = folder.client("nobody", &ours, None);
    let seen = turned_away(&tls, &nobody, Reason::NoCertificate).await;
    assert!(seen.contains("CertificateRequired"), "{seen}");
    let stranger = folder.client("stranger", &ours, Some(&other.issue("a")));
    turned_away(&tls, &stranger, Reason::UnknownAuthority).await;
    let late = folder.client("late", &ours, Some(&ours.issue_expired("a")));
    turned_away(&tls, &late, Reason::Expired).await;
    let early = ours.issue_with("a", |params| params.not_before = rcgen::date_time_ymd(4000, 1, 1));
    turned_away(&tls, &folder.client("early", &ours, Some(&early)), Reason::NotYetValid).await;
    let server_only = ours.issue_with("a", |params| {
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    });
    turned_away(&tls, &folder.client("server-only", &ours, Some(&server_only)), Reason::WrongPurpose).await;
    // The client does not believe us.
    let suspicious = folder.client("suspicious", &other, Some(&ours.issue("a")));
    let seen = turned_away(&tls, &suspicious, Reason::RefusedByOtherSide).await;
    assert!(seen.contains("UnknownIssuer"), "{seen}");
    assert_eq!((tls.counts().handshakes(), tls.counts().not_after_s() > 0), (1, true));
}

#[tokio::test]
async fn an_optional_certificate_may_be_missing_but_not_wrong() {
    let (folder, ours, other) = (Folder::new(), Authority::new("ours"), Authority::new("other"));
    let tls = port(&folder, &ours, ClientAuth::Optional);
    assert_eq!(let_in(&tls, &folder.client("nobody", &ours, None)).await, None);
    let good = folder.client("good", &ours, Some(&ours.issue("a")));
    assert_eq!(let_in(&tls, &good).await.as_deref(), Some("CN=a,O=Castellan"));
    turned_away(&tls, &folder.client("bad", &ours, Some(&other.issue("a"))), Reason::UnknownAuthority).await;
}

#[tokio::test]
async fn a_port_that_asks_for_nothing_learns_nothing() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let tls = port(&folder, &ours, ClientAuth::None);
    assert_eq!(let_in(&tls, &folder.client("good", &ours, Some(&ours.issue("a")))).await, None);
}

#[tokio::test]
async fn plain_text_is_refused_at_once() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let tls = port(&folder, &ours, ClientAuth::None);
    // The beginning of ZooKeeper's handshake, and of HTTP.
    for bytes in [&[0, 0, 0, 45, 0, 0, 0, 0][..], b"GET / HTTP/1.1\r\n"] {
        let (mut ours, theirs) = tokio::io::duplex(1 << 16);
        ours.write_all(bytes).await.unwrap();
        assert!(tls.accept(theirs, "10.0.0.9:5").await.is_none());
    }
    assert_eq!(tls.counts().refused(Reason::PlainText), 2);
}

#[tokio::test]
async fn who_does_not_finish_is_cut_and_holds_up_nobody() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let tls = Tls::open(Port::Peer, &folder.port("peer", &ours.issue("peer"), &ours)).unwrap();
    let (mut slow, theirs) = tokio::io::duplex(1 << 16);
    slow.write_all(&[22, 3, 1]).await.unwrap();
    let began = Instant::now();
    let slow_tls = tls.clone();
    let refused =
        keeper_rt::spawn("slow", async move { slow_tls.accept(theirs, "10.0.0.9:5").await.is_none() });
    let client = folder.client("client", &ours, Some(&ours.issue("a")));
    let_in(&tls, &client).await;
    assert!(refused.await.unwrap());
    assert!(began.elapsed() >= PEER_HANDSHAKE_TIME_MAX);
    assert_eq!(tls.counts().refused(Reason::TimedOut), 1);
    drop(slow);
}

#[tokio::test]
async fn more_handshakes_than_there_is_room_for_are_refused_and_room_comes_back() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let tls = port(&folder, &ours, ClientAuth::None);
    let mut silent = Vec::new();
    for _ in 0..HANDSHAKES_MAX {
        let (ours, theirs) = tokio::io::duplex(64);
        let tls = tls.clone();
        keeper_rt::spawn("silent", async move { tls.accept(theirs, "10.0.0.9:5").await.is_none() });
        silent.push(ours);
    }
    // Each time at least one of them comes to its first wait.
    for _ in 0..HANDSHAKES_MAX {
        tokio::task::yield_now().await;
    }
    let (_extra, theirs) = tokio::io::duplex(64);
    assert!(tls.accept(theirs, "10.0.0.9:5").await.is_none());
    assert_eq!(tls.counts().refused(Reason::Busy), 1);
    drop(silent);
    let client = folder.client("client", &ours, None);
    for _ in 0..2_000 {
        if tls.counts().refused(Reason::Closed) == HANDSHAKES_MAX as u64 {
            break;
        }
        keeper_rt::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(tls.counts().refused(Reason::Closed), HANDSHAKES_MAX as u64);
    let_in(&tls, &client).await;
}

#[tokio::test]
async fn members_check_each_other_and_the_dialled_name() {
    let (folder, ours, other) = (Folder::new(), Authority::new("ours"), Authority::new("other"));
    let open = |config: &TlsConfig| Tls::open(Port::Peer, config).unwrap();
    let one = open(&folder.port("one", &ours.issue("one"), &ours));
    let dial = async |from: &Tls, address: &str| {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (accepted, dialled) = tokio::join!(one.accept(there, "10.0.0.9:5"), from.dial(here, address));
        (accepted.and_then(|accepted| accepted.subject), dialled.is_some())
    };
    let two = folder.port("two", &ours.issue("two"), &ours);
    let named = (Some("CN=two,O=Castellan".to_owned()), true);
    assert_eq!(dial(&open(&two), "localhost:9234").await, named);
    assert_eq!(dial(&open(&two), "127.0.0.1:9234").await, named);
    let by_name = open(&two);
    assert!(!dial(&by_name, "elsewhere:9234").await.1);
    assert_eq!(by_name.counts().refused(Reason::WrongName), 1);
    let by_authority = open(&TlsConfig { verify_names: false, ..two });
    assert_eq!(dial(&by_authority, "elsewhere:9234").await, named);

    // Its own authority is another: it is not let in, whether it believes us or not.
    let mut three = folder.port("three", &other.issue("three"), &ours);
    assert_eq!(dial(&open(&three), "localhost:9234").await.0, None);
    assert_eq!(one.counts().refused(Reason::UnknownAuthority), 1);
    // It does not believe us: no name checked or not.
    three = TlsConfig { verify_names: false, ..folder.port("three", &ours.issue("three"), &other) };
    let suspicious = open(&three);
    assert!(!dial(&suspicious, "localhost:9234").await.1);
    assert_eq!(suspicious.counts().refused(Reason::UnknownAuthority), 1);
}

#[tokio::test]
async fn a_port_speaks_only_the_versions_and_suites_that_it_was_told() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let base = folder.port_asking("server", &ours.issue("server"), &ours, ClientAuth::None);
    let open = |protocols: &[&str], suites: &[&str]| {
        let protocols = protocols.iter().map(|name| name.parse().unwrap()).collect();
        let cipher_suites = suites.iter().map(|name| name.parse().unwrap()).collect();
        Tls::open(Port::Client, &TlsConfig { protocols, cipher_suites, ..base.clone() })
    };
    let client = folder.client("client", &ours, None);
    let spoken = async |tls: &Tls| {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (accepted, dialled) =
            tokio::join!(tls.accept(there, "10.0.0.9:5"), client.connect(here, "localhost:2281"));
        dialled.unwrap();
        let accepted = accepted.unwrap();
        let (_, connection) = accepted.stream.get_ref();
        let suite = connection.negotiated_cipher_suite().unwrap();
        format!("{:?} {:?}", connection.protocol_version().unwrap(), suite.suite())
    };
    let newest = spoken(&open(&[], &[]).unwrap()).await;
    assert!(newest.starts_with("TLSv1_3"), "{newest}");
    let older = spoken(&open(&["TLSv1.2"], &[]).unwrap()).await;
    assert!(older.starts_with("TLSv1_2"), "{older}");
    let named = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];
    let chosen = spoken(&open(&[], &named).unwrap()).await;
    assert_eq!(chosen, "TLSv1_2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    // The key is of another kind: nothing is left in common.
    let rsa = open(&["TLSv1.2"], &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]).unwrap();
    turned_away(&rsa, &client, Reason::Incompatible).await;
    // None of these suites is of that version.
    let error = open(&["TLSv1.3"], &named).err().unwrap().to_string();
    assert!(error.contains("TLS of the client port") && error.contains("cipher suites"), "{error}");
}

#[tokio::test]
async fn a_port_that_verifies_addresses_lets_each_certificate_in_from_its_own() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let base = folder.port_asking("server", &ours.issue("server"), &ours, ClientAuth::Optional);
    let config = TlsConfig { verify_client_addresses: true, ..base };
    let tls = Tls::open(Port::Client, &config).unwrap();
    // It carries localhost and 127.0.0.1.
    let client = folder.client("client", &ours, Some(&ours.issue("a")));
    let from = async |client: &ClientTls, remote: &str| {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (accepted, _) = tokio::join!(tls.accept(there, remote), client.connect(here, "localhost:2281"));
        accepted.map(|accepted| accepted.subject)
    };
    let itself = Some(Some("CN=a,O=Castellan".to_owned()));
    assert_eq!(from(&client, "127.0.0.1:5").await, itself);
    assert_eq!(from(&client, "[::ffff:127.0.0.1]:5").await, itself);
    for remote in ["127.0.0.2:5", "[::1]:5", "localhost:5", "somewhere"] {
        assert_eq!(from(&client, remote).await, None, "{remote}");
    }
    assert_eq!(tls.counts().refused(Reason::WrongAddress), 4);
    // Who shows none has no address to be wrong.
    assert_eq!(from(&folder.client("nobody", &ours, None), "10.0.0.9:5").await, Some(None));
}
