//! What each kind of wrong request is answered: an error, or the end of the connection. As ZooKeeper 3.9.5 answers
//! them, measured by the same table (`--kind zookeeper`), and as ours may where that differs.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::attack::{FRAME_BYTES_MAX, LONG_ACL_ENTRIES, LONG_MULTI_CHECKS, WATCHES_PER_FRAME, long_acl};
use super::frame::{self, Frame};
use super::raw::{self, RawSession};

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A reply with this error, and the connection goes on.
    Error(i32),
    /// A reply with this error, and the end.
    ErrorAndEnd(i32),
    End,
    /// Nothing within [`ANSWER_TIMEOUT`].
    Silence,
    /// The server gave the case no session.
    NoSession,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Error(0) => write!(f, "success"),
            Answer::Error(code) => write!(f, "error {code}"),
            Answer::ErrorAndEnd(code) => write!(f, "error {code}, then closed"),
            Answer::End => write!(f, "closed"),
            Answer::Silence => write!(f, "nothing"),
            Answer::NoSession => write!(f, "no session"),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// As the first bytes of a connection.
    First,
    /// On a session.
    Session,
}

pub struct Case {
    pub name: &'static str,
    pub when: When,
    pub bytes: fn() -> Vec<u8>,
    /// What is right: ZooKeeper's answer, and ours where it may be another.
    pub right: &'static [Answer],
}

const fn first(name: &'static str, bytes: fn() -> Vec<u8>, right: &'static [Answer]) -> Case {
    Case { name, when: When::First, bytes, right }
}

const fn case(name: &'static str, bytes: fn() -> Vec<u8>, right: &'static [Answer]) -> Case {
    Case { name, when: When::Session, bytes, right }
}

use Answer::{End, Error, ErrorAndEnd};

const OK: i32 = 0;
const MARSHALLING_ERROR: i32 = -5;
const UNIMPLEMENTED: i32 = -6;
const BAD_ARGUMENTS: i32 = -8;
const NO_NODE: i32 = -101;
const INVALID_ACL: i32 = -114;
const AUTH_FAILED: i32 = -115;

/// More than any request may hold.
const MILLION: i32 = 1_000_000;
const XID: i32 = 7;

fn request(op: i32) -> Frame {
    Frame::request(XID, op)
}

fn create_named(path: impl AsRef<[u8]>) -> Vec<u8> {
    request(frame::OP_CREATE).text(path).text("").open_acl().int(0).done()
}

fn length_only(length: i32) -> Vec<u8> {
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend([0; 64]);
    bytes
}

/// After the first of [`MALFORMED`] a real ZooKeeper answers nobody any more.
pub const CASES: &[Case] = &[
    first("first length -1", || length_only(-1), &[End]),
    first("first length of 2 GB", || length_only(i32::MAX), &[End]),
    first("an HTTP request first", || b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), &[End]),
    first("a request before the handshake", || frame::get(XID, "/"), &[End]),
    case("length -1", || length_only(-1), &[End]),
    case("length of 2 GB", || length_only(i32::MAX), &[End]),
    case("a frame far over the limit", || length_only(4 * FRAME_BYTES_MAX as i32), &[End]),
    case("an empty frame", || Frame::empty().done(), &[End]),
    case("a frame of an xid alone", || Frame::empty().int(XID).done(), &[End]),
    case("a second handshake", || frame::connect(30_000, 0, &[0; 16], 0), UNKNOWN_OPERATION),
    case("operation 999", || request(999).done(), UNKNOWN_OPERATION),
    case("operation -7", || request(-7).done(), UNKNOWN_OPERATION),
    case("create of a path without slash", || create_named("a"), &[Error(BAD_ARGUMENTS)]),
    case("create of an empty path", || create_named(""), &[Error(BAD_ARGUMENTS)]),
    case("create of //", || create_named("//a"), &[Error(BAD_ARGUMENTS)]),
    case("create of a/..", || create_named("/a/../b"), &[Error(NO_NODE)]),
    case("create with a NUL", || create_named("/a\0b"), &[Error(BAD_ARGUMENTS)]),
    case("create with a null path", null_path, &[Error(MARSHALLING_ERROR), Error(BAD_ARGUMENTS)]),
    case("create of flags 77", flags_77, &[Error(BAD_ARGUMENTS)]),
    case("getData of a path without slash", || frame::get(XID, "a"), &[Error(NO_NODE), Error(BAD_ARGUMENTS)]),
    case("getData of an empty path", || frame::get(XID, ""), &[Error(OK), Error(BAD_ARGUMENTS)]),
    case("an ACL as long as a frame", same_acls, &[Error(OK)]),
    case("an empty ACL", empty_acl, &[Error(INVALID_ACL)]),
    case("a multi of 100,000 operations, 1.8 MB", || frame::multi_of_checks(XID, 100_000), &[End]),
    case("a multi as long as a frame", || frame::multi_of_checks(XID, LONG_MULTI_CHECKS), &[Error(OK)]),
    case("setWatches as long as a frame", watches, &[Error(OK)]),
    case("auth of an unknown scheme", || frame::auth("nothing", b"a:b"), &[ErrorAndEnd(AUTH_FAILED)]),
    // ZooKeeper has no bound on an identity below the frame's.
    case(
        "auth with 500 KB",
        || frame::auth("digest", &[b'a'; 500_000]),
        &[Error(OK), ErrorAndEnd(AUTH_FAILED)],
    ),
    case("a getData with bytes behind its end", trailing, &[Error(OK), End]),
    case("a create that ends early", ends_early, MALFORMED),
    case("a create whose data has length -2", negative_data, MALFORMED),
    case("a multi that ends early", multi_ends_early, MALFORMED),
    case("a multi of an unknown operation", multi_unknown, MALFORMED),
    case("setWatches of a million, claimed", watches_claimed, MALFORMED),
    case("an ACL of a million, claimed", acls_claimed, MALFORMED),
];

/// ZooKeeper closes the connection behind its answer; ours goes on.
const UNKNOWN_OPERATION: &[Answer] = &[ErrorAndEnd(UNIMPLEMENTED), Error(UNIMPLEMENTED)];
/// What cannot be read as the request that it says it is.
const MALFORMED: &[Answer] = &[Error(MARSHALLING_ERROR), End];

fn null_path() -> Vec<u8> {
    request(frame::OP_CREATE).int(-1).text("").open_acl().int(0).done()
}

fn flags_77() -> Vec<u8> {
    request(frame::OP_CREATE).text("/flags").text("").open_acl().int(77).done()
}

fn same_acls() -> Vec<u8> {
    long_acl("/castellan-long-acl", LONG_ACL_ENTRIES, false)
}

fn empty_acl() -> Vec<u8> {
    request(frame::OP_CREATE).text("/acl").text("").int(0).int(0).done()
}

fn watches() -> Vec<u8> {
    frame::set_watches((0..WATCHES_PER_FRAME).map(|index| format!("/w/{index:08}")))
}

fn trailing() -> Vec<u8> {
    request(frame::OP_GET_DATA).text("/").byte(0).long(1).done()
}

fn ends_early() -> Vec<u8> {
    request(frame::OP_CREATE).text("/early").int(100).done()
}

fn negative_data() -> Vec<u8> {
    request(frame::OP_CREATE).text("/negative").int(-2).open_acl().int(0).done()
}

fn multi_ends_early() -> Vec<u8> {
    request(frame::OP_MULTI).multi_header(frame::OP_CHECK).text("/").int(-1).done()
}

fn multi_unknown() -> Vec<u8> {
    request(frame::OP_MULTI).multi_header(999).text("/").int(-1).multi_end().done()
}

fn watches_claimed() -> Vec<u8> {
    Frame::request(frame::XID_SET_WATCHES, frame::OP_SET_WATCHES).long(0).int(MILLION).text("/a").done()
}

fn acls_claimed() -> Vec<u8> {
    request(frame::OP_CREATE).text("/acl").text("").int(MILLION).acl("world", "anyone").int(0).done()
}

/// Requests answered with an error on a connection that goes on, for the attack that sends nothing else.
pub fn answered() -> impl Iterator<Item = &'static Case> {
    let goes_on = |case: &&Case| case.right.iter().all(|right| matches!(right, Error(code) if *code != OK));
    CASES.iter().filter(|case| case.when == When::Session).filter(goes_on)
}

const TIMEOUT_MS: i32 = 30_000;
/// Longer than any of them takes, shorter than the wait for an unfinished frame.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// One case, and what came.
pub struct Judged {
    pub name: &'static str,
    pub right: &'static [Answer],
    pub seen: Answer,
}

impl Judged {
    pub fn holds(&self) -> bool {
        self.right.contains(&self.seen)
    }
}

/// Sends each case on a connection of its own; `say` is told each.
pub async fn judge(host: SocketAddr, say: &mut dyn FnMut(&Judged)) -> Vec<Judged> {
    let mut judged = Vec::new();
    for case in CASES {
        let session = match case.when {
            When::First => raw::connect(host, None).await.map(RawSession::unopened),
            When::Session => RawSession::new(host, TIMEOUT_MS).await,
        };
        let seen = match session {
            Err(_) => Answer::NoSession,
            Ok(mut session) => {
                // A server may close before it has read everything.
                let _ = session.stream.write_all(&(case.bytes)()).await;
                answer(&mut session).await
            }
        };
        let one = Judged { name: case.name, right: case.right, seen };
        say(&one);
        judged.push(one);
    }
    judged
}

async fn answer(session: &mut RawSession) -> Answer {
    let reply = match tokio::time::timeout(ANSWER_TIMEOUT, session.next_reply()).await {
        Err(_) => return Answer::Silence,
        Ok(Err(_)) => return End,
        Ok(Ok(reply)) => reply,
    };
    match tokio::time::timeout(ANSWER_TIMEOUT, session.call(&frame::ping())).await {
        Ok(Ok(_)) => Error(reply.error),
        _ => ErrorAndEnd(reply.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_a_name_of_its_own_and_most_errors_leave_the_connection() {
        let mut names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CASES.len());
        assert!(CASES.iter().all(|case| !case.right.is_empty()));
        assert!(5 < answered().count());
    }
}
