//! One member, whole: wires tree, consensus, dispatcher and sessions together. Opens no socket of its own, so the
//! same node serves TCP clients in production and pipes in a simulation.

use crate::apply::Applier;
use crate::auth::{self, AuthOptions};
use crate::connection::{Connection, ConnectionOptions};
use crate::dispatch::{self, Dispatch, Submission};
use crate::four_letter::{Words, default_words};
use crate::in_flight::Target;
use crate::limits::{
    CONNECTIONS_MAX_DEFAULT, CONTAINER_PERIOD_DEFAULT, DIGEST_PERIOD_DEFAULT, DISK_PERIOD, DRAIN_TIME_MAX,
    EXPIRY_PERIOD, FRAME_BYTES_MAX_DEFAULT, HAND_OVER_TIME_MAX, LEADERLESS_CLOSE_AFTER,
    LEADERLESS_REFUSE_AFTER, READ_ONLY_AFTER, READY_LAG_ENTRIES_MAX, TOUCH_PERIOD, TTL_PERIOD_DEFAULT,
};
use crate::metrics::Metrics;
use crate::outbox::{CloseReason, Outbox};
use crate::per_address::{PerAddress, Place};
use crate::session::Rules;
use crate::shared::Shared;
use crate::stage::Stage;
use crate::{batch::Kind, cleanup, digests, leader, memory_limit};
use bytes::Bytes;
use keeper_consensus::{Consensus, ConsensusOptions, Network, OpenError, Precondition, Role, Status};
use keeper_log::SharedDisk;
use keeper_rt::{Instant, Pool};
use keeper_tree::Perishable;
use keeper_types::{AclId, ClusterId, Features, ServerId};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// Everything a member needs to start.
pub struct NodeOptions {
    /// Stable name shown to people.
    pub name: String,
    pub disk: SharedDisk,
    pub network: Arc<dyn Network>,
    /// Where consensus runs, apart from the clients'.
    pub consensus_pool: Pool,
    /// Shared by all members; proves peers to each other.
    pub secret: Vec<u8>,
    /// When set, another cluster's disk or peer is refused.
    pub expected_cluster: Option<ClusterId>,
    pub session_timeout_ms: (i32, i32),
    pub frame_bytes_max: usize,
    pub connections_max: usize,
    /// Connections from one address; 0: as many as `connections_max` lets in.
    pub connections_per_address_max: usize,
    /// Writes that grow the tree are refused beyond this; `None`: never.
    pub memory_soft_bytes: Option<u64>,
    /// White list; `*` stands for all.
    pub four_letter_words: BTreeSet<String>,
    pub auth: AuthOptions,
    pub rules: Rules,
    /// What ClickHouse's clients are offered.
    pub features: Features,
    /// How often the leader looks for TTL nodes whose time is over, and for empty containers.
    pub ttl_period: Duration,
    pub container_period: Duration,
    /// How often the members compare their trees.
    pub digest_period: Duration,
    pub snapshot_log_bytes: u64,
    pub log: keeper_log::Options,
    /// `key=value` lines for the word `conf`.
    pub configuration: Vec<(String, String)>,
}

impl NodeOptions {
    /// The defaults of production.
    pub fn new(
        name: String,
        disk: SharedDisk,
        network: Arc<dyn Network>,
        consensus_pool: Pool,
        secret: Vec<u8>,
    ) -> NodeOptions {
        NodeOptions {
            name,
            disk,
            network,
            consensus_pool,
            secret,
            expected_cluster: None,
            session_timeout_ms: (4_000, 40_000),
            frame_bytes_max: FRAME_BYTES_MAX_DEFAULT,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            connections_per_address_max: 0,
            memory_soft_bytes: None,
            four_letter_words: default_words().map(str::to_owned).collect(),
            auth: AuthOptions::default(),
            rules: Rules::default(),
            features: Features::ALL,
            ttl_period: TTL_PERIOD_DEFAULT,
            container_period: CONTAINER_PERIOD_DEFAULT,
            digest_period: DIGEST_PERIOD_DEFAULT,
            snapshot_log_bytes: 64 << 20,
            log: keeper_log::Options::default(),
            configuration: Vec::new(),
        }
    }
}

/// A running member; clones share it.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    name: String,
    started: Instant,
    shared: Arc<Shared>,
    consensus: Consensus,
    dispatch: Dispatch,
    connection: ConnectionOptions,
    connections_max: usize,
    per_address: Arc<PerAddress>,
    next_connection: AtomicU64,
}

/// Whether clients should be sent here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    NotReady(String),
}

impl Node {
    /// Opens the disk and joins its cluster; with an empty disk, waits to be told of one.
    pub async fn start(options: NodeOptions) -> Result<Node, OpenError> {
        let (shared, reports) = Shared::new(Metrics::default(), options.features);
        let machine = Box::new(Applier::new(shared.clone()));
        let mut consensus_options = ConsensusOptions::new(
            options.disk,
            options.network,
            options.consensus_pool,
            machine,
            options.secret,
        );
        consensus_options.expected_cluster = options.expected_cluster;
        consensus_options.snapshot_log_bytes = options.snapshot_log_bytes;
        consensus_options.log = options.log;
        let for_syncs = shared.clone();
        consensus_options.log.on_sync =
            Some(Arc::new(move |took| for_syncs.metrics.observe(Stage::Persisted, took)));
        let (consensus, incoming) = Consensus::open(consensus_options).await?;
        let (dispatch, dispatcher) = dispatch::create(shared.clone(), consensus.clone());
        keeper_rt::spawn("dispatcher", dispatcher.run());
        keeper_rt::spawn("dispatch-accept", leader::serve(shared.clone(), consensus.clone(), incoming));
        let started = keeper_rt::now();
        let words = Words::new(
            options.four_letter_words,
            consensus.clone(),
            options.configuration,
            options.rules.reconfig,
            started,
        );
        let connection = ConnectionOptions {
            frame_bytes_max: options.frame_bytes_max,
            timeout_ms: options.session_timeout_ms,
            auth: Arc::new(options.auth),
            rules: options.rules,
            words: Arc::new(words),
        };
        let node = Node {
            inner: Arc::new(Inner {
                name: options.name,
                started,
                shared,
                consensus,
                dispatch,
                connection,
                connections_max: options.connections_max,
                per_address: PerAddress::new(options.connections_per_address_max),
                next_connection: AtomicU64::new(1),
            }),
        };
        if node.inner.connection.auth.skip_acl {
            keeper_rt::spawn("skip-acl-warning", auth::warn_of_skipped_acls());
        }
        keeper_rt::spawn("touch", node.clone().touch_sessions());
        keeper_rt::spawn("expire", node.clone().expire_sessions());
        keeper_rt::spawn("leaderless", node.clone().close_when_leaderless());
        keeper_rt::spawn("disk-room", node.clone().watch_disk());
        if let Some(limit) = options.memory_soft_bytes {
            keeper_rt::spawn("memory-limit", memory_limit::run(node.inner.shared.clone(), limit));
        }
        let inner = &node.inner;
        keeper_rt::spawn(
            "digests",
            digests::run(
                inner.shared.clone(),
                inner.consensus.clone(),
                inner.dispatch.clone(),
                reports,
                options.digest_period,
            ),
        );
        let periods =
            [(Perishable::Ttl, options.ttl_period), (Perishable::Container, options.container_period)];
        for (kind, period) in periods {
            let inner = &node.inner;
            let (shared, consensus) = (inner.shared.clone(), inner.consensus.clone());
            keeper_rt::spawn(
                "clean-up",
                cleanup::run(shared, consensus, inner.dispatch.clone(), kind, period),
            );
        }
        Ok(node)
    }

    pub fn name(&self) -> &str {
        &self.inner.name
    }

    pub fn uptime(&self) -> Duration {
        self.inner.started.elapsed()
    }

    pub fn consensus(&self) -> &Consensus {
        &self.inner.consensus
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    pub fn words(&self) -> &Words {
        &self.inner.connection.words
    }

    /// A place for a connection of this address, to be held as long as it is open; `None`: it has too many already.
    pub fn admit(&self, address: IpAddr) -> Option<Place> {
        let place = self.inner.per_address.admit(address);
        if place.is_none() {
            self.inner.shared.metrics.connections_refused_for_address.inc();
        }
        place
    }

    /// Serves one client until either side ends it; `remote` is its `ip:port`, `proved` who it is by what carries its
    /// bytes: a verified certificate.
    pub async fn serve_client<S>(&self, stream: S, remote: String, proved: Vec<AclId>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let inner = &self.inner;
        if inner.shared.stopping.load(Ordering::Relaxed)
            || inner.shared.connections().len() >= inner.connections_max
        {
            inner.shared.metrics.connections_refused_total.inc();
            if let Some(left_out) = inner.shared.quiet.admit() {
                tracing::warn!(
                    remote,
                    limit = inner.connections_max,
                    left_out,
                    "client refused: too many connections, or stopping"
                );
            }
            return;
        }
        let outbox = Outbox::new(inner.next_connection.fetch_add(1, Ordering::Relaxed));
        let connection = Connection::new(
            stream,
            remote,
            proved,
            outbox,
            inner.shared.clone(),
            inner.dispatch.clone(),
            inner.connection.clone(),
        );
        connection.run().await;
    }

    pub fn readiness(&self) -> Readiness {
        let status = self.inner.consensus.status();
        let shared = &self.inner.shared;
        match shared.digests.differs_since.load(Ordering::Relaxed) {
            0 => readiness(&status, shared.stopping.load(Ordering::Relaxed)),
            index => Readiness::NotReady(format!(
                "its tree differs from the other members', known since log index {index}: replace this member"
            )),
        }
    }

    /// Completes when consensus has stopped for good: the process must end.
    pub async fn failed(&self) -> String {
        let mut status = self.inner.consensus.watch_status();
        loop {
            if let Some(failure) = status.borrow_and_update().failure.clone() {
                return failure;
            }
            if status.changed().await.is_err() {
                return "consensus ended".into();
            }
        }
    }

    /// The orderly stop: leadership handed over, writes drained, clients closed, log closed.
    pub async fn shutdown(&self) {
        let shared = &self.inner.shared;
        shared.stopping.store(true, Ordering::Relaxed);
        if let Some(heir) = heir(&self.inner.consensus.status()) {
            let transfer = self.inner.consensus.transfer_leadership(heir, Precondition::default());
            match keeper_rt::timeout(HAND_OVER_TIME_MAX, transfer).await {
                Ok(Ok(_)) => tracing::info!(to = %heir, "leadership handed over"),
                Ok(Err(error)) => tracing::warn!(to = %heir, %error, "leadership not handed over"),
                Err(_) => tracing::warn!(to = %heir, "leadership not handed over in time"),
            }
        }
        let _ = keeper_rt::timeout(DRAIN_TIME_MAX, async {
            while !shared.in_flight.lock().batches.is_empty() {
                keeper_rt::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        shared.sessions.close_all(CloseReason::ShuttingDown);
        let _ = keeper_rt::timeout(Duration::from_secs(1), async {
            while shared.sessions.count() > 0 {
                keeper_rt::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        self.inner.consensus.shutdown().await;
    }

    /// Tells the leader which sessions have shown a sign of life, several times within the shortest timeout.
    async fn touch_sessions(self) {
        let shortest = Duration::from_millis(self.inner.connection.timeout_ms.0.max(4) as u64);
        let mut ticks = keeper_rt::interval(TOUCH_PERIOD.min(shortest / 4));
        loop {
            ticks.tick().await;
            let active = self.inner.shared.sessions.take_active();
            if !active.is_empty() {
                self.inner.dispatch.touch(active);
            }
        }
    }

    /// On the leader: proposes the end of sessions whose time is over.
    async fn expire_sessions(self) {
        let mut ticks = keeper_rt::interval(EXPIRY_PERIOD);
        loop {
            ticks.tick().await;
            let status = self.inner.consensus.status();
            let shared = &self.inner.shared;
            if status.role != Role::Leader {
                shared.expiry.forget();
                continue;
            }
            let overdue = shared.expiry.overdue(status.term, &shared.read_tree());
            for (session, generation) in overdue {
                tracing::info!(session = format_args!("{:#x}", session.0), "session expired");
                let expire = Submission::command(
                    Kind::ExpireSession,
                    (session, generation),
                    Bytes::new(),
                    Target::Nobody,
                );
                self.inner.dispatch.submit(expire);
            }
        }
    }

    /// While the log has no room, writes that could grow it are refused before they get into it.
    async fn watch_disk(self) {
        let mut ticks = keeper_rt::interval(DISK_PERIOD);
        loop {
            ticks.tick().await;
            let full = self.inner.consensus.log_is_full();
            if self.inner.shared.disk_full.swap(full, Ordering::Relaxed) != full {
                tracing::warn!(
                    full,
                    "writes are {}",
                    if full { "refused: the log's disk is full" } else { "taken again" }
                );
            }
        }
    }

    /// Without a quorum for long enough, new clients are sent away, or may read if they ask for it; with one again, they have to come back.
    fn read_only_after(&self, lost_for: Duration) {
        let shared = &self.inner.shared;
        shared.leaderless.store(lost_for >= LEADERLESS_REFUSE_AFTER, Ordering::Relaxed);
        let now = self.inner.connection.rules.read_only && lost_for >= READ_ONLY_AFTER;
        if shared.read_only.swap(now, Ordering::Relaxed) == now {
            return;
        }
        tracing::warn!(
            read_only = now,
            "{}",
            if now { "Read-only server started: there is no quorum" } else { "quorum is back" }
        );
        // What a client holds from the other mode is worth nothing in this one.
        match now {
            true => shared.sessions.close_all(CloseReason::NoLeader),
            false => shared.read_only_clients.close_all(CloseReason::NoLeader),
        }
    }

    /// A member that has lost the cluster sends its clients away, as ZooKeeper does, but not for a short election.
    async fn close_when_leaderless(self) {
        let mut status = self.inner.consensus.watch_status();
        let mut since: Option<Instant> = None;
        loop {
            let (known, role, silence) = {
                let status = status.borrow_and_update();
                (status.leader.is_some(), status.role, status.silence)
            };
            // A member of no cluster has nothing to show.
            let lost = !known && !matches!(role, Role::Uninitialized | Role::Failed);
            match (known, since) {
                (true, _) => since = None,
                // What was silent before it was given up was gone already.
                (false, None) => since = Some(keeper_rt::now() - silence),
                (false, Some(at)) if at.elapsed() >= LEADERLESS_CLOSE_AFTER => {
                    self.inner.shared.sessions.close_all(CloseReason::NoLeader);
                }
                (false, Some(_)) => {}
            }
            self.read_only_after(since.filter(|_| lost).map_or(Duration::ZERO, |at| at.elapsed()));
            let changed = keeper_rt::timeout(Duration::from_millis(500), status.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return;
            }
        }
    }
}

/// The follower that is furthest along, for a hand-over.
pub(crate) fn heir(status: &Status) -> Option<ServerId> {
    if status.role != Role::Leader {
        return None;
    }
    status
        .progress
        .iter()
        .filter(|peer| status.membership.voter(peer.id).is_some())
        .max_by_key(|peer| peer.matched_index)
        .map(|peer| peer.id)
}

fn readiness(status: &Status, stopping: bool) -> Readiness {
    let not = |why: String| Readiness::NotReady(why);
    if stopping {
        return not("stopping".into());
    }
    match status.role {
        Role::Uninitialized => return not("member of no cluster yet".into()),
        Role::Failed => return not(status.failure.clone().unwrap_or_default()),
        Role::Learner => return not("a learner, not a voter".into()),
        Role::Candidate => return not("no leader known".into()),
        Role::Follower | Role::Leader => {}
    }
    let Some(me) = status.identity.map(|identity| identity.server_id) else {
        return not("member of no cluster yet".into());
    };
    if status.leader.is_none() {
        return not("no leader known".into());
    }
    if status.membership.voter(me).is_none() {
        return not("not a voter of the configuration it knows".into());
    }
    let lag = status.committed_index.saturating_sub(status.applied_index);
    if lag > READY_LAG_ENTRIES_MAX {
        return not(format!("{lag} committed entries are not applied yet"));
    }
    Readiness::Ready
}
