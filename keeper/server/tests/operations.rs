//! The operations beyond the basic ones, as a client of one member sees them.
#![allow(clippy::disallowed_methods)]

mod support;

use keeper_consensus::Precondition;
use keeper_types::{
    AuthRequest, CreateMode, CreateRequest, ErrorCode, EventKind, Feature, Features, ListRequest, MultiOp,
    OpCode, ReadRequest, ReconfigRequest, Request, Response, ServerId, SetWatchesRequest, WatchTypeRequest,
};
use std::time::Duration;
use support::{Packet, RawClient, create, get, one_member, one_member_with, set};

/// Of `super:test`: the digest that ZooKeeper's own documentation computes for that pair.
const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

fn watch(path: &str, kind: i32) -> WatchTypeRequest<'_> {
    WatchTypeRequest { path, kind }
}

fn read(path: &str) -> ReadRequest<'_> {
    ReadRequest { path, watch: false }
}

/// The next packet is an event of this kind and path.
async fn expect_event(client: &mut RawClient, kind: EventKind, path: &str) {
    match client.packet().await {
        Packet::Event(event) => assert_eq!((event.kind, event.path.as_str()), (kind, path)),
        other => panic!("expected {kind:?} of {path}, got {other:?}"),
    }
}

async fn expect_reply(client: &mut RawClient) {
    match client.packet().await {
        Packet::Reply { error: 0, .. } => {}
        other => panic!("expected a success, got {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_watch_tells_every_one_of_a_burst_of_changes() {
    const BURST: usize = 208;
    let node = one_member().await;
    let (mut watcher, mut writer) = (RawClient::connect(&node).await, RawClient::connect(&node).await);
    writer.call(&create("/p", b"", CreateMode::Persistent)).await.unwrap();
    let added = watcher.call(&Request::AddWatch(watch("/p", 0))).await;
    assert_eq!(added, Ok(Response::AddWatch { error: 0 }));
    for round in 0..BURST {
        writer.send(&set("/p", round.to_string().as_bytes())).await;
    }
    for _ in 0..BURST {
        expect_event(&mut watcher, EventKind::DataChanged, "/p").await;
    }
    writer.send(&create("/p/c", b"", CreateMode::Persistent)).await;
    expect_event(&mut watcher, EventKind::ChildrenChanged, "/p").await;
    assert_eq!(watcher.call(&Request::CheckWatches(watch("/p", 4))).await, Ok(Response::Empty));
    assert_eq!(watcher.call(&Request::RemoveWatches(watch("/p", 3))).await, Ok(Response::Empty));
    let none = Err(ErrorCode::NoWatcher.as_i32());
    assert_eq!(watcher.call(&Request::RemoveWatches(watch("/p", 3))).await, none);
    assert_eq!(watcher.call(&Request::CheckWatches(watch("/p", 3))).await, none);
    let bad = Err(ErrorCode::MarshallingError.as_i32());
    assert_eq!(watcher.call(&Request::AddWatch(watch("/p", 2))).await, bad);
    assert_eq!(watcher.call(&Request::RemoveWatches(watch("/p", 0))).await, bad);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recursive_watch_is_set_again_on_a_new_connection() {
    let node = one_member().await;
    let (mut watcher, mut writer) = (RawClient::connect(&node).await, RawClient::connect(&node).await);
    let again = SetWatchesRequest {
        relative_zxid: 0,
        data: vec![],
        exist: vec![],
        child: vec![],
        persistent: vec!["/other"],
        persistent_recursive: vec!["/r"],
    };
    assert_eq!(watcher.call(&Request::SetWatches2(again)).await, Ok(Response::Empty));
    for path in ["/r", "/r/a", "/r/a/b", "/other"] {
        writer.call(&create(path, b"", CreateMode::Persistent)).await.unwrap();
        expect_event(&mut watcher, EventKind::Created, path).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_read_answers_each_part_for_itself() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/m", b"data", CreateMode::Persistent)).await.unwrap();
    client.call(&create("/m/e", b"", CreateMode::Ephemeral)).await.unwrap();
    let list = |filter| ListRequest { path: "/m", watch: false, filter, with_stat: false, with_data: true };
    let reads = vec![
        Request::GetData(read("/m")),
        Request::GetData(read("/nothing")),
        Request::GetChildren(read("/m")),
        Request::FilteredList(ListRequest { with_data: false, ..list(1) }),
        Request::FilteredListWithStatsAndData(list(2)),
    ];
    let Ok(Response::MultiRead(answers)) = client.call(&Request::MultiRead(reads)).await else {
        panic!("no answer")
    };
    let ops: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map(|(op, _)| *op).map_err(|code| *code)).collect();
    let expected = [
        Ok(OpCode::GetData),
        Err(ErrorCode::NoNode),
        Ok(OpCode::GetChildren),
        Ok(OpCode::GetChildren2),
        Ok(OpCode::FilteredListWithStatsAndData),
    ];
    assert_eq!(ops, expected);
    let Ok((_, last)) = &answers[4] else { unreachable!() };
    let Response::FilteredListWithStatsAndData { names, stats, data, .. } = &**last else {
        panic!("{last:?}")
    };
    assert_eq!(
        (names.as_slice(), stats.len(), data.as_slice()),
        (&["e".to_owned()][..], 0, &[Some(vec![])][..])
    );
}

/// chdb and ClickHouse cast each part to what they asked for: an error without a type ends in `std::bad_cast`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_a_client_of_clickhouse_a_failed_part_keeps_its_type() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    client.call(&Request::GetData(read("/keeper/feature_flags"))).await.unwrap();
    let reads = vec![Request::Exists(read("/nothing")), Request::GetData(read("/nothing"))];
    let answer = client.call(&Request::MultiRead(reads)).await;
    let failed = |op| Ok((op, Box::new(Response::Failed(ErrorCode::NoNode))));
    assert_eq!(answer, Ok(Response::MultiRead(vec![failed(OpCode::Exists), failed(OpCode::GetData)])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_learns_who_it_is_and_what_it_owns() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    let auth = AuthRequest { scheme: "digest", auth: b"bob:secret" };
    client.send_as(-4, &Request::Auth(auth)).await;
    expect_reply(&mut client).await;
    let Ok(Response::WhoAmI { ids }) = client.call(&Request::WhoAmI).await else { panic!("no answer") };
    assert!(ids.iter().any(|id| id.scheme == "digest" && id.id == "bob"), "{ids:?}");
    assert!(ids.iter().any(|id| id.scheme == "ip"), "{ids:?}");
    client.call(&create("/own", b"", CreateMode::Ephemeral)).await.unwrap();
    let owned = client.call(&Request::GetEphemerals("/o")).await;
    assert_eq!(owned, Ok(Response::GetEphemerals { paths: vec!["/own".into()] }));
    let count = client.call(&Request::GetAllChildrenNumber("/")).await;
    assert_eq!(count, Ok(Response::GetAllChildrenNumber { count: 4 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_switched_off_is_neither_announced_nor_served_and_all_else_goes_on() {
    let off = [Feature::CreateIfNotExists, Feature::MultiRead];
    let features = off.iter().fold(Features::ALL, |features, feature| features.without(*feature));
    let node = one_member_with(|options| options.features = features).await;
    let mut client = RawClient::connect(&node).await;
    let flags = client.call(&get("/keeper/feature_flags", false)).await;
    assert!(
        matches!(flags, Ok(Response::GetData { data: Some(ref data), .. }) if data == &features.flags()),
        "{flags:?}"
    );
    let version = client.call(&get("/keeper/api_version", false)).await;
    assert!(
        matches!(version, Ok(Response::GetData { data: Some(ref data), .. }) if data == b"1"),
        "{version:?}"
    );
    let Request::Create(_, new) = create("/new", b"", CreateMode::Persistent) else { unreachable!() };
    let refused = Err(ErrorCode::Unimplemented.as_i32());
    let alone = Request::Create(OpCode::CreateIfNotExists, new.clone());
    assert_eq!(client.call(&alone).await, refused);
    let multi = Request::Multi(vec![MultiOp::Create(OpCode::CreateIfNotExists, new)]);
    assert_eq!(client.call(&multi).await, refused);
    assert_eq!(client.call(&get("/new", false)).await, Err(ErrorCode::NoNode.as_i32()));
    // An operation of ZooKeeper's own stays, announced or not.
    let many = client.call(&Request::MultiRead(vec![get("/", false)])).await;
    assert!(matches!(many, Ok(Response::MultiRead(ref results)) if results.len() == 1), "{many:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clickhouse_reads_what_the_server_can_do_and_nobody_writes_there() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    let Ok(Response::GetData { data, stat }) = client.call(&get("/keeper/feature_flags", false)).await else {
        panic!("no flags")
    };
    assert_eq!((data, stat.data_length), (Some(Features::ALL.flags()), 2));
    let children = client.call(&Request::GetChildren(read("/keeper"))).await;
    let names = ["api_version", "config", "feature_flags"].map(String::from).to_vec();
    assert_eq!(children, Ok(Response::GetChildren { names }));
    let bad = Err(ErrorCode::BadArguments.as_i32());
    assert_eq!(client.call(&create("/keeper/x", b"", CreateMode::Persistent)).await, bad);
    assert_eq!(client.call(&create("/keeper", b"", CreateMode::Persistent)).await, bad);
    assert_eq!(client.call(&set("/keeper/config", b"")).await, bad);
    assert_eq!(client.call(&get("/keeper/x", false)).await, Err(ErrorCode::NoNode.as_i32()));
    let Ok(Response::GetData { data, .. }) = client.call(&get("/zookeeper/config", false)).await else {
        panic!("no configuration")
    };
    let text = String::from_utf8(data.unwrap()).unwrap();
    assert!(text.starts_with("server.1=one:1:1:participant;one:2\nversion="), "{text}");
    let of_keeper = client.call(&get("/keeper/config", false)).await;
    assert!(matches!(of_keeper, Ok(Response::GetData { data: Some(data), .. }) if data == text.as_bytes()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_ends_ttl_nodes_and_empty_containers() {
    let node = one_member_with(|options| {
        options.ttl_period = Duration::from_millis(20);
        options.container_period = Duration::from_millis(20);
    })
    .await;
    let mut client = RawClient::connect(&node).await;
    let made = |path, flags, ttl_ms| CreateRequest {
        path,
        data: None,
        acl: vec![keeper_types::Acl::open()],
        flags,
        ttl_ms,
    };
    for (op, path, flags, ttl_ms) in
        [(OpCode::CreateContainer, "/c", 4, None), (OpCode::CreateTtl, "/t", 5, Some(50))]
    {
        let answer = client.call(&Request::Create(op, made(path, flags, ttl_ms))).await;
        assert!(matches!(answer, Ok(Response::Create2 { .. })), "{answer:?}");
    }
    client.call(&create("/c/a", b"", CreateMode::Persistent)).await.unwrap();
    client.call(&Request::AddWatch(watch("/t", 0))).await.unwrap();
    expect_event(&mut client, EventKind::Deleted, "/t").await;
    client.call(&Request::AddWatch(watch("/c", 1))).await.unwrap();
    client.send(&Request::Delete(keeper_types::DeleteRequest { path: "/c/a", version: -1 })).await;
    expect_event(&mut client, EventKind::Deleted, "/c/a").await;
    expect_reply(&mut client).await;
    expect_event(&mut client, EventKind::Deleted, "/c").await;
}

fn reconfig(joining: &'static str, leaving: &'static str, config_id: i64) -> Request<'static> {
    let some = |text: &'static str| (!text.is_empty()).then_some(text);
    Request::Reconfig(ReconfigRequest {
        joining: some(joining),
        leaving: some(leaving),
        new_members: None,
        config_id,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconfig_is_refused_as_zookeeper_refuses_it() {
    let off = one_member().await;
    let mut client = RawClient::connect(&off).await;
    let disabled = Err(ErrorCode::ReconfigDisabled.as_i32());
    assert_eq!(client.call(&reconfig("server.9=a:1:2:observer;3", "", -1)).await, disabled);

    let node = one_member_with(|options| options.rules.reconfig = true).await;
    let mut client = RawClient::connect(&node).await;
    let refused = |code: ErrorCode| Err(code.as_i32());
    assert_eq!(client.call(&reconfig("some thing", "", -1)).await, refused(ErrorCode::BadArguments));
    assert_eq!(
        client.call(&reconfig("server.9=a:1:2:observer;3", "", 77)).await,
        refused(ErrorCode::BadVersion)
    );
    assert_eq!(client.call(&reconfig("server.9=a:1:2:observer;3", "", -1)).await, refused(ErrorCode::NoAuth));
    assert_eq!(client.call(&reconfig("", "1", -1)).await, refused(ErrorCode::BadArguments));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_joins_and_leaves_in_the_order_of_the_sessions_writes() {
    let node = one_member_with(|options| {
        options.rules.reconfig = true;
        options.auth.super_digest = Some(SUPER_DIGEST.into());
    })
    .await;
    let mut client = RawClient::connect(&node).await;
    client.send_as(-4, &Request::Auth(AuthRequest { scheme: "digest", auth: b"super:test" })).await;
    expect_reply(&mut client).await;
    let mut watcher = RawClient::connect(&node).await;
    watcher.call(&get("/zookeeper/config", true)).await.unwrap();
    watcher.call(&get("/keeper/config", true)).await.unwrap();

    let joining = "server.9=127.0.0.1:4001:4002:observer;127.0.0.1:4003";
    let before = client.send(&create("/before", b"", CreateMode::Persistent)).await;
    let changed = client.send(&reconfig(joining, "", -1)).await;
    let after = client.send(&create("/after", b"", CreateMode::Persistent)).await;
    let mut zxids = Vec::new();
    for expected in [before, changed, after] {
        let Packet::Reply { xid, zxid, error: 0, body } = client.packet().await else { panic!("refused") };
        assert_eq!(xid, expected);
        zxids.push(zxid);
        if xid == changed {
            let Ok(Response::GetData { data, .. }) = keeper_wire::decode_response(OpCode::Reconfig, &body)
            else {
                panic!("no configuration")
            };
            let text = String::from_utf8(data.unwrap()).unwrap();
            assert!(text.contains(joining), "{text}");
        }
    }
    assert!(zxids.is_sorted_by(|one, next| one < next), "{zxids:?}");
    expect_event(&mut watcher, EventKind::DataChanged, "/zookeeper/config").await;
    expect_event(&mut watcher, EventKind::DataChanged, "/keeper/config").await;

    let membership = node.consensus().committed_membership().await.unwrap();
    assert!(membership.learner(ServerId(9)).is_some());
    client.call(&reconfig("", "9", -1)).await.unwrap();
    let membership = node.consensus().committed_membership().await.unwrap();
    assert!(membership.member(ServerId(9)).is_none());
    // Its number is used up for ever.
    let again = node.consensus().add_learner(
        keeper_consensus::Member { id: ServerId(9), peer_address: "a:1".into(), ..Default::default() },
        Precondition::default(),
    );
    assert!(again.await.is_err());
}
