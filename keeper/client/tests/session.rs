//! What the client promises when connections break, sessions end and servers misbehave.
#![allow(clippy::unwrap_used)]

mod support;

use keeper_client::*;
use keeper_types::SetWatchesRequest;
use std::time::Duration;
use support::*;
use tokio::join;

/// Runs `call` on a task of its own, as a user's program does.
fn spawn<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> impl Future<Output = T> {
    let handle = keeper_rt::spawn("test-call", call);
    async { handle.await.unwrap() }
}

#[tokio::test]
async fn many_requests_travel_at_once_and_each_gets_its_own_answer() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let client = client.clone();
            (n, spawn(async move { client.get(&format!("/{n}")).await }))
        })
        .collect();
    // All are read before the first is answered.
    let mut asked = vec![];
    for _ in 0..100 {
        asked.push(peer.asked(OpCode::GetData).await);
    }
    for (n, asked) in asked.iter().enumerate() {
        let Request::GetData(read) = asked.request() else { panic!("no read") };
        peer.answer(asked.xid, n as i64, Ok(data(read.path))).await;
    }
    let mut last_arrival = 0;
    for (n, call) in calls {
        let reply = call.await.unwrap();
        assert_eq!(reply.value.bytes(), format!("/{n}").as_bytes());
        assert!(reply.arrival > last_arrival);
        last_arrival = reply.arrival;
    }
}

#[tokio::test]
async fn a_write_without_an_answer_has_an_unknown_outcome() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let create = client.create("/a", b"x", CreateMode::Persistent);
    let (result, ()) = join!(create, async {
        peer.asked(OpCode::Create2).await;
        drop(peer);
    });
    let error = result.unwrap_err();
    assert!(error.maybe_applied());
    let ClientError::UnknownOutcome { op, path, .. } = &error else { panic!("{error}") };
    assert_eq!((*op, path.as_str()), (OpCode::Create2, "/a"));
    assert!(error.to_string().contains("may or may not have been applied"), "{error}");
}

#[tokio::test]
async fn a_read_without_an_answer_is_asked_again_on_the_next_connection_of_the_same_session() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let (first, ()) = join!(client.get("/a"), async {
        let asked = peer.asked(OpCode::GetData).await;
        peer.answer(asked.xid, 41, Ok(data("old"))).await;
    });
    assert_eq!(first.unwrap().zxid, 41);
    let (second, ()) = join!(client.get("/a"), async {
        peer.asked(OpCode::GetData).await;
        drop(peer);
        let (mut peer, request) = server.session(10_000).await;
        assert_eq!((request.session_id, request.last_zxid_seen), (SESSION, 41));
        assert_eq!(request.password, PASSWORD);
        let asked = peer.asked(OpCode::GetData).await;
        peer.answer(asked.xid, 42, Ok(data("new"))).await;
    });
    assert_eq!(second.unwrap().value.bytes(), b"new");
}

#[tokio::test]
async fn calls_made_while_there_is_no_connection_wait_for_the_next_in_order() {
    let server = Server::start().await;
    let (client, peer) = connected(&server, options()).await;
    drop(peer);
    let mut state = client.watch_state();
    state.wait_for(|state| !state.is_connected()).await.unwrap();
    let (create, read, ()) =
        join!(client.create("/a", b"x", CreateMode::Persistent), client.get("/a"), async {
            let (mut peer, _) = server.session(10_000).await;
            let asked = peer.asked(OpCode::Create2).await;
            let created = Response::Create2 { path: "/a".to_owned(), stat: Stat::default() };
            peer.answer(asked.xid, 5, Ok(created)).await;
            let asked = peer.asked(OpCode::GetData).await;
            peer.answer(asked.xid, 5, Ok(data("x"))).await;
        });
    assert_eq!(create.unwrap().value.path, "/a");
    assert_eq!(read.unwrap().value.bytes(), b"x");
}

#[tokio::test]
async fn a_write_that_found_no_connection_in_time_was_surely_not_sent() {
    let server = Server::start().await;
    let brief = Options { operation_timeout: Some(Duration::from_millis(300)), ..options() };
    let (client, peer) = connected(&server, brief).await;
    drop(peer);
    client.watch_state().wait_for(|state| !state.is_connected()).await.unwrap();
    let error = client.set("/a", b"x", ANY_VERSION).await.unwrap_err();
    assert!(matches!(error, ClientError::NotSent { op: OpCode::SetData, .. }), "{error}");
    assert!(!error.maybe_applied());
    // And it never is: the next connection carries only what was asked later.
    let (read, ()) = join!(client.get("/b"), async {
        let (mut peer, _) = server.session(10_000).await;
        let asked = peer.asked(OpCode::GetData).await;
        peer.answer(asked.xid, 5, Ok(data("x"))).await;
    });
    read.unwrap();
}

#[tokio::test]
async fn a_write_not_answered_in_time_has_an_unknown_outcome_and_a_read_a_timeout() {
    let server = Server::start().await;
    let brief = Options { operation_timeout: Some(Duration::from_millis(300)), ..options() };
    let (client, mut peer) = connected(&server, brief).await;
    let (write, read) = join!(client.set("/a", b"x", 3), client.get("/a"));
    assert!(matches!(write.unwrap_err(), ClientError::UnknownOutcome { .. }));
    assert!(matches!(read.unwrap_err(), ClientError::Timeout { .. }));
    // The late answers are matched with the calls given up, not with the next one.
    let (late, ()) = join!(client.get("/c"), async {
        let set = peer.asked(OpCode::SetData).await;
        peer.answer(set.xid, 7, Ok(Response::SetData { stat: Stat::default() })).await;
        for text in ["a", "c"] {
            let get = peer.asked(OpCode::GetData).await;
            peer.answer(get.xid, 7, Ok(data(text))).await;
        }
    });
    assert_eq!(late.unwrap().value.bytes(), b"c");
}

#[tokio::test]
async fn an_expired_session_ends_everything_that_waits() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let (watched, ()) = join!(client.get_watch("/a"), async {
        let asked = peer.asked(OpCode::GetData).await;
        peer.answer(asked.xid, 1, Ok(data("x"))).await;
    });
    let (_, watch) = watched.unwrap();
    drop(peer);
    let (pending, event, ()) = join!(client.get("/a"), watch.event(), async {
        let mut peer = server.accept().await;
        assert_eq!(peer.handshake().await.session_id, SESSION);
        peer.grant(0, 0).await;
    });
    assert_eq!(pending.unwrap_err(), ClientError::Expired);
    assert_eq!(event.unwrap_err(), ClientError::Expired);
    assert_eq!(client.get("/a").await.unwrap_err(), ClientError::Expired);
    assert_eq!(client.state(), SessionState::Expired);
}

#[tokio::test]
async fn watches_are_set_again_before_anything_else_is_asked() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let (data_watch, exist_watch, child_watch, ()) = join!(
        client.get_watch("/data"),
        client.exists_watch("/missing"),
        client.children_watch("/parent"),
        async {
            let asked = peer.asked(OpCode::GetData).await;
            peer.answer(asked.xid, 8, Ok(data("x"))).await;
            let asked = peer.asked(OpCode::Exists).await;
            peer.answer(asked.xid, 8, Err(ErrorCode::NoNode)).await;
            let asked = peer.asked(OpCode::GetChildren2).await;
            let none = Response::GetChildren2 { names: vec![], stat: Stat::default() };
            peer.answer(asked.xid, 9, Ok(none)).await;
        }
    );
    let (data_watch, child_watch) = (data_watch.unwrap().1, child_watch.unwrap().1);
    let (exists, exist_watch) = exist_watch.unwrap();
    assert_eq!(exists.value, None);
    drop(peer);
    let (read, created, changed, ()) =
        join!(client.get("/z"), exist_watch.event(), child_watch.event(), async {
            let (mut peer, _) = server.session(10_000).await;
            let asked = peer.asked(OpCode::SetWatches).await;
            assert_eq!(asked.xid, keeper_wire::xid::SET_WATCHES);
            let expected = SetWatchesRequest {
                relative_zxid: 9,
                data: vec!["/data"],
                exist: vec!["/missing"],
                child: vec!["/parent"],
                persistent: vec![],
                persistent_recursive: vec![],
            };
            assert_eq!(asked.request(), Request::SetWatches(expected));
            peer.event(EventKind::Created, "/missing", 12).await;
            peer.event(EventKind::ChildrenChanged, "/parent", 12).await;
            peer.answer(asked.xid, 12, Ok(Response::Empty)).await;
            let asked = peer.asked(OpCode::GetData).await;
            peer.answer(asked.xid, 12, Ok(data("z"))).await;
        });
    let (read, created, changed) = (read.unwrap(), created.unwrap(), changed.unwrap());
    assert_eq!((created.value.kind, created.zxid), (EventKind::Created, 12));
    assert_eq!(changed.value.kind, EventKind::ChildrenChanged);
    assert!(created.arrival < changed.arrival && changed.arrival < read.arrival);
    // The third still waits.
    assert!(keeper_rt::timeout(Duration::from_millis(50), data_watch.event()).await.is_err());
}

#[tokio::test]
async fn a_watch_fires_once() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let (first, second, ()) = join!(client.get_watch("/a"), client.get_watch("/b"), async {
        for _ in 0..2 {
            let asked = peer.asked(OpCode::GetData).await;
            peer.answer(asked.xid, 1, Ok(data("x"))).await;
        }
    });
    peer.event(EventKind::DataChanged, "/a", 2).await;
    assert_eq!(first.unwrap().1.event().await.unwrap().value.path, "/a");
    drop(peer);
    let (mut peer, _) = server.session(10_000).await;
    let asked = peer.asked(OpCode::SetWatches).await;
    let Request::SetWatches(watches) = asked.request() else { panic!("no watches") };
    assert_eq!(watches.data, ["/b"]);
    drop(second);
}

#[tokio::test]
async fn pings_keep_an_idle_session() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, Options { session_timeout_ms: 600, ..options() }).await;
    let began = keeper_rt::now();
    for _ in 0..5 {
        let ping = peer.asked(OpCode::Ping).await;
        assert_eq!(ping.xid, keeper_wire::xid::PING);
        peer.answer(ping.xid, 1, Ok(Response::Empty)).await;
    }
    let took = began.elapsed();
    assert!(Duration::from_millis(900) < took, "five pings in {took:?}: more than one each 200 ms");
    assert!(client.state().is_connected());
}

#[tokio::test]
async fn a_silent_server_is_left_after_two_thirds_of_the_session_timeout() {
    let server = Server::start().await;
    let (client, peer) = connected(&server, Options { session_timeout_ms: 600, ..options() }).await;
    let began = keeper_rt::now();
    let (_peer, request) = server.session(600).await;
    assert_eq!(request.session_id, SESSION);
    assert!(Duration::from_millis(300) < began.elapsed());
    drop((client, peer));
}

#[tokio::test]
async fn the_next_host_is_tried_when_one_is_gone() {
    let (first, second) = (Server::start().await, Server::start().await);
    let hosts = [first.address.clone(), second.address.clone()];
    drop(first);
    for _ in 0..4 {
        let (client, _peer) = join!(Client::connect(&hosts, options()), second.session(10_000));
        client.unwrap();
    }
}

#[tokio::test]
async fn identities_are_told_again_before_requests() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let (added, ()) = join!(client.add_auth("digest", b"u:p"), async {
        let asked = peer.asked(OpCode::Auth).await;
        assert_eq!(asked.xid, keeper_wire::xid::AUTH);
        peer.answer(asked.xid, 0, Ok(Response::Empty)).await;
    });
    added.unwrap();
    drop(peer);
    let (read, ()) = join!(client.get("/a"), async {
        let (mut peer, _) = server.session(10_000).await;
        let asked = peer.asked(OpCode::Auth).await;
        let Request::Auth(auth) = asked.request() else { panic!("no identity") };
        assert_eq!((auth.scheme, auth.auth), ("digest", &b"u:p"[..]));
        peer.answer(asked.xid, 0, Ok(Response::Empty)).await;
        let asked = peer.asked(OpCode::GetData).await;
        peer.answer(asked.xid, 3, Ok(data("x"))).await;
    });
    read.unwrap();
}

#[tokio::test]
async fn a_refused_identity_ends_the_session() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let (added, ()) = join!(client.add_auth("nonsense", b""), async {
        let asked = peer.asked(OpCode::Auth).await;
        peer.answer(asked.xid, 0, Err(ErrorCode::AuthFailed)).await;
    });
    assert_eq!(added.unwrap_err(), ClientError::AuthFailed);
    assert_eq!(client.get("/a").await.unwrap_err(), ClientError::AuthFailed);
}

#[tokio::test]
async fn close_comes_after_the_calls_before_it_with_or_without_an_answer() {
    for answers in [true, false] {
        let server = Server::start().await;
        let (client, mut peer) = connected(&server, options()).await;
        let (write, closed, ()) = join!(client.delete("/a", 0), client.close(), async {
            let asked = peer.asked(OpCode::Delete).await;
            peer.answer(asked.xid, 4, Ok(Response::Empty)).await;
            let asked = peer.asked(OpCode::CloseSession).await;
            if answers {
                peer.answer(asked.xid, 5, Ok(Response::Empty)).await;
            }
            drop(peer);
        });
        assert_eq!(write.unwrap().zxid, 4);
        closed.unwrap();
        assert_eq!(client.get("/a").await.unwrap_err(), ClientError::Closed);
    }
}

#[tokio::test]
async fn an_answer_to_another_request_ends_the_connection_not_the_wrong_call() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let (write, ()) = join!(client.delete("/a", 0), async {
        let asked = peer.asked(OpCode::Delete).await;
        peer.answer(asked.xid + 1, 4, Ok(Response::Empty)).await;
        assert!(peer.next().await.is_none());
    });
    let error = write.unwrap_err();
    assert!(matches!(&error, ClientError::UnknownOutcome { .. }), "{error}");
    assert!(error.to_string().contains("was due"), "{error}");
}

#[tokio::test]
async fn garbage_ends_the_connection_without_harm() {
    for garbage in [&[0xff; 64][..], &[0, 0, 0, 3, 1, 2, 3], &[0, 0, 0, 16, 0xff, 0xff, 0xff, 0xff, 0, 0]] {
        let server = Server::start().await;
        let (client, mut peer) = connected(&server, options()).await;
        peer.raw(garbage).await;
        drop(peer);
        let (read, ()) = join!(client.get("/a"), async {
            let (mut peer, _) = server.session(10_000).await;
            let asked = peer.asked(OpCode::GetData).await;
            peer.answer(asked.xid, 3, Ok(data("x"))).await;
        });
        read.unwrap();
    }
}

#[tokio::test]
async fn a_request_above_the_limit_is_refused_here_and_the_session_lives_on() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let error = client.set("/a", &vec![0; 1 << 20], ANY_VERSION).await.unwrap_err();
    assert!(matches!(error, ClientError::Invalid(_)), "{error}");
    let (read, ()) = join!(client.get("/a"), async {
        let asked = peer.asked(OpCode::GetData).await;
        peer.answer(asked.xid, 3, Ok(data("x"))).await;
    });
    read.unwrap();
}

#[tokio::test]
async fn a_failed_multi_names_the_operation_that_failed() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let ops = || {
        let delete = |path| MultiOp::Delete(DeleteRequest { path, version: ANY_VERSION });
        vec![delete("/a"), delete("/b"), delete("/c")]
    };
    let (multi, ()) = join!(client.multi(ops()), async {
        let asked = peer.asked(OpCode::Multi).await;
        assert_eq!(asked.request(), Request::Multi(ops()));
        let failed = Response::Multi(vec![
            MultiResult::Error(None),
            MultiResult::Error(Some(ErrorCode::NoNode)),
            MultiResult::Error(Some(ErrorCode::RuntimeInconsistency)),
        ]);
        peer.answer(asked.xid, 3, Ok(failed)).await;
    });
    assert_eq!(multi.unwrap_err(), ClientError::MultiFailed { index: 1, code: ErrorCode::NoNode });
}

#[tokio::test]
async fn only_so_many_requests_are_in_flight() {
    let server = Server::start().await;
    let (client, mut peer) = connected(&server, options()).await;
    let asked_for = keeper_client::limits::IN_FLIGHT_MAX + 200;
    let calls: Vec<_> = (0..asked_for)
        .map(|_| {
            let client = client.clone();
            spawn(async move { client.get("/a").await })
        })
        .collect();
    let mut waiting = vec![];
    while let Ok(asked) = keeper_rt::timeout(Duration::from_millis(200), peer.asked(OpCode::GetData)).await {
        waiting.push(asked.xid);
    }
    assert_eq!(waiting.len(), keeper_client::limits::IN_FLIGHT_MAX);
    for xid in waiting {
        peer.answer(xid, 1, Ok(data("x"))).await;
    }
    for _ in 0..200 {
        let asked = peer.asked(OpCode::GetData).await;
        peer.answer(asked.xid, 1, Ok(data("x"))).await;
    }
    for call in calls {
        call.await.unwrap();
    }
}

#[tokio::test]
async fn a_session_can_be_handed_to_another_client() {
    let server = Server::start().await;
    let (client, peer) = connected(&server, options()).await;
    let resume = client.resume();
    drop((client, peer));
    let second = Options { resume: Some(resume), ..options() };
    let hosts = [server.address.clone()];
    let (client, (_peer, request)) = join!(Client::connect(&hosts, second), server.session(10_000));
    assert_eq!((request.session_id, request.password), (SESSION, PASSWORD.to_vec()));
    assert_eq!(client.unwrap().session_id(), SESSION);
}

#[tokio::test]
async fn connecting_to_nobody_says_what_was_met() {
    let server = Server::start().await;
    let hosts = [server.address.clone()];
    drop(server);
    let brief = Options { operation_timeout: Some(Duration::from_millis(300)), ..options() };
    let error = Client::connect(&hosts, brief).await.err().unwrap();
    assert!(matches!(error, ClientError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

/// A connector whose streams are pipes, as a simulation's are.
struct Pipes(tokio::sync::mpsc::Sender<tokio::io::DuplexStream>);

impl Connector for Pipes {
    type Stream = tokio::io::DuplexStream;

    async fn connect(&self, _address: &str) -> std::io::Result<Self::Stream> {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        self.0.send(theirs).await.map_err(|_| std::io::Error::other("gone"))?;
        Ok(ours)
    }
}

#[tokio::test]
async fn the_session_runs_over_any_stream() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (sender, mut streams) = tokio::sync::mpsc::channel(1);
    let (client, stream) = join!(Client::connect_with(Pipes(sender), &["anywhere"], options()), async {
        let mut stream = streams.recv().await.unwrap();
        let mut request = [0; 4 + 45];
        stream.read_exact(&mut request).await.unwrap();
        let mut out = bytes::BytesMut::new();
        let granted = keeper_types::ConnectResponse {
            protocol_version: 0,
            timeout_ms: 10_000,
            session_id: SESSION,
            password: PASSWORD.to_vec(),
            read_only: Some(false),
        };
        keeper_wire::encode_connect_response(&granted, &mut out);
        stream.write_all(&out).await.unwrap();
        stream
    });
    assert_eq!(client.unwrap().session_id(), SESSION);
    drop(stream);
}

#[tokio::test]
async fn a_four_letter_word_is_asked_and_its_answer_read_to_the_end() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    #[allow(clippy::disallowed_methods)]
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (answer, ()) = join!(four_letter(&address, "ruok"), async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"ruok");
        stream.write_all(b"im").await.unwrap();
        stream.write_all(b"ok").await.unwrap();
    });
    assert_eq!(answer.unwrap(), "imok");
    assert!(matches!(four_letter(&address, "quit now").await, Err(ClientError::Invalid(_))));
}
