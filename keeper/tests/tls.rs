//! `keeper serve` with every port inside TLS, and the commands that reach it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // real processes

#[path = "../tls/tests/support/mod.rs"]
mod certificates;

use certificates::{Authority, Folder};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const KEEPER: &str = env!("CARGO_BIN_EXE_keeper");
const CLUSTER: &str = "0123456789abcdef0123456789abcdef";

/// Ends its process by pid, whatever the test does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Ports {
    client: u16,
    peer: u16,
    admin: u16,
    http: u16,
}

fn ports() -> Ports {
    // All held at once, so that they differ.
    let held = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [client, peer, admin, http] = held.each_ref().map(|held| held.local_addr().unwrap().port());
    Ports { client, peer, admin, http }
}

/// Writes a configuration without a plain port; gives its file.
fn configure(folder: &Folder, ports: &Ports, ours: &Authority) -> std::path::PathBuf {
    let secret = folder.write("secret", CLUSTER);
    let section = |name: &str| {
        let config = folder.port(name, &ours.issue(name), ours);
        format!(
            "[{name}]\ncertificate_file = {:?}\nkey_file = {:?}\nca_file = {:?}\n",
            config.certificate_file.unwrap(),
            config.key_file.unwrap(),
            config.ca_file.unwrap()
        )
    };
    let Ports { client, peer, admin, http } = ports;
    let text = format!(
        "[server]\nname = \"x\"\ndata_dir = {:?}\n[listen]\nclient_tls = \"127.0.0.1:{client}\"\n\
         peer = \"127.0.0.1:{peer}\"\nadmin = \"127.0.0.1:{admin}\"\nhttp = \"127.0.0.1:{http}\"\n\
         [cluster]\nsecret_file = {secret:?}\nadmin_token_file = {secret:?}\n{}{}{}",
        folder.path().join("data"),
        section("tls"),
        section("peer_tls"),
        section("admin_tls"),
    );
    std::fs::create_dir_all(folder.path().join("data")).unwrap();
    folder.write("keeper.toml", &text)
}

fn keeper(folder: &Path, ports: &Ports, arguments: &[&str]) -> Output {
    let at = |port: u16| format!("127.0.0.1:{port}");
    let file = |name: &str| folder.join(name);
    Command::new(KEEPER)
        .args(arguments)
        .env("KEEPER_HOSTS", at(ports.client))
        .env("KEEPER_ADMIN", at(ports.admin))
        .env("KEEPER_ADMIN_TOKEN_FILE", file("secret"))
        .env("KEEPER_TLS_CA", file("tls-ca.pem"))
        .env("KEEPER_TLS_CERT", file("person.pem"))
        .env("KEEPER_TLS_KEY", file("person.key"))
        .output()
        .expect("keeper runs")
}

#[test]
fn every_command_reaches_a_member_that_has_no_plain_port() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    folder.put("person", &ours.issue("person"));
    let ports = ports();
    let config = configure(&folder, &ports, &ours);
    let mut command = Command::new(KEEPER);
    command.args(["serve", "--config"]).arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn().expect("keeper serve starts"));
    let member = ["--server-id", "1", "--peer", "localhost:1", "--client", "localhost:1", "--name", "x"];
    let bootstrap = [&["member", "bootstrap", "--cluster", CLUSTER][..], &member].concat();
    let deadline = Instant::now() + Duration::from_secs(30);
    let founded = loop {
        let output = keeper(folder.path(), &ports, &bootstrap);
        if output.status.success() || Instant::now() > deadline {
            break output;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(founded.status.success(), "{}", text(&founded.stderr));

    let created = keeper(folder.path(), &ports, &["create", "/a", "one"]);
    assert_eq!((text(&created.stdout), text(&created.stderr)), ("/a\n".into(), String::new()));
    let read = keeper(folder.path(), &ports, &["get", "/a"]);
    assert_eq!(text(&read.stdout), "one\n");
    let status = keeper(folder.path(), &ports, &["status"]);
    assert!(text(&status.stdout).contains("standalone") || text(&status.stdout).contains("leader"));
    assert!(text(&keeper(folder.path(), &ports, &["member", "list"]).stdout).contains("voter (leader)"));

    // The certificate is for localhost and 127.0.0.1; who is reached under another name says which one to expect.
    let named = keeper(
        folder.path(),
        &ports,
        &["get", "/a", "--tls-server-name", "elsewhere", "--timeout-ms", "1000"],
    );
    assert_eq!(named.status.code(), Some(5));
    assert!(text(&named.stderr).contains("elsewhere"), "{}", text(&named.stderr));
    let without = Command::new(KEEPER)
        .args(["get", "/a", "--timeout-ms", "1000", "--hosts", &format!("127.0.0.1:{}", ports.client)])
        .output()
        .expect("keeper runs");
    assert_eq!(without.status.code(), Some(5), "no session without TLS");

    // SIGHUP is no reason to end.
    let pid = rustix::process::Pid::from_child(&running.0);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).expect("SIGHUP");
    assert_eq!(text(&keeper(folder.path(), &ports, &["get", "/a"]).stdout), "one\n");
}

#[test]
fn files_that_cannot_be_used_are_named_before_anything_starts() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let config = configure(&folder, &ports(), &ours);
    folder.write("peer_tls.key", &ours.issue("other").key);
    let output = Command::new(KEEPER).args(["serve", "--config"]).arg(&config).output().expect("keeper runs");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in ["[peer_tls]", "peer_tls.key", "does not belong to the certificate"] {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
}
