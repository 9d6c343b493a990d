//! The binary as its user sees it: `dev`, the client commands with their exit codes, and what `serve` refuses.
#![allow(clippy::disallowed_methods)] // real processes

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

const KEEPER: &str = env!("CARGO_BIN_EXE_keeper");

/// Ends its process by pid, whatever the test does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port whose neighbours and the ports 1000, 2000 and 3000 above are free at the moment.
fn free_port() -> u16 {
    // Tests of one process run side by side: each call begins where the last one ended.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 20_000 + (std::process::id() % 20_000) as u16 + NEXT.fetch_add(70, Ordering::Relaxed);
    (first..first + 70)
        .step_by(7)
        .find(|port| (0..4).all(|above| (0..3).all(|member| free(port + above * 1_000 + member))))
        .expect("free ports")
}

fn dev(port: u16, dir: Option<&Path>) -> (Running, String) {
    let mut command = Command::new(KEEPER);
    command.args(["dev", "--port", &port.to_string()]).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(dir) = dir {
        command.arg("--dir").arg(dir);
    }
    let mut child = command.spawn().expect("keeper dev starts");
    let stdout = child.stdout.take().expect("its output");
    let running = Running(child);
    let line = BufReader::new(stdout).lines().next().expect("a line").expect("text");
    let hosts = line.strip_prefix("ready: ").unwrap_or_else(|| panic!("not ready: {line}")).to_owned();
    (running, hosts)
}

fn keeper(hosts: &str, arguments: &[&str]) -> Output {
    Command::new(KEEPER).args(arguments).env("KEEPER_HOSTS", hosts).output().expect("keeper runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// `text` with every number replaced, since logs differ from run to run.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character.is_ascii_digit() {
            true if out.ends_with('#') => {}
            true => out.push('#'),
            false => out.push(character),
        }
    }
    out
}

#[test]
fn a_stopped_members_files_are_shown_and_checked_and_damage_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut running, hosts) = dev(free_port(), Some(dir.path()));
    assert_eq!(text(&keeper(&hosts, &["create", "/a", "secret"])), "/a\n");
    let member = walk(dir.path(), "log-").parent().expect("its folder").to_owned();
    let run = |arguments: &[&str]| {
        let output = Command::new(KEEPER).args(arguments).arg(&member).output().expect("keeper runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), text(&output), error)
    };
    let (code, _, error) = run(&["log", "verify"]);
    assert!(code == Some(1) && error.contains("stop it first"), "{error}");
    running.0.kill().expect("killed");
    running.0.wait().expect("ended");

    let (code, shown, error) = run(&["log", "dump"]);
    assert_eq!(code, Some(0), "{error}");
    for line in
        ["Create2 \"/a\", ", "create session", "configuration: voters ", "a leader begins", "elected member "]
    {
        assert!(shown.contains(line), "no {line} in {shown}");
    }
    assert!(!shown.contains("secret"), "data is shown");
    let (code, verified, _) = run(&["log", "verify"]);
    assert_eq!(code, Some(0));
    assert!(
        without_numbers(&verified).starts_with("log is whole: # segments, # bytes, entries # to #\n"),
        "{verified}"
    );
    let (code, _, error) = run(&["snapshot", "verify"]);
    assert!(code == Some(1) && error.contains("holds no snapshot"), "{error}");

    // A bit in the first batch: later ones show that it had been synced.
    let segment = walk(&member, "log-");
    let mut bytes = std::fs::read(&segment).expect("the segment");
    bytes[4096 + 40] ^= 1;
    std::fs::write(&segment, bytes).expect("written");
    let (code, _, error) = run(&["log", "verify"]);
    assert_eq!(code, Some(1));
    let file = segment.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(error.contains(file) && error.contains("is damaged at byte 4096"), "{error}");
}

/// The first file below `folder` whose name begins so.
fn walk(folder: &Path, prefix: &str) -> std::path::PathBuf {
    let mut folders = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(prefix) {
                found.push(path);
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found.into_iter().min().unwrap_or_else(|| panic!("no {prefix}"))
}

#[test]
fn dev_is_ready_quickly_serves_all_commands_and_stops_cleanly() {
    let dir = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let (mut running, hosts) = dev(port, Some(dir.path()));
    assert_eq!(hosts.split(',').count(), 3);

    assert_eq!(text(&keeper(&hosts, &["create", "/a/b", "one", "--parents"])), "/a/b\n");
    assert_eq!(text(&keeper(&hosts, &["get", "/a/b"])), "one\n");
    assert_eq!(text(&keeper(&hosts, &["set", "/a/b", "two"])), "version 1\n");
    assert_eq!(text(&keeper(&hosts, &["ls", "/a"])), "b\n");
    let json: serde_json::Value =
        serde_json::from_str(&text(&keeper(&hosts, &["get", "/a/b", "-o", "json"]))).unwrap();
    assert_eq!((json["data"].as_str(), json["stat"]["version"].as_i64()), (Some("two"), Some(1)));
    assert!(text(&keeper(&hosts, &["stat", "/a/b"])).contains("dataVersion = 1\n"));
    assert!(text(&keeper(&hosts, &["status"])).contains("leader"));
    let stages = text(&keeper(&hosts, &["status", "--stages"]));
    assert_eq!(stages.matches("\n  committed ").count(), 3, "{stages}");

    let missing = keeper(&hosts, &["get", "/nothing"]);
    assert_eq!(missing.status.code(), Some(3));
    assert_eq!(keeper(&hosts, &["create", "/a/b", "again"]).status.code(), Some(4));
    assert_eq!(keeper(&hosts, &["set", "/a/b", "x", "--version", "7"]).status.code(), Some(4));
    assert_eq!(keeper(&hosts, &["rm", "/a"]).status.code(), Some(4), "it has a child");
    assert_eq!(text(&keeper(&hosts, &["rm", "/a", "--recursive"])), "2 nodes deleted\n");
    assert_eq!(text(&keeper(&hosts, &["create", "/kept", "over a restart"])), "/kept\n");
    assert_eq!(keeper("127.0.0.1:1", &["get", "/a", "--timeout-ms", "300"]).status.code(), Some(5));

    rustix::process::kill_process(
        rustix::process::Pid::from_child(&running.0),
        rustix::process::Signal::TERM,
    )
    .expect("SIGTERM");
    let deadline = Instant::now() + Duration::from_secs(15);
    let status = loop {
        if let Some(status) = running.0.try_wait().expect("wait") {
            break status;
        }
        assert!(Instant::now() < deadline, "keeper dev does not stop");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0), "an orderly stop");
    drop(running);

    let (_again, hosts) = dev(port, Some(dir.path()));
    assert_eq!(text(&keeper(&hosts, &["get", "/kept"])), "over a restart\n");
}

fn config(dir: &Path, data: &Path, extra: &str) -> std::path::PathBuf {
    let secret = dir.join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef").expect("secret");
    let port = free_port();
    let file = dir.join("keeper.toml");
    let text = format!(
        "[server]\nname = \"x\"\ndata_dir = {data:?}\n[listen]\nclient = \"127.0.0.1:{port}\"\npeer = \"127.0.0.1:{}\"\n\
         admin = \"127.0.0.1:{}\"\nhttp = \"127.0.0.1:{}\"\n[cluster]\nsecret_file = {secret:?}\n\
         admin_token_file = {secret:?}\n{extra}",
        port + 1_000,
        port + 2_000,
        port + 3_000,
    );
    std::fs::write(&file, text).expect("config");
    file
}

fn serve(file: &Path, arguments: &[&str]) -> Output {
    Command::new(KEEPER).args(["serve", "--config"]).arg(file).args(arguments).output().expect("keeper runs")
}

#[test]
fn another_clusters_volume_is_refused_with_both_ids() {
    let dir = tempfile::tempdir().expect("a folder");
    let (running, _) = dev(free_port(), Some(dir.path()));
    drop(running);
    let mine = "0123456789abcdef0123456789abcdef";
    let file = config(dir.path(), &dir.path().join("member-1"), &format!("id = \"{mine}\"\n"));
    let output = serve(&file, &[]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains(mine) && message.contains("belongs to cluster"), "{message}");
    let other =
        message.split("belongs to cluster ").nth(1).and_then(|rest| rest.get(..32)).unwrap_or_default();
    assert!(other.len() == 32 && other.bytes().all(|b| b.is_ascii_hexdigit()) && other != mine, "{message}");
}

#[test]
fn a_second_process_on_one_data_folder_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_running, _) = dev(free_port(), Some(dir.path()));
    let data = dir.path().join("member-1");
    let output = serve(&config(dir.path(), &data, ""), &[]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("member-1"), "{message}");
}

#[test]
fn a_wrong_configuration_names_the_key_and_starts_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = dir.path().join("data");
    let good = config(dir.path(), &data, "");
    let checked = serve(&good, &["--check"]);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(text(&checked).contains("timeout_ms_min = 4000"));
    assert!(!data.exists(), "--check leaves no trace");

    let bad = config(dir.path(), &data, "[limits]\nframe_bytes_mex = 5\n");
    let output = serve(&bad, &[]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{message}");
    for part in ["keeper.toml", "frame_bytes_mex", "frame_bytes_max"] {
        assert!(message.contains(part), "`{part}` is missing in: {message}");
    }
}
