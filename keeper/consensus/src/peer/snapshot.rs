//! Snapshots between members, in chunks on a connection of their own. Files are read and written on threads of their
//! own; bounded channels tie them to the connection, so a slow peer slows the reading.

use crate::codec::{SnapshotHead, decode_snapshot_head, encode_snapshot_head};
use crate::limits::{SNAPSHOT_CHUNKS_WAITING_MAX, SNAPSHOT_INSTALL, SNAPSHOT_STALL, SNAPSHOT_VOTE_WAIT};
use crate::machine::{SnapshotData, on_thread};
use crate::net::Conn;
use crate::peer::frame::{SnapshotMessage, decode_snapshot_message, encode_snapshot_message};
use crate::types::{LogId, Raft, Snapshot, Vote};
use bytes::Bytes;
use keeper_log::{SnapshotInfo, SnapshotStore, SnapshotWriter};
use openraft::async_runtime::watch::WatchReceiver;
use std::io;
use tokio::sync::mpsc;

/// Sends a finished snapshot; the follower's vote once it is installed there.
pub async fn send(
    store: &SnapshotStore,
    mut conn: Conn,
    vote: Vote,
    info: SnapshotInfo,
) -> Result<Vote, String> {
    let head = decode_snapshot_head(info.meta.head.clone()).map_err(|error| error.to_string())?;
    let (chunks, mut read) = mpsc::channel(SNAPSHOT_CHUNKS_WAITING_MAX);
    let (store, index) = (store.clone(), info.meta.index);
    let reading = keeper_rt::thread("snapshot-read", async move { read_chunks(&store, &info, chunks).await });
    put(&conn, SnapshotMessage::Begin { vote, head }).await?;
    let mut sent = 0;
    while let Some(chunk) = read.recv().await {
        put(&conn, SnapshotMessage::Chunk(chunk)).await?;
        sent += 1;
    }
    reading.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    put(&conn, SnapshotMessage::End { chunks: sent }).await?;
    let answer = keeper_rt::timeout(SNAPSHOT_INSTALL, conn.receiver.recv()).await;
    let answer = answer.map_err(|_| "the peer does not install it")?.ok_or("connection lost")?;
    match decode_snapshot_message(answer) {
        Ok(SnapshotMessage::Done(result)) => {
            tracing::info!(index, chunks = sent, "snapshot sent");
            result
        }
        Ok(_) | Err(_) => Err("the answer makes no sense".into()),
    }
}

async fn put(conn: &Conn, message: SnapshotMessage) -> Result<(), String> {
    let frame = encode_snapshot_message(&message);
    let sending = keeper_rt::timeout(SNAPSHOT_STALL, conn.sender.send(frame)).await;
    sending.map_err(|_| "the peer takes no more")?.map_err(|_| "connection lost".to_owned())
}

async fn read_chunks(
    store: &SnapshotStore,
    info: &SnapshotInfo,
    chunks: mpsc::Sender<Bytes>,
) -> io::Result<()> {
    let mut reader = store.reader(info).await?;
    while let Some(chunk) = reader.next().await? {
        if chunks.send(chunk).await.is_err() {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "sending was given up"));
        }
    }
    Ok(())
}

/// Takes one snapshot from the connection, has Raft install it, and answers.
pub async fn receive(store: &SnapshotStore, raft: Raft, mut conn: Conn) {
    let result = take(store, raft, &mut conn).await;
    if let Err(error) = &result {
        tracing::warn!(remote = conn.remote, error, "snapshot not received");
    }
    // The peer may be gone.
    let _ = put(&conn, SnapshotMessage::Done(result)).await;
}

async fn take(store: &SnapshotStore, raft: Raft, conn: &mut Conn) -> Result<Vote, String> {
    let SnapshotMessage::Begin { vote, head } = get(conn).await? else {
        return Err("not a snapshot's begin".into());
    };
    let (chunks, queued) = mpsc::channel(SNAPSHOT_CHUNKS_WAITING_MAX);
    let (writing_store, writing_head) = (store.clone(), head.clone());
    let writing = keeper_rt::spawn(
        "snapshot-receive",
        on_thread(
            "snapshot-receive",
            async move { write_chunks(&writing_store, &writing_head, queued).await },
        ),
    );
    let mut taken = 0;
    let announced = loop {
        match get(conn).await? {
            SnapshotMessage::Chunk(chunk) => {
                taken += 1;
                if chunks.send(Some(chunk)).await.is_err() {
                    break taken;
                }
            }
            SnapshotMessage::End { chunks } => break chunks,
            SnapshotMessage::Begin { .. } | SnapshotMessage::Done(_) => return Err("not a chunk".into()),
        }
    };
    if announced != taken {
        return Err(format!("{taken} chunks came, {announced} were announced"));
    }
    // Only now may the writer hand the file over; a channel that just closes means that the sender is gone.
    let _ = chunks.send(None).await;
    let writer = writing.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    if is_held(&raft, head.meta.last_log_id).await? {
        writer.abandon().await;
        tracing::info!(remote = conn.remote, "snapshot not installed: the log holds its last entry");
        return leads(&raft, vote).await;
    }
    let snapshot = Snapshot { meta: head.meta, snapshot: SnapshotData::Received(Box::new(writer)) };
    let response = raft.install_full_snapshot(vote, snapshot).await;
    response.map(|response| response.vote).map_err(|error| error.to_string())
}

/// The log holds the snapshot's last entry, and so all before it. That happens when this member has started again and
/// neither side knows yet how much of its log is committed; openraft would take its progress of writing back to the
/// snapshot (docs/simulation.md, "Found so far").
async fn is_held(raft: &Raft, last: Option<LogId>) -> Result<bool, String> {
    let held = raft
        .with_raft_state(move |state| last.is_some_and(|last| state.log_ids.get(last.index) == Some(last)));
    held.await.map_err(|fatal| fatal.to_string())
}

/// Waits until this member follows the leader that has that vote: only it may be told what the log holds.
async fn leads(raft: &Raft, vote: Vote) -> Result<Vote, String> {
    let mut server = raft.server_metrics();
    let following = async {
        while server.borrow_watched().vote != vote {
            server.changed().await.map_err(|_| "stopping".to_owned())?;
        }
        Ok(vote)
    };
    let waited = keeper_rt::timeout(SNAPSHOT_VOTE_WAIT, following).await;
    waited.unwrap_or_else(|_| Err("the leader is not followed here yet".into()))
}

async fn get(conn: &mut Conn) -> Result<SnapshotMessage, String> {
    let frame = keeper_rt::timeout(SNAPSHOT_STALL, conn.receiver.recv()).await;
    let frame = frame.map_err(|_| "the peer sends no more")?.ok_or("connection lost")?;
    decode_snapshot_message(frame).map_err(|error| error.to_string())
}

/// Writes chunks to a temporary file until the `None` that follows the last.
async fn write_chunks(
    store: &SnapshotStore,
    head: &SnapshotHead,
    mut queued: mpsc::Receiver<Option<Bytes>>,
) -> io::Result<SnapshotWriter> {
    let last = head.meta.last_log_id;
    let meta = keeper_log::SnapshotMeta {
        term: last.map_or(0, |id| id.leader_id.term),
        index: last.map_or(0, |id| id.index),
        head: encode_snapshot_head(head),
    };
    let mut writer = store.begin(meta).await?;
    loop {
        match queued.recv().await {
            Some(Some(chunk)) => writer.write(&chunk).await?,
            Some(None) => {
                // A full disk is the sender's trouble now; once Raft installs the snapshot it would stop this member.
                writer.seal().await?;
                return Ok(writer);
            }
            None => {
                writer.abandon().await;
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the snapshot broke off"));
            }
        }
    }
}
