//! The few ZooKeeper frames that the load generator needs, written straight into an output buffer.
//!
//! Apart from keeper-wire on purpose: the generator shares the machine's cores with the servers under test, and
//! it must not share a bug with one of them. It must never allocate per request.

/// xid of a notification; the generator sets no watches, so it only skips such frames.
pub const XID_PING: i32 = -2;
/// Length prefix, xid, zxid, error.
pub const REPLY_HEADER_BYTES: usize = 16;
pub const ERROR_NO_NODE: i32 = -101;
pub const ERROR_NODE_EXISTS: i32 = -110;
/// Largest reply the generator accepts: far above anything it asks for.
pub const REPLY_BYTES_MAX: usize = 1 << 20;

const OP_CREATE: i32 = 1;
const OP_GET_DATA: i32 = 4;
const OP_SET_DATA: i32 = 5;
const OP_SYNC: i32 = 9;
const OP_PING: i32 = 11;
const PERMISSION_ALL: i32 = 31;

fn put_i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_i32(out, length(bytes.len()));
    out.extend_from_slice(bytes);
}

fn length(len: usize) -> i32 {
    i32::try_from(len).expect("the generator's own buffers stay far below 2 GiB")
}

fn frame(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    put_i32(out, 0);
    body(out);
    let body_len = length(out.len() - at - 4);
    out[at..at + 4].copy_from_slice(&body_len.to_be_bytes());
}

/// `session` is `(0, &[0; 16])` for a new session.
pub fn connect(out: &mut Vec<u8>, timeout_ms: i32, session: i64, password: &[u8]) {
    frame(out, |out| {
        put_i32(out, 0);
        out.extend_from_slice(&0i64.to_be_bytes());
        put_i32(out, timeout_ms);
        out.extend_from_slice(&session.to_be_bytes());
        put_bytes(out, password);
        out.push(0);
    });
}

/// A persistent node, open to the world.
pub fn create(out: &mut Vec<u8>, xid: i32, path: &[u8], data: &[u8]) {
    frame(out, |out| {
        put_i32(out, xid);
        put_i32(out, OP_CREATE);
        put_bytes(out, path);
        put_bytes(out, data);
        put_i32(out, 1);
        put_i32(out, PERMISSION_ALL);
        put_bytes(out, b"world");
        put_bytes(out, b"anyone");
        put_i32(out, 0);
    });
}

pub fn get(out: &mut Vec<u8>, xid: i32, path: &[u8]) {
    frame(out, |out| {
        put_i32(out, xid);
        put_i32(out, OP_GET_DATA);
        put_bytes(out, path);
        out.push(0);
    });
}

/// Whatever the version is.
pub fn set(out: &mut Vec<u8>, xid: i32, path: &[u8], data: &[u8]) {
    frame(out, |out| {
        put_i32(out, xid);
        put_i32(out, OP_SET_DATA);
        put_bytes(out, path);
        put_bytes(out, data);
        put_i32(out, -1);
    });
}

pub fn sync(out: &mut Vec<u8>, xid: i32, path: &[u8]) {
    frame(out, |out| {
        put_i32(out, xid);
        put_i32(out, OP_SYNC);
        put_bytes(out, path);
    });
}

pub fn ping(out: &mut Vec<u8>) {
    frame(out, |out| {
        put_i32(out, XID_PING);
        put_i32(out, OP_PING);
    });
}

/// The big-endian number at `at`; `None` when the bytes end before.
pub fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes)
}

pub fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    bytes.get(at..at + 8)?.try_into().ok().map(i64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_get_is_the_bytes_of_the_protocol() {
        let mut out = Vec::new();
        get(&mut out, 7, b"/a");
        assert_eq!(out, [0, 0, 0, 15, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 2, b'/', b'a', 0]);
    }

    #[test]
    fn a_connect_for_a_new_session_is_45_bytes_of_body() {
        let mut out = Vec::new();
        connect(&mut out, 30_000, 0, &[0; 16]);
        assert_eq!(i32_at(&out, 0), Some(45));
        assert_eq!(i32_at(&out, 16), Some(30_000));
        assert_eq!(out.len(), 49);
    }

    #[test]
    fn numbers_past_the_end_are_none() {
        assert_eq!(i32_at(&[0, 0, 0], 0), None);
        assert_eq!(i64_at(&[0; 8], 1), None);
    }
}
