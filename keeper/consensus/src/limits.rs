//! Every bound of this crate, by name.

use std::time::Duration;

/// Largest payload of one log entry: one client request at the largest configurable frame (64 MiB), with room for
/// the batch around it.
pub const PAYLOAD_BYTES_MAX: usize = 72 << 20;
/// Largest frame between members: one entry of the largest payload, with its heads.
pub const PEER_FRAME_BYTES_MAX: usize = 80 << 20;
const _: () = assert!(PAYLOAD_BYTES_MAX + (1 << 20) < PEER_FRAME_BYTES_MAX);

/// The first frames in each direction of a connection, which belong to the handshake, and their largest size: who has
/// proved nothing yet shall not fill the memory.
pub const HANDSHAKE_FRAMES: u64 = 2;
pub const HANDSHAKE_FRAME_BYTES_MAX: usize = 1024;

/// Payload bytes that one append request gathers; a single larger entry still travels alone.
pub const APPEND_BYTES_MAX: usize = 4 << 20;
/// Entries that one append request gathers. Entries are batches of many client requests already.
pub const APPEND_ENTRIES_MAX: u64 = 256;
/// Append requests on their way to one peer. openraft's own buffer on the other side has the same size.
pub const APPENDS_IN_FLIGHT_MAX: usize = 64;
/// Bytes of append requests on their way to one peer; beyond it the log is not read further for that peer.
pub const APPEND_BYTES_IN_FLIGHT_MAX: usize = 32 << 20;
/// Bytes that one step of applying reads from the log.
pub const APPLY_READ_BYTES_MAX: usize = 8 << 20;
/// Entries of so many bytes are applied on Raft's own thread: a millisecond or two, less than what a change of threads costs
/// where processors are few.
pub const APPLY_INLINE_BYTES_MAX: usize = 128 << 10;
/// Bytes that are applied before their clients are woken and another task may run.
pub const APPLY_BATCH_BYTES_MAX: usize = 1 << 20;

/// Proposals waiting for Raft's core.
pub const PROPOSALS_WAITING_MAX: u64 = 4096;
/// Internal notices waiting for Raft's core.
pub const NOTICES_WAITING_MAX: u64 = 65_536;
/// Commands waiting for the state machine's task.
pub const MACHINE_COMMANDS_WAITING_MAX: u64 = 1024;

/// Frames waiting in one direction of a connection.
pub const CONN_FRAMES_MAX: usize = 64;
/// Accepted connections that nobody has taken yet.
pub const ACCEPTED_CONNS_MAX: usize = 64;
/// Incoming peer connections at a time, those in the handshake included.
pub const PEER_CONNS_MAX: usize = 256;
/// Dispatch connections that the server has not taken yet.
pub const DISPATCH_CONNS_MAX: usize = 64;
/// Votes and the like of one connection answered at a time.
pub const RPCS_AT_A_TIME_MAX: usize = 16;
/// Broken leader connections that the failure detector has not looked at yet.
pub const DETECTOR_QUEUE_MAX: usize = 16;
/// Bytes that a TCP writer gathers before it calls the system.
pub const TCP_WRITE_BYTES_MAX: usize = 256 << 10;

/// Largest chunk of a snapshot on its way to a peer.
pub const SNAPSHOT_CHUNK_BYTES_MAX: usize = 4 << 20;
/// Chunks of a snapshot between its file and the connection.
pub const SNAPSHOT_CHUNKS_WAITING_MAX: usize = 8;

/// Members of a configuration, learners included.
pub const MEMBERS_MAX: usize = 64;
/// Bytes of each text of a [`Member`](crate::Member).
pub const MEMBER_TEXT_BYTES_MAX: usize = 512;
/// Bytes of a refusal's text on the wire.
pub const TEXT_BYTES_MAX: usize = 1024;

/// How long a peer may take for each step of the handshake.
pub const HANDSHAKE_STEP: Duration = Duration::from_millis(2000);
/// How long name resolution and connecting may take.
pub const DIAL: Duration = Duration::from_millis(1500);
/// An append connection with requests in flight whose answers stop for so long is broken and dialled again. Longer
/// than the election timeout: a slow disk alone must not cut connections.
pub const APPEND_STALL: Duration = Duration::from_millis(5000);
/// A snapshot that makes no step for so long is given up.
pub const SNAPSHOT_STALL: Duration = Duration::from_secs(30);
/// How long a follower may take to install a snapshot it has received.
pub const SNAPSHOT_INSTALL: Duration = Duration::from_secs(600);
/// How long a follower that needs nothing of a snapshot waits to hear its sender as the leader.
pub const SNAPSHOT_VOTE_WAIT: Duration = Duration::from_secs(2);
/// First delays between attempts to reach a peer, then the longest.
pub const PEER_BACKOFF: &str = "50ms 100ms 200ms ...1000ms";

/// TCP keepalive: idle time, then the interval of probes.
pub const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Sent bytes unacknowledged for so long break a TCP connection.
pub const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

/// Entries that a learner may lag behind when it gets its vote.
pub const PROMOTE_LAG_MAX: u64 = 64;
/// How long `promote` waits for the learner to catch up.
pub const PROMOTE_WAIT: Duration = Duration::from_secs(10);
/// How long a membership call waits for its commit.
pub const ADMIN_WAIT: Duration = Duration::from_secs(10);
/// How long a transfer of leadership may take.
pub const TRANSFER_WAIT: Duration = Duration::from_secs(5);

/// Dials, after the first, that ask whether a leader whose connection broke is dead: a dying process's listener can
/// outlive its connections. About 200 ms in all.
pub const REDIAL_WAITS_MS: [u64; 7] = [0, 3, 6, 12, 25, 50, 100];
/// Delay of the first pre-vote after a leader's death, and what each rank adds, so that one candidate is ahead.
pub const PRE_VOTE_BASE_MS: u64 = 2;
pub const PRE_VOTE_RANK_MS: u64 = 25;
/// Pre-votes are repeated after this and a random part of the same size, until a leader is known.
pub const PRE_VOTE_REPEAT_MS: u64 = 30;
pub const PRE_VOTE_RANDOM_MS: u64 = 60;
/// Pre-votes after one death: about three seconds.
pub const PRE_VOTES_MAX: usize = 50;

/// How often the log's size is compared with `snapshot_log_bytes`.
pub const SNAPSHOT_CHECK: Duration = Duration::from_millis(1000);
/// Pause after each chunk of a snapshot that is being made: clients come first where processors are few.
pub const SNAPSHOT_PACE: Duration = Duration::from_millis(1);
/// A snapshot that was not written, for want of space, is tried again after this.
pub const SNAPSHOT_RETRY: Duration = Duration::from_secs(10);
/// A snapshot larger than `snapshot_log_bytes` waits for as much log as it is large, up to this many times as much: what
/// is written twice stays bounded, and so does what a restart applies.
pub const SNAPSHOT_LOG_FACTOR_MAX: u64 = 8;
/// A leader that no quorum has answered for so long counts as none, and so does one that its follower has not heard of.
/// Ten heartbeats, and longer than an election.
pub const LEADER_LOST_AFTER: Duration = Duration::from_secs(3);
/// How often a member looks whether that is so.
pub const LEADER_LOOK: Duration = Duration::from_millis(250);
/// Status is published at most this often while only indexes move.
pub const STATUS_INTERVAL: Duration = Duration::from_millis(10);

/// A refused peer is named in the log once in so long, for each reason.
pub const REFUSAL_SAID_EVERY: Duration = Duration::from_secs(30);
