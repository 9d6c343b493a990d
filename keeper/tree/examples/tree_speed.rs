//! Prints how fast one thread works on the tree: creates, gets of nodes just used, gets of random nodes, sets,
//! deletes, and a snapshot there and back. `cargo run --release -p keeper-tree --example tree_speed [NODES]`.
#![allow(
    clippy::disallowed_methods,
    reason = "a measurement needs the clock; nothing of this runs in a server"
)]

use std::time::Instant;

use keeper_tree::{Command, CommandOp, Outcome, Readers, Sink, Tree};
use keeper_types::{
    Acl, CreateRequest, DeleteRequest, EventKind, Generation, OpCode, Request, SessionId, SetDataRequest,
    Zxid,
};

struct Deaf;

impl Sink for Deaf {
    fn event(&mut self, _kind: EventKind, _path: &str, _zxid: Zxid, _readers: &Readers) {}
    fn session_ended(&mut self, _id: SessionId) {}
    fn session_moved(&mut self, _id: SessionId, _generation: Generation) {}
}

struct Writer {
    tree: Tree,
    session: SessionId,
}

impl Writer {
    fn apply(&mut self, op: CommandOp<'_>) -> Outcome {
        let generation = Generation(1);
        let command = Command {
            session: self.session,
            generation,
            identities: &[],
            op,
            enforce_quota: false,
            want_reply: false,
        };
        let applied = self.tree.apply(&command, &mut Deaf);
        applied.result.unwrap_or_else(|code| panic!("{command:?}: {code}"))
    }
}

fn main() {
    let nodes: usize =
        std::env::args().nth(1).map_or(1_000_000, |text| text.parse().expect("a number of nodes"));
    let mut writer = Writer { tree: Tree::new(), session: SessionId(0) };
    let opened = writer.apply(CommandOp::CreateSession { timeout_ms: 4000, password: [0; 16] });
    let Outcome::Session { id, .. } = opened else { panic!("{opened:?} is no session") };
    writer.session = id;
    let directories = nodes.div_ceil(1000);
    let data = [b'd'; 46];
    let directory = |number: usize| format!("/clickhouse/tables/0123456789abcdef/replicas/shard-{number:08}");
    let paths: Vec<String> = (0..nodes)
        .map(|number| format!("{}/blocks_{:016x}", directory(number % directories), number * 0x9e37_79b9))
        .collect();
    let create = |writer: &mut Writer, path: &str| {
        let create =
            CreateRequest { path, data: Some(&data), acl: vec![Acl::open()], flags: 0, ttl_ms: None };
        writer.apply(CommandOp::Request(&Request::Create(OpCode::Create, create)));
    };
    for path in ["/clickhouse", "/clickhouse/tables", "/clickhouse/tables/0123456789abcdef"] {
        create(&mut writer, path);
    }
    create(&mut writer, "/clickhouse/tables/0123456789abcdef/replicas");
    (0..directories).for_each(|number| create(&mut writer, &directory(number)));

    measure("creates", nodes, || paths.iter().for_each(|path| create(&mut writer, path)));
    let get =
        |tree: &Tree, path: &str| tree.get_data(path, &[]).map_or(0, |(data, _)| data.map_or(0, <[u8]>::len));
    let mut bytes = 0;
    let hot = &paths[..paths.len().min(1000)];
    measure("gets of 1000 nodes", nodes, || {
        bytes += (0..nodes).map(|number| get(&writer.tree, &hot[number % hot.len()])).sum::<usize>();
    });
    measure("gets of all nodes, scattered", nodes, || {
        bytes += (0..nodes).map(|number| get(&writer.tree, &paths[number * 7919 % nodes])).sum::<usize>();
    });
    assert_eq!(bytes, 2 * nodes * data.len());
    measure("sets, scattered", nodes, || {
        for number in 0..nodes {
            let set = SetDataRequest { path: &paths[number * 7919 % nodes], data: Some(&data), version: -1 };
            writer.apply(CommandOp::Request(&Request::SetData(set)));
        }
    });
    let mut chunks = Vec::new();
    measure("nodes encoded", nodes, || writer.tree.encode_snapshot(&mut |chunk| chunks.push(chunk)));
    let mut decoded = None;
    measure("nodes decoded", nodes, || {
        decoded = Some(Tree::decode_snapshot(chunks.iter().map(Vec::as_slice)).expect("decodable"));
    });
    assert_eq!(decoded.map(|tree| tree.digest()), Some(writer.tree.digest()));
    measure("deletes", nodes, || {
        for path in &paths {
            writer.apply(CommandOp::Request(&Request::Delete(DeleteRequest { path, version: -1 })));
        }
    });
}

fn measure(what: &str, count: usize, run: impl FnOnce()) {
    let start = Instant::now();
    run();
    let seconds = start.elapsed().as_secs_f64();
    println!("{what:32} {:>12.0} /s  ({:.0} ns each)", count as f64 / seconds, seconds * 1e9 / count as f64);
}
