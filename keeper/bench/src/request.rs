//! A request before it is sent: owned, so that it outlives its generator, and lent to the client as the protocol's.

use keeper_types::{
    Acl, CheckRequest, CreateRequest, DeleteRequest, MultiOp, OpCode, ReadRequest, Request, Response,
    SetDataRequest,
};

/// What is measured apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Create,
    Remove,
    Set,
    Check,
    Get,
    List,
    Exists,
    Sync,
    Multi,
    MultiRead,
}

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::Create,
        Kind::Remove,
        Kind::Set,
        Kind::Check,
        Kind::Get,
        Kind::List,
        Kind::Exists,
        Kind::Sync,
        Kind::Multi,
        Kind::MultiRead,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Create => "create",
            Kind::Remove => "remove",
            Kind::Set => "set",
            Kind::Check => "check",
            Kind::Get => "get",
            Kind::List => "list",
            Kind::Exists => "exists",
            Kind::Sync => "sync",
            Kind::Multi => "multi",
            Kind::MultiRead => "multiread",
        }
    }

    pub fn is_read(self) -> bool {
        match self {
            Kind::Get | Kind::List | Kind::Exists | Kind::MultiRead => true,
            Kind::Create | Kind::Remove | Kind::Set | Kind::Check | Kind::Sync | Kind::Multi => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadKind {
    Get,
    List,
    Exists,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub kind: ReadKind,
    pub path: String,
    pub watch: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// `flags` is the protocol's create mode.
    Create {
        path: String,
        data: Vec<u8>,
        flags: i32,
    },
    Remove {
        path: String,
        version: i32,
    },
    Set {
        path: String,
        data: Vec<u8>,
        version: i32,
    },
    Check {
        path: String,
        version: i32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Planned {
    Read(Read),
    Write(Write),
    Sync { path: String },
    Multi(Vec<Write>),
    MultiRead(Vec<Read>),
}

impl Planned {
    pub fn kind(&self) -> Kind {
        match self {
            Planned::Read(read) => match read.kind {
                ReadKind::Get => Kind::Get,
                ReadKind::List => Kind::List,
                ReadKind::Exists => Kind::Exists,
            },
            Planned::Write(Write::Create { .. }) => Kind::Create,
            Planned::Write(Write::Remove { .. }) => Kind::Remove,
            Planned::Write(Write::Set { .. }) => Kind::Set,
            Planned::Write(Write::Check { .. }) => Kind::Check,
            Planned::Sync { .. } => Kind::Sync,
            Planned::Multi(_) => Kind::Multi,
            Planned::MultiRead(_) => Kind::MultiRead,
        }
    }

    pub fn request(&self) -> Request<'_> {
        match self {
            Planned::Read(read) => read.request(),
            Planned::Write(write) => match write.op() {
                MultiOp::Create(op, create) => Request::Create(op, create),
                MultiOp::Delete(delete) => Request::Delete(delete),
                MultiOp::SetData(set) => Request::SetData(set),
                MultiOp::Check(check) | MultiOp::CheckNotExists(check) => Request::Check(check),
                MultiOp::CheckStat(check) => Request::CheckStat(check),
                MultiOp::TryRemove(delete) => Request::TryRemove(delete),
                MultiOp::RemoveRecursive(remove) => Request::RemoveRecursive(remove),
            },
            Planned::Sync { path } => Request::Sync(path),
            Planned::Multi(writes) => Request::Multi(writes.iter().map(Write::op).collect()),
            Planned::MultiRead(reads) => Request::MultiRead(reads.iter().map(Read::inner).collect()),
        }
    }

    /// Bytes of paths and values in the request.
    pub fn bytes(&self) -> usize {
        match self {
            Planned::Read(read) => read.path.len(),
            Planned::Write(write) => write.bytes(),
            Planned::Sync { path } => path.len(),
            Planned::Multi(writes) => writes.iter().map(Write::bytes).sum(),
            Planned::MultiRead(reads) => reads.iter().map(|read| read.path.len()).sum(),
        }
    }
}

impl Read {
    fn request(&self) -> Request<'_> {
        let read = ReadRequest { path: &self.path, watch: self.watch };
        match self.kind {
            ReadKind::Get => Request::GetData(read),
            ReadKind::List => Request::GetChildren2(read),
            ReadKind::Exists => Request::Exists(read),
        }
    }

    /// ZooKeeper's multiRead knows getData and getChildren, and no watches.
    fn inner(&self) -> Request<'_> {
        let read = ReadRequest { path: &self.path, watch: false };
        match self.kind {
            ReadKind::Get => Request::GetData(read),
            ReadKind::List => Request::GetChildren(read),
            ReadKind::Exists => Request::Exists(read),
        }
    }
}

impl Write {
    fn op(&self) -> MultiOp<'_> {
        match self {
            Write::Create { path, data, flags } => {
                let acl = vec![Acl::open()];
                let create = CreateRequest { path, data: Some(data), acl, flags: *flags, ttl_ms: None };
                MultiOp::Create(OpCode::Create, create)
            }
            Write::Remove { path, version } => MultiOp::Delete(DeleteRequest { path, version: *version }),
            Write::Set { path, data, version } => {
                MultiOp::SetData(SetDataRequest { path, data: Some(data), version: *version })
            }
            Write::Check { path, version } => MultiOp::Check(CheckRequest { path, version: *version }),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Write::Create { path, data, .. } | Write::Set { path, data, .. } => path.len() + data.len(),
            Write::Remove { path, .. } | Write::Check { path, .. } => path.len(),
        }
    }
}

/// Bytes of values and names in a response.
pub fn response_bytes(response: &Response) -> usize {
    let names = |names: &[String]| names.iter().map(String::len).sum::<usize>();
    match response {
        Response::GetData { data, .. } => data.as_deref().map_or(0, <[u8]>::len),
        Response::GetChildren { names: list } | Response::GetChildren2 { names: list, .. } => names(list),
        Response::Create { path } | Response::Create2 { path, .. } | Response::Sync { path } => path.len(),
        Response::MultiRead(results) => {
            results.iter().flatten().map(|(_, response)| response_bytes(response)).sum()
        }
        _ => 0,
    }
}
