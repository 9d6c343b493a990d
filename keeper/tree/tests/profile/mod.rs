//! A tree like that of a ClickHouse cluster with many replicated tables, grown to any size: paths of 117 bytes in the
//! mean, names of 23, data of 46 (43 of 100 nodes have none), directories of a few to some thousand children and one with a
//! tenth of all nodes. And what this process has in memory.

use keeper_tree::{Command, CommandOp, Outcome, Readers, Sink, Tree};
use keeper_types::{
    Acl, CreateRequest, EventKind, Generation, OpCode, Request, SessionId, SetDataRequest, Zxid,
};

pub struct Deaf;

impl Sink for Deaf {
    fn event(&mut self, _kind: EventKind, _path: &str, _zxid: Zxid, _readers: &Readers) {}
    fn session_ended(&mut self, _id: SessionId) {}
    fn session_moved(&mut self, _id: SessionId, _generation: Generation) {}
}

/// Sums over the nodes made.
#[derive(Default)]
pub struct Lengths {
    pub nodes: usize,
    pub path: usize,
    pub name: usize,
    pub data: usize,
    pub with_data: usize,
}

pub struct Grower {
    pub tree: Tree,
    pub lengths: Lengths,
    session: SessionId,
    random: u64,
}

#[allow(dead_code, reason = "each program that includes this file uses a part of it")]
impl Grower {
    pub fn new() -> Grower {
        let mut grower =
            Grower { tree: Tree::new(), lengths: Lengths::default(), session: SessionId(0), random: 1 };
        // A time as in real life, so that times are as long as there.
        grower.tree.admit(
            keeper_tree::BatchId { origin: keeper_types::ServerId(1), epoch: 1, seq: 0 },
            1_700_000_000_000,
        );
        grower.session = grower.open_session();
        grower
    }

    pub fn open_session(&mut self) -> SessionId {
        match self.apply(CommandOp::CreateSession { timeout_ms: 10_000, password: [7; 16] }) {
            Outcome::Session { id, .. } => id,
            other => panic!("{other:?} is no session"),
        }
    }

    /// Whose session the next commands are of.
    pub fn become_session(&mut self, session: SessionId) {
        self.session = session;
    }

    fn apply(&mut self, op: CommandOp<'_>) -> Outcome {
        let command = Command {
            session: self.session,
            generation: Generation(1),
            identities: &[],
            op,
            enforce_quota: false,
            want_reply: false,
        };
        let applied = self.tree.apply(&command, &mut Deaf);
        applied.result.unwrap_or_else(|code| panic!("{command:?}: {code}"))
    }

    /// SplitMix64.
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    pub fn create(&mut self, path: &str, data: &[u8], flags: i32) {
        let create = CreateRequest { path, data: Some(data), acl: vec![Acl::open()], flags, ttl_ms: None };
        self.apply(CommandOp::Request(&Request::Create(OpCode::Create, create)));
    }

    pub fn set(&mut self, path: &str, data: &[u8]) {
        self.apply(CommandOp::Request(&Request::SetData(SetDataRequest {
            path,
            data: Some(data),
            version: -1,
        })));
    }

    /// A node of the profile.
    fn add(&mut self, path: &str) {
        let data = [b'x'; 161];
        let length = if self.below(100) < 57 { 1 + self.below(161) as usize } else { 0 };
        self.create(path, &data[..length], 0);
        self.lengths.nodes += 1;
        self.lengths.path += path.len();
        self.lengths.name += path.len() - path.rfind('/').map_or(0, |at| at + 1);
        self.lengths.data += length;
        self.lengths.with_data += usize::from(length > 0);
    }

    /// Tables until there are `nodes` nodes.
    pub fn grow(&mut self, nodes: usize) {
        let top = "/clickhouse/eu/tables";
        for path in ["/clickhouse", "/clickhouse/eu", top] {
            self.add(path);
        }
        let queue = format!("{top}/{}/replicas/task_queue_of_the_whole_cluster/ddl", self.uuid());
        let mut at = "/clickhouse/eu/tables".len();
        while let Some(end) = queue[at + 1..].find('/') {
            at += 1 + end;
            self.add(&queue[..at]);
        }
        self.add(&queue);
        let mut queued = 0;
        while self.lengths.nodes < nodes {
            self.table(top);
            while queued < self.lengths.nodes / 10 {
                self.add(&format!("{queue}/query-of-cluster-{queued:010}"));
                queued += 1;
            }
        }
    }

    fn uuid(&mut self) -> String {
        let (high, low) = (self.below(1 << 62), self.below(1 << 62));
        format!("{:08x}-{:04x}-4fff-8fff-{:012x}", high as u32, (high >> 32) as u16, low & ((1 << 48) - 1))
    }

    /// One table: its fixed nodes, its log and blocks, and three replicas with their parts.
    fn table(&mut self, top: &str) {
        let table = format!("{top}/{}", self.uuid());
        self.add(&table);
        let shard = format!("{table}/{:02}", self.below(100));
        self.add(&shard);
        for name in ["metadata", "columns", "temp", "quorum", "mutations", "nonincrement_block_numbers"] {
            self.add(&format!("{shard}/{name}"));
        }
        let size = 1 + self.below(60) * self.below(60);
        for (directory, name) in [("log", "log-"), ("blocks", "20240131_1234567890123_")] {
            let directory = format!("{shard}/{directory}");
            self.add(&directory);
            (0..size / 4).for_each(|number| self.add(&format!("{directory}/{name}{number:010}")));
        }
        self.add(&format!("{shard}/replicas"));
        for replica in 0..3 {
            let replica = format!("{shard}/replicas/chi-cluster-main-{replica}-0");
            self.add(&replica);
            for name in ["is_active_since", "host", "flags", "columns", "metadata", "log_pointer", "queue"] {
                self.add(&format!("{replica}/{name}"));
            }
            let parts = format!("{replica}/parts");
            self.add(&parts);
            for number in 0..size {
                self.add(&format!("{parts}/202401_{:06}_{:06}_{}", number * 7, number * 7 + 6, number % 9));
            }
        }
    }
}

/// Bytes of this process that are in memory.
#[allow(clippy::disallowed_methods, reason = "a measurement of this process, outside of any server")]
pub fn resident_bytes() -> usize {
    let statm = std::fs::read("/proc/self/statm").expect("Linux");
    let text = String::from_utf8(statm).expect("text");
    let pages = text.split(' ').nth(1).and_then(|field| field.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}
