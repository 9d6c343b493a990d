//! Clients that speak ClickHouse's newer protocol versions: compressed blocks, long transaction ids, trace contexts.
#![allow(clippy::disallowed_methods)]

mod support;

use bytes::{BufMut, Bytes, BytesMut};
use keeper_server::Node;
use keeper_types::{CreateMode, DialectOptions, EventKind, Request};
use keeper_wire::FrameDecoder;
use keeper_wire::dialect::{block, version};
use support::{RawClient, WAIT, connect_request, create, get, member_of_no_cluster, one_member, set};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const TRACE: &[u8] = b"\x0102030405-0607-0809-0a0b-0c0d0e0f1011\n7\n\n1\n";

/// Such a client, with nothing of the server's code but the blocks' own.
struct Speaker {
    raw: RawClient,
    options: DialectOptions,
    /// As it came, and decompressed.
    input: BytesMut,
    plain: BytesMut,
}

struct Reply {
    xid: i64,
    error: i32,
    body: Bytes,
}

impl Speaker {
    async fn connect(node: &Node, protocol_version: i32, options: DialectOptions) -> Speaker {
        let mut request = connect_request(0, vec![0; 16], 30_000);
        request.protocol_version = protocol_version;
        request.dialect = Some(options);
        // ClickHouse's clients always set it, and want to write all the same.
        request.read_only = Some(true);
        let raw = RawClient::connect_as(node, &request).await.expect("an answer");
        Speaker { raw, options, input: BytesMut::new(), plain: BytesMut::new() }
    }

    async fn send(&mut self, xid: i64, request: &Request<'_>, trace: &[u8]) {
        let mut frame = BytesMut::new();
        keeper_wire::encode_request(0, request, &mut frame).expect("encodes");
        let mut payload = BytesMut::new();
        match self.options.long_xids {
            true => payload.put_i64(xid),
            false => payload.put_i32(xid as i32),
        }
        payload.put_slice(&frame[8..]);
        if self.options.tracing {
            payload.put_slice(trace);
        }
        let mut framed = BytesMut::new();
        framed.put_i32(payload.len() as i32);
        framed.put_slice(&payload);
        self.send_bytes(&framed).await;
    }

    async fn send_bytes(&mut self, bytes: &[u8]) {
        let mut out = BytesMut::new();
        match self.options.compressed {
            true => block::put(bytes, &mut out),
            false => out.put_slice(bytes),
        }
        self.raw.stream.write_all(&out).await.expect("the server reads");
    }

    async fn reply(&mut self) -> Option<Reply> {
        loop {
            let source = if self.options.compressed { &mut self.plain } else { &mut self.input };
            if let Some(frame) = FrameDecoder::new(1 << 20).next(source).expect("frames") {
                return Some(self.parse(frame));
            }
            if self.options.compressed && block::take(&mut self.input, &mut self.plain).expect("blocks") {
                continue;
            }
            let read = keeper_rt::timeout(WAIT, self.raw.stream.read_buf(&mut self.input)).await;
            if read.expect("the server answers in time").unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    fn parse(&self, frame: Bytes) -> Reply {
        let at = if self.options.long_xids { 8 } else { 4 };
        let number = |bytes: &[u8]| bytes.iter().fold(0i64, |number, byte| number << 8 | i64::from(*byte));
        let xid = match self.options.long_xids {
            true => number(&frame[..8]),
            false => i64::from(number(&frame[..4]) as i32),
        };
        Reply { xid, error: number(&frame[at + 8..at + 12]) as i32, body: frame.slice(at + 12..) }
    }

    async fn call(&mut self, xid: i64, request: &Request<'_>) -> Reply {
        self.send(xid, request, b"\0").await;
        let reply = self.reply().await.expect("a reply");
        assert_eq!(reply.xid, xid);
        reply
    }
}

/// Every way that a client can ask for.
fn ways() -> Vec<(i32, DialectOptions)> {
    let options = |compressed, long_xids, tracing| DialectOptions { compressed, long_xids, tracing };
    let mut ways = vec![(version::COMPRESSION, options(true, false, false))];
    for compressed in [false, true] {
        ways.push((version::LONG_XIDS, options(compressed, true, false)));
        for long_xids in [false, true] {
            ways.push((version::TRACING, options(compressed, long_xids, true)));
        }
    }
    ways
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_every_version_are_served_like_all_others() {
    let node = one_member().await;
    let mut other = RawClient::connect(&node).await;
    for (round, (protocol_version, options)) in ways().into_iter().enumerate() {
        let mut client = Speaker::connect(&node, protocol_version, options).await;
        let granted = &client.raw.granted;
        assert_eq!((granted.protocol_version, granted.read_only), (protocol_version, None), "{options:?}");
        assert!(granted.session_id != 0 && granted.timeout_ms == 30_000);
        let path = format!("/of-{round}");
        // Ids beyond 32 bits, where the client may use them.
        let base = if options.long_xids { 1 << 40 } else { 1 };
        assert_eq!(client.call(base, &create(&path, b"one", CreateMode::Persistent)).await.error, 0);
        client.send(base + 1, &get(&path, true), TRACE).await;
        let read = client.reply().await.expect("a reply");
        assert_eq!((read.xid, read.error, &read.body[..7]), (base + 1, 0, &b"\0\0\0\x03one"[..]));
        assert_eq!(client.call(-2, &Request::Ping).await.error, 0);
        other.call(&set(&path, b"two")).await.unwrap();
        let event = client.reply().await.expect("an event");
        assert_eq!(event.xid, -1, "{options:?}");
        let event = keeper_wire::decode_watch_event(&event.body).expect("an event");
        assert_eq!((event.kind, event.path), (EventKind::DataChanged, path.clone()));
        // Several at once, and their replies in order.
        for offset in 2..40 {
            client.send(base + offset, &set(&path, &[7; 3000]), b"\0").await;
        }
        for offset in 2..40 {
            assert_eq!(client.reply().await.map(|reply| (reply.xid, reply.error)), Some((base + offset, 0)));
        }
        let close = if options.long_xids { i64::MAX } else { i64::from(i32::MAX) };
        assert_eq!(client.call(close, &Request::CloseSession).await.error, 0);
        assert!(client.reply().await.is_none(), "the connection ends");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_blocks_or_traces_end_their_connection_alone() {
    let node = one_member().await;
    let mut bystander = RawClient::connect(&node).await;
    for (protocol_version, options) in ways() {
        let mut client = Speaker::connect(&node, protocol_version, options).await;
        if options.compressed {
            client.raw.stream.write_all(&[0xaa; 64]).await.expect("the server reads");
        } else if options.tracing {
            client.send(1, &get("/", false), b"\x07").await;
        } else {
            client.send_bytes(&[0, 0, 0, 3, 1, 2, 3]).await;
        }
        assert!(client.reply().await.is_none(), "{options:?}");
        bystander.call(&get("/", false)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_knows_the_answer_is_told_that_a_member_cannot_serve() {
    let node = member_of_no_cluster(|_| {}).await;
    let (protocol_version, options) = ways()[0];
    let rejected = Speaker::connect(&node, protocol_version, options).await;
    let granted = &rejected.raw.granted;
    assert_eq!((granted.protocol_version, granted.session_id), (version::REJECT, 0));
    let plain = RawClient::connect_as(&node, &connect_request(0, vec![0; 16], 30_000)).await;
    assert!(plain.is_none(), "closed without an answer");
}
