//! HTTP as machines read it: ZooKeeper's AdminServer, ClickHouse's `/ready`, and a page that Prometheus can parse.
#![allow(clippy::disallowed_methods)]

mod support;

use keeper_server::{Node, http, listener};
use keeper_types::CreateMode;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use support::{RawClient, WAIT, create, get, member_of_no_cluster, one_member, one_member_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn served(node: &Node) -> SocketAddr {
    let listener = listener::bind("HTTP", SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let node = node.clone();
    keeper_rt::spawn("http", async move { http::serve(node, listener).await });
    address
}

/// Status code and body.
async fn fetch(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let talk = async {
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sends");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("reads");
        answer
    };
    let answer = keeper_rt::timeout(WAIT, talk).await.expect("an answer in time");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (code, body.to_owned())
}

async fn command(address: SocketAddr, name: &str) -> (u16, Value) {
    let (code, body) = fetch(address, "GET", &format!("/commands/{name}")).await;
    (code, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{name}: {error}: {body}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_are_at_a_port_of_their_own_too_and_nothing_else_is() {
    let node = one_member().await;
    let listener = listener::bind("metrics", SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let served = node.clone();
    keeper_rt::spawn("metrics", async move { http::serve_metrics(served, listener).await });
    let (code, page) = fetch(address, "GET", "/metrics").await;
    assert_eq!(code, 200);
    assert!(page.contains("\nkeeper_") && page.ends_with("# EOF\n"), "{page}");
    assert_eq!(fetch(address, "GET", "/commands").await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_answer_json_as_zookeepers_admin_server() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/n", b"", CreateMode::Persistent)).await.unwrap();
    client.call(&get("/n", true)).await.unwrap();
    let address = served(&node).await;
    let (code, list) = fetch(address, "GET", "/commands").await;
    assert_eq!(code, 200);
    let links = Regex::new("<a href=\"/commands/([a-z_]+)\">").unwrap();
    let mut count = 0;
    for link in links.captures_iter(&list) {
        let (code, answer) = command(address, &link[1]).await;
        assert_eq!((code, &answer["command"], &answer["error"]), (200, &Value::from(&link[1]), &Value::Null));
        count += 1;
    }
    assert!(count > 10, "{list}");

    let (_, answer) = command(address, "srvr").await;
    assert_eq!(answer["command"], "server_stats");
    assert_eq!(answer["server_stats"]["server_state"], "standalone");
    assert_eq!(answer["server_stats"]["packets_received"], 2);
    assert_eq!(answer["node_count"], 5);
    let (_, answer) = command(address, "mntr").await;
    assert_eq!((&answer["command"], &answer["znode_count"]), (&Value::from("monitor"), &Value::from(5)));
    let (_, answer) = command(address, "cons").await;
    assert_eq!(answer["connections"][0]["last_operation"], "GETD");
    let (_, answer) = command(address, "wchs").await;
    assert_eq!(answer["num_total_watches"], 1);
    let (_, answer) = command(address, "isro").await;
    assert_eq!(answer["read_only"], false);
    let (code, answer) = command(address, "nonsense").await;
    assert_eq!((code, answer["error"].as_str()), (404, Some("Unknown command: nonsense")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_changed_over_http_and_the_white_list_holds_there_too() {
    let node = one_member_with(|options| {
        options.four_letter_words = BTreeSet::from(["*".to_owned()]);
    })
    .await;
    let address = served(&node).await;
    for name in [
        "crst",
        "stat_reset",
        "set_trace_mask",
        "snapshot",
        "restore",
        "csnp",
        "rqld",
        "dump",
        "wchc",
        "wchp",
    ] {
        assert_eq!(command(address, name).await.0, 404, "{name}");
    }
    assert_eq!(fetch(address, "POST", "/commands/srvr").await.0, 405);
    let closed = one_member_with(|options| options.four_letter_words.clear()).await;
    let address = served(&closed).await;
    let (code, answer) = command(address, "conf").await;
    assert_eq!(code, 403, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_without_a_cluster_is_alive_and_not_ready() {
    let node = member_of_no_cluster(|_| {}).await;
    let address = served(&node).await;
    assert_eq!(fetch(address, "GET", "/livez").await.0, 200);
    assert_eq!(fetch(address, "GET", "/readyz").await.0, 503);
    let (code, body) = fetch(address, "GET", "/ready").await;
    assert_eq!(code, 503);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        body,
        serde_json::json!({"details": {"hasLeader": false, "role": "unknown"}, "status": "fail"})
    );
    let (code, answer) = command(address, "mntr").await;
    assert_eq!((code, &answer["command"]), (503, &Value::from("monitor")));
    assert_eq!(fetch(address, "GET", "/metrics").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_page_is_sound_and_has_the_names_of_all_three() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/n", b"", CreateMode::Persistent)).await.unwrap();
    let address = served(&node).await;
    let (code, ready) = fetch(address, "GET", "/ready").await;
    let ready: Value = serde_json::from_str(&ready).unwrap();
    let expected = serde_json::json!({"details": {"hasLeader": true, "role": "leader"}, "status": "ok"});
    assert_eq!((code, ready), (200, expected));
    let (_, page) = fetch(address, "GET", "/metrics").await;
    assert!(page.ends_with("# EOF\n"));
    let sample = Regex::new(r#"\A([a-zA-Z_]\w*)(\{[^}]*\})? -?[0-9][0-9.e+-]*\z"#).unwrap();
    let (mut described, mut series) = (BTreeSet::new(), BTreeSet::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(described.insert(name), "{name} is described twice");
        } else if !line.starts_with('#') {
            assert!(sample.is_match(line), "{line:?}");
            let name = line.rsplit_once(' ').unwrap().0;
            assert!(series.insert(name), "{name} is there twice");
        }
    }
    for name in [
        "keeper_is_leader",
        "keeper_requests_total{operation=\"Create\"}",
        "znode_count",
        "avg_latency",
        "updatelatency_count",
        "fsynctime_sum",
        "ClickHouseAsyncMetrics_KeeperZnodeCount",
        "ClickHouseAsyncMetrics_KeeperIsLeader",
        "ClickHouseMetrics_KeeperAliveConnections",
        "ClickHouseMetrics_KeeperOutstandingRequests",
        "ClickHouseProfileEvents_KeeperRequestTotal",
        "ClickHouseProfileEvents_KeeperCreateRequest",
    ] {
        assert!(series.contains(name), "{name} is missing");
    }
    assert!(page.contains("\nClickHouseProfileEvents_KeeperCreateRequest 1\n"), "{page}");
}
