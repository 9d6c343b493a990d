use super::*;
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn member(id: u64) -> Member {
    Member {
        id: ServerId(id),
        peer_address: format!("k-{id}:9234"),
        client_address: format!("k-{id}:2181"),
        name: format!("k-{id}"),
        election_port: 0x0e0f,
    }
}

fn membership() -> RaftMembership {
    let nodes: BTreeMap<u64, Member> = [1, 2].map(|id| (id, member(id))).into();
    RaftMembership::new(vec![BTreeSet::from([1])], nodes).expect("a valid configuration")
}

#[test]
fn a_vote_keeps_its_bytes() {
    let vote = Vote::new_committed(0x0102, 3);
    let bytes = encode_vote(&vote);
    assert_eq!(hex(&bytes), "0201000000000000030000000000000001");
    assert_eq!(decode_vote(bytes), Ok(vote));
}

#[test]
fn entries_keep_their_bytes() {
    let normal =
        Entry { log_id: log_id(7, 9), payload: EntryPayload::Normal(Payload(Bytes::from_static(b"abc"))) };
    let (head, payload) = encode_entry(&normal);
    assert_eq!((hex(&head), &payload[..]), ("010700000000000000".into(), &b"abc"[..]));
    assert_eq!(decode_entry(9, head, payload), Ok(normal));

    let blank = Entry { log_id: log_id(7, 10), payload: EntryPayload::Blank };
    let (head, payload) = encode_entry(&blank);
    assert_eq!((hex(&head), payload.len()), ("000700000000000000".into(), 0));
    assert_eq!(decode_entry(10, head, payload), Ok(blank));

    let change = Entry { log_id: log_id(7, 11), payload: EntryPayload::Membership(membership()) };
    let (head, payload) = encode_entry(&change);
    assert_eq!(hex(&head), "020700000000000000");
    let one = "0100000000000000 0800 6b2d313a39323334 0800 6b2d313a32313831 0300 6b2d31 0f0e";
    let two = one.replacen("01", "02", 1).replace("6b2d31", "6b2d32");
    let expected = format!("01 0100 0100000000000000 0200 {one} {two}").replace(' ', "");
    assert_eq!(hex(&payload), expected);
    assert_eq!(decode_entry(11, head, payload), Ok(change));
}

#[test]
fn a_snapshot_head_keeps_its_bytes() {
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(2, 30)),
        last_membership: StoredMembership::new(Some(log_id(1, 4)), membership()),
    };
    let head = SnapshotHead { meta, server_id_max: 5 };
    let bytes = encode_snapshot_head(&head);
    assert!(
        hex(&bytes).starts_with("010102000000000000001e00000000000000010100000000000000040000000000000001")
    );
    assert!(hex(&bytes).ends_with("0500000000000000"));
    assert_eq!(decode_snapshot_head(bytes), Ok(head));
}

#[test]
fn lengths_beyond_their_limits_are_refused_before_anything_is_allocated() {
    let mut out = BytesMut::new();
    out.put_u8(KIND_NORMAL);
    out.put_u64_le(1);
    out.put_u32_le(u32::MAX);
    assert_eq!(read_wire_entry(&mut Reader::new(out.freeze()), 1).err(), Some(Malformed("entry length")));

    let mut out = BytesMut::new();
    out.put_u8(1);
    out.put_u16_le(u16::MAX);
    assert_eq!(read_membership(&mut Reader::new(out.freeze())).err(), Some(Malformed("voters")));
}

#[test]
fn a_voter_that_is_no_member_is_refused() {
    let mut out = BytesMut::new();
    out.put_u8(1);
    out.put_u16_le(1);
    out.put_u64_le(9);
    out.put_u16_le(0);
    assert_eq!(read_membership(&mut Reader::new(out.freeze())).err(), Some(Malformed("membership")));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let bytes = Bytes::from(bytes);
        let _ = decode_vote(bytes.clone());
        let _ = decode_snapshot_head(bytes.clone());
        let _ = decode_entry(1, bytes.clone(), bytes.clone());
        let _ = read_membership(&mut Reader::new(bytes.clone()));
        let _ = read_wire_entry(&mut Reader::new(bytes), 1);
    }
}
