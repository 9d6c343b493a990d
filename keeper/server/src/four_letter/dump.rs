//! Sessions, ephemeral nodes and connections: dump. The parts are ZooKeeper's; every session here is what it calls a
//! global one, and only the leader knows when a session expires, so no times are shown.

use super::text::{Text, put};
use crate::limits::ANSWER_BYTES_MAX;
use crate::shared::Shared;
use keeper_types::SessionId;
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
    let found = ephemerals(shared, ANSWER_BYTES_MAX);
    put!(text, "Sessions with Ephemerals ({}):", found.len());
    for (session, paths) in found {
        put!(text, "{:#x}:", session.0);
        if !paths.iter().all(|path| put!(text, "\t{path}")) {
            return text;
        }
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

/// The sessions that own ephemeral nodes, and the nodes' paths, in order. Lets writes in between two sessions: it is no
/// view of one moment. Once `bytes_max` of paths are held nothing more fits into an answer, and the rest is only counted.
fn ephemerals(shared: &Shared, bytes_max: usize) -> Vec<(SessionId, Vec<String>)> {
    let sessions: Vec<SessionId> = shared.read_tree().sessions().map(|session| session.id).collect();
    let (mut found, mut bytes) = (Vec::new(), 0);
    for session in sessions {
        let mut paths = shared.read_tree().ephemerals_of(session, "");
        if paths.is_empty() {
            continue;
        }
        if bytes > bytes_max {
            paths = Vec::new();
        }
        bytes += paths.iter().map(String::len).sum::<usize>();
        found.push((session, paths));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use keeper_tree::{BatchId, Command, CommandOp, Outcome, Readers, Sink};
    use keeper_types::{
        Acl, CreateMode, CreateRequest, EventKind, Generation, OpCode, Request, ServerId, Zxid,
    };

    struct Deaf;

    impl Sink for Deaf {
        fn event(&mut self, _: EventKind, _: &str, _: Zxid, _: &Readers) {}
        fn session_ended(&mut self, _: SessionId) {}
        fn session_moved(&mut self, _: SessionId, _: Generation) {}
    }

    fn with_nodes(plain: usize, ephemeral: usize) -> std::sync::Arc<Shared> {
        let (shared, _reports) = Shared::new(crate::metrics::Metrics::default(), keeper_types::Features::ALL);
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
    fn ephemeral_nodes_are_listed_by_their_sessions() {
        let shared = with_nodes(1, 3);
        let found = ephemerals(&shared, ANSWER_BYTES_MAX);
        let [(session, paths)] = found.as_slice() else { panic!("one session has some: {found:?}") };
        assert_eq!(paths, &["/plain/0/e0", "/plain/0/e1", "/plain/0/e2"]);
        let text = dump(&shared).finish();
        let session = session.0;
        let part = format!(
            "SessionTracker dump:\nGlobal Sessions(1):\n{session:#x}\t5000ms\nephemeral nodes dump:\n\
             Sessions with Ephemerals (1):\n{session:#x}:\n\t/plain/0/e0\n"
        );
        assert!(text.starts_with(&part), "{text}");
        assert!(text.ends_with("Connections dump:\nConnections (0):\n"), "{text}");
    }

    #[test]
    fn a_session_without_ephemeral_nodes_is_not_among_their_owners() {
        let shared = with_nodes(1, 0);
        assert!(ephemerals(&shared, ANSWER_BYTES_MAX).is_empty());
        assert!(dump(&shared).finish().contains("Sessions with Ephemerals (0):\nConnections dump:"));
    }
}
