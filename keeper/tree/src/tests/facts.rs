//! What a real ZooKeeper answers, fact by fact.

use keeper_types::{
    Acl, CreateRequest, ErrorCode, EventKind, Generation, MultiOp, MultiResult, OpCode, Perms, Request,
    Response, SessionId, SetDataRequest, Zxid,
};

use super::harness::{Client, PASSWORD, Told, check, create, delete, identity, set};
use crate::{Admission, BatchId, CommandOp, Outcome, Tree};

fn event(kind: EventKind, path: &str) -> Told {
    Told::Event(kind, path.into())
}

#[test]
fn a_new_tree_has_the_nodes_of_a_new_zookeeper() {
    let client = Client::new();
    assert_eq!(client.names("/"), ["zookeeper"]);
    assert_eq!(client.names("/zookeeper"), ["config", "quota"]);
    assert_eq!((client.stat("/").cversion, client.stat("/").num_children), (-1, 1));
    assert_eq!(client.stat("/zookeeper").cversion, -2);
    assert_eq!(client.stat("/zookeeper/config").aversion, -1);
    assert_eq!(client.tree.counts().znodes, 4);
}

#[test]
fn creating_what_exists_is_node_exists() {
    let mut client = Client::new();
    assert_eq!(client.create("/", 0), Err(ErrorCode::NodeExists));
    assert_eq!(client.create("/a", 0), Ok("/a".into()));
    assert_eq!(client.create("/a", 0), Err(ErrorCode::NodeExists));
}

#[test]
fn the_special_nodes_cannot_be_deleted() {
    let mut client = Client::new();
    for path in ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "a", "/a\0"] {
        assert_eq!(client.delete(path, -1), Err(ErrorCode::BadArguments), "{path:?}");
    }
}

#[test]
fn a_node_can_be_created_under_zookeeper() {
    assert_eq!(Client::new().create("/zookeeper/mine", 0), Ok("/zookeeper/mine".into()));
}

#[test]
fn the_config_node_is_read_only_but_for_super() {
    let mut client = Client::new();
    assert_eq!(client.set("/zookeeper/config", "x", -1), Err(ErrorCode::NoAuth));
    let (acl, _) = client.tree.get_acl("/zookeeper/config", &[]).expect("readable");
    assert_eq!(acl, [Acl { perms: Perms::READ, ..Acl::open() }]);
    client.identities = vec![identity("super", "")];
    assert!(client.set("/zookeeper/config", "x", -1).is_ok());
}

#[test]
fn a_malformed_path_is_bad_arguments_or_has_no_parent() {
    let mut client = Client::new();
    assert_eq!(client.create("/a", 0), Ok("/a".into()));
    for path in ["", "a", "/x\0", "/a/", "/.", "/..", "/\u{1}", "/a/.", "/\u{1f600}"] {
        assert_eq!(client.create(path, 0), Err(ErrorCode::BadArguments), "{path:?}");
        assert_eq!(client.set(path, "", -1), Err(ErrorCode::BadArguments), "{path:?}");
        assert_eq!(client.check(path, -1), Err(ErrorCode::BadArguments), "{path:?}");
    }
    for path in ["/a//b", "/a/../b", "a/b", "/b/"] {
        assert_eq!(client.create(path, 0), Err(ErrorCode::NoNode), "{path:?}");
    }
    assert_eq!(client.delete("/a/", -1), Err(ErrorCode::NoNode));
    // Reads take every text for a path, and the empty one for the root's.
    assert_eq!(client.tree.exists("x\0", &[]), Err(ErrorCode::BadArguments));
    for path in ["x", "/a/", "/a//b"] {
        assert_eq!(client.tree.exists(path, &[]), Err(ErrorCode::NoNode), "{path:?}");
        assert_eq!(client.tree.get_data(path, &[]).err(), Some(ErrorCode::NoNode), "{path:?}");
    }
    assert_eq!(client.tree.exists("", &[]), Ok(client.stat("/")));
}

#[test]
fn a_sequential_node_may_have_nothing_before_its_number() {
    let mut client = Client::new();
    assert_eq!(client.create("/a", 0), Ok("/a".into()));
    assert_eq!(client.create("/a/", 2), Ok("/a/0000000000".into()));
}

#[test]
fn null_data_stays_null() {
    let mut client = Client::new();
    let request = CreateRequest { data: None, ..create("/a", 0) };
    assert!(client.request(Request::Create(OpCode::Create, request)).is_ok());
    assert_eq!(client.tree.get_data("/a", &[]).map(|(data, _)| data), Ok(None));
    assert!(client.set("/a", "", -1).is_ok());
    assert_eq!(client.tree.get_data("/a", &[]).map(|(data, _)| data), Ok(Some(&b""[..])));
    let null = SetDataRequest { path: "/a", data: None, version: -1 };
    assert!(client.request(Request::SetData(null)).is_ok());
    assert_eq!(client.tree.get_data("/a", &[]).map(|(data, _)| data), Ok(None));
}

#[test]
fn an_empty_acl_is_invalid() {
    let mut client = Client::new();
    assert_eq!(client.create_with("/a", vec![]), Err(ErrorCode::InvalidAcl));
    assert_eq!(
        client.create_with("/missing/a", vec![]),
        Err(ErrorCode::InvalidAcl),
        "found before the parent"
    );
    assert_eq!(client.create_with("a", vec![]), Err(ErrorCode::BadArguments), "found after the path");
}

#[test]
fn a_create_without_a_time_to_live_has_modes_up_to_four() {
    let mut client = Client::new();
    for flags in [7, -1, 5, 6] {
        assert_eq!(client.create("/a", flags), Err(ErrorCode::BadArguments), "{flags}");
    }
}

#[test]
fn a_plain_create_ignores_the_container_flag() {
    let mut client = Client::new();
    assert_eq!(client.create("/a", 4), Ok("/a".into()));
    assert_eq!(client.stat("/a").ephemeral_owner, 0);
}

#[test]
fn an_ephemeral_node_has_no_children() {
    let mut client = Client::new();
    assert_eq!(client.create("/e", 1), Ok("/e".into()));
    assert_eq!(client.stat("/e").ephemeral_owner, client.session.0);
    assert_eq!(client.create("/e/a", 0), Err(ErrorCode::NoChildrenForEphemerals));
}

#[test]
fn the_sequence_counts_creations_and_cversion_shows_deletions_too() {
    let mut client = Client::new();
    assert_eq!(client.create("/q", 0), Ok("/q".into()));
    for number in 0..3 {
        assert_eq!(client.create("/q/n-", 2), Ok(format!("/q/n-000000000{number}")));
    }
    for number in 0..2 {
        assert_eq!(client.delete(&format!("/q/n-000000000{number}"), -1), Ok(()));
    }
    let stat = client.stat("/q");
    assert_eq!((stat.cversion, stat.num_children), (5, 1));
    assert_eq!(client.create("/q/x", 0), Ok("/q/x".into()));
    assert_eq!(client.create("/q/n-", 3), Ok("/q/n-0000000004".into()));
}

/// Nobody makes two thousand million children in a test: the counter is set to where they would have brought it.
#[test]
fn a_sequence_number_wraps_as_javas_does() {
    let mut client = Client::new();
    assert_eq!(client.create("/q", 0), Ok("/q".into()));
    let at = client.tree.store.find("/q").expect("there");
    client.tree.store.set_creates(at, i32::MAX);
    assert_eq!(client.stat("/q").cversion, -2, "twice the creations, wrapped");
    assert_eq!(client.create("/q/n-", 2), Ok("/q/n-2147483647".into()));
    assert_eq!(client.stat("/q").cversion, -1);
    assert_eq!(client.create("/q/n-", 2), Ok("/q/n--2147483648".into()));
    assert_eq!(client.create("/q/n-", 2), Ok("/q/n--2147483647".into()));
    let mut encoded = Vec::new();
    client.tree.encode_snapshot(&mut |chunk| encoded.push(chunk));
    client.tree = Tree::decode_snapshot(encoded.iter().map(|chunk| &chunk[..])).expect("decodes");
    assert_eq!(client.create("/q/n-", 2), Ok("/q/n--2147483646".into()));
    let at = client.tree.store.find("/q").expect("there");
    client.tree.store.set_creates(at, -5);
    assert_eq!(client.create("/q/n-", 2), Ok("/q/n--000000005".into()));
}

#[test]
fn stats_follow_zookeepers_rules() {
    let mut client = Client::new();
    client.tree.admit(BatchId { origin: keeper_types::ServerId(1), epoch: 1, seq: 0 }, 1000);
    assert_eq!(client.create("/a", 0), Ok("/a".into()));
    let created = client.stat("/a");
    assert_eq!((created.czxid, created.mzxid, created.pzxid), (2, 2, 2));
    assert_eq!((created.ctime, created.mtime), (1000, 1000));
    assert_eq!((created.version, created.cversion, created.aversion), (0, 0, 0));
    assert_eq!((created.data_length, created.num_children, created.ephemeral_owner), (4, 0, 0));
    client.tree.admit(BatchId { origin: keeper_types::ServerId(1), epoch: 1, seq: 1 }, 2000);
    let set = client.set("/a", "longer", 0).expect("set");
    assert_eq!((set.mzxid, set.mtime, set.version, set.data_length), (3, 2000, 1, 6));
    assert_eq!((set.czxid, set.ctime, set.pzxid), (2, 1000, 2));
    assert_eq!(client.create("/a/b", 0), Ok("/a/b".into()));
    assert_eq!(client.stat("/a").pzxid, 4);
    assert_eq!(client.set("/a/b", "", -1).map(|stat| stat.version), Ok(1));
    assert_eq!(client.stat("/a").pzxid, 4, "a child's data is no change of the parent");
    assert_eq!(client.delete("/a/b", 1), Ok(()));
    let after = client.stat("/a");
    assert_eq!((after.pzxid, after.cversion, after.num_children), (6, 2, 0));
    assert_eq!((after.mzxid, after.version), (3, 1));
    let acl = client.set_acl("/a", vec![Acl::open()], 0).expect("setACL");
    assert_eq!((acl.aversion, acl.version, acl.mzxid), (1, 1, 3));
    assert_eq!(client.set("/", "root", 0).map(|stat| stat.version), Ok(1), "the root's data can be set");
}

#[test]
fn every_write_consumes_one_zxid_failed_or_not() {
    let mut client = Client::new();
    let start = client.tree.zxid().0;
    assert_eq!(start, 1, "the session's creation");
    assert!(client.create("/missing/a", 0).is_err());
    assert!(client.multi(vec![]).is_ok());
    let failing = vec![MultiOp::Create(OpCode::Create, create("/a", 0)), MultiOp::Check(check("/b", -1))];
    assert!(client.multi(failing).is_ok());
    assert_eq!(client.request(Request::WhoAmI), Err(ErrorCode::Unimplemented));
    assert_eq!(client.tree.zxid().0, start + 4);
    let applied = client.apply(CommandOp::Sync);
    assert_eq!((applied.zxid, applied.result), (Zxid(start + 4), Ok(Outcome::None)));
    assert!(client.apply(CommandOp::CloseSession).result.is_ok());
    assert_eq!(client.tree.zxid().0, start + 5);
}

#[test]
fn faults_are_found_in_zookeepers_order() {
    let mut client = Client::new();
    assert!(client.create_with("/p", vec![Acl { perms: Perms::READ, ..Acl::open() }]).is_ok());
    assert_eq!(client.create("/p/a", 0), Err(ErrorCode::NoAuth));
    assert_eq!(client.create("/p/\u{1}", 0), Err(ErrorCode::NoAuth), "the name is looked at last");
    assert_eq!(client.delete("/p/a", -1), Err(ErrorCode::NoAuth), "before it is known that it is missing");
    assert_eq!(client.set("/p", "", 7), Err(ErrorCode::NoAuth), "before the version");
    assert_eq!(client.set("/x", "", 7), Err(ErrorCode::NoNode));
    assert_eq!(client.set_acl("/x", vec![], 7), Err(ErrorCode::InvalidAcl), "before the node");
    assert_eq!(client.set_acl("/p", vec![Acl::open()], 7), Err(ErrorCode::NoAuth), "before the version");
    assert!(client.create("/q", 0).is_ok());
    assert!(client.create("/q/a", 0).is_ok());
    assert_eq!(client.delete("/q", 3), Err(ErrorCode::BadVersion), "before the children");
    assert_eq!(client.delete("/q", 0), Err(ErrorCode::NotEmpty));
    assert!(client.create("/e", 1).is_ok());
    assert_eq!(client.set_acl("/q", vec![Acl::open()], 7), Err(ErrorCode::BadVersion));
    assert_eq!(client.check("/q", 1), Err(ErrorCode::BadVersion));
    assert_eq!(client.check("/q", 0), Ok(()));
}

#[test]
fn events_come_in_zookeepers_order() {
    let mut client = Client::new();
    assert!(client.create("/a", 0).is_ok());
    assert_eq!(client.told, [event(EventKind::Created, "/a"), event(EventKind::ChildrenChanged, "/")]);
    assert!(client.create("/a/b-", 2).is_ok());
    let made = "/a/b-0000000000";
    assert_eq!(client.told, [event(EventKind::Created, made), event(EventKind::ChildrenChanged, "/a")]);
    assert!(client.set("/a", "x", -1).is_ok());
    assert_eq!(client.told, [event(EventKind::DataChanged, "/a")]);
    assert!(client.set_acl("/a", vec![Acl::open()], -1).is_ok());
    assert_eq!(client.told, []);
    assert!(client.delete(made, -1).is_ok());
    assert_eq!(client.told, [event(EventKind::Deleted, made), event(EventKind::ChildrenChanged, "/a")]);
    assert!(client.delete(made, -1).is_err());
    assert_eq!(client.told, []);
}

#[test]
fn a_multi_is_one_zxid_and_shows_each_operation_its_predecessors() {
    let mut client = Client::new();
    let ops = vec![
        MultiOp::Create(OpCode::Create, create("/m", 0)),
        MultiOp::Create(OpCode::Create2, create("/m/s-", 2)),
        MultiOp::SetData(set("/m", "new", 0)),
        MultiOp::Check(check("/m", 1)),
        MultiOp::Delete(delete("/m/s-0000000000", 0)),
        MultiOp::Create(OpCode::Create, create("/m/s-", 2)),
    ];
    let results = client.multi(ops).expect("multi");
    assert_eq!(results[0], MultiResult::Create { path: "/m".into() });
    let MultiResult::Create2 { path, stat } = &results[1] else { panic!("{:?}", results[1]) };
    assert_eq!((path.as_str(), stat.czxid), ("/m/s-0000000000", 2));
    let MultiResult::SetData { stat } = &results[2] else { panic!("{:?}", results[2]) };
    assert_eq!((stat.version, stat.num_children, stat.mzxid), (1, 1, 2));
    assert_eq!(results[3..5], [MultiResult::Done(OpCode::Check), MultiResult::Done(OpCode::Delete)]);
    assert_eq!(results[5], MultiResult::Create { path: "/m/s-0000000001".into() });
    assert_eq!(client.tree.zxid(), Zxid(2));
    let kinds: Vec<_> =
        client.told.iter().map(|told| matches!(told, Told::Event(EventKind::Created, _))).collect();
    assert_eq!(kinds, [true, false, true, false, false, false, false, true, false]);
}

#[test]
fn a_failed_multi_changes_nothing_and_says_which_operation_failed() {
    let mut client = Client::new();
    for path in ["/m", "/m/a", "/m/b", "/m/c"] {
        assert!(client.create(path, 0).is_ok());
    }
    let before = (client.stat("/m"), client.stat("/m/a"), client.tree.counts(), children(&client.tree));
    let ops = vec![
        MultiOp::SetData(set("/m/a", "changed", -1)),
        MultiOp::Delete(delete("/m/a", -1)),
        MultiOp::Create(OpCode::Create, create("/m/e", 1)),
        MultiOp::Create(OpCode::Create, create("/m/d", 0)),
        MultiOp::Check(check("/missing", -1)),
        MultiOp::Create(OpCode::Create, create("/m/f", 0)),
    ];
    let results = client.multi(ops).expect("multi");
    let ok = MultiResult::Error(None);
    let rest = MultiResult::Error(Some(ErrorCode::RuntimeInconsistency));
    let culprit = MultiResult::Error(Some(ErrorCode::NoNode));
    assert_eq!(results, [ok.clone(), ok.clone(), ok.clone(), ok, culprit, rest]);
    assert_eq!(client.told, []);
    assert_eq!(
        (client.stat("/m"), client.stat("/m/a"), client.tree.counts(), children(&client.tree)),
        before
    );
    assert_eq!(client.tree.get_data("/m/a", &[]).map(|(data, _)| data), Ok(Some(&b"data"[..])));
}

/// Unsorted on purpose: a rolled back deletion leaves the order as it was.
fn children(tree: &Tree) -> Vec<String> {
    tree.children("/m", &[]).expect("listed").0.map(str::to_owned).collect()
}

#[test]
fn create2_answers_with_the_stat() {
    let mut client = Client::new();
    let response = client.request(Request::Create(OpCode::Create2, create("/a", 0))).expect("created");
    assert_eq!(response, Response::Create2 { path: "/a".into(), stat: client.stat("/a") });
}

#[test]
fn a_session_takes_its_ephemerals_along_in_one_transaction() {
    let mut client = Client::new();
    let first = client.session;
    for (path, flags) in [("/b", 0), ("/b/x", 1), ("/a", 1), ("/c", 1)] {
        assert!(client.create(path, flags).is_ok());
    }
    assert_eq!(client.tree.counts().ephemerals, 3);
    assert!(client.delete("/c", -1).is_ok());
    let applied = client.apply(CommandOp::CloseSession);
    assert_eq!(applied.result, Ok(Outcome::None));
    let expected = [
        event(EventKind::Deleted, "/a"),
        event(EventKind::ChildrenChanged, "/"),
        event(EventKind::Deleted, "/b/x"),
        event(EventKind::ChildrenChanged, "/b"),
        Told::Ended(first),
    ];
    assert_eq!(client.told, expected);
    assert_eq!((client.stat("/b").pzxid, client.stat("/").pzxid), (applied.zxid.0, applied.zxid.0));
    let counts = client.tree.counts();
    assert_eq!((counts.ephemerals, counts.sessions, counts.znodes), (0, 0, 5));
    assert_eq!(client.create("/d", 0), Err(ErrorCode::SessionExpired));
    assert_eq!(client.tree.session(first), None);
}

#[test]
fn a_moved_session_writes_only_over_its_new_connection() {
    let mut client = Client::new();
    let zxid = client.tree.zxid();
    let wrong = client.apply(CommandOp::AttachSession { password: [9; 16], timeout_ms: 6000 });
    assert_eq!((wrong.result, wrong.zxid), (Err(ErrorCode::SessionExpired), zxid));
    assert_eq!(client.tree.session(client.session).map(|view| view.generation), Some(Generation(1)));
    let moved = client.apply(CommandOp::AttachSession { password: PASSWORD, timeout_ms: 6000 });
    let expected = Outcome::Session { id: client.session, generation: Generation(2), timeout_ms: 6000 };
    assert_eq!((moved.result, moved.zxid), (Ok(expected), zxid));
    assert_eq!(client.told, [Told::Moved(client.session, Generation(2))]);
    assert_eq!(client.create("/a", 0), Err(ErrorCode::SessionMoved));
    assert_eq!(client.tree.zxid().0, zxid.0 + 1);
    assert_eq!(client.apply(CommandOp::Sync).result, Err(ErrorCode::SessionMoved));
    assert_eq!(client.apply(CommandOp::ExpireSession).result, Err(ErrorCode::SessionMoved));
    client.generation = Generation(2);
    assert!(client.create("/a", 0).is_ok());
    assert!(client.apply(CommandOp::ExpireSession).result.is_ok());
    let gone = client.apply(CommandOp::AttachSession { password: PASSWORD, timeout_ms: 6000 });
    assert_eq!(gone.result, Err(ErrorCode::SessionExpired));
}

#[test]
fn session_ids_are_positive_and_never_used_twice() {
    let mut client = Client::new();
    let first = client.session;
    assert!(client.apply(CommandOp::CloseSession).result.is_ok());
    let second = client.open_session();
    assert!(first.0 > 0 && second > first);
    assert_eq!(client.tree.sessions().map(|view| view.id).collect::<Vec<SessionId>>(), [second]);
}

#[test]
fn a_batch_is_taken_once_and_in_order() {
    let mut tree = Tree::new();
    let id = |epoch, seq| BatchId { origin: keeper_types::ServerId(7), epoch, seq };
    assert_eq!(tree.next_seq(id(3, 0).origin), None);
    assert_eq!(tree.admit(id(3, 1), 50), Admission::Gap { expected: 0 });
    assert_eq!(tree.time_ms(), 0, "a skipped batch changes nothing");
    assert_eq!(tree.admit(id(3, 0), 50), Admission::Apply);
    assert_eq!(tree.admit(id(3, 0), 60), Admission::Duplicate);
    assert_eq!(tree.admit(id(3, 2), 60), Admission::Gap { expected: 1 });
    assert_eq!(tree.admit(id(3, 1), 40), Admission::Apply);
    assert_eq!((tree.next_seq(id(3, 0).origin), tree.time_ms()), (Some((3, 2)), 50));
    assert_eq!(tree.admit(id(4, 5), 70), Admission::Gap { expected: 0 });
    assert_eq!(tree.admit(id(4, 0), 70), Admission::Apply);
    assert_eq!(tree.admit(id(3, 2), 80), Admission::Duplicate, "of an earlier life");
    assert_eq!((tree.next_seq(id(3, 0).origin), tree.time_ms()), (Some((4, 1)), 70));
}

#[test]
fn without_a_reply_the_state_changes_all_the_same() {
    let (mut with, mut without) = (Client::new(), Client::new());
    let request = Request::Create(OpCode::Create, create("/a-", 3));
    assert!(with.request(request.clone()).is_ok());
    let command = crate::Command {
        session: without.session,
        generation: without.generation,
        identities: &[],
        op: CommandOp::Request(&request),
        enforce_quota: false,
        want_reply: false,
    };
    let applied = without.tree.apply(&command, &mut super::harness::Ear::default());
    assert_eq!(applied.result, Ok(Outcome::None));
    assert_eq!(with.tree.digest(), without.tree.digest());
}

#[test]
fn digests_in_an_acl_are_shown_to_administrators_only() {
    let mut client = Client::new();
    let owner = crate::digest_identity("me:secret").expect("identity");
    let acl = vec![Acl { perms: Perms::ALL, id: owner.clone() }, Acl { perms: Perms::READ, ..Acl::open() }];
    assert!(client.create_with("/a", acl.clone()).is_ok());
    let shown = client.tree.get_acl("/a", &[]).expect("readable").0;
    assert_eq!(shown[0].id, identity("digest", "me:x"));
    assert_eq!(shown[1], acl[1]);
    assert_eq!(client.tree.get_acl("/a", &[owner]).expect("readable").0, acl);
}

#[test]
fn reading_takes_the_read_permission() {
    let mut client = Client::new();
    assert!(client.create_with("/a", vec![Acl { perms: Perms::WRITE, ..Acl::open() }]).is_ok());
    assert_eq!(client.tree.get_data("/a", &[]).err(), Some(ErrorCode::NoAuth));
    assert_eq!(client.tree.children("/a", &[]).err().map(|code| code.as_i32()), Some(-102));
    assert_eq!(client.tree.get_acl("/a", &[]).err(), Some(ErrorCode::NoAuth));
    assert_eq!(client.check("/a", -1), Err(ErrorCode::NoAuth));
    assert_eq!(client.tree.exists("/a", &[]), Err(ErrorCode::NoAuth));
    assert!(client.tree.exists("/a", &[identity("super", "")]).is_ok());
    assert!(client.tree.get_data("/a", &[identity("super", "")]).is_ok());
}
