//! Stages Received and Replied: one client's socket. Generic over the stream, so that a simulation runs it too.
//!
//! One task a connection: it reads frames, hands them to the session, and writes what the outbox holds. It never
//! waits for one request before it reads the next, within the limits.

use crate::auth::AuthOptions;
use crate::batch::Kind;
use crate::dispatch::Dispatch;
use crate::four_letter::Words;
use crate::limits::{
    ANSWER_TIME_MAX, CONNECTION_REQUEST_BYTES_MAX, CONNECTION_REQUESTS_MAX, FRAME_STALL_MAX,
    HANDSHAKE_TIME_MAX, LAST_WORDS_TIME_MAX, OUTBOX_BYTES_PAUSE, OUTPUT_BYTES_KEPT, READ_CHUNK_BYTES,
    SESSION_OPEN_TIME_MAX, WRITE_STALL_MAX,
};
use crate::outbox::{CloseReason, Outbox};
use crate::session::{Client, Refused, Rules, Session, open};
use crate::shared::Shared;
use crate::stage::Stage;
use crate::stats::TRACE_REQUESTS;
use crate::tally::{Info, Tally};
use bytes::{Buf, Bytes, BytesMut};
use keeper_rt::Instant;
use keeper_tree::Outcome;
use keeper_types::{AclId, ConnectRequest, ConnectResponse, DialectOptions, ErrorCode, OpCode, SessionId};
use keeper_wire::dialect::{Dialect, version};
use keeper_wire::{First, FrameDecoder};
use std::future::Future;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What every connection of a member is given.
#[derive(Clone)]
pub struct ConnectionOptions {
    pub frame_bytes_max: usize,
    /// Session timeouts are clamped into this range, milliseconds.
    pub timeout_ms: (i32, i32),
    pub auth: Arc<AuthOptions>,
    pub rules: Rules,
    pub words: Arc<Words>,
}

pub struct Connection<S> {
    stream: S,
    input: BytesMut,
    output: BytesMut,
    /// Most bytes that `output` has held: what it keeps allocated.
    output_bytes_peak: usize,
    shared: Arc<Shared>,
    dispatch: Dispatch,
    options: ConnectionOptions,
    decoder: FrameDecoder,
    /// Of ClickHouse's newer clients, from the end of the handshake on.
    dialect: Option<Box<Dialect>>,
    outbox: Arc<Outbox>,
    info: Arc<Info>,
    tally: Tally,
    /// Identities from below the protocol, for the session.
    proved: Vec<AclId>,
    /// When the socket last took bytes, or had nothing to take.
    written_at: Instant,
    /// When the oldest write's reply in `output` was ready.
    ready_since: Option<Instant>,
    /// When the unfinished frame in `input` began.
    frame_began: Option<Instant>,
    ended: bool,
}

/// Why a connection's task ended, for the log.
enum End {
    /// Nothing to say: the client left.
    Left,
    Closed(CloseReason),
    Refused(Refused),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub fn new(
        stream: S,
        remote: String,
        proved: Vec<AclId>,
        outbox: Arc<Outbox>,
        shared: Arc<Shared>,
        dispatch: Dispatch,
        options: ConnectionOptions,
    ) -> Connection<S> {
        let now = keeper_rt::now();
        let info = Arc::new(Info::new(remote));
        Connection {
            stream,
            input: BytesMut::new(),
            output: BytesMut::new(),
            output_bytes_peak: 0,
            shared,
            dispatch,
            decoder: FrameDecoder::new(options.frame_bytes_max),
            dialect: None,
            options,
            outbox,
            tally: Tally::new(info.clone()),
            info,
            proved,
            written_at: now,
            ready_since: None,
            frame_began: None,
            ended: false,
        }
    }

    /// Serves the client until either side ends it.
    pub async fn run(mut self) {
        self.shared.connections().insert(self.outbox.id, self.info.clone());
        let end = self.serve().await;
        let (session, generation) = self.outbox.session();
        // Nothing more is taken in, and what apply still delivers is dropped.
        self.outbox.close(CloseReason::ClosedByClient);
        self.shared.sessions.detach(session, self.outbox.id);
        self.shared.read_only_clients.detach(session, self.outbox.id);
        self.shared.watches.remove_connection(self.outbox.id).await;
        self.shared.connections().remove(&self.outbox.id);
        let (remote, connection) = (&self.info.remote, self.outbox.id);
        match end {
            End::Left => tracing::debug!(%remote, connection, %session, %generation, "client left"),
            End::Closed(reason) => {
                tracing::debug!(%remote, connection, %session, ?reason, "connection closed")
            }
            End::Refused(Refused(reason)) => {
                self.shared.metrics.malformed_total.inc();
                if let Some(left_out) = self.shared.quiet.admit() {
                    tracing::warn!(%remote, connection, %session, reason, left_out, "connection closed: cannot go on reading");
                }
            }
        }
    }

    async fn serve(&mut self) -> End {
        let handshake = keeper_rt::timeout(HANDSHAKE_TIME_MAX, self.first_frame()).await;
        let request = match handshake {
            Ok(Ok(Some(First::Handshake(frame)))) => match keeper_wire::decode_connect(&frame) {
                Ok(request) => request,
                Err(error) => return End::Refused(Refused(format!("connect request: {error}"))),
            },
            Ok(Ok(Some(First::FourLetterWord(word)))) => {
                // On the heap, or every idle client would hold room for what the longest word needs.
                Box::pin(self.answer_word(word)).await;
                return End::Left;
            }
            Ok(Ok(None)) => return End::Left,
            Ok(Err(refused)) => return End::Refused(refused),
            Err(_) => return End::Refused(Refused("no connect request in time".into())),
        };
        let Some(mut session) = self.connect(&request).await else {
            self.flush(LAST_WORDS_TIME_MAX).await;
            return End::Left;
        };
        self.info.session.store(session.id().0, Ordering::Relaxed);
        loop {
            session.resume().await;
            // Frames may be left from before the limits closed the way.
            if let Err(refused) = self.handle_frames(&mut session) {
                self.take_output();
                self.flush(LAST_WORDS_TIME_MAX).await;
                return End::Refused(refused);
            }
            if let Some(reason) = self.take_output() {
                self.flush(LAST_WORDS_TIME_MAX).await;
                return End::Closed(reason);
            }
            if session.can_resume() {
                continue;
            }
            let may_read = self.may_read();
            if may_read {
                self.shared.ingress.wait_for_room().await;
            }
            match self.turn(may_read).await {
                Turn::Read => self.outbox.mark_active(),
                Turn::Progress => {}
                Turn::Ended => return End::Left,
                Turn::Stalled(what) => return End::Refused(Refused(what.into())),
            }
        }
    }

    /// All whole frames that have arrived.
    fn handle_frames(&mut self, session: &mut Session) -> Result<(), Refused> {
        let mut count = 0;
        let handled = self.handle_each(session, &mut count);
        self.tally.arrived(count, &self.shared.stats);
        self.shared.metrics.packets_received.inc_by(count);
        handled
    }

    fn handle_each(&mut self, session: &mut Session, count: &mut u64) -> Result<(), Refused> {
        let received = keeper_rt::now();
        loop {
            if !self.may_read() {
                return Ok(());
            }
            match self.next_frame() {
                Ok(Some(frame)) => {
                    *count += 1;
                    let bytes = frame.len();
                    let op = session.handle(frame, received)?;
                    self.tally.request(op, received, &self.shared.stats);
                    self.log_request(op, bytes);
                    self.frame_began = None;
                }
                Ok(None) => {
                    let holds_bytes = self.dialect.as_ref().is_some_and(|dialect| dialect.holds_bytes());
                    if !self.input.is_empty() || holds_bytes {
                        self.frame_began.get_or_insert(received);
                    }
                    return Ok(());
                }
                Err(refused) => return Err(refused),
            }
        }
    }

    fn next_frame(&mut self) -> Result<Option<Bytes>, Refused> {
        match &mut self.dialect {
            None => self.decoder.next(&mut self.input).map_err(|error| Refused(format!("frame: {error}"))),
            Some(dialect) => dialect
                .next(&self.decoder, &mut self.input)
                .map_err(|error| Refused(format!("ClickHouse's protocol: {error}"))),
        }
    }

    /// For the word `lgrq`, and for ZooKeeper's trace mask at the level it belongs to.
    fn log_request(&self, op: OpCode, bytes: usize) {
        let (remote, session) = (&self.info.remote, self.outbox.session().0);
        let stats = &self.shared.stats;
        let trace = self.dialect.as_ref().and_then(|dialect| dialect.trace()).map(tracing::field::display);
        if stats.log_requests.load(Ordering::Relaxed) {
            tracing::info!(%remote, %session, op = op.name(), bytes, trace, "request");
        } else if stats.trace_mask.load(Ordering::Relaxed) & TRACE_REQUESTS != 0 {
            tracing::trace!(%remote, %session, op = op.name(), bytes, trace, "request");
        }
    }

    /// A four-letter word instead of a handshake. Its argument, where it has one, comes within the handshake's time.
    async fn answer_word(&mut self, word: [u8; 4]) {
        let words = self.options.words.clone();
        let argument = keeper_rt::timeout(HANDSHAKE_TIME_MAX, async {
            while self.input.len() < words.argument_bytes(word, &self.input)
                && matches!(self.turn(true).await, Turn::Read | Turn::Progress)
            {}
        });
        let _ = argument.await;
        let wanted = words.argument_bytes(word, &self.input);
        let argument = self.input.split_to(wanted.min(self.input.len()));
        let Some(answer) = words.answer(word, &argument, &self.shared).await else { return };
        self.output.extend_from_slice(answer.text.as_bytes());
        self.flush(ANSWER_TIME_MAX).await;
    }

    /// Requests are taken while the client keeps up with its replies and has few enough unanswered.
    fn may_read(&self) -> bool {
        let state = self.outbox.lock();
        state.closing.is_none()
            && !state.held
            && state.queue.len() < CONNECTION_REQUESTS_MAX
            && state.queued_bytes < CONNECTION_REQUEST_BYTES_MAX
            && state.out.len() + self.output.len() < OUTBOX_BYTES_PAUSE
            && !self.shared.stopping.load(Ordering::Relaxed)
    }

    /// Moves ready bytes from the outbox to the socket's buffer. The reason, when the connection is to end.
    fn take_output(&mut self) -> Option<CloseReason> {
        let mut state = self.outbox.lock();
        let had = self.output.len();
        let mut for_dialect = None;
        if had == 0 {
            self.written_at = keeper_rt::now();
        }
        if self.dialect.is_some() {
            for_dialect = Some(state.out.split());
        } else if had == 0 {
            std::mem::swap(&mut self.output, &mut state.out);
        } else {
            let more = state.out.split();
            self.output.extend_from_slice(&more);
        }
        if let Some(since) = state.ready_since.take() {
            self.ready_since.get_or_insert(since);
        }
        let closing = state.closing;
        drop(state);
        let frames = for_dialect.as_deref().unwrap_or(&self.output[had..]);
        let sent = self.tally.replies(frames, &self.shared.stats);
        if let (Some(dialect), Some(frames)) = (&mut self.dialect, &for_dialect) {
            dialect.put(frames, &mut self.output);
        }
        self.output_bytes_peak = self.output_bytes_peak.max(self.output.len());
        self.shared.metrics.packets_sent.inc_by(sent);
        closing
    }

    async fn first_frame(&mut self) -> Result<Option<First>, Refused> {
        loop {
            match self.decoder.first(&mut self.input) {
                Ok(Some(first)) => return Ok(Some(first)),
                Ok(None) => {}
                Err(error) => return Err(Refused(format!("frame: {error}"))),
            }
            match self.turn(true).await {
                Turn::Ended => return Ok(None),
                Turn::Stalled(what) => return Err(Refused(what.into())),
                Turn::Read | Turn::Progress => {}
            }
        }
    }

    /// The handshake: a new session, an old one, or the zero session that tells the client its own is gone.
    async fn connect(&mut self, request: &ConnectRequest) -> Option<Session> {
        if !self.options.auth.admits_handshake(request) {
            tracing::warn!(remote = %self.info.remote, "client refused: its handshake lacks auth.clickhouse_password");
            return None;
        }
        if request.last_zxid_seen > self.shared.read_tree().zxid().0 {
            // The client has seen a later state than this member: it must not go back in time. As ZooKeeper,
            // close without a reply, so that it tries the next member.
            tracing::info!(remote = %self.info.remote, seen = request.last_zxid_seen, "client is ahead of this member");
            return None;
        }
        let timeout_ms = request.timeout_ms.clamp(self.options.timeout_ms.0, self.options.timeout_ms.1);
        let asked = SessionId(request.session_id);
        let (kind, password) = if asked.0 == 0 {
            (Kind::CreateSession, keeper_rt::random_bytes::<16>())
        } else {
            (Kind::AttachSession, request.password.clone().try_into().unwrap_or_default())
        };
        if self.shared.digests.differs() {
            tracing::info!(remote = %self.info.remote, "client sent to the next member: this one's tree is wrong");
            self.reject(request);
            return None;
        }
        if self.shared.read_only.load(Ordering::Relaxed) {
            return self.connect_read_only(request, asked, timeout_ms, password);
        }
        if self.shared.leaderless.load(Ordering::Relaxed) {
            tracing::info!(remote = %self.info.remote, "client sent to the next member: there is no leader");
            self.reject(request);
            return None;
        }
        let wait = SESSION_OPEN_TIME_MAX;
        let opening = keeper_rt::timeout(wait, open(&self.dispatch, kind, asked, timeout_ms, password)).await;
        let Some(applied) = opening.ok().flatten() else {
            self.reject(request);
            return None;
        };
        match applied.result {
            Ok(outcome) => {
                let opened_timeout_ms = match outcome {
                    Outcome::Session { timeout_ms, .. } => timeout_ms,
                    Outcome::Response(_) | Outcome::None => timeout_ms,
                };
                let session = Session::new(self.client(), &outcome)?;
                self.info.timeout_ms.store(opened_timeout_ms, Ordering::Relaxed);
                self.reply_connect(request, opened_timeout_ms, session.id(), password.to_vec(), false);
                Some(session)
            }
            Err(code) => {
                if code != ErrorCode::SessionExpired {
                    tracing::warn!(remote = %self.info.remote, %code, "session refused");
                }
                self.reply_connect(request, 0, SessionId(0), vec![0; 16], false);
                None
            }
        }
    }

    fn client(&self) -> Client {
        Client {
            shared: self.shared.clone(),
            dispatch: self.dispatch.clone(),
            outbox: self.outbox.clone(),
            auth: self.options.auth.clone(),
            rules: self.options.rules,
            ip: ip_of(&self.info.remote).to_owned(),
            proved: self.proved.clone(),
        }
    }

    /// Without a quorum only clients that said they can live with it are served, as in ZooKeeper.
    fn connect_read_only(
        &mut self,
        request: &ConnectRequest,
        asked: SessionId,
        timeout_ms: i32,
        password: [u8; 16],
    ) -> Option<Session> {
        // ClickHouse's clients always say so, and mean less.
        if request.dialect.is_some() {
            self.reject(request);
            return None;
        }
        if request.read_only != Some(true) {
            tracing::info!(remote = %self.info.remote, "client refused: it asks for more than reads, and there is no quorum");
            return None;
        }
        // The quorum may have let a session expire that this member still knows. As in ZooKeeper its client has to find
        // the quorum, or give the session up.
        if self.shared.read_tree().session(asked).is_some() {
            tracing::info!(remote = %self.info.remote, "client refused: its session is the quorum's, and there is none");
            return None;
        }
        if asked.0 != 0 {
            self.reply_connect(request, 0, SessionId(0), vec![0; 16], true);
            return None;
        }
        let session = Session::new_read_only(self.client());
        self.info.timeout_ms.store(timeout_ms, Ordering::Relaxed);
        self.reply_connect(request, timeout_ms, session.id(), password.to_vec(), true);
        Some(session)
    }

    fn reply_connect(
        &mut self,
        request: &ConnectRequest,
        timeout_ms: i32,
        session: SessionId,
        password: Vec<u8>,
        read_only: bool,
    ) {
        let dialect = request.dialect.unwrap_or_default();
        let response = ConnectResponse {
            protocol_version: version::answer(dialect),
            timeout_ms,
            session_id: session.0,
            password,
            // ClickHouse's servers have no such byte, and its newer clients expect none.
            read_only: request.read_only.filter(|_| request.dialect.is_none()).map(|_| read_only),
        };
        keeper_wire::encode_connect_response(&response, &mut self.output);
        self.written_at = keeper_rt::now();
        if request.dialect.is_some() {
            self.outbox.note_clickhouse();
        }
        if dialect != DialectOptions::default() {
            self.dialect = Some(Box::new(Dialect::new(dialect)));
        }
    }

    /// Tells a client that knows such an answer that this member cannot serve it now. To others its silence says so.
    fn reject(&mut self, request: &ConnectRequest) {
        if request.dialect.is_none() {
            return;
        }
        let response = ConnectResponse {
            protocol_version: version::REJECT,
            timeout_ms: request.timeout_ms,
            session_id: 0,
            password: vec![0; 16],
            read_only: None,
        };
        keeper_wire::encode_connect_response(&response, &mut self.output);
    }

    /// Waits until something happens: bytes came, bytes went, or the outbox calls.
    async fn turn(&mut self, may_read: bool) -> Turn {
        let deadline = self.deadline();
        let mut timer = deadline.map(|(at, _)| keeper_rt::sleep_until(at));
        let outbox = self.outbox.clone();
        let mut woken = pin!(outbox.wake.notified());
        std::future::poll_fn(|cx| {
            let mut wrote = false;
            while !self.output.is_empty() {
                match Pin::new(&mut self.stream).poll_write(cx, &self.output) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Turn::Ended),
                    Poll::Ready(Ok(len)) => {
                        self.note_written(len);
                        wrote = true;
                    }
                    Poll::Pending => break,
                }
            }
            if may_read && !self.ended {
                match poll_fill(&mut self.stream, &mut self.input, cx) {
                    Poll::Ready(Ok(0) | Err(_)) => {
                        self.ended = true;
                        return Poll::Ready(Turn::Ended);
                    }
                    Poll::Ready(Ok(_)) => return Poll::Ready(Turn::Read),
                    Poll::Pending => {}
                }
            }
            if woken.as_mut().poll(cx).is_ready() || wrote && !may_read {
                return Poll::Ready(Turn::Progress);
            }
            if let (Some(timer), Some((_, what))) = (&mut timer, deadline)
                && Pin::new(timer).poll(cx).is_ready()
            {
                return Poll::Ready(Turn::Stalled(what));
            }
            Poll::Pending
        })
        .await
    }

    fn note_written(&mut self, len: usize) {
        self.output.advance(len);
        self.written_at = keeper_rt::now();
        if !self.output.is_empty() {
            return;
        }
        if self.output_bytes_peak > OUTPUT_BYTES_KEPT {
            self.output = BytesMut::new();
            self.output_bytes_peak = 0;
        }
        if let Some(since) = self.ready_since.take() {
            self.shared.metrics.observe(Stage::Replied, since.elapsed());
        }
    }

    /// When the other side has to have moved, and what it failed to do otherwise.
    fn deadline(&self) -> Option<(Instant, &'static str)> {
        if !self.output.is_empty() {
            return Some((self.written_at + WRITE_STALL_MAX, "the client takes no bytes of its replies"));
        }
        self.frame_began.map(|began| (began + FRAME_STALL_MAX, "the client does not finish its frame"))
    }

    /// Writes what is left, within a bound.
    async fn flush(&mut self, limit: Duration) {
        let _ = keeper_rt::timeout(limit, async {
            while !self.output.is_empty() {
                let wrote =
                    std::future::poll_fn(|cx| Pin::new(&mut self.stream).poll_write(cx, &self.output)).await;
                match wrote {
                    Ok(0) | Err(_) => return,
                    Ok(len) => self.output.advance(len),
                }
            }
            let _ = std::future::poll_fn(|cx| Pin::new(&mut self.stream).poll_shutdown(cx)).await;
        })
        .await;
    }
}

enum Turn {
    Read,
    Progress,
    Ended,
    Stalled(&'static str),
}

/// Reads what there is, up to a chunk. Between requests a connection holds no buffer: of ten thousand, most are idle. And
/// a request under way keeps alive the bytes that came with it, not a whole chunk.
fn poll_fill<S: AsyncRead + Unpin>(
    stream: &mut S,
    input: &mut BytesMut,
    cx: &mut std::task::Context<'_>,
) -> Poll<std::io::Result<usize>> {
    if input.is_empty() {
        *input = BytesMut::new();
        let mut chunk = [MaybeUninit::uninit(); READ_CHUNK_BYTES];
        let mut chunk = ReadBuf::uninit(&mut chunk);
        ready!(Pin::new(stream).poll_read(cx, &mut chunk))?;
        input.extend_from_slice(chunk.filled());
        return Poll::Ready(Ok(input.len()));
    }
    input.reserve(READ_CHUNK_BYTES.saturating_sub(input.capacity() - input.len()).min(READ_CHUNK_BYTES));
    tokio_util::io::poll_read_buf(Pin::new(stream), cx, input)
}

fn ip_of(remote: &str) -> &str {
    remote.rsplit_once(':').map_or(remote, |(ip, _)| ip.trim_start_matches('[').trim_end_matches(']'))
}
