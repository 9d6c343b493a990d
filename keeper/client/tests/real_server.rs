//! Every operation against a real server, keeper or ZooKeeper 3.9, whichever runs at `KEEPER_HOSTS`
//! (`host:port,host:port`): `KEEPER_HOSTS=127.0.0.1:2181 cargo test -p keeper-client -- --ignored`.
#![allow(clippy::unwrap_used)]

use keeper_client::*;
use keeper_types::{AuthRequest, ReadRequest};

fn hosts() -> Vec<String> {
    let hosts = std::env::var("KEEPER_HOSTS").expect("KEEPER_HOSTS names the servers");
    hosts.split(',').map(str::to_owned).collect()
}

async fn client() -> Client {
    Client::connect(&hosts(), Options::default()).await.unwrap()
}

/// A node of the test's own to work under.
async fn root(client: &Client, name: &str) -> String {
    let path = format!("/client-test-{name}-");
    client.create(&path, b"", CreateMode::PersistentSequential).await.unwrap().value.path
}

async fn remove(client: &Client, path: &str) {
    for name in client.children(path).await.unwrap().value {
        client.delete(&format!("{path}/{name}"), ANY_VERSION).await.unwrap();
    }
    client.delete(path, ANY_VERSION).await.unwrap();
}

fn code<T: std::fmt::Debug>(result: Result<T, ClientError>) -> ErrorCode {
    match result.unwrap_err() {
        ClientError::Server(code) => code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
#[ignore = "needs a server at KEEPER_HOSTS"]
async fn nodes_are_written_and_read() {
    let client = client().await;
    let root = root(&client, "nodes").await;
    let path = format!("{root}/é");
    let created = client.create(&path, b"one", CreateMode::Persistent).await.unwrap();
    assert_eq!((created.value.stat.czxid, created.value.path.as_str()), (created.zxid, path.as_str()));
    assert_eq!(code(client.create(&path, b"", CreateMode::Persistent).await), ErrorCode::NodeExists);
    let set = client.set(&path, b"two", 0).await.unwrap();
    assert_eq!((set.value.version, set.value.mzxid), (1, set.zxid));
    assert!(created.zxid < set.zxid);
    assert_eq!(code(client.set(&path, b"", 0).await), ErrorCode::BadVersion);
    let read = client.get(&path).await.unwrap();
    assert_eq!((read.value.bytes(), read.value.stat), (&b"two"[..], set.value));
    assert!(set.zxid <= read.zxid);
    assert_eq!(client.children(&root).await.unwrap().value, ["é"]);
    let children = client.children2(&root).await.unwrap().value;
    assert_eq!((children.names.len(), children.stat.num_children), (1, 1));
    assert_eq!(client.exists(&path).await.unwrap().value, Some(set.value));
    client.sync(&path).await.unwrap();
    assert_eq!(code(client.delete(&root, ANY_VERSION).await), ErrorCode::NotEmpty);
    client.delete(&path, 1).await.unwrap();
    assert_eq!(client.exists(&path).await.unwrap().value, None);
    assert_eq!(code(client.get(&path).await), ErrorCode::NoNode);
    let null = client.call(&Request::GetData(ReadRequest { path: &root, watch: false })).await.unwrap();
    assert!(null.value.is_ok());
    remove(&client, &root).await;
    client.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server at KEEPER_HOSTS"]
async fn a_multi_is_all_or_nothing() {
    let client = client().await;
    let root = root(&client, "multi").await;
    let (a, b) = (format!("{root}/a"), format!("{root}/b"));
    let create = |op, path| {
        let acl = vec![Acl::open()];
        MultiOp::Create(op, CreateRequest { path, data: Some(b"x"), acl, flags: 0, ttl_ms: None })
    };
    let ops = vec![
        create(OpCode::Create2, a.as_str()),
        create(OpCode::Create, b.as_str()),
        MultiOp::SetData(SetDataRequest { path: &a, data: Some(b"y"), version: 0 }),
        MultiOp::Delete(DeleteRequest { path: &b, version: 0 }),
    ];
    let reply = client.multi(ops).await.unwrap();
    let [
        MultiResult::Create2 { path, stat },
        MultiResult::Create { .. },
        MultiResult::SetData { stat: set },
        _,
    ] = &reply.value[..]
    else {
        panic!("{:?}", reply.value)
    };
    assert_eq!((path, stat.czxid, set.version), (&a, reply.zxid, 1));
    let failed = client
        .multi(vec![
            create(OpCode::Create, b.as_str()),
            MultiOp::Delete(DeleteRequest { path: &a, version: 17 }),
            create(OpCode::Create, a.as_str()),
        ])
        .await
        .unwrap_err();
    assert_eq!(failed, ClientError::MultiFailed { index: 1, code: ErrorCode::BadVersion });
    assert_eq!(client.exists(&b).await.unwrap().value, None);
    assert_eq!(client.multi(vec![]).await.unwrap().value, []);
    remove(&client, &root).await;
    client.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server at KEEPER_HOSTS"]
async fn watches_fire_before_a_reply_that_shows_the_change() {
    let (watcher, writer) = (client().await, client().await);
    let root = root(&writer, "watch").await;
    let path = format!("{root}/a");
    watcher.sync(&root).await.unwrap();
    let (none, created) = watcher.exists_watch(&path).await.unwrap();
    assert_eq!(none.value, None);
    let (_, children) = watcher.children_watch(&root).await.unwrap();
    let made = writer.create(&path, b"x", CreateMode::Persistent).await.unwrap();
    watcher.sync(&path).await.unwrap();
    let (seen, changed) = watcher.get_watch(&path).await.unwrap();
    let (created, children) = (created.event().await.unwrap(), children.event().await.unwrap());
    assert_eq!(created.value.kind, EventKind::Created);
    assert_eq!(children.value.kind, EventKind::ChildrenChanged);
    assert!(created.arrival < seen.arrival && children.arrival < seen.arrival);
    assert_eq!(created.zxid, made.zxid);
    writer.set(&path, b"y", ANY_VERSION).await.unwrap();
    assert_eq!(changed.event().await.unwrap().value.kind, EventKind::DataChanged);
    let (_, deleted) = watcher.get_watch(&path).await.unwrap();
    writer.delete(&path, ANY_VERSION).await.unwrap();
    assert_eq!(deleted.event().await.unwrap().value.kind, EventKind::Deleted);
    remove(&writer, &root).await;
    watcher.close().await.unwrap();
    writer.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server at KEEPER_HOSTS"]
async fn acls_hold_and_identities_open_them() {
    let (owner, stranger) = (client().await, client().await);
    owner.add_auth("digest", b"owner:secret").await.unwrap();
    let root = root(&owner, "acl").await;
    let path = format!("{root}/a");
    let auth = Acl { perms: Perms::ALL, id: AclId { scheme: "auth".into(), id: String::new() } };
    owner.create_with_acl(&path, b"x", CreateMode::Persistent, vec![auth]).await.unwrap();
    stranger.sync(&path).await.unwrap();
    assert_eq!(code(stranger.get(&path).await), ErrorCode::NoAuth);
    let (acl, stat) = owner.get_acl(&path).await.unwrap().value;
    assert!(acl[0].id.id.starts_with("owner:"));
    let set = owner.set_acl(&path, vec![Acl::open()], stat.aversion).await.unwrap();
    assert_eq!(set.value.aversion, 1);
    stranger.sync(&path).await.unwrap();
    assert_eq!(stranger.get(&path).await.unwrap().value.bytes(), b"x");
    assert_eq!(stranger.add_auth("nonsense", b"x").await.unwrap_err(), ClientError::AuthFailed);
    remove(&owner, &root).await;
    owner.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server at KEEPER_HOSTS"]
async fn a_session_moves_with_its_ephemeral_nodes_and_close_removes_them() {
    let first = client().await;
    let root = root(&first, "session").await;
    let path = format!("{root}/mine");
    first.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(first.exists(&path).await.unwrap().value.unwrap().ephemeral_owner, first.session_id());
    let second = Options { resume: Some(first.resume()), ..Options::default() };
    let second = Client::connect(&hosts(), second).await.unwrap();
    assert_eq!(second.session_id(), first.session_id());
    assert!(second.exists(&path).await.unwrap().value.is_some());
    // The first would fight for the session otherwise.
    drop(first);
    second.close().await.unwrap();
    let other = client().await;
    other.sync(&path).await.unwrap();
    assert_eq!(other.exists(&path).await.unwrap().value, None);
    let gone = Options { resume: Some(second.resume()), ..Options::default() };
    assert_eq!(Client::connect(&hosts(), gone).await.err().unwrap(), ClientError::Expired);
    remove(&other, &root).await;
    other.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server at KEEPER_HOSTS"]
async fn sequences_count_and_pipelined_writes_keep_their_order() {
    let client = client().await;
    let root = root(&client, "order").await;
    let prefix = format!("{root}/n-");
    let creates = (0..50).map(|_| client.create(&prefix, b"", CreateMode::PersistentSequential));
    let mut last = 0;
    for (n, created) in in_order(creates).await.into_iter().enumerate() {
        let created = created.unwrap();
        assert_eq!(created.value.path, format!("{prefix}{n:010}"));
        assert!(last < created.zxid);
        last = created.zxid;
    }
    remove(&client, &root).await;
    client.close().await.unwrap();
}

/// Polls every future in order before it waits for the first, so that their requests leave in that order.
async fn in_order<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut outputs: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |cx| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(cx)
            {
                *output = Some(value);
            }
        }
        if outputs.iter().any(Option::is_none) {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(outputs.iter_mut().filter_map(Option::take).collect())
    })
    .await
}

#[tokio::test]
#[ignore = "needs a server at KEEPER_HOSTS"]
async fn the_server_answers_srvr_and_unknown_things_without_harm() {
    for host in hosts() {
        let answer = four_letter(&host, "srvr").await.unwrap();
        assert!(answer.contains("Zookeeper version"), "{answer}");
    }
    let client = client().await;
    let root = root(&client, "raw").await;
    // Bodies that only `call` can send.
    let null = SetDataRequest { path: &root, data: None, version: ANY_VERSION };
    client.call(&Request::SetData(null)).await.unwrap().value.unwrap();
    assert_eq!(client.get(&root).await.unwrap().value.data, None);
    let auth = AuthRequest { scheme: "digest", auth: b"u:p" };
    client.add_auth(auth.scheme, auth.auth).await.unwrap();
    remove(&client, &root).await;
    client.close().await.unwrap();
}
