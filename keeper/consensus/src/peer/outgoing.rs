//! The dialling side: openraft's network client over peer connections.
//!
//! openraft calls `stream_append` anew for each session and each heartbeat, so the connection lives outside the call
//! and sessions are numbered: late answers of an old one are dropped. Up to 64 requests are on their way at a time.
//! openraft puts no limit on a session that stands still, so this breaks a stalled connection itself.

use crate::limits::{APPEND_BYTES_IN_FLIGHT_MAX, APPEND_STALL, APPENDS_IN_FLIGHT_MAX};
use crate::machine::SnapshotData;
use crate::net::{Conn, DialError};
use crate::node::Node;
use crate::peer::frame::{Answer, LogMessage, Request, decode_log_message, encode_append, encode_request};
use crate::peer::handshake::Class;
use crate::peer::snapshot;
use crate::types::{
    AppendRequest, AppendResult, Snapshot, TC, TransferRequest, Vote, VoteRequest, VoteResponse,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use keeper_rt::Sleep;
use keeper_types::ServerId;
use openraft::OptionalSend;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{AppendEntriesResponse, SnapshotResponse, StreamAppendError, TransferLeaderResponse};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

type BoxFuture<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;
type BoxStream<'s, T> = Pin<Box<dyn Stream<Item = T> + Send + 's>>;
type StreamItem = Result<AppendResult, RPCError<TC>>;

/// Makes clients. Holds the node weakly: the node holds Raft, and Raft holds this.
pub struct Factory(pub Weak<Node>);

impl RaftNetworkFactory<TC> for Factory {
    type Network = Peer;
    async fn new_client(&mut self, target: u64, member: &crate::api::Member) -> Peer {
        Peer {
            node: self.0.clone(),
            target: ServerId(target),
            address: member.peer_address.clone(),
            conn: None,
            number: 0,
        }
    }
}

/// A client of one other member.
pub struct Peer {
    node: Weak<Node>,
    target: ServerId,
    address: String,
    conn: Option<Conn>,
    /// Of the last session or request on `conn`.
    number: u64,
}

fn unreachable(why: &str) -> RPCError<TC> {
    RPCError::Unreachable(Unreachable::from_string(why))
}

impl Peer {
    fn node(&self) -> Result<Arc<Node>, DialError> {
        self.node.upgrade().ok_or_else(|| DialError::Unreachable("stopped".into()))
    }

    async fn ready(&mut self) -> Result<&mut Conn, RPCError<TC>> {
        // A connection whose other end has closed it shows that only when it is read.
        let usable = self.conn.take().filter(|conn| !conn.sender.is_closed() && !conn.receiver.is_closed());
        let conn = match usable {
            Some(conn) => conn,
            None => {
                let node = self.node().map_err(|error| unreachable(&error.to_string()))?;
                let dialed = node.dial(self.target, &self.address, Class::Log).await;
                dialed.map_err(|error| unreachable(&error.to_string()))?
            }
        };
        Ok(self.conn.insert(conn))
    }

    /// One request and its answer. openraft limits its time.
    async fn call(&mut self, request: Request) -> Result<Answer, RPCError<TC>> {
        self.number += 1;
        let number = self.number;
        let frame = encode_request(number, &request);
        let conn = self.ready().await?;
        let answer = Self::exchange(conn, number, frame).await;
        if answer.is_none() {
            self.conn = None;
        }
        match answer {
            Some(Answer::Failed(why)) => Err(unreachable(&why)),
            Some(answer) => Ok(answer),
            None => Err(unreachable("connection lost")),
        }
    }

    async fn exchange(conn: &mut Conn, wanted: u64, frame: Bytes) -> Option<Answer> {
        conn.sender.send(frame).await.ok()?;
        loop {
            match decode_log_message(conn.receiver.recv().await?) {
                Ok(LogMessage::Answer { number, answer }) if number == wanted => return Some(answer),
                Ok(LogMessage::Answer { .. } | LogMessage::AppendAnswer { .. }) => {}
                Ok(LogMessage::Append { .. } | LogMessage::Request { .. }) | Err(_) => return None,
            }
        }
    }
}

impl Peer {
    /// The other member does not have the entry at `index`. Where it had confirmed to have it, its disk has lost or changed
    /// what was synced: the log's last batch, whose damage looks like a write torn by a crash. openraft takes such a member
    /// for one that cannot be (a debug build panics, a release build never brings it level again) unless it is told to
    /// begin with it anew.
    async fn take_back_what_is_lost(&self, index: u64) {
        let Ok(node) = self.node() else { return };
        let Some(running) = node.running() else { return };
        let confirmed = {
            let metrics = running.raft.metrics();
            let metrics = metrics.borrow_watched();
            metrics
                .replication
                .as_ref()
                .and_then(|known| known.get(&self.target.0)?.as_ref().map(|id| id.index))
        };
        if confirmed.is_none_or(|confirmed| confirmed < index) {
            return;
        }
        tracing::error!(
            member = %self.target,
            confirmed,
            missing_from = index,
            "a member has lost entries of its log that it had confirmed: its disk did not keep what was synced. It is \
             brought level again; replace its disk before the others' fail"
        );
        if let Err(fatal) = running.raft.trigger().allow_next_revert(&self.target.0, true).await {
            tracing::warn!(%fatal, "consensus has ended");
        }
    }
}

fn wrong_answer() -> RPCError<TC> {
    unreachable("the answer does not fit the request")
}

impl RaftNetworkV2<TC> for Peer {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        _: AppendRequest,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<TC>, RPCError<TC>> {
        // openraft never calls it where `stream_append` is overridden.
        Err(unreachable("appends travel in sessions"))
    }

    fn stream_append<'s, S>(
        &'s mut self,
        mut input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, StreamItem>, RPCError<TC>>>
    where
        S: Stream<Item = AppendRequest> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            self.number += 1;
            let session = self.number;
            // The back-off after an error delays the first request, not this call: dialing before it would spin
            // on a dead peer.
            let Some(first) = input.next().await else {
                return Ok(Box::pin(stream::empty()) as BoxStream<'s, _>);
            };
            self.ready().await?;
            let mut opened = Session::new(self, input, session);
            opened.take_request(&first);
            let state = Some(opened);
            let answers = stream::unfold(state, |session| async move {
                let mut session = session?;
                let item = session.next().await?;
                let over = !matches!(item, Ok(Ok(_)));
                Some((item, (!over).then_some(session)))
            });
            Ok(Box::pin(answers) as BoxStream<'s, _>)
        })
    }

    async fn vote(&mut self, request: VoteRequest, _: RPCOption) -> Result<VoteResponse, RPCError<TC>> {
        match self.call(Request::Vote(request)).await? {
            Answer::Vote(response) => Ok(response),
            Answer::PreVote(_) | Answer::Transfer(_) | Answer::Failed(_) => Err(wrong_answer()),
        }
    }

    async fn pre_vote(&mut self, request: VoteRequest, _: RPCOption) -> Result<VoteResponse, RPCError<TC>> {
        match self.call(Request::PreVote(request)).await? {
            Answer::PreVote(response) => Ok(response),
            Answer::Vote(_) | Answer::Transfer(_) | Answer::Failed(_) => Err(wrong_answer()),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        data: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TC>, StreamingError<TC>> {
        let lost = |why: &str| StreamingError::Unreachable(Unreachable::from_string(why));
        let node = self.node().map_err(|error| lost(&error.to_string()))?;
        let SnapshotData::Stored(info) = data.snapshot else {
            return Err(lost("only a finished snapshot can be sent"));
        };
        let sending = async {
            let conn =
                node.dial(self.target, &self.address, Class::Snapshot).await.map_err(|e| e.to_string())?;
            snapshot::send(&node.snapshots, conn, vote, info).await
        };
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = sending => sent.map(SnapshotResponse::new).map_err(|why| lost(&why)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferRequest,
        _: RPCOption,
    ) -> Result<TransferLeaderResponse<TC>, RPCError<TC>> {
        match self.call(Request::Transfer(request)).await? {
            Answer::Transfer(response) => Ok(response),
            Answer::Vote(_) | Answer::PreVote(_) | Answer::Failed(_) => Err(wrong_answer()),
        }
    }
}

/// One append session on its way.
struct Session<'s, S> {
    peer: &'s mut Peer,
    input: S,
    number: u64,
    /// Encoded, waiting for room in the connection.
    waiting: Option<Bytes>,
    /// Sizes of the requests whose answers are awaited, `waiting` included, in order.
    /// Invariant: at most `APPENDS_IN_FLIGHT_MAX`.
    in_flight: VecDeque<usize>,
    /// Invariant: the sum of `in_flight`.
    in_flight_bytes: usize,
    input_ended: bool,
    stall: Sleep,
}

/// What a session waited for.
enum Event {
    Answer(Option<Bytes>),
    Sent,
    Request(Option<AppendRequest>),
    Stalled,
    Lost,
}

impl<'s, S: Stream<Item = AppendRequest> + Unpin> Session<'s, S> {
    fn new(peer: &'s mut Peer, input: S, number: u64) -> Session<'s, S> {
        Session {
            peer,
            input,
            number,
            waiting: None,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            input_ended: false,
            stall: keeper_rt::sleep(APPEND_STALL),
        }
    }

    /// The next answer; `None` after the last one of an input that has ended. Keeps taking requests while it waits.
    async fn next(&mut self) -> Option<StreamItem> {
        loop {
            if self.input_ended && self.in_flight.is_empty() {
                return None;
            }
            match self.wait().await {
                Event::Answer(Some(frame)) => match self.take_answer(frame) {
                    Ok(Some(result)) => {
                        if let Err(StreamAppendError::Conflict(at)) = &result {
                            self.peer.take_back_what_is_lost(at.index).await;
                        }
                        return Some(Ok(result));
                    }
                    Ok(None) => {}
                    Err(why) => return Some(Err(self.give_up(why))),
                },
                Event::Request(Some(request)) => self.take_request(&request),
                Event::Request(None) => self.input_ended = true,
                Event::Sent => {}
                Event::Stalled => return Some(Err(self.give_up("no answer to appends"))),
                Event::Answer(None) | Event::Lost => return Some(Err(self.give_up("connection lost"))),
            }
        }
    }

    async fn wait(&mut self) -> Event {
        let room =
            self.in_flight.len() < APPENDS_IN_FLIGHT_MAX && self.in_flight_bytes < APPEND_BYTES_IN_FLIGHT_MAX;
        let takes = !self.input_ended && self.waiting.is_none() && room;
        let Some(conn) = self.peer.conn.as_mut() else { return Event::Lost };
        tokio::select! {
            biased;
            answer = conn.receiver.recv() => Event::Answer(answer),
            permit = conn.sender.reserve(), if self.waiting.is_some() => match (permit, self.waiting.take()) {
                (Ok(permit), Some(frame)) => {
                    permit.send(frame);
                    Event::Sent
                }
                _ => Event::Lost,
            },
            request = self.input.next(), if takes => Event::Request(request),
            () = &mut self.stall, if !self.in_flight.is_empty() => Event::Stalled,
        }
    }

    fn take_request(&mut self, request: &AppendRequest) {
        if self.in_flight.is_empty() {
            self.stall = keeper_rt::sleep(APPEND_STALL);
        }
        let frame = encode_append(self.number, request);
        self.in_flight.push_back(frame.len());
        self.in_flight_bytes += frame.len();
        self.waiting = Some(frame);
    }

    /// The answer in `frame`, if it is this session's.
    fn take_answer(&mut self, frame: Bytes) -> Result<Option<AppendResult>, &'static str> {
        match decode_log_message(frame) {
            Ok(LogMessage::AppendAnswer { session, result }) if session == self.number => {
                let bytes = self.in_flight.pop_front().ok_or("an answer to nothing")?;
                self.in_flight_bytes -= bytes;
                self.stall = keeper_rt::sleep(APPEND_STALL);
                Ok(Some(result))
            }
            Ok(LogMessage::AppendAnswer { .. } | LogMessage::Answer { .. }) => Ok(None),
            Ok(LogMessage::Append { .. } | LogMessage::Request { .. }) => {
                Err("a request instead of an answer")
            }
            Err(_) => Err("a malformed message"),
        }
    }

    fn give_up(&mut self, why: &str) -> RPCError<TC> {
        self.peer.conn = None;
        unreachable(why)
    }
}
