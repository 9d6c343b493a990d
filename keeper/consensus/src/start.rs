//! How a member comes to life: from its disk, by founding a cluster, or by being named by a leader.
//!
//! The order is what matters: an identity is durable before Raft runs under it, and nothing is founded or adopted
//! twice.

use crate::api::{AdminError, ConsensusOptions, DispatchConn, Identity, Member, OpenError, Role};
use crate::config::raft_config;
use crate::identity::{self, Stored};
use crate::limits::{ADMIN_WAIT, DETECTOR_QUEUE_MAX, DISPATCH_CONNS_MAX};
use crate::machine::Adapter;
use crate::node::{Dormant, Node, Running};
use crate::peer::detector::Detector;
use crate::peer::incoming;
use crate::peer::outgoing::Factory;
use crate::peer::refusals::Refusals;
use crate::storage::LogStore;
use crate::types::Raft;
use crate::{snapshots, status};
use keeper_log::SnapshotStore;
use keeper_types::{ClusterId, ServerId};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use tokio::sync::{Semaphore, mpsc, watch};

/// Opens everything on the disk, starts to listen, and starts Raft if the disk knows who this is.
pub async fn open(options: ConsensusOptions) -> Result<(Arc<Node>, mpsc::Receiver<DispatchConn>), OpenError> {
    let raft_config = raft_config(options.heartbeat_ms, options.election_ms)?;
    if options.secret.is_empty() {
        return Err(OpenError::Option { option: "cluster secret", why: "must not be empty".into() });
    }
    let location = options.disk.location();
    let stored = identity::load(&options.disk, options.expected_cluster).await?;
    let log_failed =
        |error: keeper_log::LogError| OpenError::Log { location: location.clone(), cause: error.to_string() };
    let (wal, recovered) =
        keeper_log::open(options.disk.clone(), options.log.clone()).await.map_err(log_failed)?;
    let empty = recovered.vote.is_none() && recovered.last.is_none() && recovered.purged.is_none();
    if stored.is_none() && !empty {
        let cause = format!("the file `{}` is missing beside a log", identity::FILE);
        return Err(OpenError::Damaged { location, subject: "the identity", cause });
    }
    let disk = options.disk.clone();
    let opening = keeper_rt::thread("snapshots-open", async move { SnapshotStore::open(disk).await });
    let snapshots = opening.await.map_err(|error| OpenError::Raft(error.to_string()))?.map_err(log_failed)?;
    let purged = recovered.purged.as_ref().map(|(index, _)| *index);
    let covered = snapshots.latest().map(|info| info.meta.index);
    if covered < purged {
        // Raft would go on from an empty state, and apply what is left of the log to it.
        let cause =
            format!("the log begins after index {}, and no snapshot reaches there", purged.unwrap_or(0));
        return Err(OpenError::Damaged { location, subject: "the newest snapshot", cause });
    }
    let accepted = options.network.listen().await.map_err(OpenError::Listen)?;
    let (dispatch, dispatched) = mpsc::channel(DISPATCH_CONNS_MAX);
    let node = Arc::new(Node {
        disk: options.disk,
        network: options.network,
        pool: options.pool,
        secret: options.secret,
        expected_cluster: options.expected_cluster,
        raft_config,
        snapshot_log_bytes: options.snapshot_log_bytes,
        wal,
        snapshots,
        status: watch::Sender::default(),
        dispatch,
        refusals: Refusals::default(),
        changing: Semaphore::new(1),
        stopping: watch::Sender::new(false),
        leader_lost: AtomicBool::new(false),
        heard: Mutex::new(None),
        dormant: Mutex::new(Some(Dormant { recovered, machine: options.machine })),
        running: OnceLock::new(),
    });
    if let Some((identity, stored)) = stored {
        start_raft(&node, identity).await.map_err(OpenError::Raft)?;
        if let Some(founder) = stored.founder {
            found(&node, founder).await.map_err(|error| OpenError::Raft(error.to_string()))?;
        }
    }
    keeper_rt::spawn("peers", incoming::serve(node.clone(), accepted));
    Ok((node, dispatched))
}

/// Starts Raft under `identity`, which is durable. Does nothing if it runs, or is being started, already.
async fn start_raft(node: &Arc<Node>, identity: Identity) -> Result<(), String> {
    let Some(dormant) = node.dormant().take() else { return Ok(()) };
    let log = LogStore::new(node.wal.clone(), &dormant.recovered).map_err(|error| error.to_string())?;
    let adapter = Adapter::new(dormant.machine, node.snapshots.clone(), node.disk.clone());
    let machine = adapter.view();
    let me = identity.server_id.0;
    let factory = Factory(Arc::downgrade(node));
    let raft = Raft::new(me, node.raft_config.clone(), factory, log, adapter).await;
    let raft = raft.map_err(|error| error.to_string())?;
    let (lost, lost_leaders) = mpsc::channel(DETECTOR_QUEUE_MAX);
    let detector =
        Detector { me: identity.server_id, network: node.network.clone(), raft: raft.clone(), lost_leaders };
    keeper_rt::spawn("failure-detector", detector.run());
    let running = Running { identity, raft, machine, lost_leaders: lost };
    assert!(node.running.set(running).is_ok(), "Raft was started twice");
    status::publish(node);
    keeper_rt::spawn("status", status::run(Arc::downgrade(node)));
    keeper_rt::spawn("snapshot-trigger", snapshots::run(Arc::downgrade(node)));
    tracing::info!(server = %identity.server_id, cluster = %identity.cluster_id, boot = identity.boot, "Raft runs");
    Ok(())
}

/// Writes the first configuration, unless there is a log already.
async fn found(node: &Node, founder: Member) -> Result<(), AdminError> {
    let running = node.running().ok_or(AdminError::Uninitialized)?;
    let stopped = |error: &dyn std::fmt::Display| AdminError::Stopped(error.to_string());
    if running.raft.is_initialized().await.map_err(|error| stopped(&error))? {
        return Ok(());
    }
    let members = BTreeMap::from([(founder.id.0, founder)]);
    running.raft.initialize(members).await.map_err(|error| stopped(&error))
}

/// Takes an identity for life, durably, and starts Raft under it.
async fn take_identity(
    node: &Arc<Node>,
    cluster: ClusterId,
    me: ServerId,
    founder: Option<Member>,
) -> Result<(), AdminError> {
    let dormant = node.dormant().take().ok_or(AdminError::InProgress)?;
    let stored = identity::store(&node.disk, &Stored { server_id: me, cluster_id: cluster, founder }).await;
    *node.dormant() = Some(dormant);
    let identity =
        stored.map_err(|error| AdminError::Stopped(format!("cannot store the identity: {error}")))?;
    start_raft(node, identity).await.map_err(|why| {
        // The identity is durable and the log is taken: only a restart of the process can go on from here.
        node.status.send_modify(|status| {
            status.role = Role::Failed;
            status.failure = Some(why.clone());
        });
        AdminError::Stopped(why)
    })
}

/// Becomes server `me` of `cluster`, as its leader asks. The log is empty and the member has no vote.
pub async fn adopt(node: &Arc<Node>, cluster: ClusterId, me: ServerId) -> Result<(), AdminError> {
    take_identity(node, cluster, me, None).await
}

/// Founds a cluster of this one member; safe to repeat.
pub async fn bootstrap(node: Arc<Node>, cluster: ClusterId, me: Member) -> Result<(), AdminError> {
    if let Some(expected) = node.expected_cluster.filter(|expected| *expected != cluster) {
        return Err(AdminError::OtherCluster { mine: expected, asked: cluster });
    }
    if node.identity().is_none() {
        take_identity(&node, cluster, me.id, Some(me.clone())).await?;
        return found(&node, me).await;
    }
    let mine = node.identity().ok_or(AdminError::Uninitialized)?;
    if mine.cluster_id != cluster {
        return Err(AdminError::OtherCluster { mine: mine.cluster_id, asked: cluster });
    }
    if mine.server_id != me.id {
        return Err(AdminError::OtherServer { mine: mine.server_id, asked: me.id });
    }
    Ok(())
}

/// Waits until the member sees a configuration; `None` when it takes too long.
pub async fn first_membership(node: &Node) -> Option<()> {
    let mut status = node.status.subscribe();
    let known = status.wait_for(|status| status.membership.log_id.is_some() && status.leader.is_some());
    keeper_rt::timeout(ADMIN_WAIT, known).await.ok()?.ok().map(drop)
}
