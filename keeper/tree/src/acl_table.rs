//! ACLs, each distinct list stored once and counted. Nearly every node has one of a handful of lists, so a
//! node holds a number instead of a list. The numbers are local: neither a snapshot nor the digest has them.

use std::sync::Arc;

use hashbrown::HashTable;
use keeper_types::{Acl, AclId, Perms};
use xxhash_rust::xxh3::xxh3_64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AclRef(pub u32);

/// `world:anyone` with all permissions, always present.
pub(crate) const OPEN: AclRef = AclRef(0);

struct Entry {
    list: Arc<[Acl]>,
    /// Of the list's content; the same on every node, so that the digest may use it.
    hash: u64,
    /// Nodes that use it; a slot with none is free (but for `OPEN`).
    uses: u64,
}

pub(crate) struct AclTable {
    entries: Vec<Entry>,
    free: Vec<AclRef>,
    /// By the lists' hashes; holds exactly the entries in use and `OPEN`.
    index: HashTable<AclRef>,
    /// Memory of the lists.
    list_bytes: usize,
}

impl AclTable {
    pub fn new() -> AclTable {
        let mut table =
            AclTable { entries: Vec::new(), free: Vec::new(), index: HashTable::new(), list_bytes: 0 };
        let open = table.intern(vec![Acl::open()]);
        assert_eq!(open, OPEN, "the first ACL of a table is the open one");
        table
    }

    /// The number of `list`, with one use counted.
    pub fn intern(&mut self, list: Vec<Acl>) -> AclRef {
        let hash = content_hash(&list);
        if let Some(found) = self.index.find(hash, |at| *self.entries[at.0 as usize].list == *list) {
            let found = *found;
            self.entries[found.0 as usize].uses += 1;
            return found;
        }
        self.list_bytes += list_bytes(&list);
        let entry = Entry { list: list.into(), hash, uses: 1 };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at.0 as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                AclRef((self.entries.len() - 1) as u32)
            }
        };
        let entries = &self.entries;
        self.index.insert_unique(hash, at, |other| entries[other.0 as usize].hash);
        at
    }

    /// Counts one more use of a list that is in use.
    pub fn retain(&mut self, at: AclRef) {
        self.entries[at.0 as usize].uses += 1;
    }

    /// Gives one use back; the last one frees the list.
    pub fn release(&mut self, at: AclRef) {
        let entry = &mut self.entries[at.0 as usize];
        entry.uses -= 1;
        if entry.uses > 0 || at == OPEN {
            return;
        }
        self.list_bytes -= list_bytes(&entry.list);
        entry.list = Arc::default();
        let hash = entry.hash;
        if let Ok(found) = self.index.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        self.free.push(at);
    }

    pub fn list(&self, at: AclRef) -> &[Acl] {
        &self.entries[at.0 as usize].list
    }

    pub fn shared(&self, at: AclRef) -> Arc<[Acl]> {
        self.entries[at.0 as usize].list.clone()
    }

    pub fn hash(&self, at: AclRef) -> u64 {
        self.entries[at.0 as usize].hash
    }

    /// Whether `identities` are granted any bit of `wanted`.
    pub fn allows(&self, at: AclRef, wanted: Perms, identities: &[AclId]) -> bool {
        at == OPEN || crate::acl::allows(self.list(at), wanted, identities)
    }

    /// Memory of the table and its lists.
    pub fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.free.capacity() * size_of::<AclRef>()
            + self.index.allocation_size()
            + self.list_bytes
    }

    /// Number of slots, for a table indexed by `AclRef`.
    pub fn slots(&self) -> usize {
        self.entries.len()
    }

    /// Every list in use and `OPEN`, by number.
    pub fn in_use(&self) -> impl Iterator<Item = (AclRef, &[Acl])> {
        let all = self.entries.iter().enumerate();
        all.filter(|(_, entry)| !entry.list.is_empty()).map(|(at, entry)| (AclRef(at as u32), &*entry.list))
    }
}

/// An allocation for the list and one for each text, each with what an allocator adds.
fn list_bytes(list: &[Acl]) -> usize {
    let texts = list.iter().map(|acl| acl.id.scheme.len() + acl.id.id.len() + 2 * 16);
    size_of_val(list) + texts.sum::<usize>() + 32
}

fn content_hash(list: &[Acl]) -> u64 {
    let mut bytes = Vec::with_capacity(64 * list.len());
    for acl in list {
        bytes.extend_from_slice(&acl.perms.0.to_le_bytes());
        for text in [&acl.id.scheme, &acl.id.id] {
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
    }
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(id: &str) -> Vec<Acl> {
        vec![Acl { perms: Perms::READ, id: AclId { scheme: "digest".into(), id: id.into() } }]
    }

    #[test]
    fn equal_lists_share_a_number_until_the_last_use_ends() {
        let mut table = AclTable::new();
        let first = table.intern(list("a:x"));
        assert_eq!(table.intern(list("a:x")), first);
        assert_ne!(table.intern(list("b:x")), first);
        table.release(first);
        assert_eq!(table.list(first), list("a:x"));
        table.release(first);
        assert_eq!(table.in_use().count(), 2, "open and b");
        assert_eq!(table.intern(list("c:x")), first, "the slot is used again");
        assert_eq!(table.intern(list("a:x")).0, 3);
    }

    #[test]
    fn the_open_list_outlives_its_uses() {
        let mut table = AclTable::new();
        table.release(OPEN);
        assert_eq!(table.intern(vec![Acl::open()]), OPEN);
    }
}
