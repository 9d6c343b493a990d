//! Requests that take long are answered in turns with everybody else's, and still in their order.
#![allow(clippy::disallowed_methods)]

mod support;

use keeper_types::{
    CreateMode, ErrorCode, EventKind, OpCode, ReadRequest, Request, Response, SetWatchesRequest,
};
use support::{Packet, RawClient, create, exists, get, one_member, set};

/// Far more than are set in one go.
const WATCHES: usize = 2_300;

fn watches<'a>(paths: &'a [String], relative_zxid: i64) -> Request<'a> {
    Request::SetWatches(SetWatchesRequest {
        relative_zxid,
        data: Vec::new(),
        exist: paths.iter().map(String::as_str).collect(),
        child: vec!["/"],
        persistent: Vec::new(),
        persistent_recursive: Vec::new(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_by_the_thousand_are_all_set_and_go_with_their_connection() {
    let node = one_member().await;
    let mut writer = RawClient::connect(&node).await;
    writer.call(&create("/n7", b"", CreateMode::Persistent)).await.unwrap();
    let paths: Vec<String> = (0..WATCHES).map(|index| format!("/n{index}")).collect();
    let mut watcher = RawClient::connect(&node).await;
    watcher.send_as(-8, &watches(&paths, i64::MAX)).await;
    let read = watcher.send(&exists("/n7", false)).await;
    let missed = Packet::Event(keeper_types::WatchEvent {
        kind: EventKind::Created,
        state: keeper_types::EventState::SyncConnected,
        path: "/n7".into(),
    });
    assert_eq!(watcher.packet().await, missed);
    assert!(matches!(watcher.packet().await, Packet::Reply { xid: -8, error: 0, .. }));
    assert!(matches!(watcher.packet().await, Packet::Reply { xid, error: 0, .. } if xid == read));
    assert_eq!(node.shared().watches.summary().watches, WATCHES, "one has fired, one is the child watch");
    writer.call(&create("/n2299", b"", CreateMode::Persistent)).await.unwrap();
    let Packet::Event(event) = watcher.packet().await else { panic!("no event") };
    // Of the two watches that the creation meets, the parent's is told last.
    assert_eq!((event.kind, event.path.as_str()), (EventKind::Created, "/n2299"));
    drop(watcher);
    let deadline = keeper_rt::now() + support::WAIT;
    while node.shared().watches.summary().watches > 0 {
        assert!(keeper_rt::now() < deadline, "watches of a gone connection stay");
        keeper_rt::sleep(std::time::Duration::from_millis(2)).await;
    }
    let summary = node.shared().watches.summary();
    assert_eq!((summary.connections, summary.paths), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_read_between_two_pipelined_writes_sees_the_first_and_not_the_second() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    let large = |byte: u8| vec![byte; 200_000];
    client.call(&create("/x", &large(b'0'), CreateMode::Persistent)).await.unwrap();
    for round in 0..20u8 {
        let (first, second) = (large(round), large(round + 100));
        client.send(&set("/x", &first)).await;
        let read = client.send(&get("/x", false)).await;
        client.send(&set("/x", &second)).await;
        assert!(matches!(client.packet().await, Packet::Reply { error: 0, .. }));
        let Packet::Reply { xid, error: 0, body, .. } = client.packet().await else { panic!("no reply") };
        assert_eq!(xid, read);
        let Ok(Response::GetData { data, .. }) = keeper_wire::decode_response(OpCode::GetData, &body) else {
            panic!("no data")
        };
        assert!(data.as_deref() == Some(&first[..]), "round {round}");
        assert!(matches!(client.packet().await, Packet::Reply { error: 0, .. }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_read_larger_than_memory_is_an_error_and_a_long_one_is_whole() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/large", &[b'x'; 900_000], CreateMode::Persistent)).await.unwrap();
    client.call(&create("/small", b"y", CreateMode::Persistent)).await.unwrap();
    let read = |path| Request::GetData(ReadRequest { path, watch: false });
    let bomb = Request::MultiRead((0..10_000).map(|_| read("/large")).collect());
    assert_eq!(client.call(&bomb).await, Err(ErrorCode::SystemError.as_i32()));
    let long = Request::MultiRead((0..1_000).map(|_| read("/small")).collect());
    match client.call(&long).await {
        Ok(Response::MultiRead(results)) => {
            assert_eq!(results.len(), 1_000);
            assert!(results.iter().all(|result| matches!(
                result,
                Ok((OpCode::GetData, response)) if matches!(&**response, Response::GetData { data: Some(data), .. } if data == b"y")
            )));
        }
        other => panic!("{other:?}"),
    }
}
