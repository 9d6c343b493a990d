use super::*;
use crate::event::encode_watch_event;
use crate::reply::{decode_reply_header, encode_reply};
use crate::request::{decode_header, decode_request, encode_request};
use keeper_types::{EventKind, EventState, ReadRequest, Request, Response};

const TRACE: &[u8] = b"\x0102030405-0607-0809-0a0b-0c0d0e0f1011\n7\n\n1\n";

fn options(compressed: bool, long_xids: bool, tracing: bool) -> DialectOptions {
    DialectOptions { compressed, long_xids, tracing }
}

fn all() -> impl Iterator<Item = DialectOptions> {
    (0..8).map(|bits| options(bits & 1 > 0, bits & 2 > 0, bits & 4 > 0))
}

fn frames() -> FrameDecoder {
    FrameDecoder::new(1 << 20)
}

/// A request as such a client frames it, before compression.
fn framed(options: DialectOptions, xid: i64, request: &Request<'_>, trace: &[u8]) -> BytesMut {
    let mut plain = BytesMut::new();
    encode_request(0, request, &mut plain).unwrap();
    let after_xid = &plain[LENGTH_BYTES + SHORT_XID_BYTES..];
    let mut payload = BytesMut::new();
    match options.long_xids {
        true => payload.put_i64(xid),
        false => payload.put_i32(xid as i32),
    }
    payload.put_slice(after_xid);
    if options.tracing {
        payload.put_slice(trace);
    }
    let mut frame = BytesMut::new();
    frame.put_i32(payload.len() as i32);
    frame.put_slice(&payload);
    frame
}

/// As it travels.
fn sent(options: DialectOptions, bytes: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    match options.compressed {
        true => block::put(bytes, &mut out),
        false => out.put_slice(bytes),
    }
    out
}

/// What such a client has before it cuts frames.
fn received(options: DialectOptions, mut bytes: BytesMut) -> BytesMut {
    if !options.compressed {
        return bytes;
    }
    let mut plain = BytesMut::new();
    while block::take(&mut bytes, &mut plain).unwrap() {}
    assert!(bytes.is_empty());
    plain
}

fn get(path: &str) -> Request<'_> {
    Request::GetData(ReadRequest { path, watch: false })
}

#[test]
fn requests_of_every_dialect_become_zookeepers_however_their_bytes_arrive() {
    for options in all() {
        let requests = [(1, "/a", &b"\0"[..]), (2, "/b/c", TRACE), (3, "/", b"\0")];
        let mut bytes = BytesMut::new();
        for (xid, path, trace) in requests {
            bytes.extend_from_slice(&sent(options, &framed(options, xid, &get(path), trace)));
        }
        for step in [1, 7, bytes.len()] {
            let mut dialect = Dialect::new(options);
            let (mut input, mut got, mut traced) = (BytesMut::new(), Vec::new(), 0);
            for part in bytes.chunks(step) {
                input.extend_from_slice(part);
                while let Some(frame) = dialect.next(&frames(), &mut input).unwrap() {
                    let (header, body) = decode_header(&frame).unwrap();
                    let Request::GetData(read) = decode_request(OpCode::GetData, body).unwrap() else {
                        panic!()
                    };
                    got.push((i64::from(header.xid), read.path.to_owned()));
                    traced += usize::from(dialect.trace().is_some_and(|trace| trace.span_id == 7));
                }
            }
            let expected = requests.map(|(xid, path, _)| (xid, path.to_owned()));
            assert_eq!(got, expected, "{options:?}, {step} bytes at a time");
            assert_eq!(traced, usize::from(options.tracing));
            assert!(input.is_empty() && !dialect.holds_bytes());
        }
    }
}

/// The same with the context behind the frame.
fn framed_behind(options: DialectOptions, xid: i64, request: &Request<'_>, trace: &[u8]) -> BytesMut {
    let mut frame = framed(options, xid, request, b"");
    frame.put_slice(trace);
    frame
}

#[test]
fn a_trace_may_come_behind_its_frame_too() {
    for options in all().filter(|options| options.tracing) {
        let mut bytes = BytesMut::new();
        for (xid, trace) in [(1, TRACE), (2, &b"\0"[..]), (3, TRACE)] {
            bytes.extend_from_slice(&sent(options, &framed_behind(options, xid, &get("/a"), trace)));
        }
        for step in [1, 9, bytes.len()] {
            let (mut dialect, mut input, mut traced) = (Dialect::new(options), BytesMut::new(), Vec::new());
            for part in bytes.chunks(step) {
                input.extend_from_slice(part);
                while let Some(frame) = dialect.next(&frames(), &mut input).unwrap() {
                    decode_request(OpCode::GetData, decode_header(&frame).unwrap().1).unwrap();
                    traced.push(dialect.trace().is_some());
                }
            }
            assert_eq!(traced, [true, false, true], "{options:?}, {step} bytes at a time");
            assert!(input.is_empty() && !dialect.holds_bytes());
        }
        for wrong in [&b"\x02"[..], &[&b"\x01"[..], &[b'x'; 5000]].concat(), b"\x01x\n\n\n\n"] {
            let mut input = sent(options, &framed_behind(options, 1, &get("/a"), wrong));
            assert_eq!(Dialect::new(options).next(&frames(), &mut input), Err(DialectError::Trace));
        }
    }
}

/// ClickHouse's client waits for the socket before each packet.
#[test]
fn each_reply_is_a_block_of_its_own() {
    let mut dialect = Dialect::new(options(true, false, false));
    let mut replies = BytesMut::new();
    for xid in 1..4 {
        encode_reply(xid, 7, Ok(&Response::Empty), &mut replies);
    }
    let mut out = BytesMut::new();
    dialect.put(&replies, &mut out);
    for _ in 1..4 {
        let mut plain = BytesMut::new();
        assert!(block::take(&mut out, &mut plain).unwrap());
        assert!(frames().next(&mut plain).unwrap().is_some() && plain.is_empty());
    }
    assert!(out.is_empty());
}

#[test]
fn replies_carry_the_ids_of_their_requests_and_events_their_own() {
    for options in all() {
        let mut dialect = Dialect::new(options);
        let ids = match options.long_xids {
            true => vec![5, i64::from(i32::MAX) + 9, 1 << 40, -2, i64::MAX],
            false => vec![5, 6, 7, -2, i64::from(i32::MAX)],
        };
        let mut frames_out = BytesMut::new();
        for id in &ids {
            let mut input = sent(options, &framed(options, *id, &Request::Ping, b"\0"));
            let frame = dialect.next(&frames(), &mut input).unwrap().unwrap();
            let (header, _) = decode_header(&frame).unwrap();
            encode_reply(header.xid, 77, Ok(&Response::Empty), &mut frames_out);
        }
        encode_watch_event(
            &keeper_types::WatchEvent {
                kind: EventKind::DataChanged,
                state: EventState::SyncConnected,
                path: "/a".into(),
            },
            -1,
            &mut frames_out,
        );
        let mut out = BytesMut::new();
        dialect.put(&frames_out, &mut out);
        let mut plain = received(options, out);
        let mut got = Vec::new();
        while let Some(frame) = frames().next(&mut plain).unwrap() {
            got.push(match options.long_xids {
                true => {
                    let (xid, rest) = frame.split_first_chunk::<8>().unwrap();
                    assert!(rest.len() >= 12);
                    i64::from_be_bytes(*xid)
                }
                false => i64::from(decode_reply_header(&frame).unwrap().0.xid),
            });
        }
        assert_eq!(got, [&ids[..], &[-1]].concat(), "{options:?}");
        assert!(plain.is_empty());
    }
}

#[test]
fn a_large_request_comes_in_several_blocks() {
    let options = options(true, true, false);
    let path = format!("/{}", "x".repeat(900_000));
    let request = framed(options, 1, &get(&path), b"");
    let mut input = BytesMut::new();
    for part in request.chunks(100_000) {
        block::put(part, &mut input);
    }
    let mut dialect = Dialect::new(options);
    let frame = dialect.next(&frames(), &mut input).unwrap().unwrap();
    assert_eq!(frame.len() + LONG_XID_BYTES - SHORT_XID_BYTES + LENGTH_BYTES, request.len());
    assert!(input.is_empty());
}

#[test]
fn what_is_wrong_is_said() {
    let next = |options, bytes: &[u8]| {
        Dialect::new(options).next(&FrameDecoder::new(1000), &mut sent(options, bytes)).unwrap_err()
    };
    let plain = options(false, true, true);
    let short = [&7i32.to_be_bytes()[..], &[0; 7]].concat();
    assert_eq!(next(plain, &short), DialectError::NoHeader { bytes: 7 });
    let no_op = [&10i32.to_be_bytes()[..], &[0; 10]].concat();
    assert_eq!(next(plain, &no_op), DialectError::NoHeader { bytes: 6 });
    for trace in [b"\x02".as_slice(), b"\x01x"] {
        assert_eq!(next(plain, &framed(plain, 1, &get("/a"), trace)), DialectError::Trace, "{trace:?}");
    }
    let all = options(true, true, true);
    let long = 1001i32.to_be_bytes();
    assert_eq!(next(all, &long), DialectError::Frame(FrameError::TooLong { length: 1001, limit: 1000 }));
    let mut garbage = BytesMut::from(&[0xaa; 64][..]);
    let refused = Dialect::new(all).next(&frames(), &mut garbage).unwrap_err();
    assert_eq!(refused, DialectError::Block(BlockError::Size { bytes: 0xaaaa_aaaa }));
}

#[test]
fn an_unknown_operation_is_left_to_be_answered() {
    let options = options(false, false, true);
    let mut bytes = BytesMut::new();
    bytes.put_i32(9);
    bytes.put_i32(1);
    bytes.put_i32(12_345);
    bytes.put_u8(0);
    let frame = Dialect::new(options).next(&frames(), &mut bytes).unwrap().unwrap();
    assert_eq!(decode_header(&frame).unwrap().0.op, 12_345);
}
