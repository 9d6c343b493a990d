//! The task that owns a session: it dials one host after the other, hands the stream to a connection, and
//! dials again when that is lost. The session ends only when a server says so or the client closes it.

use crate::call::Call;
use crate::connection::{Connection, Ended};
use crate::connector::Connector;
use crate::error::ClientError;
use crate::identities::Identities;
use crate::limits::{CONNECTION_SETTLED, RECONNECT_DELAY_MAX, RECONNECT_DELAY_MIN};
use crate::options::{Options, Resume};
use crate::watches::Watches;
use keeper_types::{ConnectRequest, OpCode};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// Where a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// No connection now; `cause` is what the last attempt met.
    Connecting {
        cause: Option<String>,
    },
    Connected {
        address: String,
        session_id: i64,
        timeout_ms: i32,
    },
    Expired,
    AuthFailed,
    Closed,
}

impl SessionState {
    pub fn is_connected(&self) -> bool {
        matches!(self, SessionState::Connected { .. })
    }

    /// True when the session will not come back.
    pub fn is_ended(&self) -> bool {
        matches!(self, SessionState::Expired | SessionState::AuthFailed | SessionState::Closed)
    }

    /// What a call gets once the session's task is gone.
    pub(crate) fn end(&self) -> ClientError {
        match self {
            SessionState::Expired => ClientError::Expired,
            SessionState::AuthFailed => ClientError::AuthFailed,
            SessionState::Closed | SessionState::Connecting { .. } | SessionState::Connected { .. } => {
                ClientError::Closed
            }
        }
    }

    pub(crate) fn cause(&self) -> String {
        match self {
            SessionState::Connecting { cause: Some(cause) } => format!("no connection ({cause})"),
            SessionState::Connecting { cause: None } => "no connection".to_owned(),
            SessionState::Connected { address, .. } => format!("no answer from {address}"),
            SessionState::Expired => "session expired".to_owned(),
            SessionState::AuthFailed => "authentication failed".to_owned(),
            SessionState::Closed => "client closed".to_owned(),
        }
    }
}

/// What outlives a connection.
pub(crate) struct Session {
    pub options: Options,
    pub calls: mpsc::Receiver<Call>,
    pub stop: Arc<Notify>,
    pub state: watch::Sender<SessionState>,
    /// Session id 0 until a server gave one. Shown to callers, who may go on with it elsewhere.
    pub resume: watch::Sender<Resume>,
    /// Granted by the server.
    pub timeout_ms: i32,
    /// Calls of a lost connection, to be sent before those in `calls`.
    /// Invariant: no longer than what was in flight.
    pub again: VecDeque<Call>,
    pub watches: Watches,
    pub identities: Identities,
    pub last_xid: i32,
    /// Counts replies and events of the whole session.
    pub arrivals: u64,
}

impl Session {
    pub fn connect_request(&self) -> ConnectRequest {
        let resume = self.resume.borrow();
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: resume.last_zxid_seen,
            timeout_ms: self.options.session_timeout_ms,
            session_id: resume.session_id,
            password: resume.password.clone(),
            read_only: Some(false),
            dialect: None,
        }
    }

    /// xids are positive; those below zero have a meaning of their own.
    pub fn next_xid(&mut self) -> i32 {
        self.last_xid = if self.last_xid >= keeper_wire::xid::CLOSE - 1 { 1 } else { self.last_xid + 1 };
        self.last_xid
    }

    fn lost(&mut self, cause: String) {
        tracing::debug!(cause, "no connection");
        self.state.send_replace(SessionState::Connecting { cause: Some(cause) });
    }

    /// Everything that still waits ends with the session.
    fn end(mut self, state: SessionState) {
        let error = state.end();
        tracing::debug!(?state, "session ended");
        self.state.send_replace(state);
        self.calls.close();
        self.identities.end(&error);
        let mut waiting = std::mem::take(&mut self.again);
        while let Ok(call) = self.calls.try_recv() {
            waiting.push_back(call);
        }
        for call in waiting {
            // A close that finds the session closed has what it wanted.
            if call.op == OpCode::CloseSession && error == ClientError::Closed {
                continue;
            }
            call.finish(Err(error.clone()));
        }
    }
}

/// Runs until the session ends or every handle of the client is dropped.
pub(crate) async fn run<C: Connector>(connector: C, hosts: Vec<String>, mut session: Session) {
    // Clients spread over the servers, each from a place of its own.
    let mut next = keeper_rt::random_u64() as usize % hosts.len();
    let mut failures = 0;
    let stop = Arc::clone(&session.stop);
    let ended = loop {
        if session.calls.is_closed() {
            break SessionState::Closed;
        }
        let address = &hosts[next];
        next = (next + 1) % hosts.len();
        let opened = tokio::select! {
            biased;
            () = stop.notified() => break SessionState::Closed,
            opened = Connection::open(&connector, address, &session) => opened,
        };
        let (opened_at, arrivals) = (keeper_rt::now(), session.arrivals);
        let ended = match opened {
            Ok((connection, granted)) => connection.serve(&mut session, address, granted).await,
            Err(ended) => ended,
        };
        match ended {
            Ended::Lost { cause } => session.lost(format!("{address}: {cause}")),
            Ended::Expired => break SessionState::Expired,
            Ended::AuthFailed => break SessionState::AuthFailed,
            Ended::Closed => break SessionState::Closed,
        }
        let was_good = arrivals < session.arrivals || opened_at.elapsed() >= CONNECTION_SETTLED;
        failures = if was_good { 0 } else { failures + 1 };
        tokio::select! {
            biased;
            () = stop.notified() => break SessionState::Closed,
            () = keeper_rt::sleep(delay(failures, hosts.len())) => {}
        }
    };
    session.end(ended);
}

/// None until every host was tried once, then longer with each round, and never the same for two clients.
fn delay(failures: usize, hosts: usize) -> Duration {
    let rounds = failures / hosts;
    if rounds == 0 {
        return Duration::ZERO;
    }
    let doubled = RECONNECT_DELAY_MIN.saturating_mul(1 << rounds.min(10));
    let longest = doubled.min(RECONNECT_DELAY_MAX);
    longest.mul_f64(0.5 + (keeper_rt::random_u64() % 1_000) as f64 / 2_000.0)
}
