//! Quotas as ZooKeeper keeps and enforces them.

use keeper_types::{Acl, CreateRequest, ErrorCode, MultiOp, OpCode, Request};

use super::harness::{Client, create, delete};
use super::random::copy;

const LIMITS: &str = "/zookeeper/quota/a/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/a/zookeeper_stats";

fn put(path: &'static str, data: &'static str) -> CreateRequest<'static> {
    CreateRequest { path, data: Some(data.as_bytes()), acl: vec![Acl::open()], flags: 0, ttl_ms: None }
}

/// `/a` with a child, both of four bytes, then limits as a client sets them: first the limits, then the count.
fn limited(limits: &'static str) -> Client {
    let mut client = Client::new();
    client.create("/a", 0).unwrap();
    client.create("/a/b", 0).unwrap();
    client.create("/zookeeper/quota/a", 0).unwrap();
    client.request(Request::Create(OpCode::Create, put(LIMITS, limits))).unwrap();
    client.request(Request::Create(OpCode::Create, put(STATS, "count=0,bytes=0"))).unwrap();
    client
}

fn used(client: &Client) -> String {
    let (data, _) = client.tree.get_data(STATS, &[]).unwrap();
    String::from_utf8(data.unwrap().to_vec()).unwrap()
}

#[test]
fn what_a_subtree_holds_is_counted_from_the_moment_it_is_asked_for() {
    let mut client = limited("count=10,bytes=100");
    assert_eq!(used(&client), "count=2,bytes=8");
    let before = client.stat(STATS);
    client.create("/a/b/c", 0).unwrap();
    client.create("/other", 0).unwrap();
    assert_eq!(used(&client), "count=3,bytes=12");
    client.set("/a/b", "longer data", -1).unwrap();
    assert_eq!(used(&client), "count=3,bytes=19");
    client.delete("/a/b/c", -1).unwrap();
    client.create("/a/e", 1).unwrap();
    assert_eq!(used(&client), "count=3,bytes=19");
    client.apply(crate::CommandOp::CloseSession);
    assert_eq!(used(&client), "count=2,bytes=15");
    let after = client.stat(STATS);
    assert_eq!((after.mzxid, after.version), (before.mzxid, before.version), "it is no write of its own");
}

#[test]
fn only_hard_limits_are_held_and_only_where_that_is_switched_on() {
    let mut client = limited("count=1,bytes=1;countHardLimit=3;byteHardLimit=14");
    client.enforce_quota = true;
    client.create("/a/c", 0).unwrap();
    assert_eq!(client.create("/a/d", 0), Err(ErrorCode::QuotaExceeded));
    assert_eq!(client.set("/a/c", "more than14", -1), Err(ErrorCode::QuotaExceeded));
    client.set("/a/c", "six666", -1).unwrap();
    client.set("/a/c", "", -1).unwrap();
    let ops = vec![MultiOp::Delete(delete("/a/c", -1)), MultiOp::Create(OpCode::Create, create("/a/d", 0))];
    client.multi(ops).unwrap();
    client.create("/other", 0).unwrap();
    client.enforce_quota = false;
    client.create("/a/e", 0).unwrap();
    assert_eq!(used(&client), "count=4,bytes=16");
}

#[test]
fn limits_that_are_taken_away_or_back_are_gone() {
    let mut client = limited("countHardLimit=2");
    client.enforce_quota = true;
    assert_eq!(client.create("/a/x", 0), Err(ErrorCode::QuotaExceeded));
    // A multi that fails puts the limits back.
    let ops =
        vec![MultiOp::Delete(delete(LIMITS, -1)), MultiOp::Check(super::harness::check("/nowhere", -1))];
    client.multi(ops).unwrap();
    assert_eq!(client.create("/a/x", 0), Err(ErrorCode::QuotaExceeded));
    client.delete(LIMITS, -1).unwrap();
    client.create("/a/x", 0).unwrap();
    assert_eq!(used(&client), "count=2,bytes=8", "nobody counts any more");
}

#[test]
fn limits_survive_a_snapshot() {
    let mut client = limited("countHardLimit=2");
    client.tree = copy(&client.tree, 1 << 16);
    client.enforce_quota = true;
    assert_eq!(client.create("/a/x", 0), Err(ErrorCode::QuotaExceeded));
}
