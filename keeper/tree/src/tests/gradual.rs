//! Snapshots in slices: whatever is written between them, the bytes are those of the state at the begin.

use keeper_types::{Acl, MultiOp, OpCode, Perms, RecursiveRequest, Request};
use proptest::collection::vec;
use proptest::prelude::*;

use super::harness::{Client, check, create, delete, set};
use crate::{CommandOp, SnapshotAbandoned, SnapshotWalk, Tree};

#[derive(Clone, Debug)]
enum Step {
    Create {
        path: String,
        flags: i32,
    },
    Delete {
        path: String,
    },
    RemoveRecursive {
        path: String,
    },
    Set {
        path: String,
        length: usize,
    },
    SetAcl {
        path: String,
        perms: i32,
    },
    /// Several writes; taken back at the end when `fails`.
    Multi {
        paths: Vec<String>,
        fails: bool,
    },
    /// The session ends, with its ephemeral nodes; another one goes on.
    NextSession,
}

/// Few names on few levels, so that steps meet the same nodes.
fn path() -> impl Strategy<Value = String> {
    vec(prop_oneof![Just("a"), Just("b"), Just("c")], 1..4).prop_map(|names| format!("/{}", names.join("/")))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (path(), prop_oneof![6 => Just(0), 1 => Just(1), 1 => Just(2), 1 => Just(4)])
            .prop_map(|(path, flags)| Step::Create { path, flags }),
        4 => path().prop_map(|path| Step::Delete { path }),
        1 => path().prop_map(|path| Step::RemoveRecursive { path }),
        4 => (path(), prop_oneof![4 => 0..60usize, 1 => Just(1500)])
            .prop_map(|(path, length)| Step::Set { path, length }),
        2 => (path(), 1..32).prop_map(|(path, perms)| Step::SetAcl { path, perms }),
        4 => (vec(path(), 1..5), any::<bool>()).prop_map(|(paths, fails)| Step::Multi { paths, fails }),
        1 => Just(Step::NextSession),
    ]
}

/// Whether it succeeds does not matter: what fails must leave no trace either.
fn take(client: &mut Client, step: &Step) {
    match step {
        Step::Create { path, flags } => drop(client.create(path, *flags)),
        Step::Delete { path } => drop(client.delete(path, -1)),
        Step::RemoveRecursive { path } => {
            drop(client.request(Request::RemoveRecursive(RecursiveRequest { path, nodes_max: 100 })));
        }
        Step::Set { path, length } => {
            let _ = client.set(path, &"d".repeat(*length), -1);
        }
        Step::SetAcl { path, perms } => {
            let acl = vec![Acl { perms: Perms(perms | Perms::ADMIN.0 | Perms::READ.0), ..Acl::open() }];
            let _ = client.set_acl(path, acl, -1);
        }
        Step::Multi { paths, fails } => {
            let ops = paths.iter().flat_map(|path| {
                let exists = client.tree.stat(path).is_some();
                let ours = if exists {
                    [MultiOp::SetData(set(path, "of a multi", -1)), MultiOp::TryRemove(delete(path, -1))]
                } else {
                    let create = |flags| MultiOp::Create(OpCode::Create, create(path, flags));
                    [create(0), create(2)]
                };
                ours.into_iter()
            });
            let culprit = fails.then(|| MultiOp::Check(check("/not/there", -1)));
            let ops: Vec<_> = ops.chain(culprit).collect();
            drop(client.multi(ops));
        }
        Step::NextSession => {
            assert!(client.apply(CommandOp::CloseSession).result.is_ok());
            client.open_session();
        }
    }
}

fn encode(tree: &Tree) -> Vec<u8> {
    let mut bytes = Vec::new();
    tree.encode_snapshot(&mut |chunk| bytes.extend(chunk));
    bytes
}

fn chunks(walk: &mut SnapshotWalk) -> Vec<u8> {
    std::iter::from_fn(|| walk.take_chunk()).flatten().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_in_slices_is_the_state_at_its_begin(
        before in vec(step(), 0..60),
        between in vec((1..4usize, vec(step(), 0..8)), 0..40),
    ) {
        let mut client = Client::new();
        before.iter().for_each(|step| take(&mut client, step));
        let (expected, digest) = (encode(&client.tree), client.tree.digest());
        let mut walk = client.tree.begin_snapshot();
        let mut bytes = Vec::new();
        let mut between = between.into_iter();
        while !walk.is_complete() {
            let (nodes_max, steps) = between.next().unwrap_or((1, vec![]));
            steps.iter().for_each(|step| take(&mut client, step));
            prop_assert_eq!(client.tree.slice_of(&mut walk, nodes_max), Ok(()));
            bytes.extend(chunks(&mut walk));
        }
        bytes.extend(chunks(&mut walk));
        client.tree.end_snapshot(&walk);
        prop_assert!(bytes == expected, "{} bytes, not {}", bytes.len(), expected.len());
        let decoded = Tree::decode_snapshot([&bytes[..]].into_iter()).expect("decodable");
        prop_assert_eq!(decoded.digest(), digest);
        // And the tree itself is none the worse for it.
        let now = encode(&client.tree);
        let again = Tree::decode_snapshot([&now[..]].into_iter()).expect("decodable");
        prop_assert_eq!(again.digest(), client.tree.digest());
    }
}

#[test]
fn a_directory_and_a_large_node_changed_meanwhile_are_as_they_were() {
    let mut client = Client::new();
    assert!(client.create("/d", 0).is_ok());
    for number in 0..3000 {
        assert!(client.create(&format!("/d/{number}"), 0).is_ok());
    }
    assert!(client.set("/d/7", &"x".repeat(900_000), -1).is_ok());
    let expected = encode(&client.tree);
    let mut walk = client.tree.begin_snapshot();
    let mut bytes = Vec::new();
    let mut number = 0;
    while !walk.is_complete() {
        assert_eq!(client.tree.snapshot_slice(&mut walk), Ok(()));
        for _ in 0..100.min(3000 - number) {
            assert!(client.delete(&format!("/d/{}", 2999 - number), -1).is_ok());
            assert!(client.create(&format!("/d/new-{number}"), 0).is_ok());
            number += 1;
        }
        bytes.extend(chunks(&mut walk));
    }
    bytes.extend(chunks(&mut walk));
    assert!(bytes == expected);
    assert!(number > 1000, "the slices are small enough for writes between them");
}

#[test]
fn a_new_snapshot_abandons_the_old_one_and_the_end_lets_go_of_what_was_kept() {
    let mut client = Client::new();
    assert!(client.create("/a", 0).is_ok());
    let memory = client.tree.memory();
    let mut first = client.tree.begin_snapshot();
    let mut second = client.tree.begin_snapshot();
    assert_eq!(client.tree.snapshot_slice(&mut first), Err(SnapshotAbandoned));
    client.tree.end_snapshot(&first);
    assert!(client.set("/a", "new!", -1).is_ok());
    assert!(client.tree.memory() > memory, "what /a was is kept");
    assert_eq!(client.tree.snapshot_slice(&mut second), Ok(()));
    client.tree.end_snapshot(&second);
    assert!(client.tree.store.running.is_none());
    assert_eq!(client.tree.snapshot_slice(&mut second), Err(SnapshotAbandoned));
    // Another tree, as after a snapshot of the leader's was installed.
    assert_eq!(Tree::new().snapshot_slice(&mut client.tree.begin_snapshot()), Err(SnapshotAbandoned));
}
