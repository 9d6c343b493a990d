//! Who may be told of an event: those who may read the node it names, as since ZooKeeper 3.9.2 (CVE-2024-23944: without
//! this, a watch tells of nodes that its owner may not read). The node may be gone when its event is told, so its ACL is
//! kept here.

use std::sync::Arc;

use keeper_types::{Acl, AclId, Perms};

use crate::acl::allows;
use crate::acl_table::{AclRef, OPEN};
use crate::node::NodeId;
use crate::tree::Tree;

/// `None` stands for everybody.
#[derive(Clone, Debug)]
pub struct Readers(Option<Arc<[Acl]>>);

impl Readers {
    pub(crate) const EVERYBODY: Readers = Readers(None);

    pub fn include(&self, identities: &[AclId]) -> bool {
        self.0.as_ref().is_none_or(|acl| allows(acl, Perms::READ, identities))
    }
}

/// Of a node that was made or removed, and of its parent, whose children changed.
#[derive(Clone, Debug)]
pub(crate) struct FamilyReaders {
    pub node: Readers,
    pub parent: Readers,
}

impl Tree {
    pub(crate) fn readers_of(&self, acl: AclRef) -> Readers {
        if acl == OPEN { Readers::EVERYBODY } else { Readers(Some(self.store.acls.shared(acl))) }
    }

    pub(crate) fn readers(&self, id: NodeId) -> Readers {
        self.readers_of(self.store.node(id).acl)
    }

    pub(crate) fn family_readers(&self, id: NodeId) -> FamilyReaders {
        FamilyReaders { node: self.readers(id), parent: self.readers(self.store.node(id).parent) }
    }
}
