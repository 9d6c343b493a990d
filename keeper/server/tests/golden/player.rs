//! Takes steps in front of a server and collects what every client hears.
//!
//! After a step all other clients ping: what the step caused for them was sent before the answer to that.

use crate::story::{Asked, Opening, STORY_BEGAN, Step};
use crate::support::WAIT;
use crate::transcript::Heard;
use bytes::{Bytes, BytesMut};
use keeper_server::Node;
use keeper_types::{ConnectRequest, ErrorCode, OpCode, Request};
use keeper_wire::FrameDecoder;
use std::collections::BTreeMap;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub enum Server {
    /// `HOST:PORT`.
    Real(String),
    Ours(Box<Node>),
}

trait Pipe: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Pipe for T {}

impl Server {
    async fn connect(&self) -> Box<dyn Pipe> {
        match self {
            Server::Real(address) => Box::new(tokio::net::TcpStream::connect(address).await.expect(address)),
            Server::Ours(node) => {
                let (ours, theirs) = tokio::io::duplex(1 << 20);
                let node = (**node).clone();
                // The recorded server saw this address too: `whoAmI` tells it.
                keeper_rt::spawn("golden-client", async move {
                    node.serve_client(theirs, "127.0.0.1:4567".into(), Vec::new()).await
                });
                Box::new(ours)
            }
        }
    }
}

/// A frame's payload, or `None` when the server has closed.
struct Connection {
    stream: Box<dyn Pipe>,
    input: BytesMut,
}

impl Connection {
    async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = FrameDecoder::new(64 << 20).next(&mut self.input).expect("frames") {
                return Some(frame);
            }
            let read = keeper_rt::timeout(WAIT, self.stream.read_buf(&mut self.input)).await;
            if read.expect("the server answers in time").unwrap_or(0) == 0 {
                return None;
            }
        }
    }
}

pub struct Player {
    server: Server,
    connections: BTreeMap<char, Connection>,
    /// Id and password of each client's last session.
    sessions: BTreeMap<char, (i64, Vec<u8>)>,
    /// The zxid of the story's first reply.
    began: Option<i64>,
}

impl Player {
    pub fn new(server: Server) -> Player {
        Player { server, connections: BTreeMap::new(), sessions: BTreeMap::new(), began: None }
    }

    pub async fn play(&mut self, step: &Step) -> Vec<Heard> {
        let mut heard = Vec::new();
        let acting = match step {
            Step::Open(opening) => {
                self.open(opening, &mut heard).await;
                opening.client
            }
            Step::Send { client, ops, bytes } => {
                let bytes = self.with_zxids(ops, bytes);
                self.send(*client, ops, &bytes, &mut heard).await;
                *client
            }
        };
        let others: Vec<char> = self.connections.keys().copied().filter(|other| *other != acting).collect();
        for other in others {
            let mut ping = BytesMut::new();
            keeper_wire::encode_request(-2, &Request::Ping, &mut ping).expect("encodes");
            // A closed connection is found by reading.
            let _ = self.connection(other).stream.write_all(&ping).await;
            self.listen(other, 1, &mut heard).await;
            if heard.last().is_some_and(|last| last.client == other && last.packet.is_some()) {
                heard.pop();
            }
        }
        heard
    }

    fn connection(&mut self, client: char) -> &mut Connection {
        self.connections.get_mut(&client).unwrap_or_else(|| panic!("{client} has no connection"))
    }

    async fn open(&mut self, opening: &Opening, heard: &mut Vec<Heard>) {
        let client = opening.client;
        let (session_id, password) = match opening.session {
            Asked::New => (0, vec![0; 16]),
            Asked::Unknown => (0x1234_5678, vec![7; 16]),
            Asked::Of(other) => self.sessions[&other].clone(),
            Asked::WrongPasswordOf(other) => (self.sessions[&other].0, vec![7; 16]),
        };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.zxid(opening.seen_zxid),
            timeout_ms: opening.timeout_ms,
            session_id,
            password,
            read_only: opening.read_only,
        };
        let mut bytes = BytesMut::new();
        keeper_wire::encode_connect_request(&request, &mut bytes);
        let mut connection = Connection { stream: self.server.connect().await, input: BytesMut::new() };
        connection.stream.write_all(&bytes).await.expect("the server reads");
        let frame = connection.frame().await;
        heard.push(Heard { client, packet: frame.as_deref().map(whole) });
        let Some(frame) = frame else { return };
        let granted = keeper_wire::decode_connect_response(&frame).expect("a connect response");
        if granted.session_id == 0 {
            assert_eq!(connection.frame().await, None, "a refused client is left alone");
            heard.push(Heard { client, packet: None });
            return;
        }
        self.sessions.insert(client, (granted.session_id, granted.password));
        self.connections.insert(client, connection);
    }

    async fn send(&mut self, client: char, ops: &[i32], bytes: &[u8], heard: &mut Vec<Heard>) {
        self.connection(client).stream.write_all(bytes).await.expect("the server reads");
        let last = self.listen(client, ops.len(), heard).await;
        let closes = ops.is_empty()
            || ops.contains(&OpCode::CloseSession.as_i32())
            || last == Some(ErrorCode::AuthFailed.as_i32());
        if closes && self.connections.contains_key(&client) {
            while self.listen(client, 1, heard).await.is_some() {}
        }
        if ops.contains(&OpCode::CloseSession.as_i32()) {
            self.sessions.remove(&client);
        }
    }

    /// Until so many replies have come; the error of the last one, or `None` when the connection has ended.
    async fn listen(&mut self, client: char, replies: usize, heard: &mut Vec<Heard>) -> Option<i32> {
        let (mut replies, mut error) = (replies, Some(0));
        while replies > 0 {
            let Some(frame) = self.connection(client).frame().await else {
                heard.push(Heard { client, packet: None });
                self.connections.remove(&client);
                return None;
            };
            let (header, _) = keeper_wire::decode_reply_header(&frame).expect("a header");
            if header.xid != -1 {
                replies -= 1;
                error = Some(header.error);
                if header.zxid > 0 {
                    self.began.get_or_insert(header.zxid);
                }
            }
            heard.push(Heard { client, packet: Some(whole(&frame)) });
        }
        error
    }

    fn zxid(&self, zxid: i64) -> i64 {
        match self.began {
            Some(began) if zxid >= STORY_BEGAN => zxid - STORY_BEGAN + began,
            _ => zxid,
        }
    }

    fn with_zxids(&self, ops: &[i32], bytes: &[u8]) -> Vec<u8> {
        let again = [OpCode::SetWatches, OpCode::SetWatches2].map(OpCode::as_i32);
        let mut bytes = bytes.to_vec();
        if let [op] = ops
            && again.contains(op)
        {
            // Behind length, xid and operation.
            let place = &mut bytes[12..20];
            let zxid = i64::from_be_bytes(place.try_into().expect("eight bytes"));
            place.copy_from_slice(&self.zxid(zxid).to_be_bytes());
        }
        bytes
    }

    /// Closes every session, also those whose connection is gone, so that none expires in the middle of a later story.
    pub async fn end_story(&mut self) {
        let sessions = std::mem::take(&mut self.sessions);
        self.connections.clear();
        self.began = None;
        let mut closed = Vec::new();
        for (id, password) in sessions.into_values() {
            if closed.contains(&id) {
                continue;
            }
            closed.push(id);
            self.sessions.insert('z', (id, password));
            let opening = Opening {
                client: 'z',
                session: Asked::Of('z'),
                timeout_ms: 10_000,
                read_only: Some(false),
                seen_zxid: 0,
            };
            self.open(&opening, &mut Vec::new()).await;
            if self.connections.contains_key(&'z') {
                let mut bytes = BytesMut::new();
                keeper_wire::encode_request(1, &Request::CloseSession, &mut bytes).expect("encodes");
                self.send('z', &[OpCode::CloseSession.as_i32()], &bytes, &mut Vec::new()).await;
            }
            self.connections.clear();
        }
        self.sessions.clear();
        self.began = None;
    }
}

/// With its length in front.
fn whole(frame: impl AsRef<[u8]>) -> Vec<u8> {
    let frame = frame.as_ref();
    [&(frame.len() as u32).to_be_bytes(), frame].concat()
}
