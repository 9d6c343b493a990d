//! `keeper bench` as its user runs it, against real members: every built-in workload, the loops, replays, refusals.
#![allow(clippy::disallowed_methods)] // real processes

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

const KEEPER: &str = env!("CARGO_BIN_EXE_keeper");

/// `keeper dev`, ended by pid whatever the test does.
struct Servers {
    process: Child,
    hosts: String,
}

impl Drop for Servers {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Servers {
    fn start(members: u16) -> Servers {
        let (port, members) = (free_port(), members.to_string());
        let mut process = Command::new(KEEPER)
            .args(["dev", "--port", &port.to_string(), "--members", &members])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("keeper dev starts");
        let stdout = process.stdout.take().expect("its output");
        let line = BufReader::new(stdout).lines().next().expect("a line").expect("text");
        let hosts = line.strip_prefix("ready: ").unwrap_or_else(|| panic!("not ready: {line}")).to_owned();
        Servers { process, hosts }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).expect("the signal arrives");
    }

    fn keeper(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("keeper runs")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(KEEPER);
        command.args(arguments).env("KEEPER_HOSTS", &self.hosts);
        command
    }

    /// The report of a run that went well.
    fn bench(&self, arguments: &[&str]) -> Value {
        let output = self.keeper(&[&["bench", "--json"][..], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}\n{}", text(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn roots(&self) -> String {
        text(&self.keeper(&["ls", "/"]))
    }
}

/// A port whose neighbours and the ports 1000, 2000 and 3000 above are free at the moment.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 22_000 + (std::process::id() % 18_000) as u16 + NEXT.fetch_add(70, Ordering::Relaxed);
    (first..first + 70)
        .step_by(7)
        .find(|port| (0..4).all(|above| (0..3).all(|member| free(port + above * 1_000 + member))))
        .expect("free ports")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn every_built_in_workload_runs_without_an_error_and_leaves_nothing() {
    let servers = Servers::start(3);
    let before = servers.roots();
    let list = text(&servers.keeper(&["bench", "--list"]));
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), 11, "{list}");
    for name in names {
        let few = ["--workload", name, "--concurrency", "6", "--time", "1s", "--warmup", "100ms", "--closed"];
        let report = servers.bench(&few);
        assert!(report["workload"] == name && report["loop"] == "closed", "{report}");
        assert_eq!(
            report["hosts"].as_object().map(|hosts| hosts.len()),
            Some(3),
            "{name}: two sessions each"
        );
        assert_eq!(
            (report["total"]["errors"].as_u64(), report["failed"].is_null()),
            (Some(0), true),
            "{report}"
        );
        assert!(20.0 < number(&report["total"]["requests"]), "{name}: {report}");
        if name == "watch-heavy" {
            assert!(0.0 < number(&report["watches_fired"]), "{report}");
            assert!(0.0 < number(&report["write_to_event_ms"]["p50"]), "{report}");
        }
        assert_eq!(servers.roots(), before, "{name} left something");
    }
}

#[test]
fn an_open_loop_offers_its_rate_and_says_so() {
    let servers = Servers::start(1);
    let few = ["--workload", "read", "--concurrency", "4", "--time", "2s", "--warmup", "200ms"];
    let report = servers.bench(&[&few[..], &["--rate", "300", "--arrivals", "constant"]].concat());
    assert!(report["loop"] == "open" && report["offered"]["rate"] == 300.0, "{report}");
    let requests = number(&report["total"]["requests"]);
    assert!((598.0..=602.0).contains(&requests), "{requests} of 600");
    // Without a rate, it is taken from a closed loop.
    let report = servers.bench(&few);
    let (rate, reached) =
        (number(&report["offered"]["rate"]), number(&report["offered"]["closed_loop_reached"]));
    assert!((rate / reached - 0.7).abs() < 1e-9, "{report}");
    assert!((number(&report["total"]["requests"]) / (2.0 * rate) - 1.0).abs() < 0.2, "{report}");
}

/// A server that stands still for a second of five: with an open loop a fifth of the requests waits for it, and half a
/// second on the average. A closed loop of one worker has one such request.
#[test]
fn a_stalled_server_is_seen_by_an_open_loop_and_hardly_by_a_closed_one() {
    let percentile = |load: &[&str], name: &str| {
        let servers = Servers::start(1);
        let common =
            ["bench", "--json", "--workload", "single-hot-get", "--concurrency", "1", "--time", "5s"];
        let mut command = servers.command(&[&common[..], &["--warmup", "0s"], load].concat());
        let mut bench = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("bench starts");
        // Its measurement begins when it says which load it offers.
        let stderr = BufReader::new(bench.stderr.take().expect("its stderr"));
        let mut lines = stderr.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("single-hot-get: ")), "the measurement begins");
        std::thread::sleep(Duration::from_secs(1));
        servers.signal(rustix::process::Signal::STOP);
        std::thread::sleep(Duration::from_secs(1));
        servers.signal(rustix::process::Signal::CONT);
        let rest = std::thread::spawn(move || lines.collect::<Vec<_>>().join("\n"));
        let output = bench.wait_with_output().expect("it ends");
        let said = rest.join().expect("read");
        assert_eq!(output.status.code(), Some(0), "{said}\n{}", text(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let max = number(&report["total"]["latency_ms"]["max"]);
        assert!((900.0..3_000.0).contains(&max), "the longest waited for the whole stall: {max} ms");
        number(&report["total"]["latency_ms"][name])
    };
    let open = percentile(&["--rate", "200"], "p90");
    assert!(
        (250.0..2_500.0).contains(&open),
        "p90 {open} ms: a fifth of the requests was due during the stall"
    );
    let closed = percentile(&["--closed"], "p99");
    assert!(closed < 100.0, "p99 {closed} ms: one request in thousands met the stall");
}

#[test]
fn errors_end_the_run_with_exit_code_1_unless_they_are_allowed() {
    let servers = Servers::start(1);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("half-missing.yaml");
    let yaml = "setup: {node: {name: there}}\ngenerator:\n  requests:\n    get: {path: [/there, /missing]}\n";
    std::fs::write(&file, yaml).expect("written");
    let file = file.display().to_string();
    let run = ["bench", "--config", &file, "--closed", "--time", "500ms", "--concurrency", "2"];
    let output = servers.keeper(&run);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("get NoNode"), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("requests failed"));
    let output = servers.keeper(&[&run[..], &["--errors-max", "0.9", "--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!((0.4..0.6).contains(&number(&report["error_share"])), "{report}");
    assert!(!servers.roots().contains("there"));
}

#[test]
fn what_cannot_be_run_is_refused_with_exit_code_2() {
    let refused = |arguments: &[&str], part: &str| {
        let output = Command::new(KEEPER).arg("bench").args(arguments).output().expect("keeper runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("typo.yaml");
    std::fs::write(&file, "concurrency: 2\ngenerator:\n  request: {}\n").expect("written");
    refused(&["--config", &file.display().to_string()], "line 3");
    refused(&[], "--workload");
    refused(&["--workload", "nothing"], "keeper bench --list");
    refused(&["--workload", "read", "--rate", "5", "--closed"], "--closed");
    refused(&["--workload", "read", "--hosts", "127.0.0.1:1", "--sessions", "0"], "sessions");
    let log = folder.path().join("log.native");
    std::fs::write(&log, [1, 2, 3]).expect("written");
    refused(&["--replay", &log.display().to_string(), "--hosts", "127.0.0.1:1"], "CSVWithNames");
}

#[test]
fn a_request_log_is_replayed_and_its_outcomes_are_compared() {
    let servers = Servers::start(1);
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, last_error: &str| {
        let header = "hostname,request_event_time,thread_id,session_id,xid,has_watch,op_num,path,data,is_ephemeral,\
                      is_sequential,response_event_time,error,requests_size,version\n";
        let row = |second: f64, session: i64, rest: &str| {
            format!("h,2026-12-01 10:00:{second:09.6},1,{session},1,0,{rest}\n")
        };
        let text = [
            header.to_owned(),
            row(0.0, 1, "Create,/logged,v,0,0,,ZOK,0,\\N"),
            row(0.1, 1, "Multi,,,0,0,,ZOK,2,\\N"),
            row(0.1, 1, "Set,/logged,w,0,0,,\\N,0,\\N"),
            row(0.1, 1, "Create,/logged/e,,1,0,,\\N,0,\\N"),
            row(0.3, 2, "Get,/logged,,0,0,,ZOK,0,\\N"),
            row(0.4, 2, "MultiRead,,,0,0,,ZOK,2,\\N"),
            row(0.4, 2, "Get,/logged,,0,0,,ZOK,0,\\N"),
            row(0.4, 2, "List,/logged,,0,0,,ZOK,0,\\N"),
            row(0.5, 2, &format!("Get,/logged/no,,0,0,,{last_error},0,\\N")),
            row(0.6, 1, "Remove,/logged/e,,0,0,,ZOK,0,\\N"),
            row(0.7, 1, "Remove,/logged,,0,0,,ZOK,0,\\N"),
        ]
        .concat();
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("written");
        file.display().to_string()
    };
    let good = write("good.csv", "ZNONODE");
    let report = servers.bench(&["--replay", &good]);
    assert_eq!((report["total"]["requests"].as_u64(), report["sessions"].as_u64()), (Some(7), Some(2)));
    assert!(0.65 < number(&report["seconds"]), "at the log's times: {report}");
    let report = servers.bench(&["--replay", &good, "--speed", "2"]);
    assert!(number(&report["seconds"]) < 0.65, "twice as fast: {report}");
    let other = write("other.csv", "ZOK");
    let output = servers.keeper(&["bench", "--replay", &other]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("get NoNode"), "{}", text(&output));
}
