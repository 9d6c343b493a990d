//! Containers and TTL nodes, as ZooKeeper 3.9 makes and ends them.

use keeper_types::{CreateRequest, ErrorCode, EventKind, OpCode, Request, Response, ServerId};

use super::harness::{Client, Told, create};
use crate::{BatchId, CleanupCursor, CommandOp, Perishable};

impl Client {
    fn make(&mut self, op: OpCode, path: &str, flags: i32, ttl_ms: Option<i64>) -> Result<String, ErrorCode> {
        let request = CreateRequest { ttl_ms, ..create(path, flags) };
        match self.request(Request::Create(op, request))? {
            Response::Create2 { path, stat } => {
                assert_eq!(stat, self.stat(&path));
                Ok(path)
            }
            other => panic!("{other:?} does not answer {op:?}"),
        }
    }

    fn set_time(&mut self, time_ms: i64) {
        let origin = ServerId(1);
        let (epoch, seq) = self.tree.next_seq(origin).unwrap_or((1, 0));
        self.tree.admit(BatchId { origin, epoch, seq }, time_ms);
    }

    fn due(&self, kind: Perishable) -> Vec<String> {
        self.tree.due(kind, self.tree.time_ms(), &mut CleanupCursor::default(), 100)
    }

    fn clean_up(&mut self, path: &str) -> bool {
        self.apply(CommandOp::CleanUp { path });
        self.tree.stat(path).is_none()
    }
}

#[test]
fn a_container_goes_after_its_last_child_and_not_before_its_first() {
    let mut client = Client::new();
    assert_eq!(client.make(OpCode::CreateContainer, "/c", 4, None), Ok("/c".into()));
    assert_eq!(client.stat("/c").ephemeral_owner, 0, "clients see no owner");
    assert!(client.due(Perishable::Container).is_empty());
    assert!(!client.clean_up("/c"));
    client.create("/c/a", 0).unwrap();
    assert!(!client.clean_up("/c"));
    client.delete("/c/a", -1).unwrap();
    assert_eq!(client.due(Perishable::Container), ["/c"]);
    assert!(client.due(Perishable::Ttl).is_empty());
    let zxid = client.tree.zxid().0;
    assert!(client.clean_up("/c"));
    assert_eq!(client.tree.zxid().0, zxid + 1);
    let told =
        [Told::Event(EventKind::Deleted, "/c".into()), Told::Event(EventKind::ChildrenChanged, "/".into())];
    assert_eq!(client.told, told);
    assert!(client.due(Perishable::Container).is_empty());
}

#[test]
fn a_container_is_made_by_its_operation_not_by_the_flag() {
    let mut client = Client::new();
    client.create("/plain", 4).unwrap();
    client.create("/plain/a", 0).unwrap();
    client.delete("/plain/a", -1).unwrap();
    assert!(!client.clean_up("/plain"));
    // An ephemeral container is a container.
    client.make(OpCode::CreateContainer, "/c", 1, None).unwrap();
    assert_eq!(client.stat("/c").ephemeral_owner, 0);
    client.create("/c/a", 0).unwrap();
}

#[test]
fn a_ttl_node_goes_when_it_was_not_changed_for_so_long() {
    let mut client = Client::new();
    client.set_time(1_000);
    let path = client.make(OpCode::CreateTtl, "/t-", 6, Some(500)).unwrap();
    assert_eq!(path, "/t-0000000000");
    client.set_time(1_500);
    assert!(!client.clean_up(&path), "not before its time is over");
    client.set(&path, "again", -1).unwrap();
    client.set_time(2_000);
    assert!(!client.clean_up(&path), "a change starts its time anew");
    client.create(&format!("{path}/child"), 0).expect("ZooKeeper allows children");
    client.set_time(2_001);
    assert!(!client.clean_up(&path), "it has a child");
    client.delete(&format!("{path}/child"), -1).unwrap();
    assert_eq!(client.due(Perishable::Ttl), std::slice::from_ref(&path));
    assert!(client.clean_up(&path));
}

#[test]
fn a_time_to_live_belongs_to_the_ttl_modes_of_its_operation() {
    let mut client = Client::new();
    const MAX: i64 = 0xff_ffff_ffff;
    for (op, flags, ttl_ms) in [
        (OpCode::CreateTtl, 5, Some(0)),
        (OpCode::CreateTtl, 5, Some(-1)),
        (OpCode::CreateTtl, 5, Some(MAX + 1)),
        (OpCode::CreateTtl, 0, Some(1)),
        (OpCode::CreateTtl, 1, Some(1)),
        (OpCode::Create2, 5, None),
        (OpCode::Create2, 6, None),
        (OpCode::CreateContainer, 7, None),
    ] {
        assert_eq!(client.make(op, "/x", flags, ttl_ms), Err(ErrorCode::BadArguments), "{op:?} {flags}");
    }
    client.make(OpCode::CreateTtl, "/x", 5, Some(MAX)).unwrap();
    assert_eq!(client.stat("/x").ephemeral_owner, 0);
}

#[test]
fn a_look_is_bounded_and_goes_on_where_it_stopped() {
    let mut client = Client::new();
    for number in 0..10 {
        client.make(OpCode::CreateTtl, &format!("/t{number}"), 5, Some(1)).unwrap();
    }
    client.set_time(10);
    let mut cursor = CleanupCursor::default();
    let mut found = Vec::new();
    for _ in 0..4 {
        let due = client.tree.due(Perishable::Ttl, 10, &mut cursor, 3);
        assert!(due.len() <= 3);
        found.extend(due);
    }
    found.sort();
    assert_eq!(found, (0..10).map(|number| format!("/t{number}")).collect::<Vec<_>>());
}
