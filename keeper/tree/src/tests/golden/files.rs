//! ZooKeeper's log and snapshot files, as far as the recorded ones need it. Panics on what it does not expect.

use std::collections::BTreeMap;

use keeper_types::{Acl, AclId, OpCode, Perms};

/// One of the log.
#[derive(Debug)]
pub struct Transaction<'a> {
    pub session: i64,
    pub zxid: i64,
    pub time_ms: i64,
    pub body: Body<'a>,
    /// Of the tree after it; failed ones have none.
    pub digest: Option<u64>,
}

#[derive(Debug)]
pub enum Body<'a> {
    CreateSession {
        timeout_ms: i32,
    },
    CloseSession {
        ephemerals: Vec<String>,
    },
    Create {
        op: OpCode,
        path: &'a str,
        data: Option<&'a [u8]>,
        acl: Vec<Acl>,
        ephemeral: bool,
        /// Of the parent, this one counted.
        parent_creates: i32,
        ttl_ms: Option<i64>,
    },
    Delete {
        path: &'a str,
    },
    /// `version` is the new one.
    SetData {
        path: &'a str,
        data: Option<&'a [u8]>,
        version: i32,
    },
    /// `version` is the one after it, although a check changes none.
    Check {
        path: &'a str,
        version: i32,
    },
    Multi(Vec<Body<'a>>),
    Error,
}

pub struct Snapshot {
    pub zxid: i64,
    pub digest: u64,
    pub sessions: Vec<i64>,
    pub nodes: BTreeMap<String, Record>,
}

/// A node as ZooKeeper stores it. Its cversion is the number of children ever created.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    pub data: Option<Vec<u8>>,
    pub czxid: i64,
    pub mzxid: i64,
    pub pzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    pub creates: i32,
    pub aversion: i32,
    pub owner: i64,
}

impl std::fmt::Debug for Record {
    /// Without the data, of which one node has a megabyte.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Record { data, czxid, mzxid, pzxid, ctime, mtime, version, creates, aversion, owner } = self;
        let length = data.as_ref().map(Vec::len);
        write!(
            f,
            "{length:?} bytes, zxids {czxid} {mzxid} {pzxid}, times {ctime} {mtime}, versions {version} {creates} {aversion}, owner {owner:x}"
        )
    }
}

impl Record {
    pub fn crc32(&self, path: &str) -> u32 {
        let mut stat = Vec::new();
        for field in [self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime] {
            stat.extend(field.to_be_bytes());
        }
        for field in [self.version, self.creates, self.aversion] {
            stat.extend(field.to_be_bytes());
        }
        stat.extend(self.owner.to_be_bytes());
        let parts = [path.as_bytes(), self.data.as_deref().unwrap_or_default(), &stat];
        parts.into_iter().fold(0, crc32)
    }
}

/// CRC-32 of zlib, going on from `sum`.
pub fn crc32(sum: u32, bytes: &[u8]) -> u32 {
    let table: [u32; 256] = std::array::from_fn(|at| {
        (0..8).fold(at as u32, |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    });
    !bytes.iter().fold(!sum, |sum, byte| sum >> 8 ^ table[usize::from(sum as u8 ^ byte)])
}

fn adler32(bytes: &[u8]) -> i64 {
    let (low, high) = bytes.iter().fold((1u32, 0u32), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65521;
        (low, (high + low) % 65521)
    });
    i64::from(high << 16 | low)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }
    fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().expect("four bytes"))
    }
    fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.take(8).try_into().expect("eight bytes"))
    }
    fn buffer(&mut self) -> Option<&'a [u8]> {
        usize::try_from(self.int()).ok().map(|length| self.take(length))
    }
    fn string(&mut self) -> &'a str {
        std::str::from_utf8(self.buffer().expect("not null")).expect("UTF-8")
    }
    fn acl(&mut self) -> Vec<Acl> {
        let entry = |reader: &mut Self| {
            let perms = Perms(reader.int());
            let (scheme, id) = (reader.string().into(), reader.string().into());
            Acl { perms, id: AclId { scheme, id } }
        };
        (0..self.int()).map(|_| entry(self)).collect()
    }
    /// What ends each part of a file: the sum of all bytes before it, and "/".
    fn seal(&mut self) {
        let sum = adler32(&self.bytes[..self.at]);
        assert_eq!((self.long(), self.string()), (sum, "/"));
    }

    fn body(&mut self, kind: i32) -> Body<'a> {
        match kind {
            -1 => {
                self.int();
                Body::Error
            }
            -10 => Body::CreateSession { timeout_ms: self.int() },
            -11 => Body::CloseSession { ephemerals: (0..self.int()).map(|_| self.string().into()).collect() },
            1 | 15 | 19 | 21 => {
                let op = OpCode::from_i32(kind).expect("known");
                let (path, data, acl) = (self.string(), self.buffer(), self.acl());
                let ephemeral = matches!(kind, 1 | 15) && self.take(1) == [1];
                let parent_creates = self.int();
                let ttl_ms = (kind == 21).then(|| self.long());
                Body::Create { op, path, data, acl, ephemeral, parent_creates, ttl_ms }
            }
            2 => Body::Delete { path: self.string() },
            5 => Body::SetData { path: self.string(), data: self.buffer(), version: self.int() },
            13 => Body::Check { path: self.string(), version: self.int() },
            14 => Body::Multi((0..self.int()).map(|_| self.part()).collect()),
            other => panic!("transaction of type {other}"),
        }
    }

    fn part(&mut self) -> Body<'a> {
        let kind = self.int();
        let mut part = Reader { bytes: self.buffer().expect("not null"), at: 0 };
        let body = part.body(kind);
        assert_eq!(part.at, part.bytes.len(), "{body:?}");
        body
    }
}

pub fn transactions(file: &[u8]) -> Vec<Transaction<'_>> {
    let mut reader = Reader { bytes: file, at: 0 };
    assert_eq!((reader.take(4), reader.int(), reader.long()), (&b"ZKLG"[..], 2, 0));
    let mut found = Vec::new();
    loop {
        let (sum, record) = (reader.long(), reader.buffer().unwrap_or_default());
        if record.is_empty() {
            assert!(file[reader.at..].iter().all(|byte| *byte == 0), "zeros to the end");
            return found;
        }
        assert_eq!((adler32(record), reader.take(1)), (sum, &b"B"[..]));
        found.push(transaction(record));
    }
}

fn transaction(record: &[u8]) -> Transaction<'_> {
    let mut reader = Reader { bytes: record, at: 0 };
    let (session, _cxid, zxid, time_ms, kind) =
        (reader.long(), reader.int(), reader.long(), reader.long(), reader.int());
    let body = reader.body(kind);
    let digest = (reader.at < record.len()).then(|| {
        assert_eq!(reader.int(), 2, "version of the digest");
        reader.long() as u64
    });
    assert_eq!(reader.at, record.len(), "{body:?}");
    Transaction { session, zxid, time_ms, body, digest }
}

pub fn snapshot(file: &[u8]) -> Snapshot {
    let mut reader = Reader { bytes: file, at: 0 };
    assert_eq!((reader.take(4), reader.int(), reader.long()), (&b"ZKSN"[..], 2, -1));
    let mut sessions: Vec<i64> = (0..reader.int()).map(|_| (reader.long(), reader.int()).0).collect();
    sessions.sort_unstable();
    for _ in 0..reader.int() {
        reader.long();
        reader.acl();
    }
    let mut nodes = BTreeMap::new();
    loop {
        let path = reader.string();
        if path == "/" {
            break;
        }
        let (data, _acl) = (reader.buffer().map(<[u8]>::to_vec), reader.long());
        let (czxid, mzxid, ctime, mtime) = (reader.long(), reader.long(), reader.long(), reader.long());
        let (version, creates, aversion) = (reader.int(), reader.int(), reader.int());
        let (owner, pzxid) = (reader.long(), reader.long());
        let record = Record { data, czxid, mzxid, pzxid, ctime, mtime, version, creates, aversion, owner };
        nodes.insert(path.to_owned(), record);
    }
    reader.seal();
    let (zxid, version, digest) = (reader.long(), reader.int(), reader.long() as u64);
    assert_eq!(version, 2, "version of the digest");
    reader.seal();
    assert_eq!(reader.at, file.len());
    Snapshot { zxid, digest, sessions, nodes }
}
