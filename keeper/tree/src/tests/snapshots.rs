//! Snapshots: what is written can be read, what was altered is refused.

use keeper_types::{Acl, Perms};
use proptest::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::harness::{Client, PASSWORD};
use super::random::copy;
use crate::{CommandOp, SNAPSHOT_CHUNK_BYTES_MAX, Tree};

fn sample() -> Client {
    let mut client = Client::new();
    let identity = crate::digest_identity("me:secret").expect("identity");
    client.identities = vec![identity.clone()];
    for (path, flags) in [("/a", 0), ("/a/b", 0), ("/a/e-", 3), ("/ü", 0), ("/e", 1), ("/gone", 0)] {
        assert!(client.create(path, flags).is_ok());
    }
    assert!(client.create_with("/mine", vec![Acl { perms: Perms::ALL, id: identity }]).is_ok());
    assert!(client.delete("/gone", -1).is_ok());
    client.open_session();
    assert!(client.apply(CommandOp::AttachSession { password: PASSWORD, timeout_ms: 5000 }).result.is_ok());
    client
        .tree
        .admit(crate::BatchId { origin: keeper_types::ServerId(3), epoch: 2, seq: 0 }, 1_700_000_000_000);
    client
}

fn encode(tree: &Tree) -> Vec<u8> {
    let mut bytes = Vec::new();
    tree.encode_snapshot(&mut |chunk| bytes.extend(chunk));
    bytes
}

/// With the checksum made to fit, so that the checks behind it are reached.
fn repaired(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.len().checked_sub(8) {
        let hash = xxh3_64(&bytes[..end]);
        bytes[end..].copy_from_slice(&hash.to_be_bytes());
    }
    bytes
}

#[test]
fn a_decoded_tree_is_encoded_to_the_same_bytes() {
    let client = sample();
    let bytes = encode(&client.tree);
    assert_eq!(encode(&copy(&client.tree, 1)), bytes);
    let order =
        |tree: &Tree| tree.children("/", &[]).expect("listed").0.map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(order(&copy(&client.tree, 64)), order(&client.tree));
}

#[test]
fn chunks_are_bounded_however_large_a_node_is() {
    let mut client = Client::new();
    let large = "x".repeat(1_000_000);
    assert!(client.create("/a", 0).is_ok());
    assert!(client.set("/a", &large, -1).is_ok());
    let mut sizes = Vec::new();
    client.tree.encode_snapshot(&mut |chunk| sizes.push(chunk.len()));
    assert!(sizes.len() > 3 && sizes.iter().all(|size| *size <= SNAPSHOT_CHUNK_BYTES_MAX));
    assert_eq!(copy(&client.tree, 1000).get_data("/a", &[]), client.tree.get_data("/a", &[]));
}

#[test]
fn a_new_trees_snapshot_has_the_documented_bytes() {
    // `docs/formats/tree-snapshot.md` shows these bytes.
    let bytes = encode(&Tree::new());
    let mut expected = b"KEEPTREE\0\0\0\x01".to_vec();
    expected.extend([0; 24]);
    expected.extend(0xbc14_2436_600a_4fa4_u64.to_be_bytes());
    expected.extend([0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4]);
    for perms in [31, 1] {
        expected.extend([0, 0, 0, 1, 0, 0, 0, perms, 0, 0, 0, 5]);
        expected.extend(b"world\0\0\0\x06anyone");
    }
    for (parent, name, acl, aversion) in
        [(u32::MAX, "", 0u32, 0i32), (0, "zookeeper", 0, 0), (1, "quota", 0, 0), (1, "config", 1, -1)]
    {
        expected.extend(parent.to_be_bytes());
        expected.extend((name.len() as u32).to_be_bytes());
        expected.extend(name.as_bytes());
        expected.extend([0; 4]);
        expected.extend(acl.to_be_bytes());
        expected.extend([0; 48]);
        expected.extend(aversion.to_be_bytes());
        expected.extend([0; 8]);
    }
    expected.extend(0xab0e_e3ad_fa74_9410_u64.to_be_bytes());
    assert_eq!(bytes, expected);
}

#[test]
fn an_unknown_version_and_a_foreign_file_are_named() {
    let mut bytes = encode(&Tree::new());
    bytes[11] = 2;
    let error = Tree::decode_snapshot([&bytes[..]].into_iter()).err().expect("refused");
    assert_eq!(error.to_string(), "tree snapshot, byte 12: version 2 is not known, only 1");
    bytes[0] = b'X';
    let error = Tree::decode_snapshot([&bytes[..]].into_iter()).err().expect("refused");
    assert_eq!(error.to_string(), "tree snapshot, byte 8: this is not a tree snapshot");
    assert!(Tree::decode_snapshot(std::iter::empty()).is_err());
}

#[test]
fn every_truncation_and_any_byte_after_the_end_is_refused() {
    let bytes = encode(&sample().tree);
    for length in 0..bytes.len() {
        assert!(Tree::decode_snapshot([&bytes[..length]].into_iter()).is_err(), "{length}");
    }
    assert!(Tree::decode_snapshot([&bytes[..], &b"\0"[..]].into_iter()).is_err());
    assert!(Tree::decode_snapshot([&bytes[..], &b""[..]].into_iter()).is_ok());
}

#[test]
fn every_single_altered_byte_is_refused_even_when_the_checksum_fits() {
    let bytes = encode(&sample().tree);
    for at in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut altered = bytes.clone();
            altered[at] ^= change;
            assert!(Tree::decode_snapshot([&altered[..]].into_iter()).is_err(), "{at}");
            if at < bytes.len() - 8 {
                let altered = repaired(altered);
                assert!(Tree::decode_snapshot([&altered[..]].into_iter()).is_err(), "{at}, repaired");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mangled_snapshot_is_refused_without_a_panic(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), proptest::collection::vec(any::<u8>(), 0..6), 0..6usize), 1..5),
        repair in any::<bool>(),
    ) {
        let client = sample();
        let original = encode(&client.tree);
        let mut bytes = original.clone();
        for (at, inserted, removed) in cuts {
            let at = at.index(bytes.len());
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, inserted);
        }
        if repair {
            bytes = repaired(bytes);
        }
        if bytes != original {
            prop_assert!(Tree::decode_snapshot(bytes.chunks(100)).is_err());
        }
    }

    #[test]
    fn noise_behind_a_good_header_is_refused_without_a_panic(noise in proptest::collection::vec(any::<u8>(), 0..400), kept in 0..80usize) {
        let mut bytes = encode(&sample().tree);
        bytes.truncate(kept);
        bytes.extend(noise);
        prop_assert!(Tree::decode_snapshot(bytes.chunks(100)).is_err());
    }
}
