//! The values of the facade: what goes in when a member is opened, and what the rest of the server sees of it.
//! Must never name openraft's types.

use crate::net::{Conn, Network};
use bytes::Bytes;
use keeper_log::SharedDisk;
use keeper_types::{ClusterId, ServerId};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Writes the state it was taken of, in chunks, to the function it is given. Runs off the apply path.
pub type SnapshotSource = Box<dyn FnOnce(&mut dyn FnMut(Vec<u8>)) + Send>;

/// The replicated state, as seen by consensus.
///
/// It starts empty in each process: consensus restores the newest snapshot, then applies the committed entries
/// after it. All calls come from one task, one at a time.
pub trait StateMachine: Send + 'static {
    /// A committed payload, in log order, once per index and process life. Must be deterministic: every member
    /// applies the same payloads at the same indexes.
    fn apply(&mut self, index: u64, payload: Bytes);
    /// A committed configuration, in log order like the payloads.
    fn configured(&mut self, _membership: &Membership) {}
    /// Called after the last entry that was at hand: the moment to wake whoever waits for results.
    fn flush(&mut self) {}
    /// A source that yields the state exactly as it is at this call, whatever is applied later.
    fn snapshot(&mut self) -> SnapshotSource;
    /// Replaces the whole state by the one whose chunks these are; `index` is the last entry they contain.
    fn restore(&mut self, index: u64, chunks: &mut dyn Iterator<Item = io::Result<Bytes>>) -> io::Result<()>;
    /// The configuration in force in the snapshot that was restored: the state holds its effects already.
    fn restored(&mut self, _membership: &Membership) {}
}

/// One server of the cluster, as every member knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub id: ServerId,
    /// `host:port` that other members dial.
    pub peer_address: String,
    /// `host:port` for clients; informational.
    pub client_address: String,
    /// Stable name shown to people.
    pub name: String,
    /// Of ZooKeeper's way to write a server, for clients that read it; nothing listens there. 0: the peer port.
    pub election_port: u16,
}

/// Who this process is, from its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub server_id: ServerId,
    pub cluster_id: ClusterId,
    /// Counts the starts of this server's process; durable before it is used, so no two lives share one.
    pub boot: u64,
}

/// Where an entry stands in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    pub term: u64,
    pub index: u64,
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.term, self.index)
    }
}

/// The first and the last entry that the log holds; `None` while it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnds {
    pub first: Option<LogPosition>,
    pub last: Option<LogPosition>,
}

/// Bytes of the files in the data folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Finished snapshots and those that are being written.
    pub snapshot_bytes: u64,
    /// All else: segments in use, spare ones, and the identity.
    pub log_bytes: u64,
}

/// A configuration of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The entry that holds this configuration; `None` before there is one.
    pub log_id: Option<LogPosition>,
    /// Sorted by id.
    pub voters: Vec<Member>,
    /// Sorted by id.
    pub learners: Vec<Member>,
    /// True while two sets of voters must both agree.
    pub joint: bool,
    /// Highest id that was ever a member. Ids up to it are never given to a new member.
    pub server_id_max: ServerId,
}

impl Membership {
    pub fn voter(&self, id: ServerId) -> Option<&Member> {
        self.voters.iter().find(|member| member.id == id)
    }

    pub fn learner(&self, id: ServerId) -> Option<&Member> {
        self.learners.iter().find(|member| member.id == id)
    }

    pub fn member(&self, id: ServerId) -> Option<&Member> {
        self.voter(id).or_else(|| self.learner(id))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The disk is empty: alive, never votes, never founds; waits for `bootstrap` or for a leader that names it.
    #[default]
    Uninitialized,
    Learner,
    Follower,
    Candidate,
    Leader,
    /// Raft has stopped for good ([`Status::failure`] says why): the process must end.
    Failed,
}

/// What the leader knows of one other member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerProgress {
    pub id: ServerId,
    /// `None`: not known yet.
    pub matched_index: Option<u64>,
    /// The leader's last index minus `matched_index`.
    pub lag: u64,
}

/// Peers turned away since the process started, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerRefusals {
    /// Its challenge answer did not prove the cluster secret.
    pub wrong_secret: u64,
    pub other_cluster: u64,
    /// It wanted another server than this one; or an empty process was taken for a member that it is not.
    pub wrong_server: u64,
    /// Not our protocol, an unknown version, or bytes that make no sense.
    pub malformed: u64,
}

impl PeerRefusals {
    pub fn total(&self) -> u64 {
        self.wrong_secret + self.other_cluster + self.wrong_server + self.malformed
    }
}

/// A member's own view of itself and of the cluster. Index 0 means none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub identity: Option<Identity>,
    pub role: Role,
    pub term: u64,
    /// The leader this member follows; itself when it leads.
    pub leader: Option<ServerId>,
    /// How long the leader had been silent when this member gave it up; zero while it has one, and where none was.
    pub silence: Duration,
    pub last_log_index: u64,
    /// Highest index known to be committed.
    pub committed_index: u64,
    pub applied_index: u64,
    pub snapshot_index: u64,
    pub purged_index: u64,
    /// The newest configuration in this member's log, committed or not.
    pub membership: Membership,
    /// On the leader only: all other members, sorted by id.
    pub progress: Vec<PeerProgress>,
    pub refusals: PeerRefusals,
    /// The log's disk is full: writes are to be refused until it is not.
    pub log_full: bool,
    /// Why Raft has stopped; set exactly when the role is `Failed`.
    pub failure: Option<String>,
}

/// This member cannot accept the proposal, or can no longer say that it was committed. The proposal may still be
/// committed by another leader: whoever proposed it finds out in the applied entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the leader (leader: {})", Known(*.leader))]
pub struct NotLeader {
    pub leader: Option<ServerId>,
}

struct Known(Option<ServerId>);

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => write!(f, "server {id}"),
            None => f.write_str("unknown"),
        }
    }
}

/// What must hold for a membership call to be carried out; unset fields are not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    pub expected_leader: Option<ServerId>,
    /// Index of the entry that holds the configuration the caller has seen.
    pub expected_membership_index: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    #[error("this member belongs to no cluster yet")]
    Uninitialized,
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    #[error("precondition failed: {what} is {actual}, expected {expected}")]
    PreconditionFailed { what: &'static str, expected: u64, actual: u64 },
    #[error("server id {id} was a member before; ids up to {max} are never given out again")]
    IdReused { id: ServerId, max: ServerId },
    #[error("server {id} is not a member")]
    NotMember { id: ServerId },
    #[error("server {id} is a member with another {field}: `{known}`, not `{asked}`")]
    MemberDiffers { id: ServerId, field: &'static str, known: String, asked: String },
    #[error("server {id} is a learner, only a voter can do this")]
    NotVoter { id: ServerId },
    #[error("server {id} is {lag} entries behind and did not catch up in time")]
    NotCaughtUp { id: ServerId, lag: u64 },
    #[error("server {id} leads; transfer leadership first")]
    RemovesLeader { id: ServerId },
    #[error("server {id} is the last voter")]
    RemovesLastVoter { id: ServerId },
    #[error("this member belongs to cluster {mine}, not to {asked}")]
    OtherCluster { mine: ClusterId, asked: ClusterId },
    #[error("this member is server {mine}, not {asked}")]
    OtherServer { mine: ServerId, asked: ServerId },
    #[error("another membership change is in progress")]
    InProgress,
    #[error("`{field}` of a member {why}")]
    Invalid { field: &'static str, why: &'static str },
    #[error("no answer within {limit_ms} ms; the outcome is unknown")]
    TimedOut { limit_ms: u64 },
    #[error("consensus has stopped: {0}")]
    Stopped(String),
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the disk {location} belongs to cluster {found}, but this server is configured for cluster {expected}"
    )]
    OtherCluster { location: String, found: ClusterId, expected: ClusterId },
    #[error("cannot open the log in {location}: {cause}")]
    Log { location: String, cause: String },
    #[error("cannot read {subject} in {location}: {cause}")]
    Damaged { location: String, subject: &'static str, cause: String },
    #[error("cannot listen for peers: {0}")]
    Listen(#[source] io::Error),
    #[error("consensus cannot start: {0}")]
    Raft(String),
    #[error("{option}: {why}")]
    Option { option: &'static str, why: String },
}

/// A connection another member opened for the dispatcher. Both ends are authenticated.
pub struct DispatchConn {
    pub from: ServerId,
    pub conn: Conn,
}

/// Everything a member needs to start.
pub struct ConsensusOptions {
    pub disk: SharedDisk,
    pub network: Arc<dyn Network>,
    /// Raft's tasks run here, apart from the clients'.
    pub pool: keeper_rt::Pool,
    pub machine: Box<dyn StateMachine>,
    /// Shared by all members of the cluster; every peer connection proves it both ways.
    pub secret: Vec<u8>,
    /// When set, another cluster's disk or peer is refused.
    pub expected_cluster: Option<ClusterId>,
    pub heartbeat_ms: u64,
    /// Least and greatest election timeout.
    pub election_ms: (u64, u64),
    /// Log bytes since the last snapshot after which a new one is made; more where the snapshots are larger.
    pub snapshot_log_bytes: u64,
    /// Sizes of the log's files, and what happens when it can no longer know what is on the disk.
    pub log: keeper_log::Options,
}

impl ConsensusOptions {
    /// The defaults of production.
    pub fn new(
        disk: SharedDisk,
        network: Arc<dyn Network>,
        pool: keeper_rt::Pool,
        machine: Box<dyn StateMachine>,
        secret: Vec<u8>,
    ) -> ConsensusOptions {
        ConsensusOptions {
            disk,
            network,
            pool,
            machine,
            secret,
            expected_cluster: None,
            heartbeat_ms: 300,
            election_ms: (900, 1200),
            snapshot_log_bytes: 64 << 20,
            log: keeper_log::Options::default(),
        }
    }
}
