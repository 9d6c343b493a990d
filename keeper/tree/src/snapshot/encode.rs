//! Writes a tree in the format of `docs/formats/tree-snapshot.md`.

use xxhash_rust::xxh3::Xxh3;

use super::{MAGIC, NO_PARENT, NULL_DATA, VERSION};
use crate::limits::SNAPSHOT_CHUNK_BYTES_MAX;
use crate::node::{Node, NodeId, ROOT};
use crate::tree::Tree;

impl Tree {
    /// Hands the whole state to `chunk`, piece by piece; no piece is longer than `SNAPSHOT_CHUNK_BYTES_MAX`.
    pub fn encode_snapshot(&self, chunk: &mut dyn FnMut(Vec<u8>)) {
        let mut writer = Writer { buffer: Vec::new(), hash: Xxh3::new(), chunk };
        self.encode_header(&mut writer);
        for (id, at) in &self.origins {
            writer.u64(id.0);
            writer.u64(at.epoch);
            writer.u64(at.next);
        }
        let acl_numbers = self.encode_acls(&mut writer);
        for view in self.sessions() {
            writer.i64(view.id.0);
            writer.i32(view.timeout_ms);
            writer.u32(view.generation.0);
            writer.bytes(&view.password);
        }
        self.encode_nodes(&acl_numbers, &mut writer);
        writer.finish();
    }

    fn encode_header(&self, writer: &mut Writer<'_>) {
        writer.bytes(&MAGIC);
        writer.u32(VERSION);
        writer.i64(self.zxid.0);
        writer.i64(self.time_ms);
        writer.u64(self.sessions_created);
        writer.u64(self.digest());
        writer.u32(self.origins.len() as u32);
        writer.u32(self.store.acls.in_use().count() as u32);
        writer.u32(self.sessions.len() as u32);
        writer.u32(self.store.len() as u32);
    }

    /// Returns each ACL's number in the file, by its number in the table.
    fn encode_acls(&self, writer: &mut Writer<'_>) -> Vec<u32> {
        let mut numbers = vec![0; self.store.acls.slots()];
        for (number, (at, list)) in self.store.acls.in_use().enumerate() {
            numbers[at.0 as usize] = number as u32;
            writer.u32(list.len() as u32);
            for acl in list {
                writer.i32(acl.perms.0);
                writer.text(&acl.id.scheme);
                writer.text(&acl.id.id);
            }
        }
        numbers
    }

    /// Breadth first: every node after its parent, siblings in the order they are listed in.
    fn encode_nodes(&self, acl_numbers: &[u32], writer: &mut Writer<'_>) {
        let mut queue: Vec<(NodeId, u32)> = Vec::with_capacity(self.store.len());
        queue.push((ROOT, NO_PARENT));
        let mut number = 0;
        while let Some((id, parent)) = queue.get(number).copied() {
            let node = self.store.node(id);
            encode_node(&node, parent, acl_numbers[node.acl.0 as usize], writer);
            queue.extend(node.children().iter().map(|child| (*child, number as u32)));
            number += 1;
        }
    }
}

fn encode_node(node: &Node<'_>, parent: u32, acl: u32, writer: &mut Writer<'_>) {
    writer.u32(parent);
    writer.text(node.name());
    match node.data() {
        Some(data) => {
            writer.u32(data.len() as u32);
            writer.bytes(data);
        }
        None => writer.u32(NULL_DATA),
    }
    writer.u32(acl);
    for number in [node.czxid, node.mzxid, node.pzxid, node.ctime, node.mtime] {
        writer.i64(number);
    }
    for number in [node.version, node.creates, node.aversion] {
        writer.i32(number);
    }
    writer.i64(node.owner);
}

struct Writer<'a> {
    /// Never longer than a chunk.
    buffer: Vec<u8>,
    hash: Xxh3,
    chunk: &'a mut dyn FnMut(Vec<u8>),
}

impl Writer<'_> {
    fn bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = SNAPSHOT_CHUNK_BYTES_MAX - self.buffer.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.buffer.extend_from_slice(now);
            bytes = later;
            if self.buffer.len() == SNAPSHOT_CHUNK_BYTES_MAX {
                self.flush();
            }
        }
    }

    fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.bytes(text.as_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let room = Vec::with_capacity(SNAPSHOT_CHUNK_BYTES_MAX);
        let full = std::mem::replace(&mut self.buffer, room);
        self.hash.update(&full);
        (self.chunk)(full);
    }

    /// The checksum of everything before it is the last record.
    fn finish(mut self) {
        let mut hash = self.hash.clone();
        hash.update(&self.buffer);
        self.u64(hash.digest());
        self.flush();
    }
}
