//! What a client sees of one member: order, watches, sessions, and what becomes of bad input.
#![allow(clippy::disallowed_methods)]

mod support;

use keeper_types::{AuthRequest, CreateMode, ErrorCode, EventKind, Request, Response};
use std::time::Duration;
use support::{
    Packet, RawClient, connect_request, create, exists, get, one_member, one_member_with, set, socket,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_between_two_pipelined_writes_sees_the_first_and_not_the_second() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/x", b"0", CreateMode::Persistent)).await.unwrap();
    for round in 0..200 {
        let (first, second) = (format!("{round}a"), format!("{round}b"));
        client.send(&set("/x", first.as_bytes())).await;
        let read = client.send(&get("/x", false)).await;
        client.send(&set("/x", second.as_bytes())).await;
        client.packet().await;
        let Packet::Reply { xid, error: 0, body, .. } = client.packet().await else { panic!("no reply") };
        assert_eq!(xid, read);
        let Ok(Response::GetData { data, .. }) =
            keeper_wire::decode_response(keeper_types::OpCode::GetData, &body)
        else {
            panic!("no data")
        };
        assert_eq!(data.as_deref(), Some(first.as_bytes()), "round {round}");
        client.packet().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_event_comes_before_the_reply_that_shows_the_change() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    assert_eq!(client.call(&exists("/w", true)).await, Err(ErrorCode::NoNode.as_i32()));
    let sent = client.send(&create("/w", b"", CreateMode::Persistent)).await;
    match client.packet().await {
        Packet::Event(event) => assert_eq!((event.kind, event.path.as_str()), (EventKind::Created, "/w")),
        other => panic!("expected the event first, got {other:?}"),
    }
    assert!(matches!(client.packet().await, Packet::Reply { xid, error: 0, .. } if xid == sent));
    // One-shot: the next change is silent.
    client.call(&set("/w", b"1")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_comes_back_with_its_password_and_the_older_connection_ends() {
    let node = one_member().await;
    let mut first = RawClient::connect(&node).await;
    first.call(&create("/e", b"", CreateMode::Ephemeral)).await.unwrap();
    let granted = first.granted.clone();
    let again = connect_request(granted.session_id, granted.password.clone(), 30_000);
    let mut second = RawClient::connect_as(&node, &again).await.expect("an answer");
    assert_eq!(second.granted.session_id, granted.session_id);
    assert_eq!(second.granted.password, granted.password);
    assert_eq!(first.packet().await, Packet::End);
    assert!(second.call(&get("/e", false)).await.is_ok(), "the ephemeral node lives on");

    let wrong = connect_request(granted.session_id, vec![1; 16], 30_000);
    let refused = RawClient::connect_as(&node, &wrong).await.expect("an answer");
    assert_eq!((refused.granted.session_id, refused.granted.timeout_ms), (0, 0));
    let unknown = connect_request(0x0123_4567, vec![0; 16], 30_000);
    let refused = RawClient::connect_as(&node, &unknown).await.expect("an answer");
    assert_eq!((refused.granted.session_id, refused.granted.password), (0, vec![0; 16]));
    assert!(second.call(&get("/e", false)).await.is_ok(), "a wrong password changes nothing for the owner");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_session_expires_with_its_ephemeral_nodes_and_a_live_one_does_not() {
    let node = one_member().await;
    let mut owner =
        RawClient::connect_as(&node, &connect_request(0, vec![0; 16], 400)).await.expect("a session");
    assert_eq!(owner.granted.timeout_ms, 400);
    owner.call(&create("/gone", b"", CreateMode::Ephemeral)).await.unwrap();
    let mut watcher = RawClient::connect(&node).await;
    assert!(watcher.call(&exists("/gone", true)).await.is_ok());
    match watcher.packet().await {
        Packet::Event(event) => assert_eq!((event.kind, event.path.as_str()), (EventKind::Deleted, "/gone")),
        other => panic!("expected the deletion, got {other:?}"),
    }
    assert_eq!(owner.packet().await, Packet::End, "an expired session's connection is closed");
    assert!(watcher.call(&Request::Ping).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_connection_breaks_has_its_whole_timeout_from_there() {
    let node = one_member().await;
    let mut owner =
        RawClient::connect_as(&node, &connect_request(0, vec![0; 16], 1_500)).await.expect("a session");
    owner.call(&create("/gone", b"", CreateMode::Ephemeral)).await.unwrap();
    let mut watcher = RawClient::connect(&node).await;
    assert!(watcher.call(&exists("/gone", true)).await.is_ok());
    // Silent for two thirds of it, but there.
    keeper_rt::sleep(Duration::from_millis(1_000)).await;
    drop(owner);
    let left = keeper_rt::now();
    assert!(matches!(watcher.packet().await, Packet::Event(_)));
    assert!(left.elapsed() >= Duration::from_millis(1_500), "gone after {:?}", left.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_a_session_is_answered_before_the_connection_ends() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/e", b"", CreateMode::Ephemeral)).await.unwrap();
    client.call(&Request::CloseSession).await.unwrap();
    assert_eq!(client.packet().await, Packet::End);
    let mut other = RawClient::connect(&node).await;
    assert_eq!(other.call(&get("/e", false)).await, Err(ErrorCode::NoNode.as_i32()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_bytes_close_that_connection_and_no_other() {
    let node = one_member().await;
    let mut bystander = RawClient::connect(&node).await;
    bystander.call(&create("/b", b"", CreateMode::Persistent)).await.unwrap();
    let long = 0x7fff_ffff_u32.to_be_bytes().to_vec();
    let negative = (-5_i32).to_be_bytes().to_vec();
    let garbage =
        vec![0, 0, 0, 40].into_iter().chain((0..40_u8).map(|i| i.wrapping_mul(7))).collect::<Vec<u8>>();
    let half_header = vec![0, 0, 0, 3, 1, 2, 3];
    for bytes in [long, negative, garbage, half_header] {
        let mut bad = RawClient::connect(&node).await;
        bad.stream.write_all(&bytes).await.unwrap();
        // Unknown operations are answered; everything else ends the connection without a word.
        match bad.packet().await {
            Packet::End => {}
            Packet::Reply { error, .. } => assert_eq!(error, ErrorCode::Unimplemented.as_i32()),
            Packet::Event(event) => panic!("an event out of nowhere: {event:?}"),
        }
        assert!(bystander.call(&set("/b", &bytes)).await.is_ok());
    }
    for first in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0, 0, 0, 45]] {
        let mut stream = socket(&node);
        stream.write_all(first).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(answer.is_empty(), "{first:?} was answered with {answer:?}");
    }
    assert!(bystander.call(&get("/b", false)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_operation_is_answered_in_its_turn_and_the_connection_goes_on() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    let write = client.send(&create("/u", b"", CreateMode::Persistent)).await;
    client.stream.write_all(&[0, 0, 0, 8, 0, 0, 0, 77, 0, 0, 3, 231]).await.unwrap();
    // deleteContainer is the leader's own.
    client.stream.write_all(&[0, 0, 0, 13, 0, 0, 0, 78, 0, 0, 0, 20, 0, 0, 0, 1, b'/']).await.unwrap();
    assert!(matches!(client.packet().await, Packet::Reply { xid, error: 0, .. } if xid == write));
    let unimplemented = ErrorCode::Unimplemented.as_i32();
    assert!(
        matches!(client.packet().await, Packet::Reply { xid: 77, zxid: -1, error, .. } if error == unimplemented)
    );
    assert!(
        matches!(client.packet().await, Packet::Reply { xid: 78, zxid: -1, error, .. } if error == unimplemented)
    );
    assert!(client.call(&get("/u", false)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_auth_scheme_is_answered_then_the_connection_ends() {
    let node = one_member().await;
    let mut client = RawClient::connect(&node).await;
    client.send_as(-4, &Request::Auth(AuthRequest { scheme: "digest", auth: b"user:password" })).await;
    assert!(matches!(client.packet().await, Packet::Reply { xid: -4, zxid: 0, error: 0, .. }));
    client.send_as(-4, &Request::Auth(AuthRequest { scheme: "nonsense", auth: b"x" })).await;
    let failed = ErrorCode::AuthFailed.as_i32();
    assert!(matches!(client.packet().await, Packet::Reply { xid: -4, error, .. } if error == failed));
    assert_eq!(client.packet().await, Packet::End);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_seen_more_than_the_member_is_not_served() {
    let node = one_member().await;
    let mut ahead = connect_request(0, vec![0; 16], 30_000);
    ahead.last_zxid_seen = 1 << 40;
    assert!(RawClient::connect_as(&node, &ahead).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_reads_is_paused_and_others_are_unmoved() {
    let node = one_member_with(|options| options.frame_bytes_max = 1 << 20).await;
    let mut good = RawClient::connect(&node).await;
    good.call(&create("/big", &vec![9; 1 << 19], CreateMode::Persistent)).await.unwrap();
    let mut deaf = RawClient::connect(&node).await;
    // Its requests are small, so the pipe takes many; the server reads only as many as its outbox may hold.
    let _ = keeper_rt::timeout(std::time::Duration::from_secs(2), async {
        for _ in 0..10_000 {
            deaf.send(&get("/big", false)).await;
        }
    })
    .await;
    assert!(good.call(&set("/big", b"small")).await.is_ok());
    assert!(good.call(&get("/big", false)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_are_answered_by_the_white_list() {
    let node = one_member_with(|options| {
        options.four_letter_words.remove("cons");
    })
    .await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/n", b"", CreateMode::Persistent)).await.unwrap();
    for (word, part) in [
        ("ruok", "imok"),
        ("srvr", "Mode: standalone\nNode count: "),
        ("stat", "Clients:\n /10.1.2.3:4567"),
        ("mntr", "zk_server_state\tstandalone\n"),
        ("envi", "zookeeper.version=3.9"),
        ("isro", "rw"),
        ("wchs", "0 connections watching 0 paths\nTotal watches:0\n"),
        ("cons", "cons is not executed because it is not in the whitelist."),
    ] {
        let mut stream = socket(&node);
        stream.write_all(word.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.contains(part), "{word} answered {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_loses_nothing_and_recovers() {
    let disk = keeper_log::faulty::FaultyDisk::new(3);
    let node = one_member_with(|options| options.disk = disk.disk()).await;
    let mut client = RawClient::connect(&node).await;
    client.call(&create("/f", b"", CreateMode::Persistent)).await.unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    let payload = vec![7; 4_000];
    let mut kept = Vec::new();
    let refused = ErrorCode::OutOfMemory.as_i32();
    for number in 0..1_000 {
        let path = format!("/f/{number}");
        match client.call(&create(&path, &payload, CreateMode::Persistent)).await {
            Ok(_) => kept.push(path),
            Err(code) => {
                assert_eq!(code, refused);
                break;
            }
        }
        // The log looks at its disk when a segment ends; the server asks the log ten times a second.
        keeper_rt::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(kept.len() < 1_000, "the disk never filled");
    assert_eq!(client.call(&set("/f", b"x")).await, Err(refused), "writes are refused");
    assert!(client.call(&get("/f", false)).await.is_ok(), "reads go on");

    disk.set_capacity(None);
    let deadline = keeper_rt::now() + support::WAIT;
    while client.call(&set("/f", b"x")).await.is_err() {
        assert!(keeper_rt::now() < deadline, "writes are still refused after space returned");
        keeper_rt::sleep(std::time::Duration::from_millis(20)).await;
    }
    for path in kept {
        assert!(client.call(&get(&path, false)).await.is_ok(), "{path} was acknowledged and is lost");
    }
}
