//! Transactions that a real ZooKeeper logged, made again here: after each one the whole tree has the digest that
//! ZooKeeper noted for it, so every Stat, parent's included, is the one it had (testdata/zookeeper-3.8).

use std::collections::BTreeMap;

use keeper_types::{
    Acl, CheckRequest, CreateRequest, DeleteRequest, ErrorCode, MultiOp, MultiResult, OpCode, Request,
    Response, SessionId, SetDataRequest,
};

use super::harness::{Client, PASSWORD};
use crate::lifetime::Lifetime;
use crate::node::{NodeId, ROOT};
use crate::{BatchId, CommandOp, Outcome, Tree};
use files::{Body, Snapshot, Transaction, crc32, snapshot, transactions};

/// Readers of ZooKeeper's files.
mod files;

const LOG: &[u8] = include_bytes!("../../testdata/zookeeper-3.8/log.1");
const LOG_WITH_CHECK: &[u8] = include_bytes!("../../testdata/zookeeper-3.8/log.1.with-standalone-check");
const SNAPSHOT_NEW: &[u8] = include_bytes!("../../testdata/zookeeper-3.8/snapshot.0");
const SNAPSHOT: &[u8] = include_bytes!("../../testdata/zookeeper-3.8/snapshot.22");

/// By the operation create in both logs, with createMode 4.
const MADE_WITH_CONTAINER_MODE: &str = "/cont1";

/// A tree that makes what another server made.
struct Replay {
    client: Client,
    /// Our session for each of theirs.
    sessions: BTreeMap<i64, SessionId>,
    batches: u64,
}

impl Replay {
    fn new() -> Replay {
        let mut client = Client::new();
        client.tree = Tree::new();
        Replay { client, sessions: BTreeMap::new(), batches: 0 }
    }

    fn make(&mut self, transaction: &Transaction<'_>) {
        let id = BatchId { origin: keeper_types::ServerId(1), epoch: 1, seq: self.batches };
        self.batches += 1;
        self.client.tree.admit(id, transaction.time_ms);
        if let Some(ours) = self.sessions.get(&transaction.session) {
            self.client.session = *ours;
        }
        self.make_body(transaction);
        assert_eq!(self.client.tree.zxid().0, transaction.zxid, "every one consumes a zxid");
    }

    fn make_body(&mut self, transaction: &Transaction<'_>) {
        let zxid = transaction.zxid;
        match &transaction.body {
            Body::CreateSession { timeout_ms } => {
                let op = CommandOp::CreateSession { timeout_ms: *timeout_ms, password: PASSWORD };
                let Ok(Outcome::Session { id, .. }) = self.client.apply(op).result else { panic!("{zxid}") };
                self.sessions.insert(transaction.session, id);
            }
            Body::CloseSession { ephemerals } => {
                let owned = self.client.tree.ephemerals_of(self.client.session, "");
                assert_eq!(&owned, ephemerals, "{zxid}");
                assert_eq!(self.client.apply(CommandOp::CloseSession).result, Ok(Outcome::None), "{zxid}");
            }
            Body::Create { op, path, parent_creates, .. } => {
                let request = request_of(&transaction.body);
                let made = match self.client.request(Request::Create(*op, request)) {
                    Ok(Response::Create { path } | Response::Create2 { path, .. }) => path,
                    other => panic!("{zxid}: {other:?}"),
                };
                assert_eq!(&made, path, "{zxid}: the sequence number");
                let parent = keeper_types::parent(path).expect("a parent");
                assert_eq!(self.creates(parent), *parent_creates, "{zxid}");
            }
            Body::Delete { path } => assert_eq!(self.client.delete(path, -1), Ok(()), "{zxid}"),
            Body::SetData { path, data, version } => {
                let request = SetDataRequest { path, data: *data, version: version - 1 };
                let Ok(Response::SetData { stat }) = self.client.request(Request::SetData(request)) else {
                    panic!("{zxid}")
                };
                assert_eq!(stat.version, *version, "{zxid}");
            }
            Body::Check { path, version } => {
                assert_eq!(self.client.check(path, version - 1), Ok(()), "{zxid}");
            }
            Body::Error => {
                assert_eq!(self.client.delete("/missing", -1), Err(ErrorCode::NoNode), "{zxid}");
            }
            Body::Multi(parts) => {
                let failed = parts.iter().any(|part| matches!(part, Body::Error));
                let results = self.client.multi(parts.iter().map(multi_op).collect()).expect("answered");
                let is_error = |result: &MultiResult| matches!(result, MultiResult::Error(_));
                assert_eq!(results.len(), parts.len(), "{zxid}");
                assert!(results.iter().all(|result| is_error(result) == failed), "{zxid}: {results:?}");
            }
        }
    }

    fn creates(&self, path: &str) -> i32 {
        self.client.tree.store.node(self.client.tree.store.find(path).expect("there")).creates
    }

    /// Every node with its path, the root's being empty as in ZooKeeper.
    fn nodes(&self) -> Vec<(String, NodeId)> {
        let mut found = vec![(String::new(), ROOT)];
        let mut at = 0;
        while let Some((path, id)) = found.get(at).cloned() {
            let children = self.client.tree.store.node(id).children();
            let name = |id: &NodeId| self.client.tree.store.node(*id).name().to_owned();
            found.extend(children.iter().map(|id| (format!("{path}/{}", name(id)), *id)));
            at += 1;
        }
        found
    }

    /// The fields that ZooKeeper stores of a node, in the order of its digest.
    fn record(&self, id: NodeId) -> files::Record {
        let node = self.client.tree.store.node(id);
        let owner = match node.lifetime() {
            Lifetime::Ephemeral(ours) => {
                let theirs = self.sessions.iter().find(|(_, session)| **session == ours);
                *theirs.expect("a live session").0
            }
            Lifetime::Persistent | Lifetime::Container | Lifetime::Ttl(_) => node.owner,
        };
        files::Record {
            data: node.data().map(<[u8]>::to_vec),
            czxid: node.czxid,
            mzxid: node.mzxid,
            pzxid: node.pzxid,
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            creates: node.creates,
            aversion: node.aversion,
            owner,
        }
    }

    /// ZooKeeper's digest of the tree (`DigestCalculator`, version 2), which leaves out what is below `/zookeeper`.
    fn digest(&self) -> u64 {
        self.digest_with(|_, record| record)
    }

    fn digest_with(&self, change: impl Fn(&str, files::Record) -> files::Record) -> u64 {
        let counted = self.nodes().into_iter().filter(|(path, _)| !path.starts_with("/zookeeper/"));
        counted
            .map(|(path, id)| u64::from(change(&path, self.record(id)).crc32(&path)))
            .fold(0, u64::wrapping_add)
    }

    /// What ZooKeeper noted for a create with a container's mode: it foresees the digest of a container, although the
    /// node it makes is a plain one. Its next transaction has the digest of the real tree again.
    fn digest_foreseeing_a_container(&self, made: &str) -> u64 {
        self.digest_with(|path, record| match path == made {
            true => files::Record { owner: Lifetime::Container.owner(), ..record },
            false => record,
        })
    }

    fn all(&self) -> BTreeMap<String, files::Record> {
        self.nodes().into_iter().map(|(path, id)| (path, self.record(id))).collect()
    }
}

/// The request that leads to a creation. A name that ends in ten digits was a sequential one's.
fn request_of<'a>(body: &Body<'a>) -> CreateRequest<'a> {
    let Body::Create { path, data, acl, ephemeral, ttl_ms, op, .. } = body else { panic!("{body:?}") };
    let digits = path.bytes().rev().take_while(u8::is_ascii_digit).count();
    let sequential = digits == 10;
    let flags = match op {
        OpCode::CreateContainer => 4,
        OpCode::CreateTtl => 5,
        _ => i32::from(*ephemeral) + if sequential { 2 } else { 0 },
    };
    let path = if sequential { &path[..path.len() - digits] } else { path };
    CreateRequest { path, data: *data, acl: acl.clone(), flags, ttl_ms: *ttl_ms }
}

fn multi_op<'a>(body: &Body<'a>) -> MultiOp<'a> {
    match body {
        Body::Create { op, .. } => MultiOp::Create(*op, request_of(body)),
        Body::Delete { path } => MultiOp::Delete(DeleteRequest { path, version: -1 }),
        Body::SetData { path, data, version } => {
            MultiOp::SetData(SetDataRequest { path, data: *data, version: version - 1 })
        }
        Body::Check { path, version } => MultiOp::Check(CheckRequest { path, version: version - 1 }),
        Body::Error => MultiOp::Check(CheckRequest { path: "/missing", version: -1 }),
        other => panic!("{other:?} is no part of a multi"),
    }
}

fn check_log(log: &[u8], expected: usize) -> Replay {
    let mut replay = Replay::new();
    let transactions = transactions(log);
    assert_eq!(transactions.len(), expected);
    for transaction in &transactions {
        replay.make(transaction);
        let Some(noted) = transaction.digest else { continue };
        let digest = match transaction.body {
            Body::Create { path, .. } if path == MADE_WITH_CONTAINER_MODE => {
                replay.digest_foreseeing_a_container(path)
            }
            _ => replay.digest(),
        };
        assert_eq!(digest, noted, "after {transaction:?}");
    }
    replay
}

#[test]
fn a_recorded_log_leaves_after_each_transaction_the_tree_that_zookeeper_had() {
    let replay = check_log(LOG, 34);
    let Snapshot { zxid, digest, sessions, nodes } = snapshot(SNAPSHOT);
    assert_eq!((zxid, digest), (34, replay.digest()));
    assert_eq!(replay.all(), nodes);
    let theirs: Vec<i64> = replay
        .sessions
        .iter()
        .filter(|(_, ours)| replay.client.tree.session(**ours).is_some())
        .map(|(theirs, _)| *theirs)
        .collect();
    assert_eq!(theirs, sessions);
}

/// ZooKeeper's own server stops at this log ("Unsupported Txn with type=13").
#[test]
fn a_log_with_a_check_outside_a_multi_is_made_again_whole() {
    check_log(LOG_WITH_CHECK, 75);
}

#[test]
fn a_new_tree_is_that_of_a_new_zookeepers_snapshot() {
    let Snapshot { zxid, sessions, nodes, .. } = snapshot(SNAPSHOT_NEW);
    assert_eq!((zxid, sessions), (0, vec![]));
    assert_eq!(Replay::new().all(), nodes);
}

/// The digest would not be worth much if it did not see these.
#[test]
fn the_digest_sees_every_field_of_a_stat() {
    let before = snapshot(SNAPSHOT).nodes["/seqp"].clone();
    let changes: [fn(&mut files::Record); 10] = [
        |record| record.czxid += 1,
        |record| record.mzxid += 1,
        |record| record.pzxid += 1,
        |record| record.ctime += 1,
        |record| record.mtime += 1,
        |record| record.version += 1,
        |record| record.creates += 1,
        |record| record.aversion += 1,
        |record| record.owner += 1,
        |record| record.data = Some(vec![1]),
    ];
    for change in changes {
        let mut after = before.clone();
        change(&mut after);
        assert_ne!(after.crc32("/seqp"), before.crc32("/seqp"), "{after:?}");
    }
    assert_eq!(crc32(0, b"123456789"), 0xcbf4_3926, "the check value of CRC-32");
    assert_eq!(Acl::open().perms.0, 31);
}
