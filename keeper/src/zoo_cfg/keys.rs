//! What this server makes of ZooKeeper's keys that set nothing in it: which are not served yet, and which have nothing
//! to do here. Everything else is a field of [`super::ZooCfg`] or unknown.

/// Keys that ask for something that is not there. `harmless` is the value that asks for nothing (empty: every value asks
/// for something), `instead` what to do. **To serve one: take its row out and use it in [`super::ZooCfg::config`].**
pub const NOT_YET_SERVED: &[Unserved] = &[
    row("ssl.clientHostnameVerification", "false", "list the subjects you trust in ACLs of the scheme x509"),
    row("ssl.protocol", "", "TLS 1.2 and 1.3 are offered; switch a version off in your clients"),
    row("ssl.enabledProtocols", "", "TLS 1.2 and 1.3 are offered; switch a version off in your clients"),
    row("ssl.ciphersuites", "", "only suites with forward secrecy and authenticated encryption are offered"),
    row(
        "sslQuorum",
        "false",
        "members talk in plain text with this file: use a configuration of ours with [peer_tls]",
    ),
    row("portUnification", "false", "members talk either with TLS or without: see sslQuorum"),
    row("client.portUnification", "false", "open both ports: clientPort and secureClientPort"),
    row("allowSaslFailedClients", "false", "let clients that cannot log in connect without SASL"),
    row(
        "quorum.auth.enableSasl",
        "false",
        "members prove a secret: give all of them the same castellan.secretFile",
    ),
    row("metricsProvider.httpPort", "", "scrape /metrics at admin.serverPort"),
];

/// A row of [`NOT_YET_SERVED`].
pub struct Unserved {
    pub key: &'static str,
    pub harmless: &'static str,
    pub instead: &'static str,
}

const fn row(key: &'static str, harmless: &'static str, instead: &'static str) -> Unserved {
    Unserved { key, harmless, instead }
}

/// Keys that ask for something this server does another way, or has no part for, with the reason. Said once, at `info`.
pub const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("ssl.hostnameVerification", "clients' names are not verified, as ZooKeeper does not unless told to"),
    ("znode.container.maxPerMinute", "containers are removed in the pace of the log"),
    ("localSessionsEnabled", "every session is known to all members, and may move"),
    ("localSessionsUpgradingEnabled", "every session is known to all members, and may move"),
    (
        "enableEagerACLCheck",
        "the answer is the same; ACLs are checked where a write takes its place in the order",
    ),
    ("metricsProvider.className", "/metrics is always at admin.serverPort"),
    ("initLimit", "members join and catch up without a limit in ticks"),
    ("syncLimit", "elections have times of their own"),
    ("connectToLearnerMasterLimit", "elections have times of their own"),
    ("electionAlg", "Raft elects"),
    ("electionPortBindRetry", "admin calls go over the election port"),
    ("cnxTimeout", "Raft elects"),
    ("leaderServes", "every member serves clients"),
    ("peerType", "the role stands in the server line"),
    ("standaloneEnabled", "one server and several are started alike"),
    ("dataLogDir", "log and snapshots lie together in dataDir"),
    ("dynamicConfigFile.backup", "the membership lies in the log"),
    ("autopurge.snapRetainCount", "old snapshots and log segments are always removed"),
    ("autopurge.purgeInterval", "old snapshots and log segments are always removed"),
    ("snapCount", "snapshots are made by log bytes: snapSizeLimitInKb"),
    ("preAllocSize", "segments are preallocated"),
    ("syncEnabled", "observers write logs and snapshots"),
    ("serverCnxnFactory", "there is one"),
    ("globalOutstandingLimit", "every queue has a limit in bytes"),
    ("clientPortListenBacklog", "the system's"),
    ("fsync.warningthresholdms", "the metrics show times of the log"),
    ("forceSync", "every write is on disk before it is acknowledged"),
    ("admin.enableServer", "probes and metrics listen on loopback unless admin.serverPort is set"),
    ("admin.commandURL", "there is no admin server in ZooKeeper's form"),
    ("admin.idleTimeout", "there is no admin server in ZooKeeper's form"),
    ("commitProcessor.numWorkerThreads", "threads are the runtime's"),
    ("learner.asyncSending", "peers never wait for each other's sending"),
    ("digest.enabled", "the tree's digest is always kept"),
    ("db.autocreate", "an empty folder never takes part in an election"),
    ("snapshot.trust.empty", "an empty folder never takes part in an election"),
    ("audit.enable", "there is no audit log"),
    ("DigestAuthenticationProvider.digestAlg", "SHA1, as clients compute it"),
    ("nio.numSelectorThreads", "threads are the runtime's"),
    ("nio.numWorkerThreads", "threads are the runtime's"),
    ("maxResponseCacheSize", "there is no cache of answers"),
    ("maxGetChildrenResponseCacheSize", "there is no cache of answers"),
    ("4lw.commands.enableAll", "name the words in 4lw.commands.whitelist"),
];

/// Families of keys for which the same holds.
pub const WITHOUT_EFFECT_PREFIXES: &[(&str, &str)] = &[
    ("group.", "quorums are plain majorities; hierarchical ones are not served"),
    ("weight.", "every voter has one vote"),
    ("commitProcessor.", "threads are the runtime's"),
    ("log.", "logs go to standard error, level by KEEPER_LOG"),
    ("root.logger", "logs go to standard error, level by KEEPER_LOG"),
    ("console.threshold", "logs go to standard error, level by KEEPER_LOG"),
];
