//! Every word of ZooKeeper 3.9 and of ClickHouse Keeper 26.6, and one of our own. Data only and without an import: `cargo xtask generate`
//! reads this file too, for `docs/compatibility.md`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Zookeeper,
    Clickhouse,
    Both,
    /// No other server has it.
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    Yes,
    Partly,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub name: &'static str,
    pub origin: Origin,
    pub support: Support,
    /// Answered unless the configuration lists the words. Such a word changes nothing, names no node and costs little.
    pub open: bool,
    /// Answered only while this member serves clients, as ZooKeeper does.
    pub needs_service: bool,
    /// What it answers, or what is missing.
    pub note: &'static str,
}

use Origin::{Both, Clickhouse, Own, Zookeeper};
use Support::{No, Partly, Yes};

/// Anybody may ask it.
const OPEN: bool = true;
/// Only where it is listed.
const LISTED: bool = false;
const SERVING: bool = true;
const ALWAYS: bool = false;

const fn word(
    name: &'static str,
    origin: Origin,
    support: Support,
    open: bool,
    needs_service: bool,
    note: &'static str,
) -> Word {
    Word { name, origin, support, open, needs_service, note }
}

pub const WORDS: &[Word] = &[
    word("ruok", Both, Yes, OPEN, ALWAYS, "`imok`: the process answers"),
    word(
        "srvr",
        Both,
        Yes,
        OPEN,
        SERVING,
        "version, latency, packets, mode; the average latency is a whole number",
    ),
    word("stat", Both, Yes, OPEN, SERVING, "`srvr` and the clients"),
    word("mntr", Both, Partly, OPEN, SERVING, "what is measured here, under the same names; nothing else"),
    word(
        "conf",
        Both,
        Partly,
        OPEN,
        SERVING,
        "the settings there are, in ZooKeeper's names where it has one",
    ),
    word("cons", Both, Yes, OPEN, SERVING, "connections with their statistics"),
    word("envi", Both, Partly, OPEN, ALWAYS, "version, host, system, user; nothing of a Java machine"),
    word("isro", Both, Yes, OPEN, ALWAYS, "`rw`, `ro` without a quorum, `null` while not serving"),
    word("wchs", Both, Yes, OPEN, SERVING, "numbers of watches"),
    word("dirs", Both, Yes, OPEN, SERVING, "bytes of snapshots and log, under both servers' names"),
    word(
        "hash",
        Zookeeper,
        Partly,
        OPEN,
        SERVING,
        "the last zxid and the tree's digest, which is not ZooKeeper's",
    ),
    word("gtmk", Zookeeper, Yes, OPEN, ALWAYS, "trace mask"),
    word(
        "stmk",
        Zookeeper,
        Partly,
        LISTED,
        ALWAYS,
        "trace mask; only the bit of client requests has an effect",
    ),
    word("crst", Both, Yes, LISTED, SERVING, "resets the connections' statistics"),
    word("srst", Both, Yes, LISTED, SERVING, "resets the server's statistics"),
    word("wchc", Both, Yes, LISTED, SERVING, "watches by session"),
    word("wchp", Both, Yes, LISTED, SERVING, "watches by path"),
    word("dump", Both, Partly, LISTED, SERVING, "sessions, ephemeral nodes, connections; no times of expiry"),
    word("apiv", Clickhouse, Yes, OPEN, ALWAYS, "version of ClickHouse's operations"),
    word(
        "lgif",
        Clickhouse,
        Partly,
        OPEN,
        ALWAYS,
        "ends of the log, commit, snapshot, cache; entries in the cache are not counted",
    ),
    word("ftfl", Clickhouse, Yes, OPEN, ALWAYS, "feature flags"),
    word("pfev", Clickhouse, Partly, OPEN, ALWAYS, "ClickHouse's events that are measured here"),
    word("csnp", Clickhouse, Yes, LISTED, ALWAYS, "begins a snapshot"),
    word("rqld", Clickhouse, Yes, LISTED, ALWAYS, "asks the leader to hand leadership to this member"),
    word("ydld", Clickhouse, Yes, LISTED, ALWAYS, "the leader hands leadership to the member furthest along"),
    word(
        "rclc",
        Clickhouse,
        Yes,
        LISTED,
        ALWAYS,
        "`ok`: the size is kept exactly, nothing is left to recalculate",
    ),
    word("clrs", Clickhouse, Partly, LISTED, ALWAYS, "`ok`: nothing is held that could be released"),
    word("lgrq", Clickhouse, Yes, LISTED, ALWAYS, "switches the logging of requests on and off"),
    word(
        "rcvr",
        Clickhouse,
        No,
        LISTED,
        ALWAYS,
        "no word makes one member overrule a lost quorum: start a majority of the voters with their \
         volumes; `keeper member list` names them",
    ),
    word(
        "rcfg",
        Clickhouse,
        Yes,
        LISTED,
        ALWAYS,
        "changes the membership for whoever asks, so only where the white list names it (`*` does not) and \
         `reconfig.enabled` is set; priorities have no effect",
    ),
    word("stgs", Own, Yes, OPEN, ALWAYS, "how long writes take, stage by stage"),
    word("jmst", Clickhouse, No, LISTED, ALWAYS, "says that jemalloc is not built in"),
    word("jmfp", Clickhouse, No, LISTED, ALWAYS, "says that jemalloc is not built in"),
    word("jmep", Clickhouse, No, LISTED, ALWAYS, "says that jemalloc is not built in"),
    word("jmdp", Clickhouse, No, LISTED, ALWAYS, "says that jemalloc is not built in"),
];
