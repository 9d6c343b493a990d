//! A server that does what a test's script says, on loopback, in the real bytes of the protocol.
#![allow(dead_code)]

use bytes::{Bytes, BytesMut};
use keeper_client::*;
use keeper_types::{ConnectRequest, ConnectResponse};
use keeper_wire::{First, FrameDecoder, limits::FRAME_BYTES_CEILING};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub const SESSION: i64 = 0x0100_0000_0000_0007;
pub const PASSWORD: [u8; 16] = [9; 16];

pub struct Server {
    listener: TcpListener,
    pub address: String,
}

/// One accepted connection.
pub struct Peer {
    stream: TcpStream,
    inbox: BytesMut,
}

pub struct Asked {
    pub xid: i32,
    pub op: OpCode,
    body: Bytes,
}

impl Asked {
    pub fn request(&self) -> Request<'_> {
        keeper_wire::decode_request(self.op, &self.body).unwrap()
    }
}

impl Server {
    #[allow(clippy::disallowed_methods)]
    pub async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Server { listener, address }
    }

    pub async fn accept(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.unwrap();
        Peer { stream, inbox: BytesMut::new() }
    }

    /// Accepts a connection and grants it the session.
    pub async fn session(&self, timeout_ms: i32) -> (Peer, ConnectRequest) {
        let mut peer = self.accept().await;
        let request = peer.handshake().await;
        peer.grant(timeout_ms, SESSION).await;
        (peer, request)
    }
}

impl Peer {
    pub async fn handshake(&mut self) -> ConnectRequest {
        let decoder = FrameDecoder::new(FRAME_BYTES_CEILING);
        loop {
            if let Some(First::Handshake(bytes)) = decoder.first(&mut self.inbox).unwrap() {
                return keeper_wire::decode_connect(&bytes).unwrap();
            }
            assert_ne!(self.stream.read_buf(&mut self.inbox).await.unwrap(), 0);
        }
    }

    /// Session 0 says that the session is gone.
    pub async fn grant(&mut self, timeout_ms: i32, session_id: i64) {
        let mut out = BytesMut::new();
        let password = if session_id == 0 { vec![0; 16] } else { PASSWORD.to_vec() };
        let response =
            ConnectResponse { protocol_version: 0, timeout_ms, session_id, password, read_only: Some(false) };
        keeper_wire::encode_connect_response(&response, &mut out);
        self.stream.write_all(&out).await.unwrap();
    }

    /// The next request, pings too. `None` when the client closed.
    pub async fn next(&mut self) -> Option<Asked> {
        let decoder = FrameDecoder::new(FRAME_BYTES_CEILING);
        loop {
            if let Some(frame) = decoder.next(&mut self.inbox).unwrap() {
                let (header, body) = keeper_wire::decode_header(&frame).unwrap();
                let op = OpCode::from_i32(header.op).unwrap();
                return Some(Asked { xid: header.xid, op, body: frame.slice_ref(body) });
            }
            match self.stream.read_buf(&mut self.inbox).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub async fn asked(&mut self, op: OpCode) -> Asked {
        let asked = self.next().await.expect("the client closed the connection");
        assert_eq!(asked.op, op);
        asked
    }

    pub async fn answer(&mut self, xid: i32, zxid: i64, result: Result<Response, ErrorCode>) {
        let mut out = BytesMut::new();
        keeper_wire::encode_reply(xid, zxid, result.as_ref().map_err(|code| *code), &mut out);
        self.stream.write_all(&out).await.unwrap();
    }

    pub async fn event(&mut self, kind: EventKind, path: &str, zxid: i64) {
        let mut out = BytesMut::new();
        let event = WatchEvent { kind, state: EventState::SyncConnected, path: path.to_owned() };
        keeper_wire::encode_watch_event(&event, zxid, &mut out);
        self.stream.write_all(&out).await.unwrap();
    }

    pub async fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }
}

pub fn options() -> Options {
    Options { operation_timeout: Some(Duration::from_secs(20)), ..Options::default() }
}

pub fn data(text: &str) -> Response {
    Response::GetData { data: Some(text.as_bytes().to_vec()), stat: Stat::default() }
}

/// A client and the connection its session lives on.
pub async fn connected(server: &Server, options: Options) -> (Client, Peer) {
    let timeout_ms = options.session_timeout_ms;
    let hosts = [server.address.clone()];
    let (client, (peer, _)) = tokio::join!(Client::connect(&hosts, options), server.session(timeout_ms));
    (client.unwrap(), peer)
}
