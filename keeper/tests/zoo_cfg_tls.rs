//! `keeper serve --zoo-cfg` with `sslQuorum=true`: three members from files alone, found by one another inside TLS.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // real processes

#[path = "../tls/tests/support/mod.rs"]
mod certificates;

use certificates::{Authority, Folder};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const KEEPER: &str = env!("CARGO_BIN_EXE_keeper");
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends its process by pid, whatever the test does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The ports of one member.
struct Ports {
    client: u16,
    peer: u16,
    admin: u16,
    metrics: u16,
}

struct Ensemble {
    folder: Folder,
    ports: Vec<Ports>,
}

impl Ensemble {
    fn new() -> Ensemble {
        // All held at once, so that they differ.
        let held: Vec<_> = (0..12).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let port = |at: usize| held[at].local_addr().unwrap().port();
        let of = |at: usize| Ports {
            client: port(at),
            peer: port(at + 1),
            admin: port(at + 2),
            metrics: port(at + 3),
        };
        Ensemble { folder: Folder::new(), ports: [0, 4, 8].map(of).into() }
    }

    /// Starts member `id` with these lines beside those that all have.
    fn start(&self, id: usize, tls: &str) -> Running {
        let data = self.folder.path().join(id.to_string());
        std::fs::create_dir_all(&data).unwrap();
        std::fs::write(data.join("myid"), id.to_string()).unwrap();
        let servers: String = (1..=3)
            .map(|id| {
                let Ports { peer, admin, .. } = self.ports[id - 1];
                format!("server.{id}=localhost:{peer}:{admin}\n")
            })
            .collect();
        let Ports { client, metrics, .. } = self.ports[id - 1];
        let text = format!(
            "dataDir={}\nclientPort={client}\nmetricsProvider.httpPort={metrics}\n\
             metricsProvider.httpHost=127.0.0.1\nsslQuorum=true\n{servers}{tls}",
            data.display()
        );
        let file = self.folder.write(&format!("zoo-{id}.cfg"), &text);
        let mut command = Command::new(KEEPER);
        command.args(["serve", "--zoo-cfg"]).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().expect("keeper serve starts"))
    }

    /// What a command says to member `id`; the error when it fails.
    fn run(&self, id: usize, arguments: &[&str]) -> Result<String, String> {
        let host = format!("127.0.0.1:{}", self.ports[id - 1].client);
        let output = Command::new(KEEPER)
            .args(arguments)
            .args(["--hosts", &host, "--timeout-ms", "2000"])
            .output()
            .expect("keeper runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    fn metric(&self, id: usize, name: &str) -> u64 {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.ports[id - 1].metrics)) else { return 0 };
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    }
}

fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) if Instant::now() > deadline => panic!("{what}: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tls/tests/data").join(name)
}

/// What all members believe, of which one certificate is that is good for each of them.
fn trust() -> String {
    let store = data("member-trust.jks");
    format!(
        "ssl.quorum.trustStore.location={}\nssl.quorum.trustStore.password=apassword\n\
         ssl.quorum.trustStore.type=JKS\n",
        store.display()
    )
}

fn keystores() -> String {
    let store = data("member.p12");
    format!(
        "{}ssl.quorum.keyStore.location={}\nssl.quorum.keyStore.password=apassword\n\
         ssl.quorum.keyStore.type=PKCS12\n",
        trust(),
        store.display()
    )
}

#[test]
fn members_of_a_zoo_cfg_found_their_cluster_inside_tls_and_keep_strangers_out() {
    let ensemble = Ensemble::new();
    // The third has a certificate of another authority, and would believe the others.
    let other = Authority::new("other").issue("stranger");
    let own = ensemble.folder.write("stranger.pem", &(other.certificate + &other.key));
    let stranger = format!("{}ssl.quorum.keyStore.location={}\n", trust(), own.display());
    let third = ensemble.start(3, &stranger);
    let _first = ensemble.start(1, &keystores());
    let _second = ensemble.start(2, &keystores());
    eventually("a write through the first", || ensemble.run(1, &["create", "/a", "one"]));
    assert_eq!(eventually("a read from the second", || ensemble.run(2, &["get", "/a"])), "one\n");
    let refused = ["peer", "admin"].map(|port| {
        format!("keeper_tls_handshakes_refused_total{{port=\"{port}\",reason=\"unknown_authority\"}}")
    });
    eventually("the stranger is refused", || {
        let count: u64 = refused.iter().map(|name| ensemble.metric(1, name)).sum();
        if count > 0 { Ok(()) } else { Err("it was not".into()) }
    });
    assert!(ensemble.run(3, &["get", "/a"]).is_err());

    // With the certificate of the others it is one of them.
    drop(third);
    let _third = ensemble.start(3, &keystores());
    assert_eq!(eventually("a read from the third", || ensemble.run(3, &["get", "/a"])), "one\n");
    // Nobody talks to them without TLS.
    let mut plain = TcpStream::connect(("127.0.0.1", ensemble.ports[0].admin)).unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest);
    // At most an alert of TLS.
    assert!(rest.first().is_none_or(|first| *first == 0x15), "{rest:?}");
    let plain = "keeper_tls_handshakes_refused_total{port=\"admin\",reason=\"plain_text\"}";
    assert!(ensemble.metric(1, plain) >= 1);
}
