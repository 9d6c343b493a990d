//! Clients and admin calls inside TLS: real sockets on loopback, the real client, certificates made on the spot.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

#[path = "../../tls/tests/support/mod.rs"]
mod certificates;
mod support;

use certificates::{Authority, Folder};
use keeper_client::admin::AdminClient;
use keeper_client::{
    Acl, AclId, Client, ClientError, ClientTls, CreateMode, ErrorCode, Options, Perms, TlsConnector,
    four_letter, four_letter_with,
};
use keeper_server::listener::{self, TlsClients};
use keeper_server::{Node, TlsCollector, admin};
use keeper_tls::{ClientAuth, Port, Reason, Tls};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A member with a plain port, a TLS port, and one for both.
struct Served {
    node: Node,
    tls: Arc<Tls>,
    plain: String,
    secure: String,
    both: String,
}

async fn bound() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

async fn serve(folder: &Folder, ours: &Authority, asked: ClientAuth, super_subject: Option<&str>) -> Served {
    let node = support::one_member().await;
    let config = folder.port_asking("server", &ours.issue("server"), ours, asked);
    let tls = Tls::open(Port::Client, &config).unwrap();
    tls.watch();
    let (listener, plain) = bound().await;
    keeper_rt::spawn("plain", listener::serve_clients(node.clone(), listener, None));
    let (listener, secure) = bound().await;
    let clients = TlsClients { tls: tls.clone(), super_subject: super_subject.map(str::to_owned) };
    keeper_rt::spawn("tls", listener::serve_tls_clients(node.clone(), listener, clients.clone()));
    let (listener, both) = bound().await;
    keeper_rt::spawn("both", listener::serve_clients(node.clone(), listener, Some(clients)));
    Served { node, tls, plain, secure, both }
}

fn options() -> Options {
    Options { operation_timeout: Some(support::WAIT), ..Options::default() }
}

async fn connect(served: &Served, tls: &ClientTls) -> Client {
    Client::connect_with(TlsConnector(tls.clone()), &[&served.secure], options()).await.unwrap()
}

/// Why a client gets no session.
async fn refused(served: &Served, tls: &ClientTls) -> String {
    let options = Options { operation_timeout: Some(Duration::from_secs(2)), ..Options::default() };
    let client = Client::connect_with(TlsConnector(tls.clone()), &[&served.secure], options).await;
    client.err().expect("no session").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_and_tls_clients_share_one_tree_and_words_are_answered_inside_tls() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let served = serve(&folder, &ours, ClientAuth::None, None).await;
    let tls = folder.client("client", &ours, None);
    let plain = Client::connect(&[&served.plain], options()).await.unwrap();
    let secure = connect(&served, &tls).await;
    plain.create("/a", b"plain", CreateMode::Persistent).await.unwrap();
    secure.sync("/a").await.unwrap();
    let (read, watch) = secure.get_watch("/a").await.unwrap();
    assert_eq!(read.value.bytes(), b"plain");
    // Larger than any buffer on the way, in both directions.
    let large = vec![7; 900 << 10];
    secure.set("/a", &large, -1).await.unwrap();
    assert_eq!(secure.get("/a").await.unwrap().value.bytes(), &large[..]);
    assert_eq!(plain.get("/a").await.unwrap().value.bytes(), &large[..]);
    drop(watch);
    assert_eq!(four_letter(&served.plain, "ruok").await.unwrap(), "imok");
    assert_eq!(four_letter_with(&TlsConnector(tls), &served.secure, "ruok").await.unwrap(), "imok");
    secure.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_port_tells_clients_with_and_without_tls_apart_by_their_first_byte() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let served = serve(&folder, &ours, ClientAuth::Required, None).await;
    let plain = Client::connect(&[&served.both], options()).await.unwrap();
    plain.create("/a", b"plain", CreateMode::Persistent).await.unwrap();
    let holder = folder.client("client", &ours, Some(&ours.issue("one")));
    let secure =
        Client::connect_with(TlsConnector(holder.clone()), &[&served.both], options()).await.unwrap();
    secure.sync("/a").await.unwrap();
    assert_eq!(secure.get("/a").await.unwrap().value.bytes(), b"plain");
    // Who comes inside TLS proves what is asked for there.
    let auth = AclId { scheme: "auth".into(), id: String::new() };
    let mine = vec![Acl { perms: Perms::ALL, id: auth }];
    secure.create_with_acl("/mine", b"", CreateMode::Persistent, mine).await.unwrap();
    assert_eq!(plain.get("/mine").await.unwrap_err(), ClientError::Server(ErrorCode::NoAuth));
    let nobody = TlsConnector(folder.client("nobody", &ours, None));
    let patience = Options { operation_timeout: Some(Duration::from_secs(2)), ..Options::default() };
    assert!(Client::connect_with(nobody, &[&served.both], patience).await.is_err());
    assert!(served.tls.counts().refused(Reason::NoCertificate) >= 1);
    assert_eq!(four_letter(&served.both, "ruok").await.unwrap(), "imok");
    assert_eq!(four_letter_with(&TlsConnector(holder), &served.both, "ruok").await.unwrap(), "imok");
    // Neither: closed once it has said something that is no request.
    let mut neither = TcpStream::connect(&served.both).await.unwrap();
    neither.write_all(&[0xff; 8]).await.unwrap();
    let mut rest = Vec::new();
    keeper_rt::timeout(support::WAIT, neither.read_to_end(&mut rest)).await.expect("closed in time").ok();
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_requests_at_once_are_answered_over_tls() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let served = serve(&folder, &ours, ClientAuth::None, None).await;
    let client = connect(&served, &folder.client("client", &ours, None)).await;
    client.create("/a", &vec![1; 64 << 10], CreateMode::Persistent).await.unwrap();
    // 64 MB of replies: far more than the socket takes at once.
    let asked: Vec<_> = (0..1_000)
        .map(|_| {
            let client = client.clone();
            keeper_rt::spawn("get", async move { client.get("/a").await.unwrap().value.bytes().len() })
        })
        .collect();
    for answer in asked {
        assert_eq!(keeper_rt::timeout(support::WAIT, answer).await.unwrap().unwrap(), 64 << 10);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_an_identity_and_one_of_them_may_do_everything() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let served = serve(&folder, &ours, ClientAuth::Required, Some("CN=admin,O=Castellan")).await;
    let holder = |name: &str| folder.client(name, &ours, Some(&ours.issue(name)));
    let one = connect(&served, &holder("one")).await;
    let auth = AclId { scheme: "auth".into(), id: String::new() };
    let mine = vec![Acl { perms: Perms::ALL, id: auth }];
    one.create_with_acl("/mine", b"secret", CreateMode::Persistent, mine).await.unwrap();
    let stored = one.get_acl("/mine").await.unwrap().value.0;
    let expected = AclId { scheme: "x509".into(), id: "CN=one,O=Castellan".into() };
    assert_eq!(stored, [Acl { perms: Perms::ALL, id: expected }]);
    // ZooKeeper's clients may name the scheme; the certificate has said it already.
    one.add_auth("x509", b"").await.unwrap();

    let two = connect(&served, &holder("two")).await;
    let plain = Client::connect(&[&served.plain], options()).await.unwrap();
    for client in [&two, &plain] {
        client.sync("/mine").await.unwrap();
        let error = client.get("/mine").await.unwrap_err();
        assert_eq!(error, ClientError::Server(ErrorCode::NoAuth));
    }
    assert_eq!(plain.add_auth("x509", b"CN=one,O=Castellan").await, Err(ClientError::AuthFailed));
    let admin = connect(&served, &holder("admin")).await;
    assert_eq!(admin.get("/mine").await.unwrap().value.bytes(), b"secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_clients_are_refused_counted_and_disturb_nobody() {
    let (folder, ours, other) = (Folder::new(), Authority::new("ours"), Authority::new("other"));
    let served = serve(&folder, &ours, ClientAuth::Required, None).await;
    served.node.shared().metrics.collect_from(Box::new(TlsCollector::new(vec![served.tls.clone()])));
    let bystander = connect(&served, &folder.client("good", &ours, Some(&ours.issue("good")))).await;
    bystander.create("/b", b"", CreateMode::Persistent).await.unwrap();

    refused(&served, &folder.client("none", &ours, None)).await;
    refused(&served, &folder.client("stranger", &ours, Some(&other.issue("a")))).await;
    refused(&served, &folder.client("late", &ours, Some(&ours.issue_expired("a")))).await;
    // A client without TLS, and one that says nothing and stays.
    let mut plain = TcpStream::connect(&served.secure).await.unwrap();
    plain.write_all(&[0, 0, 0, 45, 0, 0, 0, 0]).await.unwrap();
    let mut rest = Vec::new();
    keeper_rt::timeout(support::WAIT, plain.read_to_end(&mut rest)).await.expect("closed in time").ok();
    let silent = TcpStream::connect(&served.secure).await.unwrap();

    bystander.set("/b", b"still served", -1).await.unwrap();
    let counts = served.tls.counts();
    for reason in [Reason::NoCertificate, Reason::UnknownAuthority, Reason::Expired, Reason::PlainText] {
        assert!(counts.refused(reason) >= 1, "{}", reason.name());
    }
    let page = served.node.shared().metrics.page("");
    for line in [
        format!(
            "keeper_tls_handshakes_refused_total{{port=\"client\",reason=\"plain_text\"}} {}",
            counts.refused(Reason::PlainText)
        ),
        "keeper_tls_handshakes_total{port=\"client\"} 1".into(),
        "keeper_tls_files_unusable{port=\"client\"} 0".into(),
    ] {
        assert!(page.contains(&line), "`{line}` is missing in:\n{page}");
    }
    drop(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_lives_on_while_the_certificate_is_replaced() {
    let (folder, old, new) = (Folder::new(), Authority::new("old"), Authority::new("new"));
    let served = serve(&folder, &old, ClientAuth::None, None).await;
    let client = connect(&served, &folder.client("old", &old, None)).await;
    let session = client.session_id();
    let mut states = client.watch_state();
    states.mark_unchanged();
    client.create("/a", b"", CreateMode::Ephemeral).await.unwrap();
    folder.put("server", &new.issue("server"));
    served.tls.look_now();
    let deadline = keeper_rt::now() + support::WAIT;
    while served.tls.counts().reloads() == 0 || served.tls.counts().is_stale() {
        assert!(keeper_rt::now() < deadline, "never taken over");
        keeper_rt::sleep(Duration::from_millis(10)).await;
    }
    let error = refused(&served, &folder.client("late", &old, None)).await;
    assert!(error.contains("UnknownIssuer"), "{error}");
    let fresh = connect(&served, &folder.client("new", &new, None)).await;
    fresh.sync("/a").await.unwrap();
    assert_eq!(fresh.get("/a").await.unwrap().value.stat.ephemeral_owner, session);
    client.set("/a", b"on the old connection", -1).await.unwrap();
    assert!(!states.has_changed().unwrap(), "the old connection was lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admin_calls_need_a_certificate_and_the_token() {
    let (folder, ours, other) = (Folder::new(), Authority::new("ours"), Authority::new("other"));
    let node = support::one_member().await;
    let config = folder.port("server", &ours.issue("server"), &ours);
    let tls = Tls::open(Port::Admin, &config).unwrap();
    let (listener, address) = bound().await;
    keeper_rt::spawn("admin", admin::serve(node, listener, "the token".into(), Some(tls.clone())));
    let connect = async |token: &str, tls: Option<ClientTls>| {
        AdminClient::connect_with(&address, token, Duration::from_secs(5), tls).await
    };
    let holder = folder.client("operator", &ours, Some(&ours.issue("operator")));
    let client = connect("the token", Some(holder.clone())).await.unwrap();
    assert_eq!(client.status().await.unwrap().name, "one");
    let wrong = connect("another", Some(holder)).await.unwrap();
    assert_eq!(wrong.status().await.unwrap_err().code(), Some(tonic::Code::Unauthenticated));

    let nobody = folder.client("nobody", &ours, None);
    let stranger = folder.client("stranger", &ours, Some(&other.issue("operator")));
    for without in [None, Some(nobody), Some(stranger)] {
        // TLS 1.3 may let a client believe that it is connected until it asks.
        if let Ok(client) = connect("the token", without).await {
            client.status().await.expect_err("no certificate of ours");
        }
    }
    // The client may know before the server has counted.
    for reason in [Reason::PlainText, Reason::NoCertificate, Reason::UnknownAuthority] {
        let counted = async {
            while tls.counts().refused(reason) == 0 {
                keeper_rt::sleep(Duration::from_millis(5)).await;
            }
        };
        keeper_rt::timeout(support::WAIT, counted).await.unwrap_or_else(|_| panic!("{}", reason.name()));
    }
    assert_eq!(client.status().await.unwrap().name, "one");
}
