//! One member in memory, and a client that speaks raw frames: no mock, only no disk and no TCP.
#![allow(clippy::disallowed_methods, dead_code)]

use bytes::{Bytes, BytesMut};
use keeper_consensus::{Conn, DialError, Member, NetFuture, Network};
use keeper_log::faulty::FaultyDisk;
use keeper_rt::Pool;
use keeper_server::{Node, NodeOptions, Readiness};
use keeper_types::{
    ClusterId, ConnectRequest, ConnectResponse, CreateMode, CreateRequest, OpCode, ReadRequest, Request,
    Response, ServerId, SetDataRequest, WatchEvent,
};
use keeper_wire::FrameDecoder;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

/// Bound of every wait in these tests.
pub const WAIT: Duration = Duration::from_secs(20);

/// A member alone has no peers to dial.
struct NoPeers;

impl Network for NoPeers {
    fn dial<'a>(&'a self, _address: &'a str) -> NetFuture<'a, Result<Conn, DialError>> {
        Box::pin(async { Err(DialError::Refused) })
    }

    fn listen(&self) -> NetFuture<'_, io::Result<mpsc::Receiver<Conn>>> {
        Box::pin(async {
            let (sender, receiver) = mpsc::channel(1);
            // Held for ever: nobody ever connects.
            keeper_rt::spawn("no-peers", async move {
                let _sender = sender;
                std::future::pending::<()>().await;
            });
            Ok(receiver)
        })
    }
}

pub async fn one_member() -> Node {
    one_member_with(|_| {}).await
}

pub async fn one_member_with(change: impl FnOnce(&mut NodeOptions)) -> Node {
    let node = member_of_no_cluster(change).await;
    let me = Member {
        id: ServerId(1),
        peer_address: "one:1".into(),
        client_address: "one:2".into(),
        name: "one".into(),
        election_port: 0,
    };
    node.consensus().bootstrap(ClusterId([7; 16]), me).await.expect("the member founds its cluster");
    ready(&node).await;
    node
}

/// With an empty disk: it serves nobody.
pub async fn member_of_no_cluster(change: impl FnOnce(&mut NodeOptions)) -> Node {
    let disk = FaultyDisk::new(1).disk();
    let mut options = NodeOptions::new(
        "one".into(),
        disk,
        Arc::new(NoPeers),
        Pool::current(),
        b"a secret of the test".to_vec(),
    );
    options.session_timeout_ms = (200, 60_000);
    options.log = keeper_log::Options::small();
    change(&mut options);
    Node::start(options).await.expect("the member starts")
}

pub async fn ready(node: &Node) {
    let deadline = keeper_rt::now() + WAIT;
    while node.readiness() != Readiness::Ready {
        assert!(keeper_rt::now() < deadline, "not ready: {:?}", node.readiness());
        keeper_rt::sleep(Duration::from_millis(2)).await;
    }
}

/// A socket to the member, without a session yet.
pub fn socket(node: &Node) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let node = node.clone();
    keeper_rt::spawn("test-client", async move {
        node.serve_client(theirs, "10.1.2.3:4567".into(), Vec::new()).await
    });
    ours
}

/// What a server may send.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet {
    Reply {
        xid: i32,
        zxid: i64,
        error: i32,
        body: Bytes,
    },
    Event(WatchEvent),
    /// The server closed the connection.
    End,
}

pub struct RawClient {
    pub stream: DuplexStream,
    pub granted: ConnectResponse,
    input: BytesMut,
    next_xid: i32,
}

pub fn connect_request(session_id: i64, password: Vec<u8>, timeout_ms: i32) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms,
        session_id,
        password,
        read_only: Some(false),
        dialect: None,
    }
}

impl RawClient {
    pub async fn connect(node: &Node) -> RawClient {
        RawClient::connect_as(node, &connect_request(0, vec![0; 16], 30_000)).await.expect("a session")
    }

    /// `None` when the server closes without an answer.
    pub async fn connect_as(node: &Node, request: &ConnectRequest) -> Option<RawClient> {
        let stream = socket(node);
        let granted = ConnectResponse {
            protocol_version: 0,
            timeout_ms: 0,
            session_id: 0,
            password: Vec::new(),
            read_only: None,
        };
        let mut client = RawClient { stream, granted, input: BytesMut::new(), next_xid: 1 };
        let mut out = BytesMut::new();
        keeper_wire::encode_connect_request(request, &mut out);
        client.stream.write_all(&out).await.ok()?;
        let frame = client.frame().await?;
        client.granted = keeper_wire::decode_connect_response(&frame).expect("a connect response");
        Some(client)
    }

    /// Writes a request and does not wait.
    pub async fn send(&mut self, request: &Request<'_>) -> i32 {
        let xid = self.next_xid;
        self.next_xid += 1;
        self.send_as(xid, request).await;
        xid
    }

    pub async fn send_as(&mut self, xid: i32, request: &Request<'_>) {
        let mut out = BytesMut::new();
        keeper_wire::encode_request(xid, request, &mut out).expect("encodes");
        self.stream.write_all(&out).await.expect("the server reads");
    }

    async fn frame(&mut self) -> Option<Bytes> {
        let decoder = FrameDecoder::new(64 << 20);
        loop {
            if let Some(frame) = decoder.next(&mut self.input).expect("frames") {
                return Some(frame);
            }
            let read = keeper_rt::timeout(WAIT, self.stream.read_buf(&mut self.input)).await;
            if read.expect("the server answers in time").unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    pub async fn packet(&mut self) -> Packet {
        let Some(frame) = self.frame().await else { return Packet::End };
        let (header, body) = keeper_wire::decode_reply_header(&frame).expect("a reply");
        if header.xid == -1 {
            return Packet::Event(keeper_wire::decode_watch_event(body).expect("an event"));
        }
        let body = frame.slice_ref(body);
        Packet::Reply { xid: header.xid, zxid: header.zxid, error: header.error, body }
    }

    /// Sends and expects the reply to it as the next packet.
    pub async fn call(&mut self, request: &Request<'_>) -> Result<Response, i32> {
        let sent = self.send(request).await;
        match self.packet().await {
            Packet::Reply { xid, error: 0, body, .. } => {
                assert_eq!(xid, sent);
                Ok(keeper_wire::decode_response(request.op(), &body).expect("a body"))
            }
            Packet::Reply { xid, error, .. } => {
                assert_eq!(xid, sent);
                Err(error)
            }
            other => panic!("expected the reply to {sent}, got {other:?}"),
        }
    }
}

pub fn create<'a>(path: &'a str, data: &'a [u8], mode: CreateMode) -> Request<'a> {
    let acl = vec![keeper_types::Acl::open()];
    Request::Create(
        OpCode::Create,
        CreateRequest { path, data: Some(data), acl, flags: mode as i32, ttl_ms: None },
    )
}

pub fn set<'a>(path: &'a str, data: &'a [u8]) -> Request<'a> {
    Request::SetData(SetDataRequest { path, data: Some(data), version: -1 })
}

pub fn get(path: &str, watch: bool) -> Request<'_> {
    Request::GetData(ReadRequest { path, watch })
}

pub fn exists(path: &str, watch: bool) -> Request<'_> {
    Request::Exists(ReadRequest { path, watch })
}
