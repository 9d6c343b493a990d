//! Sessions, ephemeral nodes and connections: dump. The parts are ZooKeeper's; every session here is what it calls a
//! global one, and only the leader knows when a session expires, so no times are shown.

use super::text::{Text, put};
use crate::limits::{DUMP_NODES_AT_A_TIME, DUMP_NODES_MAX};
use crate::shared::Shared;
use keeper_tree::Tree;
use keeper_types::AclId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

pub fn dump(shared: &Shared) -> Text {
    let mut text = Text::default();
    put!(text, "SessionTracker dump:");
    let sessions: Vec<(i64, i32)> =
        shared.read_tree().sessions().map(|session| (session.id.0, session.timeout_ms)).collect();
    put!(text, "Global Sessions({}):", sessions.len());
    for (id, timeout_ms) in sessions {
        if !put!(text, "{id:#x}\t{timeout_ms}ms") {
            return text;
        }
    }
    put!(text, "ephemeral nodes dump:");
    let found = ephemerals(shared, DUMP_NODES_MAX);
    put!(text, "Sessions with Ephemerals ({}):", found.by_session.len());
    for (session, paths) in found.by_session {
        put!(text, "{session:#x}:");
        if !paths.iter().all(|path| put!(text, "\t{path}")) {
            return text;
        }
    }
    if !found.complete {
        put!(text, "... cut: only the first {DUMP_NODES_MAX} nodes were looked at");
    }
    put!(text, "Connections dump:");
    let connections = super::connections::all(shared);
    put!(text, "Connections ({}):", connections.len());
    for info in connections {
        let session = info.session.load(Ordering::Relaxed);
        if !put!(text, "\tip: /{} sessionId: {session:#x}", info.remote) {
            break;
        }
    }
    text
}

struct Found {
    by_session: BTreeMap<i64, BTreeSet<String>>,
    complete: bool,
}

/// Walks the tree until all ephemeral nodes are found, or `nodes_max` nodes were looked at. Lets writes in between: it
/// is no view of one moment.
fn ephemerals(shared: &Shared, nodes_max: usize) -> Found {
    let everybody = [AclId { scheme: "super".into(), id: String::new() }];
    let mut found = Found { by_session: BTreeMap::new(), complete: true };
    let mut waiting = vec![String::from("/")];
    let (mut looked_at, mut left) = (0, shared.read_tree().counts().ephemerals);
    while !waiting.is_empty() && left > 0 {
        let tree = shared.read_tree();
        for _ in 0..DUMP_NODES_AT_A_TIME {
            let Some(path) = waiting.pop() else { break };
            if let Some(owner) = owner(&tree, &path) {
                left -= 1;
                found.by_session.entry(owner).or_default().insert(path);
                if left == 0 {
                    break;
                }
                continue;
            }
            let Ok((names, _)) = tree.children(&path, &everybody) else { continue };
            let room = nodes_max.saturating_sub(looked_at);
            found.complete &= names.len() <= room;
            let parent = if path == "/" { "" } else { path.as_str() };
            let before = waiting.len();
            waiting.extend(names.take(room).map(|name| format!("{parent}/{name}")));
            looked_at += waiting.len() - before;
        }
    }
    found
}

fn owner(tree: &Tree, path: &str) -> Option<i64> {
    tree.stat(path).map(|stat| stat.ephemeral_owner).filter(|owner| *owner != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keeper_tree::{BatchId, Command, CommandOp, Outcome, Sink};
    use keeper_types::{
        Acl, CreateMode, CreateRequest, EventKind, Generation, OpCode, Request, ServerId, SessionId, Zxid,
    };

    struct Deaf;

    impl Sink for Deaf {
        fn event(&mut self, _: EventKind, _: &str, _: Zxid) {}
        fn session_ended(&mut self, _: SessionId) {}
        fn session_moved(&mut self, _: SessionId, _: Generation) {}
    }

    fn with_nodes(plain: usize, ephemeral: usize) -> std::sync::Arc<Shared> {
        let shared = Shared::new(crate::metrics::Metrics::default(), keeper_types::Features::ALL);
        let mut tree = shared.write_tree();
        tree.admit(BatchId { origin: ServerId(1), epoch: 1, seq: 0 }, 1);
        let mut run = |session: SessionId, op: CommandOp<'_>| {
            let command = Command {
                session,
                generation: Generation(1),
                identities: &[],
                op,
                enforce_quota: false,
                want_reply: true,
            };
            tree.apply(&command, &mut Deaf).result
        };
        let opened = run(SessionId(0), CommandOp::CreateSession { timeout_ms: 5_000, password: [1; 16] });
        let Ok(Outcome::Session { id, .. }) = opened else { panic!("no session") };
        let mut create = |path: &str, mode: CreateMode| {
            let acl = vec![Acl::open()];
            let create = CreateRequest { path, data: None, acl, flags: mode as i32, ttl_ms: None };
            run(id, CommandOp::Request(&Request::Create(OpCode::Create, create))).expect("created");
        };
        create("/plain", CreateMode::Persistent);
        (0..plain).for_each(|at| create(&format!("/plain/{at}"), CreateMode::Persistent));
        (0..ephemeral).for_each(|at| create(&format!("/plain/0/e{at}"), CreateMode::Ephemeral));
        drop(tree);
        shared
    }

    #[test]
    fn ephemeral_nodes_are_found_wherever_they_are() {
        let shared = with_nodes(3 * DUMP_NODES_AT_A_TIME, 3);
        let found = ephemerals(&shared, DUMP_NODES_MAX);
        assert!(found.complete);
        let paths: Vec<&String> = found.by_session.values().flatten().collect();
        assert_eq!(paths, ["/plain/0/e0", "/plain/0/e1", "/plain/0/e2"]);
        let text = dump(&shared).finish();
        let session = found.by_session.keys().next().expect("one");
        let part = format!(
            "SessionTracker dump:\nGlobal Sessions(1):\n{session:#x}\t5000ms\nephemeral nodes dump:\n\
             Sessions with Ephemerals (1):\n{session:#x}:\n\t/plain/0/e0\n"
        );
        assert!(text.starts_with(&part), "{text}");
        assert!(text.ends_with("Connections dump:\nConnections (0):\n"), "{text}");
    }

    #[test]
    fn a_tree_too_large_to_walk_is_named_as_such() {
        let shared = with_nodes(50, 3);
        assert!(!ephemerals(&shared, 20).complete);
    }
}
