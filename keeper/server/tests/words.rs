//! Four-letter words as the tools of ZooKeeper and ClickHouse read them: exact shapes, the white list, answers before a
//! quorum, clients that do not read, and the words that act.
#![allow(clippy::disallowed_methods)]

#[path = "support/mesh.rs"]
mod mesh;
mod support;

use keeper_consensus::Role;
use keeper_server::four_letter::WORDS;
use keeper_server::{Node, NodeOptions};
use keeper_types::{CreateMode, Request};
use mesh::three_members;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use support::{
    RawClient, WAIT, create, exists, get, member_of_no_cluster, one_member, one_member_with, set, socket,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn every_word(options: &mut NodeOptions) {
    options.four_letter_words = BTreeSet::from(["*".to_owned()]);
}

async fn ask(node: &Node, word: impl AsRef<[u8]>) -> String {
    let mut stream = socket(node);
    stream.write_all(word.as_ref()).await.expect("the word is taken");
    let mut answer = String::new();
    let read = keeper_rt::timeout(WAIT, stream.read_to_string(&mut answer)).await;
    read.expect("an answer in time").expect("UTF-8");
    answer
}

/// The whole answer has this shape.
fn assert_shape(answer: &str, shape: &str) {
    let whole = Regex::new(&format!(r"\A(?:{shape})\z")).expect("a pattern");
    assert!(whole.is_match(answer), "{answer:?} is not {shape}");
}

fn numbers(mntr: &str) -> BTreeMap<&str, &str> {
    mntr.lines().map(|line| line.split_once('\t').unwrap_or_else(|| panic!("no tab in {line:?}"))).collect()
}

const CLIENT: &str = r"10\.1\.2\.3:4567";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn srvr_is_what_both_go_clients_parse() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/n", b"", CreateMode::Persistent)).await.unwrap();
    let answer = ask(&node, "srvr").await;
    let version =
        r"^Zookeeper version: ([A-Za-z0-9\.\-]+), built on (\d\d/\d\d/\d\d\d\d \d\d:\d\d [A-Za-z0-9:\+\-]+)";
    let net = r"^Received: (\d+).*\n^Sent: (\d+).*\n^Connections: (\d+).*\n^Outstanding: (\d+)";
    let state = r"^Zxid: (0x[A-Za-z0-9]+).*\n^Mode: (\w+).*\n^Node count: (\d+)";
    // go-zookeeper reads the average with decimals, samuel's client digits only.
    for average in [r"([0-9.]+)", r"(\d+)"] {
        let latency = format!(r"^Latency min/avg/max: (\d+)/{average}/(\d+)");
        let pattern = format!(r"(?m:\A{version}.*\n{latency}.*\n{net}.*\n{state})");
        let found = Regex::new(&pattern).unwrap().captures(&answer).unwrap_or_else(|| panic!("{answer:?}"));
        assert!(found[1].starts_with("3.9."), "{answer}");
        let date = &found[2];
        assert!(!date.starts_with("01/01/1970") || std::env::var_os("SOURCE_DATE_EPOCH").is_some(), "{date}");
        // The handshake is no request; the word's own connection counts, as in ZooKeeper.
        assert_eq!((&found[6], &found[7], &found[8], &found[9]), ("1", "1", "2", "0"), "{answer}");
        assert_eq!((&found[11], &found[12]), ("standalone", "5"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stat_lists_the_clients_before_the_server() {
    let node = one_member().await;
    let _client = RawClient::connect(&node).await;
    let answer = ask(&node, "stat").await;
    assert_shape(
        &answer,
        &format!(
            r"Zookeeper version: [^\n]+\nClients:\n( /{CLIENT}\[1\]\(queued=0,recved=0,sent=0\)\n){{2}}\nLatency min/avg/max: 0/0/0\nReceived: 0\nSent: 0\nConnections: 2\nOutstanding: 0\nZxid: 0x[0-9a-f]+\nMode: standalone\nNode count: 4\n"
        ),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cons_tells_each_connections_statistics_and_crst_forgets_them() {
    let node = one_member_with(every_word).await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/n", b"", CreateMode::Persistent)).await.unwrap();
    client.call(&get("/n", false)).await.unwrap();
    client.call(&set("/n", b"1")).await.unwrap();
    let session = client.granted.session_id;
    let answer = ask(&node, "cons").await;
    let of_client = format!(
        r" /{CLIENT}\[1\]\(queued=0,recved=3,sent=3,sid={session:#x},lop=SETD,est=\d{{13}},to=30000,lcxid=0x\d,lzxid=0x[0-9a-f]+,lresp=\d{{13}},llat=\d+,minlat=\d+,avglat=\d+,maxlat=\d+\)\n"
    );
    // The word's own connection has no session.
    let of_word = format!(r" /{CLIENT}\[1\]\(queued=0,recved=0,sent=0\)\n");
    assert_shape(&answer, &format!(r"{of_client}{of_word}\n"));

    assert_eq!(ask(&node, "crst").await, "Connection stats reset.\n");
    let answer = ask(&node, "cons").await;
    let reset =
        format!(r" /{CLIENT}\[1\]\(queued=0,recved=0,sent=0,sid={session:#x},lop=NA,[^\n]*lzxid=[^\n]*\)\n");
    assert_shape(&answer, &format!(r"{reset}{of_word}\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mntr_has_the_names_that_exporters_scrape_with_true_numbers() {
    let node = one_member_with(every_word).await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/n", b"data", CreateMode::Persistent)).await.unwrap();
    client.call(&create("/e", b"", CreateMode::Ephemeral)).await.unwrap();
    client.call(&get("/n", true)).await.unwrap();
    let answer = ask(&node, "mntr").await;
    for line in answer.lines() {
        assert_shape(line, r"zk_[a-z0-9_]+\t(-?\d+(\.\d{4})?|[^\t]+)");
    }
    let found = numbers(&answer);
    for name in [
        "version",
        "avg_latency",
        "max_latency",
        "min_latency",
        "packets_received",
        "packets_sent",
        "num_alive_connections",
        "outstanding_requests",
        "server_state",
        "znode_count",
        "watch_count",
        "ephemerals_count",
        "approximate_data_size",
        "key_arena_size",
        "latest_snapshot_size",
        "learners",
        "followers",
        "synced_followers",
        "synced_non_voting_followers",
        "synced_observers",
        "uptime",
        "global_sessions",
        "local_sessions",
        "quorum_size",
        "last_proposal_size",
        "max_proposal_size",
        "min_proposal_size",
        "proposal_count",
        "last_client_response_size",
        "avg_readlatency",
        "p50_readlatency",
        "p999_updatelatency",
        "cnt_updatelatency",
        "sum_fsynctime",
        "zxid",
        "term",
        "applied_log_index",
    ] {
        assert!(found.contains_key(format!("zk_{name}").as_str()), "zk_{name} is missing in {answer}");
    }
    let expect = |name: &str, value: &str| assert_eq!(found[name], value, "{name}");
    expect("zk_server_state", "standalone");
    expect("zk_znode_count", "6");
    expect("zk_watch_count", "1");
    expect("zk_ephemerals_count", "1");
    expect("zk_packets_received", "3");
    expect("zk_packets_sent", "3");
    expect("zk_cnt_readlatency", "1");
    expect("zk_cnt_updatelatency", "2");
    expect("zk_num_alive_connections", "2");
    expect("zk_global_sessions", "1");
    let number = |name: &str| found[name].parse::<u64>().unwrap_or_else(|_| panic!("{name} {}", found[name]));
    if cfg!(target_os = "linux") {
        assert!(number("zk_open_file_descriptor_count") > 2);
        assert!(number("zk_open_file_descriptor_count") < number("zk_max_file_descriptor_count"));
    }
    assert!(number("zk_cnt_fsynctime") > 0);
    assert!(number("zk_p50_updatelatency") <= number("zk_p999_updatelatency"));
    assert!(number("zk_p999_updatelatency") <= number("zk_max_updatelatency"));
    assert!(number("zk_uptime") < 600_000, "milliseconds since the start");

    assert_eq!(ask(&node, "srst").await, "Server stats reset.\n");
    let answer = ask(&node, "mntr").await;
    assert_eq!(numbers(&answer)["zk_packets_received"], "0");
    assert_eq!(numbers(&answer)["zk_znode_count"], "6");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envi_is_what_kazoo_reads_the_version_from() {
    let node = one_member().await;
    let answer = ask(&node, "envi").await;
    assert!(answer.starts_with("Environment:\n"), "{answer}");
    let found: BTreeMap<&str, &str> = answer.lines().filter_map(|line| line.split_once('=')).collect();
    // kazoo: `re.compile(r'([\d\.]*).*', re.DOTALL)` on the value, then three or more numbers.
    let version = Regex::new(r"(?s)\A([\d\.]*).*").unwrap().captures(found["zookeeper.version"]).unwrap();
    let parts: Vec<u32> = version[1].split('.').map(|part| part.parse().unwrap()).collect();
    assert_eq!(parts, [3, 9, 5]);
    for name in
        ["os.name", "os.arch", "os.version", "cpu.count", "user.name", "user.home", "user.dir", "user.tmp"]
    {
        assert!(found.contains_key(name), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_listed_by_session_and_by_path() {
    let node = one_member_with(every_word).await;
    let (mut one, mut two) = (RawClient::connect(&node).await, RawClient::connect(&node).await);
    for path in ["/a", "/b"] {
        one.call(&create(path, b"", CreateMode::Persistent)).await.unwrap();
        one.call(&get(path, true)).await.unwrap();
    }
    let children = Request::GetChildren(keeper_types::ReadRequest { path: "/a", watch: true });
    one.call(&children).await.unwrap();
    two.call(&exists("/a", true)).await.unwrap();
    let (first, second) = (one.granted.session_id, two.granted.session_id);
    assert_eq!(ask(&node, "wchs").await, "2 connections watching 2 paths\nTotal watches:4\n");
    assert_eq!(ask(&node, "wchc").await, format!("{first:#x}\n\t/a\n\t/b\n{second:#x}\n\t/a\n\n"));
    let by_path = ask(&node, "wchp").await;
    assert!(by_path.contains(&format!("/a\n\t{first:#x}\n\t{second:#x}\n")), "{by_path}");
    assert!(by_path.contains(&format!("/b\n\t{first:#x}\n")), "{by_path}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_smaller_words_have_their_servers_shapes() {
    let node = one_member_with(|options| {
        every_word(options);
        options.configuration = vec![("clientPort".into(), "2181".into())];
    })
    .await;
    for (word, shape) in [
        ("ruok", "imok"),
        ("isro", "rw"),
        ("conf", r"clientPort=2181\nserverId=1\nclusterId=[0-9a-f]{32}\n"),
        ("dirs", r"datadir_size: \d+\nlogdir_size: [1-9]\d+\nsnapshot_dir_size: \d+\nlog_dir_size: \d+\n"),
        ("hash", r"[0-9a-f]+: [0-9a-f]+\n"),
        ("gtmk", "306"),
        ("apiv", "2"),
        ("ftfl", r"filtered_list\t1\nmulti_read\t1\n(?s:.*)create_ttl\t1\n"),
        ("pfev", r"(Keeper\w+\t\d+\t[^\t\n]+\n)+"),
        (
            "lgif",
            r"first_log_idx\t\d+\nfirst_log_term\t\d+\nlast_log_idx\t[1-9]\d*\nlast_log_term\t[1-9]\d*\nlast_committed_log_idx\t\d+\nleader_committed_log_idx\t\d+\ntarget_committed_log_idx\t\d+\nlast_snapshot_idx\t\d+\nlatest_logs_cache_size\t\d+\n",
        ),
        ("rclc", "ok"),
        ("clrs", "ok"),
        ("jmst", "keeper was not built with jemalloc.\n"),
        // `*` does not open it.
        ("rcfg", r"rcfg is not executed because it is not in the whitelist.\n"),
        ("rcvr", r"rcvr is not supported: [^\n]+`keeper member list`[^\n]+\.\n"),
        ("lgrq", "enabled"),
        ("stgs", r"stage\tcount\tp50_us\tp99_us\tp999_us\tmax_us\n([a-z]+(\t\d+){5}\n){8}"),
    ] {
        assert_shape(&ask(&node, word).await, shape);
    }
    assert_eq!(ask(&node, "lgrq").await, "disabled");
    assert_eq!(ask(&node, b"stmk\0\0\0\0\0\0\0\x07").await, "7");
    assert_eq!(ask(&node, "gtmk").await, "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_word_of_the_table_is_answered_and_what_acts_is_closed_by_default() {
    let (open, closed) = (one_member_with(every_word).await, one_member().await);
    for word in WORDS {
        if word.name != "stmk" {
            let answer = ask(&open, word.name).await;
            // Without watches there is nothing to list.
            assert!(!answer.is_empty() || ["wchc", "wchp"].contains(&word.name), "{} is silent", word.name);
        }
        let refused = format!("{} is not executed because it is not in the whitelist.\n", word.name);
        assert_eq!(ask(&closed, word.name).await == refused, !word.open, "{}", word.name);
    }
    for word in [
        "rcvr", "rcfg", "csnp", "rqld", "ydld", "clrs", "rclc", "lgrq", "crst", "srst", "stmk", "dump",
        "wchc", "wchp",
    ] {
        assert!(WORDS.iter().any(|known| known.name == word && !known.open), "{word} is open to strangers");
    }
    for unknown in ["nope", "rest"] {
        assert_eq!(ask(&open, unknown).await, "", "{unknown}: as ZooKeeper, closed without a byte");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_serves_nobody_says_so_and_answers_the_rest() {
    let node = member_of_no_cluster(every_word).await;
    for word in WORDS {
        if word.name == "stmk" {
            continue;
        }
        let answer = ask(&node, word.name).await;
        let silent = answer == "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(silent, word.needs_service, "{} answered {answer:?}", word.name);
    }
    assert_eq!(ask(&node, "ruok").await, "imok");
    assert_eq!(ask(&node, "isro").await, "null");
    assert_eq!(ask(&node, "csnp").await, "Failed to schedule snapshot creation task.");
    assert_eq!(ask(&node, "rqld").await, "Failed to send leadership request to leader.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_answer_is_cut_and_one_who_does_not_read_it_holds_nobody() {
    let node = one_member_with(every_word).await;
    let mut client = RawClient::connect(&node).await;
    let long = "x".repeat(4_000);
    for number in 0..400 {
        let path = format!("/{long}{number}");
        client.call(&exists(&path, true)).await.unwrap_err();
    }
    let deaf: Vec<_> = {
        let mut deaf = Vec::new();
        for _ in 0..8 {
            let mut stream = socket(&node);
            stream.write_all(b"wchc").await.unwrap();
            deaf.push(stream);
        }
        deaf
    };
    let answer = ask(&node, "wchp").await;
    assert!(answer.len() < 1_200_000, "{} bytes", answer.len());
    assert!(
        answer.ends_with("... cut: an answer has at most 1048576 bytes\n"),
        "{}",
        &answer[answer.len() - 80..]
    );
    assert_eq!(ask(&node, "ruok").await, "imok");
    client.call(&create("/n", b"", CreateMode::Persistent)).await.unwrap();
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csnp_makes_a_snapshot_now() {
    let node = one_member_with(every_word).await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/n", b"", CreateMode::Persistent)).await.unwrap();
    let committed = ask(&node, "stgs").await;
    let committed = committed.lines().find(|line| line.starts_with("committed\t")).expect("a row");
    let times: Vec<u64> = committed.split('\t').skip(1).map(|cell| cell.parse().unwrap()).collect();
    // The session and the node.
    assert_eq!(times[0], 2);
    assert!(times[1] > 0 && times[1..].is_sorted(), "{committed}");
    let index: u64 = ask(&node, "csnp").await.parse().expect("an index");
    assert!(index > 0);
    let deadline = keeper_rt::now() + WAIT;
    while node.consensus().status().snapshot_index < index {
        assert!(keeper_rt::now() < deadline, "no snapshot at {index}");
        keeper_rt::sleep(Duration::from_millis(5)).await;
    }
    let mntr = ask(&node, "mntr").await;
    assert_ne!(numbers(&mntr)["zk_latest_snapshot_size"], "0");
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = keeper_rt::now() + WAIT;
    while !holds() {
        assert!(keeper_rt::now() < deadline, "never: {what}");
        keeper_rt::sleep(Duration::from_millis(5)).await;
    }
}

/// The word `rcfg` as ClickHouse's tools send it.
async fn rcfg(node: &Node, json: &str) -> serde_json::Value {
    let mut word = b"rcfg".to_vec();
    word.extend_from_slice(&(json.len() as i32).to_be_bytes());
    word.extend_from_slice(json.as_bytes());
    let answer = ask(node, word).await;
    assert!(answer.starts_with("{\n    \"status\": "), "{answer}");
    serde_json::from_str(&answer).expect("JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rcfg_changes_the_membership_where_it_is_named_and_switched_on() {
    let named = |options: &mut NodeOptions| options.four_letter_words = BTreeSet::from(["rcfg".to_owned()]);
    let off = one_member_with(named).await;
    let refused = rcfg(&off, r#"{"actions": []}"#).await;
    assert_eq!(refused["status"], "error");
    assert_eq!(refused["message"], "Reconfiguration is not enabled: set reconfig.enabled");

    let nodes = three_members(|options| {
        named(options);
        options.rules.reconfig = true;
    })
    .await;
    let ids = |node: &Node| {
        let membership = node.consensus().status().membership;
        let ids = membership.voters.iter().chain(&membership.learners).map(|member| member.id.0);
        ids.collect::<Vec<u64>>()
    };
    let leader = nodes[0].consensus().status().leader.expect("a leader").0;
    assert_eq!(leader, 1);
    for (json, message) in [
        ("", "Reconfiguration command require single JSON argument"),
        ("{", "The argument: "),
        (r#"{"actions": [{"grow": 1}]}"#, "The argument: unknown variant `grow`"),
        (
            r#"{"preconditions": {"leaders": [2]}, "actions": [{"remove_members": [3]}]}"#,
            "Precondition leaders: the leader is 1",
        ),
        (
            r#"{"preconditions": {"members": [1, 2]}, "actions": [{"remove_members": [3]}]}"#,
            "Precondition members: the members are {1, 2, 3}",
        ),
        (r#"{"actions": [{"remove_members": [1, 2, 3]}]}"#, "Action 1: "),
        (r#"{"actions": [{"add_members": [{"id": 4, "endpoint": "member-4"}]}]}"#, "Action 1: "),
        (r#"{"actions": [{"transfer_leadership": [9]}]}"#, "Action 1: none of these members votes"),
    ] {
        let answer = rcfg(&nodes[0], json).await;
        assert_eq!(answer["status"], "error", "{json}");
        assert!(answer["message"].as_str().unwrap().starts_with(message), "{json}: {answer}");
    }
    assert_eq!(ids(&nodes[0]), [1, 2, 3]);

    // From a follower, to the leader.
    let change = r#"{"preconditions": {"leaders": [1, 2], "members": [1, 2, 3]},
        "actions": [{"remove_members": [3]}, {"add_members": [{"id": 9, "endpoint": "member-9:1", "learner": true}]}]}"#;
    let answer = rcfg(&nodes[1], change).await;
    assert_eq!((answer["status"].as_str(), answer["message"].as_str()), (Some("ok"), Some("Ok.")));
    assert_eq!(ids(&nodes[0]), [1, 2, 9]);
    let answer = rcfg(&nodes[0], r#"{"actions": [{"transfer_leadership": [2]}]}"#).await;
    assert_eq!(answer["status"], "ok");
    until("member 2 leads", || nodes[1].consensus().status().role == Role::Leader).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_asked_for_and_yielded() {
    let nodes = three_members(every_word).await;
    let leads = |node: &Node| node.consensus().status().role == Role::Leader;
    until("member 1 leads", || leads(&nodes[0])).await;
    let mntr = ask(&nodes[0], "mntr").await;
    let found = numbers(&mntr);
    assert_eq!(
        (found["zk_server_state"], found["zk_followers"], found["zk_quorum_size"]),
        ("leader", "2", "3")
    );
    assert!(ask(&nodes[0], "srvr").await.contains("\nProposal sizes last/min/max: "));
    let follower = ask(&nodes[2], "mntr").await;
    assert_eq!(numbers(&follower)["zk_server_state"], "follower");
    assert!(!follower.contains("zk_followers"), "{follower}");

    assert_eq!(ask(&nodes[2], "rqld").await, "Sent leadership request to leader.");
    until("member 3 leads", || leads(&nodes[2])).await;
    assert_eq!(ask(&nodes[2], "ydld").await, "Sent yield leadership request to leader.");
    until("another leads", || leads(&nodes[0]) || leads(&nodes[1])).await;
}
