//! Requests as bytes, right ones and wrong ones. Apart from keeper-wire on purpose: that one refuses to write what no
//! server should be sent.

use crate::bench::wire;

pub const OP_CREATE: i32 = 1;
pub const OP_GET_DATA: i32 = 4;
pub const OP_SET_DATA: i32 = 5;
pub const OP_GET_CHILDREN: i32 = 8;
pub const OP_SYNC: i32 = 9;
pub const OP_CHECK: i32 = 13;
pub const OP_MULTI: i32 = 14;
pub const OP_MULTI_READ: i32 = 22;
pub const OP_AUTH: i32 = 100;
pub const OP_SET_WATCHES: i32 = 101;

/// xids that ZooKeeper's clients keep for these.
pub const XID_AUTH: i32 = -4;
pub const XID_SET_WATCHES: i32 = -8;

const PERMISSIONS_ALL: i32 = 31;
pub const EPHEMERAL: i32 = 1;

/// One frame, written field by field; its length is filled in at the end.
pub struct Frame(Vec<u8>);

impl Frame {
    pub fn request(xid: i32, op: i32) -> Frame {
        Frame(vec![0; 4]).int(xid).int(op)
    }

    pub fn empty() -> Frame {
        Frame(vec![0; 4])
    }

    pub fn int(mut self, value: i32) -> Frame {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub fn long(mut self, value: i64) -> Frame {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub fn byte(mut self, value: u8) -> Frame {
        self.0.push(value);
        self
    }

    /// A buffer or string: its length, then its bytes.
    pub fn text(self, bytes: impl AsRef<[u8]>) -> Frame {
        let bytes = bytes.as_ref();
        let mut frame = self.int(count(bytes.len()));
        frame.0.extend_from_slice(bytes);
        frame
    }

    pub fn acl(self, scheme: &str, id: &str) -> Frame {
        self.int(PERMISSIONS_ALL).text(scheme).text(id)
    }

    /// One entry: the world may do everything.
    pub fn open_acl(self) -> Frame {
        self.int(1).acl("world", "anyone")
    }

    /// The header in front of each operation of a multi.
    pub fn multi_header(self, op: i32) -> Frame {
        self.int(op).byte(0).int(-1)
    }

    pub fn multi_end(self) -> Frame {
        self.int(-1).byte(1).int(-1)
    }

    pub fn done(mut self) -> Vec<u8> {
        let len = count(self.0.len() - 4);
        self.0[..4].copy_from_slice(&len.to_be_bytes());
        self.0
    }
}

/// As an int32, the way lengths travel.
pub fn count(len: usize) -> i32 {
    i32::try_from(len).expect("no attack sends 2 GiB at once")
}

pub fn connect(timeout_ms: i32, session: i64, password: &[u8], last_zxid_seen: i64) -> Vec<u8> {
    Frame::empty().int(0).long(last_zxid_seen).int(timeout_ms).long(session).text(password).byte(0).done()
}

pub fn create(xid: i32, path: &str, data: &[u8], flags: i32) -> Vec<u8> {
    Frame::request(xid, OP_CREATE).text(path).text(data).open_acl().int(flags).done()
}

/// Whatever the version is.
pub fn set(xid: i32, path: &str, data: &[u8]) -> Vec<u8> {
    Frame::request(xid, OP_SET_DATA).text(path).text(data).int(-1).done()
}

pub fn get(xid: i32, path: &str) -> Vec<u8> {
    Frame::request(xid, OP_GET_DATA).text(path).byte(0).done()
}

pub fn children(xid: i32, path: &str) -> Vec<u8> {
    Frame::request(xid, OP_GET_CHILDREN).text(path).byte(0).done()
}

pub fn sync(xid: i32, path: &str) -> Vec<u8> {
    Frame::request(xid, OP_SYNC).text(path).done()
}

pub fn ping() -> Vec<u8> {
    let mut out = Vec::new();
    wire::ping(&mut out);
    out
}

/// A digest identity.
pub fn auth(scheme: &str, data: &[u8]) -> Vec<u8> {
    Frame::request(XID_AUTH, OP_AUTH).int(0).text(scheme).text(data).done()
}

/// Data watches on `paths`, nothing missed.
pub fn set_watches(paths: impl ExactSizeIterator<Item = String>) -> Vec<u8> {
    let frame = Frame::request(XID_SET_WATCHES, OP_SET_WATCHES).long(i64::MAX).int(count(paths.len()));
    paths.fold(frame, Frame::text).int(0).int(0).done()
}

/// A multi of `checks` checks of the root's version.
pub fn multi_of_checks(xid: i32, checks: usize) -> Vec<u8> {
    let check = |frame: Frame, _| frame.multi_header(OP_CHECK).text("/").int(-1);
    (0..checks).fold(Frame::request(xid, OP_MULTI), check).multi_end().done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_and_a_get_are_the_bytes_of_the_other_writer() {
        let mut out = Vec::new();
        wire::set(&mut out, 7, b"/a", b"data");
        assert_eq!(set(7, "/a", b"data"), out);
        out.clear();
        wire::get(&mut out, 8, b"/a");
        assert_eq!(get(8, "/a"), out);
        out.clear();
        wire::create(&mut out, 9, b"/a", b"x");
        assert_eq!(create(9, "/a", b"x", 0), out);
        out.clear();
        wire::connect(&mut out, 30_000, 5, &[7; 16]);
        assert_eq!(connect(30_000, 5, &[7; 16], 0), out);
    }

    #[test]
    fn a_multi_of_one_check_is_written_out() {
        let frame = multi_of_checks(1, 1);
        assert_eq!(frame.len(), 4 + 8 + (9 + 5 + 4) + 9);
        assert_eq!(wire::i32_at(&frame, 0), Some(frame.len() as i32 - 4));
    }
}
