//! ClickHouse's own operations, as its Keeper answers them (docs/protocol/client.md).

use keeper_types::{
    Acl, CheckStatRequest, ErrorCode, EventKind, MultiOp, MultiResult, OpCode, Perms, RecursiveRequest,
    Request, Response, Stat,
};

use super::harness::{Client, Told, check, create, delete, identity};
use crate::ChildFilter;

fn any() -> Stat {
    Stat {
        czxid: -1,
        mzxid: -1,
        ctime: -1,
        mtime: -1,
        version: -1,
        cversion: -1,
        aversion: -1,
        ephemeral_owner: -1,
        data_length: -1,
        num_children: -1,
        pzxid: -1,
    }
}

fn below(path: &str, nodes_max: u32) -> RecursiveRequest<'_> {
    RecursiveRequest { path, nodes_max }
}

fn grown() -> Client {
    let mut client = Client::new();
    for path in ["/a", "/a/b", "/a/b/c", "/a/d"] {
        client.create(path, 0).unwrap();
    }
    client
}

#[test]
fn a_subtree_is_removed_leaves_first_or_not_at_all() {
    let mut client = grown();
    let remove = |client: &mut Client, path, max| client.request(Request::RemoveRecursive(below(path, max)));
    assert_eq!(remove(&mut client, "/a", 3), Err(ErrorCode::NotEmpty));
    assert_eq!(client.names("/a"), ["b", "d"]);
    assert_eq!(remove(&mut client, "/a", 4), Ok(Response::Empty));
    let deleted: Vec<&str> = client
        .told
        .iter()
        .filter_map(|told| match told {
            Told::Event(EventKind::Deleted, path) => Some(path.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(deleted, ["/a/d", "/a/b/c", "/a/b", "/a"]);
    assert_eq!(remove(&mut client, "/a", 4), Ok(Response::Empty), "nothing there is fine");
    assert_eq!(remove(&mut client, "/x/y", 4), Ok(Response::Empty));
    for path in ["/", "/zookeeper", "/keeper", "/keeper/config"] {
        assert_eq!(remove(&mut client, path, 100), Err(ErrorCode::BadArguments), "{path}");
    }
}

#[test]
fn a_subtree_with_a_node_that_may_not_lose_children_stays() {
    let mut client = grown();
    client.set_acl("/a/b", vec![Acl { perms: Perms::READ, ..Acl::open() }], -1).unwrap();
    let outcome = client.request(Request::RemoveRecursive(below("/a", 100)));
    assert_eq!(outcome, Err(ErrorCode::NoAuth));
    assert_eq!(client.names("/a/b"), ["c"]);
}

#[test]
fn trying_to_remove_forgives_what_a_delete_does_not() {
    let mut client = grown();
    let attempt =
        |client: &mut Client, path, version| client.request(Request::TryRemove(delete(path, version)));
    for (path, version) in [("/nothing", -1), ("/nothing/below", -1), ("/a", -1), ("/a/d", 5)] {
        assert_eq!(attempt(&mut client, path, version), Ok(Response::Empty), "{path}");
        assert!(client.told.is_empty());
    }
    assert_eq!(attempt(&mut client, "/a/d", 0), Ok(Response::Empty));
    assert_eq!(client.names("/a"), ["b"]);
    assert_eq!(attempt(&mut client, "/zookeeper", -1), Err(ErrorCode::BadArguments));
}

#[test]
fn a_create_that_does_not_mind_leaves_the_node_as_it_is() {
    let mut client = grown();
    let before = client.stat("/a");
    let made = client.request(Request::Create(OpCode::CreateIfNotExists, create("/a", 0)));
    assert_eq!(made, Ok(Response::Create { path: "/a".into() }));
    assert_eq!(client.stat("/a"), before);
    assert!(client.told.is_empty());
    let sequential = client.request(Request::Create(OpCode::CreateIfNotExists, create("/a/s", 2)));
    assert_eq!(sequential, Err(ErrorCode::BadArguments));
    let orphan = client.request(Request::Create(OpCode::CreateIfNotExists, create("/no/parent", 0)));
    assert_eq!(orphan, Err(ErrorCode::NoNode));
}

#[test]
fn checks_compare_absence_and_every_field_that_is_asked_for() {
    let mut client = grown();
    let absent =
        |client: &mut Client, path, version| client.request(Request::CheckNotExists(check(path, version)));
    assert_eq!(absent(&mut client, "/nothing", -1), Ok(Response::Empty));
    assert_eq!(absent(&mut client, "/a", -1), Err(ErrorCode::NodeExists));
    assert_eq!(absent(&mut client, "/a", 0), Err(ErrorCode::NodeExists));
    assert_eq!(absent(&mut client, "/a", 1), Ok(Response::Empty), "there, but not with that version");

    let found = client.stat("/a");
    let mut compare = |stat: Stat| {
        client.request(Request::CheckStat(CheckStatRequest { path: "/a", version: -1, stat })).err()
    };
    assert_eq!((compare(any()), compare(found)), (None, None));
    for wrong in [
        Stat { czxid: 99, ..any() },
        Stat { mzxid: 99, ..found },
        Stat { ctime: 99, ..any() },
        Stat { mtime: 99, ..any() },
        Stat { version: 99, ..any() },
        Stat { cversion: 99, ..any() },
        Stat { aversion: 99, ..any() },
        Stat { ephemeral_owner: 99, ..any() },
        Stat { data_length: 99, ..any() },
        Stat { num_children: 99, ..any() },
        Stat { pzxid: 99, ..any() },
    ] {
        assert_eq!(compare(wrong), Some(ErrorCode::BadVersion), "{wrong:?}");
    }
}

#[test]
fn a_multi_answers_each_operation_under_its_own_number() {
    let mut client = grown();
    let ops = vec![
        MultiOp::Create(OpCode::CreateIfNotExists, create("/a", 0)),
        MultiOp::CheckNotExists(check("/n", -1)),
        MultiOp::CheckStat(CheckStatRequest { path: "/a", version: 0, stat: any() }),
        MultiOp::TryRemove(delete("/a", -1)),
        MultiOp::RemoveRecursive(below("/a", 4)),
    ];
    let results = client.multi(ops).unwrap();
    let done = MultiResult::Done;
    assert_eq!(results[0], MultiResult::CreateIfNotExists { path: "/a".into() });
    assert_eq!(
        results[1..],
        [
            done(OpCode::CheckNotExists),
            done(OpCode::CheckStat),
            done(OpCode::TryRemove),
            done(OpCode::RemoveRecursive)
        ]
    );
    assert_eq!(client.names("/"), ["zookeeper"]);
}

#[test]
fn each_needs_the_permission_that_its_like_needs() {
    let mut client = grown();
    let only = |perms| vec![Acl { perms, ..Acl::open() }];
    client.set_acl("/a/d", only(Perms::WRITE), -1).unwrap();
    client.set_acl("/a", only(Perms::READ), -1).unwrap();
    let stat = CheckStatRequest { path: "/a/d", version: -1, stat: any() };
    for request in [
        Request::CheckNotExists(check("/a/d", -1)),
        Request::CheckStat(stat),
        Request::TryRemove(delete("/a/d", -1)),
        Request::RemoveRecursive(below("/a/d", 10)),
        Request::Create(OpCode::CreateIfNotExists, create("/a/e", 0)),
    ] {
        assert_eq!(client.request(request.clone()), Err(ErrorCode::NoAuth), "{request:?}");
    }
    assert_eq!(client.tree.list_below("/a", &[], 10), Ok(vec!["/a/b".into(), "/a/b/c".into()]), "not /a/d");
    client.identities = vec![identity("super", "")];
    assert_eq!(client.request(Request::TryRemove(delete("/a/d", -1))), Ok(Response::Empty));
    assert_eq!(client.names("/a"), ["b"]);
}

#[test]
fn lists_show_the_kind_of_children_asked_for() {
    let mut client = Client::new();
    for (path, flags) in [("/l", 0), ("/l/p", 0), ("/l/e", 1)] {
        client.create(path, flags).unwrap();
    }
    let names = |client: &Client, filter, read_each| {
        let (children, _) = client.tree.list("/l", &[], filter, read_each)?;
        let mut names: Vec<String> = children.iter().map(|child| child.name.to_owned()).collect();
        names.sort();
        Ok(names)
    };
    assert_eq!(names(&client, ChildFilter::All, true), Ok(vec!["e".into(), "p".into()]));
    assert_eq!(names(&client, ChildFilter::Persistent, true), Ok(vec!["p".into()]));
    assert_eq!(names(&client, ChildFilter::Ephemeral, true), Ok(vec!["e".into()]));
    let hidden = vec![Acl { perms: Perms::READ, id: identity("digest", "a:x") }];
    client.set_acl("/l/e", hidden, -1).unwrap();
    assert_eq!(names(&client, ChildFilter::All, true), Err(ErrorCode::NoAuth));
    assert_eq!(names(&client, ChildFilter::All, false), Ok(vec!["e".into(), "p".into()]));
    assert_eq!(names(&client, ChildFilter::Persistent, true), Ok(vec!["p".into()]));
}

#[test]
fn what_is_below_a_node_is_counted_and_listed_breadth_first() {
    let client = grown();
    let listed = |path, max| client.tree.list_below(path, &[], max);
    assert_eq!(listed("/a", 10), Ok(vec!["/a/b".into(), "/a/d".into(), "/a/b/c".into()]));
    assert_eq!(listed("/a", 2), Ok(vec!["/a/b".into(), "/a/d".into()]));
    assert_eq!(listed("/nothing", 2), Err(ErrorCode::NoNode));
    assert_eq!(client.tree.count_below("/a", &[]), Ok(3));
    assert_eq!(client.tree.count_below("/", &[]), Ok(7), "with the three of /zookeeper");
}

#[test]
fn a_session_sees_its_own_ephemerals_by_prefix() {
    let mut client = Client::new();
    let first = client.session;
    for path in ["/b", "/a", "/ab"] {
        client.create(path, 1).unwrap();
    }
    client.open_session();
    client.create("/a-other", 1).unwrap();
    assert_eq!(client.tree.ephemerals_of(first, ""), ["/a", "/ab", "/b"]);
    assert_eq!(client.tree.ephemerals_of(first, "/a"), ["/a", "/ab"]);
    assert_eq!(client.tree.ephemerals_of(client.session, "/"), ["/a-other"]);
}
