//! What this server makes of ZooKeeper's keys that set nothing in it: which are not served yet, and which have nothing
//! to do here. Everything else is a field of [`super::ZooCfg`] or unknown.

/// Keys that are read into [`super::ZooCfg`] and not acted upon. **To serve one: take its row out and use its field in
/// `super::config`.** `harmless` is the value that asks for nothing (empty: every value asks for something).
pub const NOT_YET_SERVED: &[Unserved] = &[
    row("ssl.hostnameVerification", ""),
    row("ssl.clientHostnameVerification", ""),
    row("ssl.protocol", ""),
    row("ssl.enabledProtocols", ""),
    row("ssl.ciphersuites", ""),
    row("ssl.crl", "false"),
    row("ssl.ocsp", "false"),
    row("sslQuorum", "false"),
    row("portUnification", "false"),
    row("client.portUnification", "false"),
    row("allowSaslFailedClients", "false"),
    row("znode.container.maxPerMinute", ""),
    row("localSessionsEnabled", "false"),
    row("localSessionsUpgradingEnabled", "false"),
    row("enableEagerACLCheck", "false"),
    row("quorum.auth.enableSasl", "false"),
    row("metricsProvider.className", ""),
    row("metricsProvider.httpPort", ""),
];

/// A row of [`NOT_YET_SERVED`].
pub struct Unserved {
    pub key: &'static str,
    pub harmless: &'static str,
}

const fn row(key: &'static str, harmless: &'static str) -> Unserved {
    Unserved { key, harmless }
}

/// Keys that ask for something this server does another way, or has no part for, with the reason. Said once, at `info`.
pub const WITHOUT_EFFECT: &[(&str, &str)] = &[
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
