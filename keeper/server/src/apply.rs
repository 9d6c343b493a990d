//! Stage Applied: committed entries into the tree, watch events and replies into the outboxes.
//!
//! Every member runs every command; only the origin builds replies. One task, one writer.

use crate::batch::{BadBatch, Batch, BatchCommand, Kind, decode_session_body};
use crate::digests::{self, Comparison, Report};
use crate::in_flight::Target;
use crate::outbox::{CloseReason, Outbox, Pending};
use crate::read::Reader;
use crate::reconfig;
use crate::shared::Shared;
use crate::stage::Stage;
use crate::watch::encode_event;
use bytes::Bytes;
use keeper_consensus::{Membership, SnapshotSource, StateMachine};
use keeper_tree::{Admission, Applied, Command, CommandOp, Outcome, Readers, Sink, SnapshotWalk, Tree};
use keeper_types::{
    AclId, ErrorCode, EventKind, Generation, OpCode, Request, Response, ServerId, SessionId, Zxid,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub struct Applier {
    shared: Arc<Shared>,
    /// Connections that got bytes since the last flush: each is woken once.
    touched: BTreeMap<u64, Arc<Outbox>>,
    voters: BTreeSet<ServerId>,
    comparison: Comparison,
}

impl Applier {
    pub fn new(shared: Arc<Shared>) -> Applier {
        Applier {
            shared,
            touched: BTreeMap::new(),
            voters: BTreeSet::new(),
            comparison: Comparison::default(),
        }
    }

    fn apply_batch(&mut self, index: u64, bytes: &[u8]) -> Result<(), BadBatch> {
        let mut batch = Batch::decode(bytes)?;
        let shared = self.shared.clone();
        let mut tree = shared.write_tree();
        match tree.admit(batch.id, batch.time_ms) {
            Admission::Apply => {}
            Admission::Duplicate if keeper_rt::planted!("resent-applied-again") => {}
            Admission::Duplicate => return Ok(()),
            Admission::Gap { .. } => {
                shared.in_flight.note_gap(batch.id);
                return Ok(());
            }
        }
        let mut targets = shared.in_flight.take(batch.id).map(|(targets, dispatched)| {
            shared.metrics.observe(Stage::Committed, dispatched.elapsed());
            targets.into_iter()
        });
        while let Some(command) = batch.next_command()? {
            let target = targets.as_mut().and_then(Iterator::next).unwrap_or(Target::Nobody);
            match command.kind {
                Kind::DigestMark => self.take_digest(Report { index, digest: tree.digest() }),
                Kind::DigestReport => self.compare_digest(batch.id.origin, command.body)?,
                _ => self.apply_command(&mut tree, &command, target)?,
            }
        }
        Ok(())
    }

    fn take_digest(&mut self, mine: Report) {
        self.comparison.take(mine);
        self.shared.digests.report(mine);
    }

    fn compare_digest(&mut self, from: ServerId, body: &[u8]) -> Result<(), BadBatch> {
        let report = Report::decode(body)?;
        if let Some(verdict) = self.comparison.hear(from, report, &self.voters) {
            digests::settle(&self.shared, report.index, verdict);
        }
        Ok(())
    }

    fn apply_command(
        &mut self,
        tree: &mut Tree,
        command: &BatchCommand<'_>,
        target: Target,
    ) -> Result<(), BadBatch> {
        let mut effects = Effects { shared: &self.shared, touched: &mut self.touched, ended: Vec::new() };
        let want_reply = !matches!(target, Target::Nobody);
        let applied = run(tree, command, want_reply, &mut effects)?;
        let ended = effects.ended;
        match target {
            Target::Nobody => {}
            // A handshake that gave up has dropped its receiver.
            Target::Session(done) => drop(done.send(applied)),
            Target::Request { outbox, xid, op, received } => {
                self.shared.metrics.observe(Stage::Applied, received.elapsed());
                self.deliver(tree, &outbox, xid, op, applied);
                self.touched.insert(outbox.id, outbox);
            }
        }
        // Only now, so that the reply to a client's own close precedes the end of its connection.
        for session in ended {
            self.shared.sessions.end(session);
        }
        Ok(())
    }

    /// Answers a write, then the reads that stood behind it, up to the session's next write.
    fn deliver(&self, tree: &Tree, outbox: &Arc<Outbox>, xid: i32, op: OpCode, applied: Applied) {
        // Dropped after the outbox is let go: it wakes others.
        let _permit;
        let mut state = outbox.lock();
        match state.queue.pop_front() {
            Some(Pending::Write { xid: expected, bytes, permit, .. }) if expected == xid => {
                _permit = permit;
                state.queued_bytes -= bytes
            }
            _ => panic!("outcome of request {xid} ({}) is not the one the connection waits for", op.name()),
        }
        if !state.accepts_bytes() {
            state.drop_until_next_write();
            return;
        }
        let result = match &applied.result {
            Ok(Outcome::Response(response)) => Ok(response),
            Ok(Outcome::Session { .. } | Outcome::None) => Ok(&Response::Empty),
            Err(code) => Err(*code),
        };
        state.ready_since.get_or_insert_with(keeper_rt::now);
        keeper_wire::encode_reply(xid, applied.zxid.0, result, &mut state.out);
        if op == OpCode::CloseSession {
            state.closing.get_or_insert(CloseReason::ClosedByClient);
            state.drop_until_next_write();
            return;
        }
        while let Some(Pending::Read { .. } | Pending::Ready(_)) = state.queue.front() {
            match state.queue.pop_front() {
                Some(Pending::Read { xid, op, body, identities }) => {
                    let reader = Reader {
                        tree,
                        watches: &self.shared.watches,
                        features: self.shared.features,
                        outbox,
                        identities: &identities,
                    };
                    match keeper_wire::decode_request(op, &body) {
                        Ok(request) => reader.answer(xid, &request, &mut state.out),
                        // It decoded when it was admitted.
                        Err(_) => keeper_wire::encode_reply(
                            xid,
                            -1,
                            Err(ErrorCode::MarshallingError),
                            &mut state.out,
                        ),
                    }
                }
                Some(Pending::Ready(bytes)) => state.out.extend_from_slice(&bytes),
                _ => break,
            }
        }
    }
}

/// Decodes one command and applies it.
fn run(
    tree: &mut Tree,
    command: &BatchCommand<'_>,
    want_reply: bool,
    effects: &mut Effects<'_>,
) -> Result<Applied, BadBatch> {
    let request: Request<'_>;
    let op = match command.kind {
        Kind::Request | Kind::QuotaRequest => {
            let (op, body) =
                command.body.split_first_chunk::<4>().ok_or(BadBatch("request without its code"))?;
            let op = OpCode::from_i32(i32::from_be_bytes(*op)).ok_or(BadBatch("unknown operation"))?;
            request =
                keeper_wire::decode_request(op, body).map_err(|_| BadBatch("request does not decode"))?;
            CommandOp::Request(&request)
        }
        Kind::Sync => CommandOp::Sync,
        Kind::CreateSession => {
            let (timeout_ms, password) = decode_session_body(command.body)?;
            CommandOp::CreateSession { timeout_ms, password }
        }
        Kind::AttachSession => {
            let (timeout_ms, password) = decode_session_body(command.body)?;
            CommandOp::AttachSession { password, timeout_ms }
        }
        Kind::CloseSession => CommandOp::CloseSession,
        Kind::ExpireSession => CommandOp::ExpireSession,
        Kind::CleanUp => {
            let path = std::str::from_utf8(command.body).map_err(|_| BadBatch("path is not UTF-8"))?;
            CommandOp::CleanUp { path }
        }
        Kind::DigestMark | Kind::DigestReport => return Err(BadBatch("a digest is no change of the tree")),
    };
    let identities: &[AclId] = &command.identities;
    let generation = match tree.session(command.session) {
        Some(session) if keeper_rt::planted!("generation-unchecked") => session.generation,
        _ => command.generation,
    };
    // The tree knows no path of a sync, but its client expects it back.
    let sync_path = command.body;
    let command = Command {
        session: command.session,
        generation,
        identities,
        op,
        enforce_quota: command.kind == Kind::QuotaRequest,
        want_reply,
    };
    let mut applied = tree.apply(&command, effects);
    if command.want_reply && matches!(command.op, CommandOp::Sync) && applied.result.is_ok() {
        let Ok(Request::Sync(path)) = keeper_wire::decode_request(OpCode::Sync, sync_path) else {
            return Err(BadBatch("sync without its path"));
        };
        applied.result = Ok(Outcome::Response(Response::Sync { path: path.into() }));
    }
    Ok(applied)
}

/// Takes what a command changed to this member's clients.
struct Effects<'a> {
    shared: &'a Shared,
    touched: &'a mut BTreeMap<u64, Arc<Outbox>>,
    ended: Vec<SessionId>,
}

impl Sink for Effects<'_> {
    /// A watch that met an event which its owner may not read is used up all the same, as in ZooKeeper.
    fn event(&mut self, kind: EventKind, path: &str, zxid: Zxid, readers: &Readers) {
        for outbox in self.shared.watches.fire(kind, path) {
            let mut state = outbox.lock();
            if readers.include(&state.identities) && state.accepts_bytes() {
                encode_event(kind, path, zxid, &mut state.out);
            }
            drop(state);
            self.touched.insert(outbox.id, outbox);
        }
    }

    fn session_ended(&mut self, id: SessionId) {
        self.ended.push(id);
    }

    fn session_moved(&mut self, id: SessionId, generation: Generation) {
        self.shared.sessions.moved(id, generation);
    }
}

fn voters(membership: &Membership) -> BTreeSet<ServerId> {
    membership.voters.iter().map(|member| member.id).collect()
}

/// The tree as it was when this was made. What follows is applied between its slices.
struct TreeSnapshot {
    walk: SnapshotWalk,
    shared: Arc<Shared>,
}

impl TreeSnapshot {
    fn next_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(chunk) = self.walk.take_chunk() {
                return Ok(Some(chunk));
            }
            if self.walk.is_complete() {
                return Ok(None);
            }
            self.shared.write_tree().snapshot_slice(&mut self.walk).map_err(io::Error::other)?;
        }
    }
}

impl Drop for TreeSnapshot {
    fn drop(&mut self) {
        self.shared.write_tree().end_snapshot(&self.walk);
    }
}

impl StateMachine for Applier {
    fn configured(&mut self, membership: &Membership) {
        self.voters = voters(membership);
        let shared = self.shared.clone();
        let mut tree = shared.write_tree();
        // That of this change.
        let text = reconfig::config_text(membership, tree.zxid().0 + 1);
        let mut effects = Effects { shared: &shared, touched: &mut self.touched, ended: Vec::new() };
        let command = Command {
            session: SessionId(0),
            generation: Generation(0),
            identities: &[],
            op: CommandOp::SetConfig { text: &text },
            enforce_quota: false,
            want_reply: false,
        };
        tree.apply(&command, &mut effects);
        // While the tree cannot be read in between: what it holds belongs to this entry.
        if let Some(at) = membership.log_id {
            shared.applied_index.store(at.index, Ordering::Release);
        }
    }

    fn apply(&mut self, index: u64, payload: Bytes) {
        if let Err(bad) = self.apply_batch(index, &payload) {
            // All members see the same bytes: going on would split them from a member that can read them.
            panic!(
                "log entry {index} cannot be applied: {bad}; it was written by a newer version or is damaged"
            );
        }
        self.shared.applied_index.store(index, Ordering::Release);
    }

    fn restored(&mut self, membership: &Membership) {
        self.voters = voters(membership);
        // What was taken of the tree that is gone.
        self.comparison = Comparison::default();
    }

    fn flush(&mut self) {
        while let Some((_, outbox)) = self.touched.pop_first() {
            outbox.wake.notify_one();
        }
    }

    fn snapshot(&mut self) -> SnapshotSource {
        let mut snapshot =
            TreeSnapshot { walk: self.shared.write_tree().begin_snapshot(), shared: self.shared.clone() };
        Box::new(move || snapshot.next_chunk())
    }

    fn restore(&mut self, index: u64, chunks: &mut dyn Iterator<Item = io::Result<Bytes>>) -> io::Result<()> {
        let chunks = chunks.collect::<io::Result<Vec<Bytes>>>()?;
        let restored = Tree::decode_snapshot(chunks.iter().map(|chunk| &chunk[..]))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        let mut tree = self.shared.write_tree();
        *tree = restored;
        let origin = self.shared.in_flight.lock().origin;
        if let Some((server, epoch)) = origin
            && let Some((known, next)) = tree.next_seq(server)
            && known == epoch
            && !keeper_rt::planted!("flights-outlive-snapshot")
        {
            self.shared.in_flight.drop_below(next);
        }
        drop(tree);
        // Watches and sessions may have missed changes inside the snapshot: their clients start over.
        if !keeper_rt::planted!("watches-outlive-snapshot") {
            self.shared.sessions.close_all(CloseReason::OutcomeUnknown);
        }
        self.shared.applied_index.store(index, Ordering::Release);
        Ok(())
    }
}
