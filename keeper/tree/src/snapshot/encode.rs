//! Writes a tree in the format of `docs/formats/tree-snapshot.md`.

use std::collections::VecDeque;

use super::output::Output;
use super::{MAGIC, NO_PARENT, NULL_DATA, VERSION};
use crate::limits::SNAPSHOT_CHUNK_BYTES_MAX;
use crate::node::{Node, NodeId, ROOT};
use crate::tree::Tree;

impl Tree {
    /// Hands the whole state to `chunk`, piece by piece; no piece is longer than `SNAPSHOT_CHUNK_BYTES_MAX`.
    pub fn encode_snapshot(&self, chunk: &mut dyn FnMut(Vec<u8>)) {
        let mut output = Output::default();
        let acl_numbers = self.encode_head(&mut output);
        let mut walk = Walk::new(acl_numbers);
        while let Some((id, parent)) = walk.next() {
            let node = self.store.node(id);
            walk.visit(&node, node.children().to_vec(), parent, &mut output);
            if output.len() >= SNAPSHOT_CHUNK_BYTES_MAX {
                std::iter::from_fn(|| output.take_chunk(false)).for_each(&mut *chunk);
            }
        }
        std::iter::from_fn(|| output.take_chunk(true)).for_each(chunk);
    }

    /// Everything before the nodes. Returns each ACL's number in the file, by its number in the table.
    pub(super) fn encode_head(&self, output: &mut Output) -> Vec<u32> {
        output.bytes(&MAGIC);
        output.u32(VERSION);
        output.i64(self.zxid.0);
        output.i64(self.time_ms);
        output.u64(self.sessions_created);
        output.u64(self.digest());
        output.u32(self.origins.len() as u32);
        output.u32(self.store.acls.in_use().count() as u32);
        output.u32(self.sessions.len() as u32);
        output.u32(self.store.len() as u32);
        for (id, at) in &self.origins {
            output.u64(id.0);
            output.u64(at.epoch);
            output.u64(at.next);
        }
        let acl_numbers = self.encode_acls(output);
        for view in self.sessions() {
            output.i64(view.id.0);
            output.i32(view.timeout_ms);
            output.u32(view.generation.0);
            output.bytes(&view.password);
        }
        acl_numbers
    }

    fn encode_acls(&self, output: &mut Output) -> Vec<u32> {
        let mut numbers = vec![0; self.store.acls.slots()];
        for (number, (at, list)) in self.store.acls.in_use().enumerate() {
            numbers[at.0 as usize] = number as u32;
            output.u32(list.len() as u32);
            for acl in list {
                output.i32(acl.perms.0);
                output.text(acl.id.scheme.as_bytes());
                output.text(acl.id.id.as_bytes());
            }
        }
        numbers
    }
}

/// Where the encoding of nodes has come. Breadth first: every node after its parent, siblings in the order they are
/// listed in.
pub(super) struct Walk {
    /// By the number in the table.
    acl_numbers: Vec<u32>,
    /// Children still to come, by the number of their parent in the file.
    open: VecDeque<(u32, std::vec::IntoIter<NodeId>)>,
    /// Nodes encoded so far: the next one's number.
    number: u32,
}

impl Walk {
    pub fn new(acl_numbers: Vec<u32>) -> Walk {
        Walk { acl_numbers, open: VecDeque::from([(NO_PARENT, vec![ROOT].into_iter())]), number: 0 }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// The next node, and its parent's number.
    pub fn next(&mut self) -> Option<(NodeId, u32)> {
        loop {
            let (parent, children) = self.open.front_mut()?;
            match children.next() {
                Some(id) => return Some((id, *parent)),
                None => self.open.pop_front(),
            };
        }
    }

    pub fn visit(&mut self, node: &Node<'_>, children: Vec<NodeId>, parent: u32, output: &mut Output) {
        encode_node(node, parent, self.acl_numbers[node.acl.0 as usize], output);
        if !children.is_empty() {
            self.open.push_back((self.number, children.into_iter()));
        }
        self.number += 1;
    }
}

fn encode_node(node: &Node<'_>, parent: u32, acl: u32, output: &mut Output) {
    output.u32(parent);
    output.text(node.name_bytes());
    match node.data() {
        Some(data) => output.text(data),
        None => output.u32(NULL_DATA),
    }
    output.u32(acl);
    for number in [node.czxid, node.mzxid, node.pzxid, node.ctime, node.mtime] {
        output.i64(number);
    }
    for number in [node.version, node.creates, node.aversion] {
        output.i32(number);
    }
    output.i64(node.owner);
}
