//! Random batches of commands, given to the tree and to the model: every answer, event and Stat is the same,
//! whatever the replies asked for and wherever a snapshot was taken and read back.

use keeper_types::{
    Acl, AclId, CheckRequest, CreateRequest, DeleteRequest, Generation, MultiOp, MultiResult, OpCode, Perms,
    RecursiveRequest, Request, Response, ServerId, SessionId, SetAclRequest, SetDataRequest,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::harness::{Ear, Told, identity};
use super::model::Model;
use crate::{Admission, Applied, BatchId, Command, CommandOp, Outcome, Tree};

/// One write inside a request or a multi.
#[derive(Clone, Debug)]
enum Op {
    Create { op: OpCode, path: String, flags: i32, data: Option<Vec<u8>>, acl: usize, ttl_ms: i64 },
    Delete { path: String, version: i32 },
    TryRemove { path: String, version: i32 },
    RemoveRecursive { path: String, nodes_max: u32 },
    Set { path: String, data: Option<Vec<u8>>, version: i32 },
    Check { path: String, version: i32 },
    CheckNotExists { path: String, version: i32 },
}

impl Op {
    fn in_multi<'a>(&'a self, acls: &[Vec<Acl>]) -> MultiOp<'a> {
        match self {
            Op::Create { op, path, flags, data, acl, ttl_ms } => MultiOp::Create(
                *op,
                CreateRequest {
                    path,
                    data: data.as_deref(),
                    acl: acls[*acl].clone(),
                    flags: *flags,
                    ttl_ms: (*op == OpCode::CreateTtl).then_some(*ttl_ms),
                },
            ),
            Op::Delete { path, version } => MultiOp::Delete(DeleteRequest { path, version: *version }),
            Op::TryRemove { path, version } => MultiOp::TryRemove(DeleteRequest { path, version: *version }),
            Op::RemoveRecursive { path, nodes_max } => {
                MultiOp::RemoveRecursive(RecursiveRequest { path, nodes_max: *nodes_max })
            }
            Op::Set { path, data, version } => {
                MultiOp::SetData(SetDataRequest { path, data: data.as_deref(), version: *version })
            }
            Op::Check { path, version } => MultiOp::Check(CheckRequest { path, version: *version }),
            Op::CheckNotExists { path, version } => {
                MultiOp::CheckNotExists(CheckRequest { path, version: *version })
            }
        }
    }
}

/// The same on its own.
fn alone(op: MultiOp<'_>) -> Request<'_> {
    match op {
        MultiOp::Create(op, create) => Request::Create(op, create),
        MultiOp::Delete(delete) => Request::Delete(delete),
        MultiOp::SetData(set) => Request::SetData(set),
        MultiOp::Check(check) => Request::Check(check),
        MultiOp::CheckNotExists(check) => Request::CheckNotExists(check),
        MultiOp::CheckStat(check) => Request::CheckStat(check),
        MultiOp::TryRemove(delete) => Request::TryRemove(delete),
        MultiOp::RemoveRecursive(remove) => Request::RemoveRecursive(remove),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(Op),
    SetAcl {
        path: String,
        acl: usize,
        version: i32,
    },
    Multi(Vec<Op>),
    Sync,
    OpenSession,
    Attach {
        right_password: bool,
    },
    Close,
    Expire,
    CleanUp {
        path: String,
    },
    /// Not a write: refused.
    WhoAmI,
}

/// A step and who makes it.
#[derive(Clone, Debug)]
struct By {
    slot: usize,
    stale: bool,
    identities: usize,
    want_reply: bool,
    step: Step,
}

#[derive(Clone, Debug)]
struct Batch {
    origin: u64,
    epoch: u64,
    /// Added to the sequence number that would be the next.
    shift: i64,
    time_ms: i64,
    commands: Vec<By>,
}

const PASSWORDS: [[u8; 16]; 2] = [[7; 16], [8; 16]];

fn acls() -> Vec<Vec<Acl>> {
    let world = |perms| Acl { perms, ..Acl::open() };
    let digest = |perms, id: &str| Acl { perms, id: identity("digest", id) };
    vec![
        vec![Acl::open()],
        vec![world(Perms::READ), digest(Perms::ALL, "a:x")],
        vec![Acl { perms: Perms::ALL, id: identity("auth", "") }, digest(Perms::READ, "b:y")],
        vec![world(Perms(Perms::READ.0 | Perms::CREATE.0)), world(Perms::WRITE), world(Perms::WRITE)],
        vec![],
        vec![Acl { perms: Perms::ALL, id: identity("nonsense", "") }],
    ]
}

fn identities() -> Vec<Vec<AclId>> {
    vec![
        vec![identity("ip", "10.0.0.1")],
        vec![identity("ip", "10.0.0.1"), identity("digest", "a:x")],
        vec![identity("digest", "b:y"), identity("digest", "a:x")],
        vec![identity("super", "")],
    ]
}

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        6 => prop::sample::select(vec!["a", "b"]).prop_map(String::from),
        1 => (0..4).prop_map(|number| format!("s-{number:010}")),
        1 => Just("s-".to_string()),
    ];
    let ordinary = prop_oneof![vec(name.clone(), 1), vec(name.clone(), 2), vec(name, 3)]
        .prop_map(|names| format!("/{}", names.join("/")));
    let odd = vec![
        "",
        "/",
        "a",
        "a/b",
        "/a/",
        "/a//b",
        "/a/../b",
        "/.",
        "/a/\u{1}",
        "/zookeeper",
        "/zookeeper/config",
        "/keeper",
        "/keeper/a",
    ];
    prop_oneof![30 => ordinary, 1 => prop::sample::select(odd).prop_map(String::from)]
}

fn data() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop::option::weighted(0.9, vec(any::<u8>(), 0..20))
}

fn version() -> impl Strategy<Value = i32> {
    prop_oneof![6 => Just(-1), 3 => 0..3, 1 => any::<i32>()]
}

fn op() -> impl Strategy<Value = Op> {
    let acl = prop_oneof![12 => Just(0usize), 2 => 0..6usize];
    let kind = prop_oneof![
        10 => (Just(OpCode::Create), prop_oneof![20 => 0..4, 1 => -1..8]),
        5 => (Just(OpCode::Create2), 0..4),
        2 => (Just(OpCode::CreateContainer), prop_oneof![4 => Just(4), 1 => 0..4]),
        3 => (Just(OpCode::CreateTtl), prop_oneof![8 => 5..7, 1 => 0..5]),
        2 => (Just(OpCode::CreateIfNotExists), 0..3),
    ];
    let ttl_ms = prop_oneof![8 => 1..500i64, 1 => -1..1i64, 1 => Just(i64::MAX)];
    let create = (kind, path(), data(), acl, ttl_ms);
    prop_oneof![
        6 => create.prop_map(|((op, flags), path, data, acl, ttl_ms)| Op::Create { op, path, flags, data, acl, ttl_ms }),
        3 => (path(), version()).prop_map(|(path, version)| Op::Delete { path, version }),
        1 => (path(), version()).prop_map(|(path, version)| Op::TryRemove { path, version }),
        1 => (path(), 0..6u32).prop_map(|(path, nodes_max)| Op::RemoveRecursive { path, nodes_max }),
        1 => (path(), version()).prop_map(|(path, version)| Op::CheckNotExists { path, version }),
        3 => (path(), data(), version()).prop_map(|(path, data, version)| Op::Set { path, data, version }),
        1 => (path(), version()).prop_map(|(path, version)| Op::Check { path, version }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => op().prop_map(Step::Write),
        2 => (path(), 0..6usize, version()).prop_map(|(path, acl, version)| Step::SetAcl { path, acl, version }),
        8 => vec(op(), 0..6).prop_map(Step::Multi),
        1 => Just(Step::Sync),
        1 => Just(Step::OpenSession),
        2 => any::<bool>().prop_map(|right_password| Step::Attach { right_password }),
        1 => Just(Step::Close),
        1 => Just(Step::Expire),
        4 => path().prop_map(|path| Step::CleanUp { path }),
        1 => Just(Step::WhoAmI),
    ]
}

fn by() -> impl Strategy<Value = By> {
    let who = (0..3usize, prop::bool::weighted(0.05), prop_oneof![3 => Just(0usize), 2 => 0..4usize]);
    (who, any::<bool>(), step()).prop_map(|((slot, stale, identities), want_reply, step)| By {
        slot,
        stale,
        identities,
        want_reply,
        step,
    })
}

fn batch() -> impl Strategy<Value = Batch> {
    let shift = prop_oneof![8 => Just(0i64), 1 => -1..2i64];
    let epoch = prop_oneof![8 => Just(1u64), 1 => 0..3u64];
    (1..3u64, epoch, shift, 0..1000i64, vec(by(), 0..12)).prop_map(
        |(origin, epoch, shift, time_ms, commands)| Batch { origin, epoch, shift, time_ms, commands },
    )
}

/// Calls `run` with the step as a command.
fn with_command<T>(
    by: &By,
    session: SessionId,
    generation: Generation,
    run: impl FnOnce(&Command<'_>) -> T,
) -> T {
    let (acls, identities) = (acls(), identities());
    let request;
    let op = match &by.step {
        Step::Write(op) => {
            request = alone(op.in_multi(&acls));
            CommandOp::Request(&request)
        }
        Step::Multi(ops) => {
            request = Request::Multi(ops.iter().map(|op| op.in_multi(&acls)).collect());
            CommandOp::Request(&request)
        }
        Step::SetAcl { path, acl, version } => {
            request = Request::SetAcl(SetAclRequest { path, acl: acls[*acl].clone(), version: *version });
            CommandOp::Request(&request)
        }
        Step::WhoAmI => {
            request = Request::WhoAmI;
            CommandOp::Request(&request)
        }
        Step::Sync => CommandOp::Sync,
        Step::OpenSession => CommandOp::CreateSession { timeout_ms: 4000, password: PASSWORDS[0] },
        Step::Attach { right_password } => {
            CommandOp::AttachSession { password: PASSWORDS[usize::from(!right_password)], timeout_ms: 9000 }
        }
        Step::Close => CommandOp::CloseSession,
        Step::Expire => CommandOp::ExpireSession,
        Step::CleanUp { path } => CommandOp::CleanUp { path },
    };
    let identities = &identities[by.identities];
    run(&Command { session, generation, identities, op, enforce_quota: false, want_reply: by.want_reply })
}

fn apply(tree: &mut Tree, command: &Command<'_>) -> (Applied, Vec<Told>) {
    let mut ear = Ear::default();
    let applied = tree.apply(command, &mut ear);
    (applied, ear.0)
}

/// Encoded and decoded again, in pieces of a size of its own.
pub fn copy(tree: &Tree, piece_bytes: usize) -> Tree {
    let mut bytes = Vec::new();
    tree.encode_snapshot(&mut |chunk| bytes.extend(chunk));
    Tree::decode_snapshot(bytes.chunks(piece_bytes)).expect("what was encoded can be decoded")
}

/// Every node's data, ACL, Stat and children agree with the model's, and there are no others.
fn compare(tree: &Tree, model: &Model) {
    let everything = [identity("super", "")];
    let mut bytes = 0;
    for (path, node) in &model.nodes {
        let (data, stat) = tree.get_data(path, &everything).unwrap_or_else(|code| panic!("{path}: {code}"));
        assert_eq!((data, Some(stat)), (node.data.as_deref(), model.stat(path)), "{path}");
        assert_eq!(tree.get_acl(path, &everything).map(|(acl, _)| acl), Ok(node.acl.clone()), "{path}");
        let mut names: Vec<&str> = tree.children(path, &everything).expect("listed").0.collect();
        names.sort_unstable();
        assert_eq!(names, model.children(path), "{path}");
        bytes += path.len() + data.map_or(0, <[u8]>::len);
    }
    let counts = tree.counts();
    let owned =
        model.nodes.keys().filter(|path| tree.stat(path).is_some_and(|stat| stat.ephemeral_owner != 0));
    let expected = (model.nodes.len() as u64, owned.count() as u64, bytes as u64);
    assert_eq!((counts.znodes, counts.ephemerals, counts.approximate_data_bytes), expected);
}

/// The sessions of a run: what clients would know.
struct Slots([(SessionId, Generation); 3]);

impl Slots {
    fn learn(&mut self, slot: usize, applied: &Applied) {
        if let Ok(Outcome::Session { id, generation, .. }) = applied.result {
            self.0[slot] = (id, generation);
        }
    }

    fn of(&self, by: &By) -> (SessionId, Generation) {
        let (id, generation) = self.0[by.slot];
        (id, Generation(if by.stale { generation.0.wrapping_sub(1) } else { generation.0 }))
    }
}

/// Every slot opens a session.
fn openings() -> Vec<By> {
    let by = |slot| By { slot, stale: false, identities: 0, want_reply: true, step: Step::OpenSession };
    (0..3).map(by).collect()
}

fn run(batches: &[Batch], snapshot_at: usize) {
    let (mut model, mut tree, mut silent) = (Model::new(), Tree::new(), Tree::new());
    let mut slots = Slots([(SessionId(0), Generation(0)); 3]);
    let mut restored: Option<Tree> = None;
    let opening = Batch { origin: 9, epoch: 1, shift: 0, time_ms: 1, commands: openings() };
    for (number, batch) in std::iter::once(&opening).chain(batches).enumerate() {
        if number == snapshot_at {
            restored = Some(copy(&tree, 7));
        }
        let origin = ServerId(batch.origin);
        let next =
            tree.next_seq(origin).map_or(0, |(epoch, next)| if batch.epoch > epoch { 0 } else { next });
        let seq = next.saturating_add_signed(batch.shift);
        let id = BatchId { origin, epoch: batch.epoch, seq };
        let admission = model.admit(id, batch.time_ms);
        for one in [&mut tree, &mut silent].into_iter().chain(&mut restored) {
            assert_eq!(one.admit(id, batch.time_ms), admission);
        }
        if admission != Admission::Apply {
            continue;
        }
        for by in &batch.commands {
            let (session, generation) = slots.of(by);
            let (applied, told) = with_command(by, session, generation, |command| {
                let expected = model.apply(command);
                assert_eq!(apply(&mut tree, command), expected, "{command:?}");
                if let Some(restored) = &mut restored {
                    assert_eq!(apply(restored, command), expected, "{command:?}, after a snapshot");
                }
                let quiet = Command { want_reply: false, ..command.clone() };
                assert_eq!(apply(&mut silent, &quiet).1, expected.1, "{command:?}, without a reply");
                expected
            });
            drop(told);
            slots.learn(by.slot, &applied);
        }
        assert_eq!(tree.digest(), silent.digest());
        assert!(restored.iter().all(|restored| restored.digest() == tree.digest()));
    }
    compare(&tree, &model);
    let again = copy(&tree, usize::MAX);
    compare(&again, &model);
    assert_eq!(again.digest(), tree.digest());
    let sessions = |tree: &Tree| tree.sessions().collect::<Vec<_>>();
    assert_eq!(sessions(&again), sessions(&tree));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_does_what_the_model_does(batches in vec(batch(), 1..30), snapshot_at in 0..25usize) {
        run(&batches, snapshot_at);
    }
}

#[test]
fn the_random_batches_reach_every_outcome() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let batches = vec(batch(), 25).new_tree(&mut runner).expect("generated").current();
        let (mut tree, mut slots) = (Tree::new(), Slots([(SessionId(0), Generation(0)); 3]));
        for by in openings().iter().chain(batches.iter().flat_map(|batch| &batch.commands)) {
            let (session, generation) = slots.of(by);
            let (applied, _) = with_command(by, session, generation, |command| apply(&mut tree, command));
            seen.insert(match &applied.result {
                Ok(Outcome::Response(Response::Multi(results))) => match results.as_slice() {
                    [MultiResult::Error(None), MultiResult::Error(None), ..] => "multi rolled back",
                    [MultiResult::Error(_), ..] => "multi failed",
                    [_, _, ..] => "multi done",
                    _ => "multi short",
                },
                Ok(Outcome::Response(_)) => "response",
                Ok(Outcome::Session { .. }) => "session",
                Ok(Outcome::None) => "none",
                Err(code) => code.name(),
            });
            slots.learn(by.slot, &applied);
        }
    }
    let all = [
        "BadArguments",
        "BadVersion",
        "InvalidAcl",
        "MarshallingError",
        "NoAuth",
        "NoChildrenForEphemerals",
        "NoNode",
        "NodeExists",
        "NotEmpty",
        "SessionExpired",
        "SessionMoved",
        "Unimplemented",
        "multi done",
        "multi failed",
        "multi rolled back",
        "multi short",
        "none",
        "response",
        "session",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}
