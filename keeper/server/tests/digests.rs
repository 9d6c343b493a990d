//! The members compare their trees; one that differs from the majority serves nobody.
#![allow(clippy::disallowed_methods)]

#[path = "support/mesh.rs"]
mod mesh;
mod support;

use keeper_consensus::Role;
use keeper_server::Node;
use keeper_server::node::Readiness;
use keeper_tree::{Command, CommandOp, Readers, Sink};
use keeper_types::{CreateMode, EventKind, Generation, SessionId, Zxid};
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::{Packet, RawClient, WAIT, create, get};

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = keeper_rt::now() + WAIT;
    while !holds() {
        assert!(keeper_rt::now() < deadline, "never: {what}");
        keeper_rt::sleep(Duration::from_millis(5)).await;
    }
}

struct Silent;

impl Sink for Silent {
    fn event(&mut self, _: EventKind, _: &str, _: Zxid, _: &Readers) {}
    fn session_ended(&mut self, _: SessionId) {}
    fn session_moved(&mut self, _: SessionId, _: Generation) {}
}

/// Changes one member's tree behind the log's back, as a fault of its memory or of its code would.
fn corrupt(node: &Node) {
    let text = "not the configuration";
    let command = Command {
        session: SessionId(0),
        generation: Generation(0),
        identities: &[],
        op: CommandOp::SetConfig { text },
        enforce_quota: false,
        want_reply: false,
    };
    node.shared().write_tree().apply(&command, &mut Silent);
}

fn differs_since(node: &Node) -> u64 {
    node.shared().digests.differs_since.load(Ordering::Relaxed)
}

fn agreed(node: &Node) -> u64 {
    node.shared().digests.agreed_index.load(Ordering::Relaxed)
}

/// Which of the members is to differ, and what becomes of it.
async fn one_of_three_differs(at: usize) {
    let nodes = mesh::three_members(|options| options.digest_period = Duration::from_millis(50)).await;
    until("member 1 leads", || nodes[0].consensus().status().role == Role::Leader).await;
    let mut client = RawClient::connect(&nodes[at]).await;
    client.call(&create("/a", b"1", CreateMode::Persistent)).await.expect("served");
    until("all agree", || nodes.iter().all(|node| agreed(node) > 0)).await;
    let quiet: Vec<u64> = nodes.iter().map(agreed).collect();

    corrupt(&nodes[at]);
    let other = &nodes[(at + 1) % 3];
    let mut writer = RawClient::connect(other).await;
    writer.call(&create("/b", b"2", CreateMode::Persistent)).await.expect("served");
    until("the one that differs knows", || differs_since(&nodes[at]) > 0).await;
    for (number, node) in nodes.iter().enumerate() {
        assert_eq!(differs_since(node) > 0, number == at, "member {}", number + 1);
        assert!(number == at || agreed(node) > quiet[number]);
    }
    let Readiness::NotReady(why) = nodes[at].readiness() else { panic!("it is ready") };
    assert!(why.contains("its tree differs") && why.contains("replace this member"), "{why}");
    assert!(matches!(client.packet().await, Packet::End), "its client was not sent away");
    // If it led, it does no more, and the others go on.
    until("another one leads", || nodes[at].consensus().status().role != Role::Leader).await;
    let mut survivor = RawClient::connect(other).await;
    survivor.call(&create("/c", b"3", CreateMode::Persistent)).await.expect("served");
    survivor.call(&get("/b", false)).await.expect("served");
    assert!(nodes[at].shared().digests.mismatches.load(Ordering::Relaxed) > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_that_differs_serves_nobody() {
    one_of_three_differs(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_differs_hands_over_and_serves_nobody() {
    one_of_three_differs(0).await;
}
