//! The soft limit of memory. A file of its own: all tests of one share a process, and so its resident memory.
#![allow(clippy::disallowed_methods)]

mod support;

use keeper_types::{CreateMode, DeleteRequest, ErrorCode, Request};
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::{RawClient, WAIT, create, get, one_member_with, set};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_grow_are_refused_at_the_soft_limit_of_memory_until_enough_is_gone() {
    const NODE_BYTES: usize = 512 << 10;
    let folder = tempfile::tempdir().expect("a folder");
    let limit = keeper_rt::resident_bytes().expect("Linux") + (192 << 20);
    let node = one_member_with(|options| {
        // Files of memory would stay resident.
        options.disk = keeper_log::RealDisk::open(folder.path()).expect("a disk");
        options.log = keeper_log::Options { cache_bytes_max: 1 << 20, ..keeper_log::Options::default() };
        options.memory_soft_bytes = Some(limit);
    })
    .await;
    let mut client = RawClient::connect(&node).await;
    let data = vec![7; NODE_BYTES];
    let mut made = 0;
    let refusal = loop {
        assert!(made < 2_000, "never refused");
        match client.call(&create(&format!("/n{made}"), &data, CreateMode::Persistent)).await {
            Ok(_) => made += 1,
            Err(code) => break code,
        }
    };
    assert_eq!(refusal, ErrorCode::OutOfMemory.as_i32());
    assert!(made > 100, "refused after {made}");
    assert_eq!(client.call(&set("/n0", b"small")).await, Err(refusal), "a change may grow a node");
    assert!(client.call(&get("/n1", false)).await.is_ok());
    for number in 0..made {
        assert!(
            client
                .call(&Request::Delete(DeleteRequest { path: &format!("/n{number}"), version: -1 }))
                .await
                .is_ok()
        );
    }
    let deadline = keeper_rt::now() + WAIT;
    while client.call(&create("/again", &data, CreateMode::Persistent)).await.is_err() {
        assert!(keeper_rt::now() < deadline, "never taken again");
        keeper_rt::sleep(Duration::from_millis(20)).await;
    }
    assert!(node.shared().memory_refusals.load(Ordering::Relaxed) >= 2);
}
