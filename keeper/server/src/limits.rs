//! Every bound of the server, in one place: queues, buffers, loops and waits.

use std::time::Duration;

/// Largest request frame by default: the same as ZooKeeper's `jute.maxbuffer`.
pub const FRAME_BYTES_MAX_DEFAULT: usize = 0x000f_ffff;
/// The most that a configuration may ask for.
pub const FRAME_BYTES_MAX_LIMIT: usize = 64 * 1024 * 1024;

/// Requests one connection may have unanswered; beyond it the socket is not read.
pub const CONNECTION_REQUESTS_MAX: usize = 1_000;
/// Bytes of requests one connection may have unanswered; one frame more may pass.
pub const CONNECTION_REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Replies and events waiting for one client's socket; beyond it requests are not read.
pub const OUTBOX_BYTES_PAUSE: usize = 4 * 1024 * 1024;
/// Beyond it the client is too slow to keep: its connection is closed.
pub const OUTBOX_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A client that takes no byte of its replies for so long is gone or broken: its connection is closed.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(30);
/// A client that started a frame must finish it within this time.
pub const FRAME_STALL_MAX: Duration = Duration::from_secs(30);
/// A connection that ends gets what is ready within this time.
pub const LAST_WORDS_TIME_MAX: Duration = Duration::from_secs(1);
/// Time for the first packet of a connection.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a client of a port for both may take to show by its first byte whether it speaks TLS.
pub const FIRST_BYTE_TIME_MAX: Duration = HANDSHAKE_TIME_MAX;
/// A new session, or an old one, is asked of the leader for so long. A member without a leader then
/// sends the client to the next one.
pub const SESSION_OPEN_TIME_MAX: Duration = Duration::from_secs(2);
/// Bytes asked of the socket at once.
pub const READ_CHUNK_BYTES: usize = 64 * 1024;
/// A larger buffer of replies is given back once they are written: an idle connection keeps two of these at most.
pub const OUTPUT_BYTES_KEPT: usize = 2 * 1024;
/// Connections that wait to be accepted. When a leader dies, thousands come at once; one that finds no room tries again only
/// after a second. The system may allow fewer (`net.core.somaxconn`).
pub const ACCEPT_BACKLOG: u32 = 4096;
/// Client connections of one member by default.
pub const CONNECTIONS_MAX_DEFAULT: usize = 10_000;
/// Clients that a guest of the cluster passes on at a time, and the wait for the member it passes them to.
pub const PASSED_ON_MAX: usize = 1_000;
pub const PASS_ON_DIAL_TIME_MAX: Duration = Duration::from_secs(2);
/// One line a period about clients refused for the connections of their address.
pub const ADDRESS_REFUSAL_LOG_PERIOD: Duration = Duration::from_secs(10);
/// Identities (auth packets) of one connection.
pub const IDENTITIES_MAX: usize = 64;
/// Bytes of one auth packet's data; its length travels in two bytes.
pub const IDENTITY_BYTES_MAX: usize = 1024;
/// Bytes of all identities of one connection: they travel with each of its writes.
pub const IDENTITIES_BYTES_MAX: usize = 4 * 1024;
/// Bytes of ClickHouse's password in a handshake: the field has 16.
pub const CLICKHOUSE_PASSWORD_BYTES_MAX: usize = 16;
/// How often a member says that it checks no ACLs.
pub const SKIP_ACL_WARNING_PERIOD: Duration = Duration::from_secs(3600);
/// Log lines about clients that break the protocol or are one too many, in a period; the others are counted.
pub const STRANGERS_LINES_MAX: u32 = 10;
pub const STRANGERS_LINES_PERIOD: Duration = Duration::from_secs(1);
/// Watches of one connection.
pub const WATCHES_PER_CONNECTION_MAX: usize = 1_000_000;
/// Watches set or removed under one hold of the locks that every write needs.
pub const WATCHES_AT_A_TIME: usize = 500;
/// Tables that the watched paths are spread over: one that grows holds everybody up for its part only.
pub const WATCH_SHARDS: usize = 256;
/// A read with a longer reply (estimated) that comes behind a write waits for it on its own connection, instead of being
/// answered by the task that applies everybody's writes.
pub const READ_BEHIND_WRITE_BYTES_MAX: usize = 64 * 1024;
/// So does a read behind so many unanswered requests: the write it comes behind may itself make it a long one.
pub const READ_BEHIND_REQUESTS_MAX: usize = 64;
/// Reads of one multiRead under one hold of the tree's lock, bytes of their results, and bytes of all its results.
pub const MULTI_READS_AT_A_TIME: usize = 100;
pub const MULTI_READ_BYTES_AT_A_TIME: usize = 256 * 1024;
pub const MULTI_READ_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A request body of this size is a large write, and so many bytes of them are under way at a time: as much as the largest
/// frame by default. What a small write waits for the large ones of others is bounded by it.
pub const LARGE_WRITE_BYTES: usize = 64 * 1024;
/// So is one whose client has so many bytes of identities.
pub const LARGE_IDENTITIES_BYTES: usize = 1024;
pub const LARGE_WRITES_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of writes waiting for dispatch on this member; beyond it connections are not read.
pub const INGRESS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Batches of this member in flight: measured, 8 costs half a millisecond at 256 sessions, 64 none.
pub const BATCHES_IN_FLIGHT_MAX: usize = 64;
pub const BATCH_BYTES_IN_FLIGHT_MAX: usize = 16 * 1024 * 1024;
/// Requests and bytes of one batch; a single larger request makes a batch of its own.
pub const BATCH_REQUESTS_MAX: usize = 512;
pub const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Frames waiting on one dispatch connection.
pub const DISPATCH_FRAMES_MAX: usize = 128;
/// Pause after a refusal before the unapplied batches are sent again.
pub const RESEND_PAUSE: Duration = Duration::from_millis(10);
/// In-flight batches that make no progress for so long are sent again.
pub const RESEND_STALL: Duration = Duration::from_secs(2);

/// How often sessions are touched at the leader (more often where timeouts may be shorter than four times this), and
/// looked over for expiry.
pub const TOUCH_PERIOD: Duration = Duration::from_millis(500);
pub const EXPIRY_PERIOD: Duration = Duration::from_millis(200);
/// Sessions whose connections broke that the next touch tells of.
pub const SESSIONS_LEFT_MAX: usize = 65_536;
/// Sessions named in one touch frame.
pub const TOUCHES_PER_FRAME_MAX: usize = 8_192;
/// A member that knows no leader for so long does not let a new client wait for one.
pub const LEADERLESS_REFUSE_AFTER: Duration = Duration::from_millis(1_500);
/// A member that knows no leader for so long serves reads to clients that ask for it, where that is switched on.
pub const READ_ONLY_AFTER: Duration = Duration::from_secs(2);
/// A member that knows no leader for so long closes its clients, so that they find another member.
pub const LEADERLESS_CLOSE_AFTER: Duration = Duration::from_secs(4);

/// Servers named in one reconfig.
pub const RECONFIG_SERVERS_MAX: usize = 64;
/// Bytes of the argument of the word `rcfg`.
pub const RECONFIG_TEXT_BYTES_MAX: usize = 64 << 10;
/// How often a reconfig looks for a leader, and how long it may take in all.
pub const RECONFIG_TRIES_MAX: usize = 20;
pub const RECONFIG_TIME_MAX: Duration = Duration::from_secs(20);

/// How often the leader looks for TTL nodes whose time is over, and for empty containers (ZooKeeper: one minute).
pub const TTL_PERIOD_DEFAULT: Duration = Duration::from_secs(1);
pub const CONTAINER_PERIOD_DEFAULT: Duration = Duration::from_secs(60);
/// Nodes looked at in one go, while readers share the tree; ends of nodes proposed in one go.
pub const CLEANUP_LOOKS_MAX: usize = 10_000;

/// How often the members compare their trees, while something is written.
pub const DIGEST_PERIOD_DEFAULT: Duration = Duration::from_secs(10);
/// Marks that reports are kept of; reports on their way.
pub const DIGEST_MARKS_KEPT: usize = 8;

/// A member is caught up when it has applied all but this many of the entries it knows to be committed.
pub const READY_LAG_ENTRIES_MAX: u64 = 1_000;

/// Admin connections whose TLS handshake is done and that the gRPC server has not taken yet.
pub const ADMIN_CONNS_MAX: usize = 64;

/// How often the log is asked whether its disk is full.
pub const DISK_PERIOD: Duration = Duration::from_millis(100);

/// How often memory is looked at, and at how many hundredths of the limit writes are taken again.
pub const MEMORY_PERIOD: Duration = Duration::from_millis(100);
pub const MEMORY_BACK_SHARE: u64 = 95;

/// Waits of the orderly stop.
pub const HAND_OVER_TIME_MAX: Duration = Duration::from_secs(3);
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);

// Both travel with a write: the count in one byte, the length in two.
const _: () = assert!(IDENTITIES_MAX <= 255 && IDENTITY_BYTES_MAX <= 65_000);
const _: () = assert!(IDENTITY_BYTES_MAX < IDENTITIES_BYTES_MAX);
const _: () = assert!(crate::sasl::limits::USER_BYTES_MAX <= IDENTITY_BYTES_MAX);
const _: () = assert!(BATCH_BYTES_MAX < BATCH_BYTES_IN_FLIGHT_MAX);
const _: () = assert!(OUTBOX_BYTES_PAUSE < OUTBOX_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX_DEFAULT < FRAME_BYTES_MAX_LIMIT);

/// Bytes of one four-letter word's answer; what is longer is cut and says so. Clients read at least as much.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes of all large answers on their way at a time: strangers who never read cannot fill the memory.
pub const ANSWERS_BYTES_MAX: usize = 32 << 20;
/// Answers up to this size do not count against [`ANSWERS_BYTES_MAX`]: each fits a socket's buffer.
pub const ANSWER_BYTES_SMALL: usize = 16 << 10;
/// A client that does not read a word's answer within this time gets no more of it.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a word waits for the leader to take its wish.
pub const WISH_TIME_MAX: Duration = Duration::from_secs(2);

const _: () = assert!(ANSWER_BYTES_MAX < ANSWERS_BYTES_MAX);
