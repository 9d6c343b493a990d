//! Bytes that this crate did not make: every one reads as the documented value and is written back the same.
#![allow(clippy::unwrap_used)]

use bytes::BytesMut;
use keeper_types::{
    Acl, AuthRequest, CheckRequest, ConnectRequest, ConnectResponse, CreateRequest, DeleteRequest, ErrorCode,
    EventKind, EventState, MultiOp, MultiResult, OpCode, ReadRequest, Request, Response, SetDataRequest,
    SetWatchesRequest, Stat, WatchEvent,
};
use keeper_wire::*;

const DOCUMENTED: &str = include_str!("golden/documented.txt");
const EXCHANGE: &str = include_str!("golden/zookeeper-3.9-exchange.txt");
const TRANSACTIONS: &str = include_str!("golden/zookeeper-3.8-transactions.txt");

fn golden(file: &str, name: &str) -> Vec<u8> {
    let line = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    unhex(line.expect(name))
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn check_request(name: &str, xid: i32, expected: &Request<'_>) {
    let bytes = golden(DOCUMENTED, name);
    let frame = FrameDecoder::new(1024).next(&mut BytesMut::from(&bytes[..])).unwrap().expect(name);
    let (header, body) = decode_header(&frame).unwrap();
    assert_eq!(header, RequestHeader { xid, op: expected.op().as_i32() }, "{name}");
    assert_eq!(&decode_request(expected.op(), body).unwrap(), expected, "{name}");
    let mut out = BytesMut::new();
    encode_request(xid, expected, &mut out).unwrap();
    assert_eq!(&out[..], bytes, "{name}");
}

fn check_reply(name: &str, xid: i32, zxid: i64, op: OpCode, expected: Result<&Response, ErrorCode>) {
    let bytes = golden(DOCUMENTED, name);
    let (header, body) = decode_reply_header(&bytes[4..]).unwrap();
    assert_eq!((header.xid, header.zxid), (xid, zxid), "{name}");
    match expected {
        Ok(response) => assert_eq!(&decode_response(op, body).unwrap(), response, "{name}"),
        Err(code) => assert_eq!((header.error, body.len()), (code.as_i32(), 0), "{name}"),
    }
    let mut out = BytesMut::new();
    encode_reply(xid, zxid, expected, &mut out);
    assert_eq!(&out[..], bytes, "{name}");
}

fn stat() -> Stat {
    Stat {
        czxid: 1,
        mzxid: 2,
        ctime: 3,
        mtime: 4,
        version: 5,
        cversion: 6,
        aversion: 7,
        ephemeral_owner: 8,
        data_length: 9,
        num_children: 10,
        pzxid: 11,
    }
}

#[test]
fn handshakes_have_the_documented_bytes() {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 10_000,
        session_id: 0,
        password: vec![0; 16],
        read_only: Some(false),
        dialect: None,
    };
    let bytes = golden(DOCUMENTED, "connect-request");
    assert_eq!(decode_connect(&bytes[4..]).unwrap(), request);
    let mut out = BytesMut::new();
    encode_connect_request(&request, &mut out);
    assert_eq!(&out[..], bytes);

    let granted = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 10_000,
        session_id: 0x0100_000b_22ea_0000,
        password: (1..=16).collect(),
        read_only: Some(false),
    };
    let expired = ConnectResponse {
        timeout_ms: 0,
        session_id: 0,
        password: vec![0; 16],
        read_only: None,
        ..granted.clone()
    };
    for (name, response) in [("connect-response", granted), ("connect-response-expired", expired)] {
        let bytes = golden(DOCUMENTED, name);
        assert_eq!(decode_connect_response(&bytes[4..]).unwrap(), response);
        let mut out = BytesMut::new();
        encode_connect_response(&response, &mut out);
        assert_eq!(&out[..], bytes);
    }
}

#[test]
fn requests_have_the_documented_bytes() {
    check_request("ping-request", xid::PING, &Request::Ping);
    check_request("close-request", xid::CLOSE, &Request::CloseSession);
    let create =
        CreateRequest { path: "/a", data: Some(b"x"), acl: vec![Acl::open()], flags: 3, ttl_ms: None };
    check_request("create-request", 1, &Request::Create(OpCode::Create, create));
    check_request("get-request", 2, &Request::GetData(ReadRequest { path: "/a", watch: true }));
    let auth = AuthRequest { scheme: "digest", auth: b"u:p" };
    check_request("auth-request", xid::AUTH, &Request::Auth(auth));
    let watches = SetWatchesRequest {
        relative_zxid: 9,
        data: vec!["/a"],
        exist: vec![],
        child: vec!["/b", "/c"],
        persistent: vec![],
        persistent_recursive: vec![],
    };
    check_request("set-watches-request", xid::SET_WATCHES, &Request::SetWatches(watches));
    let multi = vec![
        MultiOp::Delete(DeleteRequest { path: "/a", version: -1 }),
        MultiOp::Check(CheckRequest { path: "/b", version: 3 }),
    ];
    check_request("multi-request", 4, &Request::Multi(multi));
}

#[test]
fn replies_have_the_documented_bytes() {
    check_reply("ping-reply", xid::PING, 7, OpCode::Ping, Ok(&Response::Empty));
    let get = Response::GetData { data: Some(b"x".to_vec()), stat: stat() };
    check_reply("get-reply", 2, 7, OpCode::GetData, Ok(&get));
    check_reply("error-reply", 2, 7, OpCode::GetData, Err(ErrorCode::NoNode));
    let done = Response::Multi(vec![MultiResult::Done(OpCode::Delete), MultiResult::Done(OpCode::Check)]);
    check_reply("multi-reply", 4, 8, OpCode::Multi, Ok(&done));
    let failed = Response::Multi(vec![
        MultiResult::Error(None),
        MultiResult::Error(Some(ErrorCode::BadVersion)),
        MultiResult::Error(Some(ErrorCode::RuntimeInconsistency)),
    ]);
    check_reply("multi-reply-failed", 4, 8, OpCode::Multi, Ok(&failed));
    check_reply("add-watch-reply", 5, 7, OpCode::AddWatch, Ok(&Response::AddWatch { error: 0 }));

    let mut out = BytesMut::new();
    encode_get_data_reply(2, 7, Some(b"x"), &stat(), &mut out);
    assert_eq!(&out[..], golden(DOCUMENTED, "get-reply"));
}

#[test]
fn a_watch_event_has_the_documented_bytes() {
    let event =
        WatchEvent { kind: EventKind::DataChanged, state: EventState::SyncConnected, path: "/a".into() };
    let bytes = golden(DOCUMENTED, "watch-event");
    let (header, body) = decode_reply_header(&bytes[4..]).unwrap();
    assert_eq!(header, ReplyHeader { xid: xid::EVENT, zxid: -1, error: 0 });
    assert_eq!(decode_watch_event(body).unwrap(), event);
    let mut out = BytesMut::new();
    encode_watch_event(&event, -1, &mut out);
    assert_eq!(&out[..], bytes);
}

fn check_body(expected: &Request<'_>, body: &[u8]) {
    assert_eq!(&decode_request(expected.op(), body).unwrap(), expected);
    let mut out = BytesMut::new();
    encode_request(1, expected, &mut out).unwrap();
    assert_eq!(&out[12..], body);
}

#[test]
fn records_written_by_a_real_zookeeper_read_as_they_should() {
    let create =
        CreateRequest { path: "/cont", data: Some(b""), acl: vec![Acl::open()], flags: 2, ttl_ms: None };
    check_body(
        &Request::Create(OpCode::CreateContainer, create.clone()),
        &golden(TRANSACTIONS, "createContainer"),
    );
    let ttl = CreateRequest { path: "/ttl", flags: 4, ttl_ms: Some(60_000), ..create.clone() };
    check_body(&Request::Create(OpCode::CreateTtl, ttl), &golden(TRANSACTIONS, "createTTL"));
    let set = SetDataRequest { path: "/p/s-0000000002", data: Some(b"x"), version: 1 };
    check_body(&Request::SetData(set), &golden(TRANSACTIONS, "setData"));
    check_body(&Request::Check(CheckRequest { path: "/c2", version: 1 }), &golden(TRANSACTIONS, "check"));

    let mut body = golden(TRANSACTIONS, "create");
    body.truncate(body.len() - 5);
    body.extend_from_slice(&1i32.to_be_bytes());
    let ephemeral = CreateRequest { path: "/ephx", flags: 1, ..create };
    check_body(&Request::Create(OpCode::Create, ephemeral), &body);
}

/// Reads a recorded request and reply, and writes both as the other side would have to.
fn replay(name: &str, op: OpCode, request: &[u8], reply: &[u8]) {
    let (header, body) = decode_header(&request[4..]).unwrap();
    let decoded = decode_request(op, body).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut out = BytesMut::new();
    encode_request(header.xid, &decoded, &mut out).unwrap();
    assert_eq!(&out[..], request, "{name}");

    let (answer, body) = decode_reply_header(&reply[4..]).unwrap();
    let mut out = BytesMut::new();
    match ErrorCode::from_i32(answer.error) {
        Some(code) => encode_reply(answer.xid, answer.zxid, Err(code), &mut out),
        None => {
            let response = decode_response(op, body).unwrap_or_else(|error| panic!("{name}: {error}"));
            encode_reply(answer.xid, answer.zxid, Ok(&response), &mut out);
        }
    }
    assert_eq!(&out[..], reply, "{name}");
    assert_eq!(header.xid, answer.xid, "{name}");
}

#[test]
fn a_session_with_a_real_zookeeper_reads_and_is_written_back_byte_for_byte() {
    let (mut replayed, mut events) = (0, 0);
    for line in EXCHANGE.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, op, request, reply] = fields[..] else { panic!("{line}") };
        let (request, reply) = (unhex(request.trim_matches('-')), unhex(reply));
        let mut out = BytesMut::new();
        match op {
            "connect" => {
                encode_connect_request(&decode_connect(&request[4..]).unwrap(), &mut out);
                encode_connect_response(&decode_connect_response(&reply[4..]).unwrap(), &mut out);
                assert_eq!(&out[..], [request, reply].concat(), "{name}");
            }
            "event" => {
                let (header, body) = decode_reply_header(&reply[4..]).unwrap();
                encode_watch_event(&decode_watch_event(body).unwrap(), header.zxid, &mut out);
                assert_eq!(&out[..], reply, "{name}");
                events += 1;
            }
            op => {
                let op = OpCode::from_i32(op.parse().unwrap()).unwrap();
                replay(name, op, &request, &reply);
                replayed += 1;
            }
        }
    }
    assert_eq!((replayed, events), (32, 6));
}
