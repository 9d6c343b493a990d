//! Many clients' calls while the server drops connections at every possible moment: what the client says of a
//! write must agree with what the server did.
#![allow(clippy::unwrap_used)]

mod support;

use keeper_client::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::*;

/// How often each path was created at the server.
type Applied = Arc<Mutex<BTreeMap<String, u32>>>;

/// A repeatable stream of choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Serves one connection after the other and ends each at a moment of its own: before a request is read, after
/// it was applied, or in the middle of an answer.
async fn serve(server: Server, applied: Applied, seed: u64) {
    let mut choices = Choices(seed);
    let mut zxid = 0;
    loop {
        let mut peer = server.accept().await;
        peer.handshake().await;
        if choices.below(8) == 0 {
            continue;
        }
        peer.grant(10_000, SESSION).await;
        let mut left = choices.below(40);
        while let Some(asked) = peer.next().await {
            zxid += 1;
            let answer = match asked.request() {
                Request::Create(_, create) => {
                    *applied.lock().unwrap().entry(create.path.to_owned()).or_default() += 1;
                    Response::Create2 { path: create.path.to_owned(), stat: Stat::default() }
                }
                Request::GetData(read) => data(read.path),
                other => panic!("{other:?}"),
            };
            if left == 0 {
                if choices.below(2) == 0 {
                    peer.raw(&[0, 0, 0]).await;
                }
                break;
            }
            left -= 1;
            peer.answer(asked.xid, zxid, Ok(answer)).await;
        }
    }
}

async fn run(seed: u64) {
    let server = Server::start().await;
    let hosts = [server.address.clone()];
    let applied = Applied::default();
    let serving = tokio::task::LocalSet::new();
    let handle = applied.clone();
    serving.spawn_local(serve(server, handle, seed));
    let calls = async {
        let client = Client::connect(&hosts, options()).await.unwrap();
        let writers = (0..20).map(|writer| {
            let client = client.clone();
            keeper_rt::spawn("writer", async move {
                let mut results = vec![];
                for n in 0..20 {
                    let path = format!("/{writer}-{n}");
                    let read = client.get(&path).await.unwrap();
                    assert_eq!(read.value.bytes(), path.as_bytes());
                    let create = client.create(&path, b"", CreateMode::Persistent).await;
                    results.push((path, create));
                }
                results
            })
        });
        let mut results = vec![];
        for writer in writers.collect::<Vec<_>>() {
            results.extend(writer.await.unwrap());
        }
        results
    };
    let results = keeper_rt::timeout(Duration::from_secs(60), serving.run_until(calls)).await.unwrap();
    let applied = applied.lock().unwrap();
    let (mut answered, mut unknown) = (0, 0);
    for (path, result) in &results {
        let times = applied.get(path).copied().unwrap_or_default();
        match result {
            Ok(created) => {
                assert_eq!((&created.value.path, times), (path, 1), "seed {seed}");
                answered += 1;
            }
            Err(ClientError::UnknownOutcome { .. }) => {
                assert!(times <= 1, "seed {seed}: {path} was created {times} times");
                unknown += 1;
            }
            Err(other) => panic!("seed {seed}: {path}: {other}"),
        }
    }
    assert_eq!(answered + unknown, 400);
    assert!(0 < answered && 0 < unknown, "seed {seed}: {answered} answered, {unknown} unknown");
}

#[tokio::test]
async fn no_write_is_sent_twice_and_none_is_said_to_have_failed() {
    for seed in 0..10 {
        run(seed).await;
    }
}
