//! The accepting side: takes peers' connections, checks who they are, and feeds their messages to Raft.

use crate::api::{AdminError, DispatchConn};
use crate::limits::{APPENDS_IN_FLIGHT_MAX, HANDSHAKE_STEP, PEER_CONNS_MAX, RPCS_AT_A_TIME_MAX};
use crate::net::Conn;
use crate::node::Node;
use crate::peer::frame::{
    Answer, LogMessage, Request, decode_log_message, encode_answer, encode_append_answer,
};
use crate::peer::handshake::{self, Acceptor, Class, HandshakeError, Hello, Refusal};
use crate::peer::snapshot;
use crate::types::{AppendRequest, Raft};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use keeper_types::ServerId;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Takes connections until the network or this member stops.
pub async fn serve(node: Arc<Node>, mut accepted: mpsc::Receiver<Conn>) {
    let room = Arc::new(Semaphore::new(PEER_CONNS_MAX));
    let mut stopping = node.stopping.subscribe();
    loop {
        let conn = tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => return,
            conn = accepted.recv() => conn,
        };
        let Some(conn) = conn else { return };
        let Ok(permit) = room.clone().try_acquire_owned() else {
            tracing::warn!(remote = conn.remote, "too many peer connections; one is closed");
            continue;
        };
        let node = node.clone();
        keeper_rt::spawn("peer", async move {
            let mut stopping = node.stopping.subscribe();
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => {}
                () = handle(node, conn) => {}
            }
            drop(permit);
        });
    }
}

async fn handle(node: Arc<Node>, mut conn: Conn) {
    let hello = match welcome(&node, &mut conn).await {
        Ok(hello) => hello,
        Err(error) => {
            if let HandshakeError::Refusing { reason, .. } = error {
                let mine = node.identity().map(|mine| (mine.cluster_id, mine.server_id));
                handshake::refuse(&conn, reason, mine).await;
            }
            node.note_failed_handshake(&error, &conn.remote);
            return;
        }
    };
    let Some(running) = node.running() else { return };
    match hello.class {
        Class::Log => {
            let appended = serve_log(&node, running.raft.clone(), conn, hello.from).await;
            if appended {
                // A full queue means that the detector is at work already.
                let _ = running.lost_leaders.try_send(hello.from);
            }
        }
        Class::Snapshot => snapshot::receive(&node.snapshots, running.raft.clone(), conn).await,
        Class::Dispatch => {
            let dispatch = DispatchConn { from: hello.from, conn };
            if node.dispatch.try_send(dispatch).is_err() {
                tracing::warn!(from = %hello.from, "dispatch connection closed: nobody takes it");
            }
        }
    }
}

/// The whole handshake. An empty member becomes the one that its leader wants, durably, before it says welcome.
async fn welcome(node: &Arc<Node>, conn: &mut Conn) -> Result<Hello, HandshakeError> {
    let (hello, acceptor) = handshake::accept(conn, &node.secret, |hello| judge(node, hello)).await?;
    if acceptor.uninitialized && !join(node, &hello).await {
        let reason = Refusal::Busy;
        return Err(HandshakeError::Refusing { reason, cluster: hello.cluster, server: hello.from });
    }
    handshake::welcome(conn).await?;
    Ok(hello)
}

/// Becomes the server that `hello` wants, or waits until another connection has done that.
async fn join(node: &Arc<Node>, hello: &Hello) -> bool {
    match crate::start::adopt(node, hello.cluster, hello.to).await {
        Ok(()) => {}
        Err(AdminError::InProgress) => {
            let mut status = node.status.subscribe();
            let joined = status.wait_for(|status| status.identity.is_some());
            // Who gets no identity in time is told to come again.
            let _ = keeper_rt::timeout(HANDSHAKE_STEP / 2, joined).await;
        }
        Err(error) => tracing::warn!(%error, "could not join the cluster"),
    }
    node.identity().is_some_and(|mine| mine.cluster_id == hello.cluster && mine.server_id == hello.to)
}

fn judge(node: &Node, hello: &Hello) -> Result<Acceptor, Refusal> {
    let Some(mine) = node.identity() else {
        if node.expected_cluster.is_some_and(|expected| expected != hello.cluster) {
            return Err(Refusal::OtherCluster);
        }
        if hello.class != Class::Log {
            return Err(Refusal::NotServed);
        }
        if !hello.joining {
            return Err(Refusal::EmptyDisk);
        }
        if hello.to == ServerId(0) {
            return Err(Refusal::Malformed);
        }
        return Ok(Acceptor { cluster: hello.cluster, server: hello.to, uninitialized: true });
    };
    if mine.cluster_id != hello.cluster {
        return Err(Refusal::OtherCluster);
    }
    if mine.server_id != hello.to {
        return Err(Refusal::WrongServer);
    }
    Ok(Acceptor { cluster: mine.cluster_id, server: mine.server_id, uninitialized: false })
}

/// The append session that a connection is in.
struct Session {
    number: u64,
    requests: mpsc::Sender<AppendRequest>,
}

/// Serves a connection of class Log to its end. True if the peer appended on it, so that it was a leader.
async fn serve_log(node: &Node, raft: Raft, conn: Conn, from: ServerId) -> bool {
    let Conn { sender, mut receiver, remote } = conn;
    let mut session: Option<Session> = None;
    let mut appended = false;
    let rpcs = Arc::new(Semaphore::new(RPCS_AT_A_TIME_MAX));
    while let Some(frame) = receiver.recv().await {
        match decode_log_message(frame) {
            Ok(LogMessage::Append { session: number, request }) => {
                appended = true;
                node.note_append(from);
                let current = session.take().filter(|current| current.number == number);
                let current = current.unwrap_or_else(|| begin_session(&raft, number, &sender));
                // A session that is over takes no more requests; the dialling side begins a new one.
                let _ = current.requests.send(request).await;
                session = Some(current);
            }
            Ok(LogMessage::Request { number, request }) => {
                let Ok(permit) = rpcs.clone().acquire_owned().await else { break };
                let (raft, sender) = (raft.clone(), sender.clone());
                keeper_rt::spawn("peer-request", async move {
                    let answer = answer(&raft, request).await;
                    // The peer may be gone.
                    let _ = sender.send(encode_answer(number, &answer)).await;
                    drop(permit);
                });
            }
            Ok(LogMessage::AppendAnswer { .. } | LogMessage::Answer { .. }) | Err(_) => {
                tracing::warn!(%from, remote, "peer connection closed: a message that makes no sense");
                break;
            }
        }
    }
    appended
}

fn begin_session(raft: &Raft, number: u64, sender: &mpsc::Sender<Bytes>) -> Session {
    let (requests, queued) = mpsc::channel(APPENDS_IN_FLIGHT_MAX);
    let (raft, sender) = (raft.clone(), sender.clone());
    keeper_rt::spawn("peer-session", async move { append_session(raft, number, queued, sender).await });
    Session { number, requests }
}

/// Answers one session's requests in order, each when Raft has flushed it.
async fn append_session(
    raft: Raft,
    number: u64,
    queued: mpsc::Receiver<AppendRequest>,
    sender: mpsc::Sender<Bytes>,
) {
    let early = sender.clone();
    let requests = stream::unfold((queued, early), move |(mut queued, early)| async move {
        let request: AppendRequest = queued.recv().await?;
        if keeper_rt::planted!("minority-commits") {
            let held = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
            let _ = early.send(encode_append_answer(number, &Ok(held))).await;
        }
        Some((request, (queued, early)))
    });
    let mut results = std::pin::pin!(raft.stream_append(requests));
    while let Some(Ok(result)) = results.next().await {
        if keeper_rt::planted!("minority-commits") && result.is_ok() {
            continue;
        }
        if sender.send(encode_append_answer(number, &result)).await.is_err() {
            return;
        }
    }
}

async fn answer(raft: &Raft, request: Request) -> Answer {
    match request {
        Request::Vote(vote) => raft.vote(vote).await.map(Answer::Vote).map_err(|e| e.to_string()),
        Request::PreVote(vote) => raft.pre_vote(vote).await.map(Answer::PreVote).map_err(|e| e.to_string()),
        Request::Transfer(transfer) => {
            let done = raft.handle_transfer_leader(transfer).await;
            done.map(Answer::Transfer).map_err(|error| error.to_string())
        }
    }
    .unwrap_or_else(Answer::Failed)
}
