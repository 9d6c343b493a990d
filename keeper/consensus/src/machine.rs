//! openraft's state machine over [`StateMachine`](crate::StateMachine): it adds what Raft itself must remember of the
//! applied entries (last log id, configuration, highest server id ever used) and keeps it in each snapshot's head.
//!
//! The state lives in memory only: a restart loads the newest snapshot and applies the log after it. Raft has one thread,
//! which must go on answering its peers: work on snapshots and on many entries happens on other threads. A few entries
//! are applied at once, since a change of threads takes longer than they do.

use crate::api::{SnapshotSource, StateMachine};
use crate::codec::{SnapshotHead, decode_snapshot_head, encode_snapshot_head};
use crate::limits::{APPLY_BATCH_BYTES_MAX, APPLY_INLINE_BYTES_MAX, SNAPSHOT_PACE};
use crate::status;
use crate::types::{EntryPayload, LogId, Nothing, Snapshot, SnapshotMeta, StoredMembership, TC};
use futures_util::{Stream, StreamExt};
use keeper_log::{SharedDisk, SnapshotInfo, SnapshotReader, SnapshotStore, SnapshotWriter};
use openraft::OptionalSend;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// A snapshot as it passes through openraft.
pub enum SnapshotData {
    /// A finished file.
    Stored(SnapshotInfo),
    /// Received whole from the leader, not yet published: only installing it may do that, after Raft has cut what
    /// conflicts with it off the log.
    Received(Box<SnapshotWriter>),
    /// None could be written, and there is no older one. Raft keeps the whole log then.
    Missing,
}

/// What the rest of the crate may know of the state machine.
#[derive(Default)]
pub struct MachineView {
    /// Payload bytes applied since the newest snapshot was begun.
    bytes_since_snapshot: AtomicU64,
    applied: Mutex<Applied>,
}

/// What Raft must remember of the applied entries.
#[derive(Clone, Default)]
pub struct Applied {
    pub last: Option<LogId>,
    pub membership: StoredMembership,
    /// Invariant: at least every id in `membership`.
    pub server_id_max: u64,
}

impl MachineView {
    pub fn bytes_since_snapshot(&self) -> u64 {
        self.bytes_since_snapshot.load(Ordering::Relaxed)
    }

    pub fn applied(&self) -> Applied {
        self.lock().clone()
    }

    pub fn server_id_max(&self) -> u64 {
        self.lock().server_id_max
    }

    fn lock(&self) -> MutexGuard<'_, Applied> {
        // Nothing panics while holding it.
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One member's state machine, as openraft holds it.
pub struct Adapter {
    /// `None` only while another thread works on it. The lock makes it `Sync`; it is never taken, since all uses have
    /// `&mut self`.
    machine: Mutex<Option<Box<dyn StateMachine>>>,
    store: SnapshotStore,
    disk: SharedDisk,
    view: Arc<MachineView>,
}

impl Adapter {
    pub fn new(machine: Box<dyn StateMachine>, store: SnapshotStore, disk: SharedDisk) -> Adapter {
        Adapter { machine: Mutex::new(Some(machine)), store, disk, view: Arc::default() }
    }

    pub fn view(&self) -> Arc<MachineView> {
        self.view.clone()
    }

    /// Lends the machine to `work` on another thread.
    async fn lend<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut dyn StateMachine) -> T + Send + 'static,
    ) -> io::Result<T> {
        let mut machine = self.take();
        let done = keeper_rt::blocking(move || {
            let result = work(machine.as_mut());
            (machine, result)
        });
        let (machine, result) = done.await.map_err(io::Error::other)?;
        self.machine = Mutex::new(Some(machine));
        Ok(result)
    }

    fn take(&mut self) -> Box<dyn StateMachine> {
        let slot = self.machine.get_mut().unwrap_or_else(PoisonError::into_inner);
        slot.take().expect("work on the machine that failed has stopped Raft")
    }

    fn machine(&mut self) -> &mut dyn StateMachine {
        let slot = self.machine.get_mut().unwrap_or_else(PoisonError::into_inner);
        slot.as_mut().expect("work on the machine that failed has stopped Raft").as_mut()
    }

    async fn apply_batch(&mut self, batch: Vec<EntryResponder<TC>>, bytes: usize) -> io::Result<()> {
        let view = self.view.clone();
        if bytes <= APPLY_INLINE_BYTES_MAX {
            apply_all(self.machine(), &view, batch);
            return Ok(());
        }
        self.lend(move |machine| apply_all(machine, &view, batch)).await
    }

    /// Whether the disk has room for another snapshot like the last one. A full disk must not stop the member.
    async fn has_room(&self) -> bool {
        let Some(latest) = self.store.latest() else { return true };
        let disk = self.disk.clone();
        let free = keeper_rt::thread("snapshot-room", async move { disk.free_bytes().await }).await;
        match free {
            Ok(Ok(Some(free))) => latest.bytes.saturating_add(latest.bytes / 2) < free,
            _ => true,
        }
    }

    async fn builder(&mut self) -> Builder {
        let covered_bytes = self.view.bytes_since_snapshot.swap(0, Ordering::Relaxed);
        let applied = self.view.applied();
        let meta = SnapshotMeta { last_log_id: applied.last, last_membership: applied.membership };
        let head = SnapshotHead { meta, server_id_max: applied.server_id_max };
        let source = Mutex::new(self.lend(|machine| machine.snapshot()).await.ok());
        Builder { head, source, store: self.store.clone(), covered_bytes, view: self.view.clone() }
    }
}

fn apply_all(machine: &mut dyn StateMachine, view: &MachineView, batch: Vec<EntryResponder<TC>>) {
    for (entry, responder) in batch {
        apply_one(machine, view, entry.log_id, entry.payload);
        if let Some(responder) = responder {
            responder.send(Nothing);
        }
    }
    machine.flush();
}

fn apply_one(machine: &mut dyn StateMachine, view: &MachineView, log_id: LogId, payload: EntryPayload) {
    match payload {
        EntryPayload::Blank => {}
        EntryPayload::Normal(payload) => {
            view.bytes_since_snapshot.fetch_add(payload.0.len() as u64, Ordering::Relaxed);
            machine.apply(log_id.index, payload.0);
        }
        EntryPayload::Membership(membership) => {
            let ids_max = membership.nodes().map(|(id, _)| *id).max().unwrap_or(0);
            let mut applied = view.lock();
            applied.server_id_max = applied.server_id_max.max(ids_max);
            applied.membership = StoredMembership::new(Some(log_id), membership);
            let now = status::membership(&applied.membership, applied.server_id_max);
            drop(applied);
            machine.configured(&now);
        }
    }
    view.lock().last = Some(log_id);
}

fn payload_bytes(payload: &EntryPayload) -> usize {
    match payload {
        EntryPayload::Normal(payload) => payload.0.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    }
}

impl RaftStateMachine<TC> for Adapter {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let applied = self.view.applied();
        Ok((applied.last, applied.membership))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TC>, io::Error>> + Unpin + OptionalSend,
    {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            bytes += payload_bytes(&entry.payload);
            batch.push((entry, responder));
            if APPLY_BATCH_BYTES_MAX <= bytes {
                self.apply_batch(std::mem::take(&mut batch), bytes).await?;
                bytes = 0;
            }
        }
        self.apply_batch(batch, bytes).await
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        if !force && !self.has_room().await {
            tracing::warn!(disk = self.disk.location(), "no room for a snapshot; put off");
            return None;
        }
        Some(self.builder().await)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.builder().await
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, data: SnapshotData) -> Result<(), io::Error> {
        let info = match data {
            SnapshotData::Stored(info) => info,
            SnapshotData::Received(writer) => {
                on_thread("snapshot-finish", async move { writer.finish().await }).await?
            }
            SnapshotData::Missing => return Err(io::Error::other("there is no snapshot to install")),
        };
        keeper_rt::point("snapshot-published");
        let head = decode_snapshot_head(info.meta.head.clone())?;
        if head.meta != *meta {
            return Err(io::Error::other("the snapshot's head is not the one that was announced"));
        }
        let index = info.meta.index;
        let in_force = status::membership(&head.meta.last_membership, head.server_id_max);
        let mut machine = self.take();
        let store = self.store.clone();
        let machine = on_thread("snapshot-restore", async move {
            let reader = store.reader(&info).await?;
            restore(machine.as_mut(), index, reader).await?;
            machine.restored(&in_force);
            Ok(machine)
        })
        .await?;
        self.machine = Mutex::new(Some(machine));
        self.view.bytes_since_snapshot.store(0, Ordering::Relaxed);
        *self.view.lock() = Applied {
            last: head.meta.last_log_id,
            membership: head.meta.last_membership,
            server_id_max: match keeper_rt::planted!("highest-id-forgotten") {
                true => 0,
                false => head.server_id_max,
            },
        };
        self.machine().flush();
        tracing::info!(index, "snapshot restored");
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        let Some(info) = self.store.latest() else { return Ok(None) };
        let head = decode_snapshot_head(info.meta.head.clone())?;
        Ok(Some(Snapshot { meta: head.meta, snapshot: SnapshotData::Stored(info) }))
    }
}

/// Runs work on files off the runtime's threads.
pub async fn on_thread<T: Send + 'static>(
    name: &'static str,
    work: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    keeper_rt::thread(name, work).await.map_err(io::Error::other)?
}

/// Feeds a snapshot's chunks to the state machine. Runs on a thread of its own; a simulation has only one thread and
/// disks that take their time, so there the chunks are read first.
async fn restore(machine: &mut dyn StateMachine, index: u64, mut reader: SnapshotReader) -> io::Result<()> {
    if keeper_rt::in_simulation() {
        let mut chunks = Vec::new();
        while let Some(chunk) = reader.next().await? {
            chunks.push(Ok(chunk));
        }
        return machine.restore(index, &mut chunks.into_iter());
    }
    let mut chunks = std::iter::from_fn(|| keeper_rt::block_on(reader.next()).transpose());
    machine.restore(index, &mut chunks)?;
    // The overall checksum is known to be right only at the end.
    chunks.try_for_each(|chunk| chunk.map(drop))
}

/// Writes one snapshot, beside the applying.
pub struct Builder {
    head: SnapshotHead,
    /// Taken once; `None` too when the runtime ended meanwhile. The lock makes it `Sync`.
    source: Mutex<Option<SnapshotSource>>,
    store: SnapshotStore,
    /// Log bytes that this snapshot covers; owed again if it cannot be written.
    covered_bytes: u64,
    view: Arc<MachineView>,
}

impl RaftSnapshotBuilder<TC> for Builder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let source = self.source.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let source = source.ok_or_else(|| io::Error::other("a snapshot without what it was to hold"))?;
        let (store, head) = (self.store.clone(), self.head.clone());
        let started = keeper_rt::now();
        let turns = turns();
        let written =
            on_thread("snapshot-write", async move { write_snapshot(&store, &head, source, turns).await })
                .await;
        match written {
            Ok(info) => {
                let took_ms = started.elapsed().as_millis() as u64;
                tracing::info!(index = info.meta.index, bytes = info.bytes, took_ms, "snapshot written");
                keeper_rt::point("snapshot-written");
                Ok(Snapshot { meta: self.head.meta.clone(), snapshot: SnapshotData::Stored(info) })
            }
            Err(error) => self.fall_back(error),
        }
    }
}

impl Builder {
    /// A snapshot that could not be written (a full disk) must not stop the member: the older one stands, and the
    /// log is kept.
    fn fall_back(&self, error: io::Error) -> Result<Snapshot, io::Error> {
        if self.head.meta.last_log_id.is_none() {
            // Raft asks for a snapshot of nothing only where a purged log has lost the one it needs.
            return Err(error);
        }
        self.view.bytes_since_snapshot.fetch_add(self.covered_bytes, Ordering::Relaxed);
        tracing::warn!(%error, "snapshot not written; the log is kept");
        let Some(info) = self.store.latest() else {
            return Ok(Snapshot { meta: SnapshotMeta::default(), snapshot: SnapshotData::Missing });
        };
        let head = decode_snapshot_head(info.meta.head.clone())?;
        Ok(Snapshot { meta: head.meta, snapshot: SnapshotData::Stored(info) })
    }
}

/// One message a [`SNAPSHOT_PACE`]. The thread that writes has no timers, so a task sleeps for it.
fn turns() -> mpsc::Receiver<()> {
    let (turn, turns) = mpsc::channel(1);
    keeper_rt::spawn("snapshot-pace", async move {
        while turn.send(()).await.is_ok() {
            keeper_rt::sleep(SNAPSHOT_PACE).await;
        }
    });
    turns
}

async fn write_snapshot(
    store: &SnapshotStore,
    head: &SnapshotHead,
    mut source: SnapshotSource,
    mut turns: mpsc::Receiver<()>,
) -> io::Result<SnapshotInfo> {
    let last = head.meta.last_log_id;
    let meta = keeper_log::SnapshotMeta {
        term: last.map_or(0, |id| id.leader_id.term),
        index: last.map_or(0, |id| id.index),
        head: encode_snapshot_head(head),
    };
    let mut writer = store.begin(meta).await?;
    loop {
        let written = match source() {
            Ok(Some(chunk)) => writer.write(&chunk).await,
            Ok(None) => return writer.finish().await,
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            writer.abandon().await;
            return Err(error);
        }
        // None comes when the runtime has ended: then nobody is held up any more.
        turns.recv().await;
    }
}
