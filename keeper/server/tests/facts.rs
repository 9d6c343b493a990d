//! What others' servers were reported to do wrong, on a member of ours. Tickets of ClickHouse unless named otherwise;
//! docs/protocol/facts.md lists all of them with their tests.
#![allow(clippy::disallowed_methods)]

mod support;

use keeper_log::faulty::FaultyDisk;
use keeper_types::{
    Acl, CheckRequest, CheckStatRequest, CreateMode, CreateRequest, DeleteRequest, ErrorCode, EventKind,
    ListRequest, MultiOp, OpCode, ReadRequest, RecursiveRequest, Request, Response, SetAclRequest, Stat,
    WatchTypeRequest,
};
use std::time::Duration;
use support::{
    Packet, RawClient, connect_request, create, exists, get, member_of_no_cluster, one_member,
    one_member_with, ready, set,
};

fn check(path: &str, version: i32) -> Request<'_> {
    Request::Check(CheckRequest { path, version })
}

fn delete(path: &str) -> Request<'_> {
    Request::Delete(DeleteRequest { path, version: -1 })
}

fn list(path: &str, watch: bool) -> ListRequest<'_> {
    ListRequest { path, watch, filter: 0, with_stat: true, with_data: true }
}

async fn expect_event(client: &mut RawClient, kind: EventKind, path: &str) {
    match client.packet().await {
        Packet::Event(event) => assert_eq!((event.kind, event.path.as_str()), (kind, path)),
        other => panic!("expected {kind:?} of {path}, got {other:?}"),
    }
}

/// ZooKeeper writes such a check into its log and cannot start again from that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_outside_a_multi_is_answered_and_survives_a_restart() {
    let disk = FaultyDisk::new(5);
    let node = one_member_with(|options| options.disk = disk.disk()).await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/c", b"", CreateMode::Persistent)).await.unwrap();
    assert_eq!(client.call(&check("/c", 0)).await, Ok(Response::Empty));
    assert_eq!(client.call(&check("/c", 7)).await, Err(ErrorCode::BadVersion.as_i32()));
    assert_eq!(client.call(&check("/none", -1)).await, Err(ErrorCode::NoNode.as_i32()));
    client.call(&set("/c", b"after")).await.unwrap();
    node.shutdown().await;

    let node = member_of_no_cluster(|options| options.disk = disk.disk()).await;
    ready(&node).await;
    let mut client = RawClient::connect(&node).await;
    let found = client.call(&get("/c", false)).await;
    assert!(matches!(found, Ok(Response::GetData { data: Some(data), .. }) if data == b"after"));
}

/// #111102, #121361: reads alone, and pings alone, are signs of life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_only_reads_keeps_its_session() {
    const TIMEOUT: Duration = Duration::from_millis(400);
    let node = one_member().await;
    let short = connect_request(0, vec![0; 16], TIMEOUT.as_millis() as i32);
    let mut reader = RawClient::connect_as(&node, &short).await.expect("a session");
    let mut pinger = RawClient::connect_as(&node, &short).await.expect("a session");
    reader.call(&create("/mine", b"", CreateMode::Ephemeral)).await.unwrap();
    let until = keeper_rt::now() + 4 * TIMEOUT;
    while keeper_rt::now() < until {
        assert!(reader.call(&get("/mine", false)).await.is_ok());
        pinger.send_as(-2, &Request::Ping).await;
        assert!(matches!(pinger.packet().await, Packet::Reply { xid: -2, error: 0, .. }));
        keeper_rt::sleep(TIMEOUT / 8).await;
    }
    assert!(pinger.call(&exists("/mine", false)).await.is_ok());
}

/// #56900: "got new zxid smaller than current".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zxids_never_go_back_within_a_connection() {
    let node = one_member().await;
    let (mut client, mut other) = (RawClient::connect(&node).await, RawClient::connect(&node).await);
    client.call(&create("/z", b"", CreateMode::Persistent)).await.unwrap();
    let mut last = 0;
    for round in 0..100 {
        other.send(&set("/z", b"other")).await;
        for request in [
            get("/z", false),
            set("/z", b"own"),
            exists("/none", false),
            check("/z", -7),
            Request::Sync("/z"),
            get("/z", false),
        ] {
            client.send(&request).await;
        }
        for _ in 0..6 {
            let Packet::Reply { zxid, .. } = client.packet().await else { panic!("no reply") };
            assert!(last <= zxid, "round {round}: {zxid} after {last}");
            last = zxid;
        }
        other.packet().await;
    }
}

/// #92480, #93213, #74888, #83583 and RaftKeeper#376: watches of every kind end with their connection, and the numbers
/// shown are those of the tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_watch_outlives_its_connection() {
    let node = one_member().await;
    let mut keeper = RawClient::connect(&node).await;
    keeper.call(&create("/w", b"", CreateMode::Persistent)).await.unwrap();
    let counts = || {
        let summary = node.shared().watches.summary();
        (summary.connections, summary.paths, summary.watches)
    };
    for round in 0..3 {
        let mut client = RawClient::connect(&node).await;
        let kinds = [
            get("/w", true),
            exists("/none", true),
            Request::GetChildren(ReadRequest { path: "/w", watch: true }),
            Request::FilteredList(ListRequest { with_stat: false, with_data: false, ..list("/w", true) }),
            Request::AddWatch(WatchTypeRequest { path: "/w", kind: 0 }),
            Request::AddWatch(WatchTypeRequest { path: "/w", kind: 1 }),
        ];
        for request in kinds {
            let _ = client.call(&request).await;
        }
        // The filtered list's is the child watch that getChildren left before.
        assert_eq!(counts(), (1, 2, 5), "round {round}");
        // Used up: the data watch and the child watch.
        keeper.call(&set("/w", b"x")).await.unwrap();
        keeper.call(&create("/w/c", b"", CreateMode::Persistent)).await.unwrap();
        keeper.call(&delete("/w/c")).await.unwrap();
        assert_eq!(counts(), (1, 2, 3), "round {round}");
        if round == 0 {
            drop(client);
        } else {
            let xid = client.send(&Request::CloseSession).await;
            while !matches!(client.packet().await, Packet::Reply { xid: answered, .. } if answered == xid) {}
            assert_eq!(client.packet().await, Packet::End);
        }
        let deadline = keeper_rt::now() + support::WAIT;
        while counts() != (0, 0, 0) {
            assert!(keeper_rt::now() < deadline, "left over: {:?}", counts());
            keeper_rt::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Flag MULTI_WATCHES (#84964): the reads of a multiRead leave the watches they ask for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_inside_a_multi_read_leave_their_watches() {
    let node = one_member().await;
    let (mut client, mut other) = (RawClient::connect(&node).await, RawClient::connect(&node).await);
    other.call(&create("/m", b"", CreateMode::Persistent)).await.unwrap();
    let reads = vec![
        get("/m", true),
        exists("/m/c", true),
        Request::GetChildren(ReadRequest { path: "/m", watch: true }),
        get("/nothing", true),
    ];
    assert!(client.call(&Request::MultiRead(reads)).await.is_ok());
    other.call(&set("/m", b"x")).await.unwrap();
    expect_event(&mut client, EventKind::DataChanged, "/m").await;
    other.call(&create("/m/c", b"", CreateMode::Persistent)).await.unwrap();
    expect_event(&mut client, EventKind::Created, "/m/c").await;
    expect_event(&mut client, EventKind::ChildrenChanged, "/m").await;
    other.call(&create("/nothing", b"", CreateMode::Persistent)).await.unwrap();
    assert!(client.call(&Request::WhoAmI).await.is_ok(), "a failed read leaves no watch");
}

/// #118774: the watch of a list with Stats and data is a child watch, as docs/protocol/client.md says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watch_of_a_list_with_data_is_a_child_watch() {
    let node = one_member().await;
    let (mut client, mut other) = (RawClient::connect(&node).await, RawClient::connect(&node).await);
    for path in ["/l", "/l/c"] {
        other.call(&create(path, b"", CreateMode::Persistent)).await.unwrap();
    }
    for request in
        [Request::FilteredListWithStatsAndData(list("/l", true)), Request::FilteredList(list("/l", true))]
    {
        let request = match request {
            Request::FilteredList(list) => {
                Request::FilteredList(ListRequest { with_stat: false, with_data: false, ..list })
            }
            other => other,
        };
        assert!(client.call(&request).await.is_ok());
        other.call(&set("/l/c", b"x")).await.unwrap();
        other.call(&set("/l", b"x")).await.unwrap();
        other.call(&create("/l/d", b"", CreateMode::Persistent)).await.unwrap();
        expect_event(&mut client, EventKind::ChildrenChanged, "/l").await;
        other.call(&delete("/l/d")).await.unwrap();
    }
}

/// Nobody writes below `/keeper`, by no operation, and not inside a multi.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_write_below_keeper_is_refused() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    let bad = Err(ErrorCode::BadArguments.as_i32());
    let stat = Stat { version: -1, ..Stat::default() };
    for path in ["/keeper", "/keeper/config", "/keeper/new", "/keeper/api_version"] {
        let make = |flags| CreateRequest {
            path,
            data: None,
            acl: vec![Acl::open()],
            flags,
            ttl_ms: (flags == 5).then_some(1_000),
        };
        for request in [
            Request::Create(OpCode::Create, make(0)),
            Request::Create(OpCode::Create2, make(0)),
            Request::Create(OpCode::CreateContainer, make(4)),
            Request::Create(OpCode::CreateTtl, make(5)),
            Request::Create(OpCode::CreateIfNotExists, make(0)),
            set(path, b""),
            delete(path),
            Request::SetAcl(SetAclRequest { path, acl: vec![Acl::open()], version: -1 }),
            check(path, -1),
            Request::CheckNotExists(CheckRequest { path, version: -1 }),
            Request::CheckStat(CheckStatRequest { path, version: -1, stat }),
            Request::TryRemove(DeleteRequest { path, version: -1 }),
            Request::RemoveRecursive(RecursiveRequest { path, nodes_max: 10 }),
        ] {
            assert_eq!(client.call(&request).await, bad, "{request:?}");
        }
        let multi = Request::Multi(vec![MultiOp::Delete(DeleteRequest { path, version: -1 })]);
        let Ok(Response::Multi(results)) = client.call(&multi).await else { panic!("no answer") };
        assert_eq!(results, [keeper_types::MultiResult::Error(Some(ErrorCode::BadArguments))]);
    }
    // A name that only begins like it is a node like any other.
    client.call(&create("/keepers", b"", CreateMode::Persistent)).await.unwrap();
}

/// #33249: an ACL may name a digest that was computed elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_digest_computed_elsewhere_lets_its_user_in() {
    let node = one_member().await;
    let (mut owner, mut bob) = (RawClient::connect(&node).await, RawClient::connect(&node).await);
    let named = keeper_tree::digest_identity("bob:secret").expect("a digest");
    let acl = vec![Acl { perms: keeper_types::Perms::ALL, id: named }];
    let request = CreateRequest { path: "/bob", data: None, acl, flags: 0, ttl_ms: None };
    owner.call(&Request::Create(OpCode::Create, request)).await.unwrap();
    let refused = Err(ErrorCode::NoAuth.as_i32());
    assert_eq!(owner.call(&get("/bob", false)).await, refused);
    assert_eq!(bob.call(&get("/bob", false)).await, refused);
    let auth = keeper_types::AuthRequest { scheme: "digest", auth: b"bob:secret" };
    bob.send_as(-4, &Request::Auth(auth)).await;
    assert!(matches!(bob.packet().await, Packet::Reply { xid: -4, error: 0, .. }));
    assert!(bob.call(&get("/bob", false)).await.is_ok());
}

/// Without a quorum ZooKeeper takes no clients: the handshake is closed without an answer, so that the next member is
/// tried (#114401: not held for 30 seconds).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_no_cluster_hands_out_no_session() {
    let node = member_of_no_cluster(|_| {}).await;
    let began = keeper_rt::now();
    let refused = RawClient::connect_as(&node, &connect_request(0, vec![0; 16], 10_000)).await;
    assert!(refused.is_none());
    assert!(keeper_rt::now() - began < Duration::from_secs(15));
}
