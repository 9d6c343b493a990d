//! The calls of a client. Each encodes its request, hands it to the session's task and waits for the reply no
//! longer than the operation timeout.

use crate::call::{Call, Phase, changes_something};
use crate::connector::{Connector, TcpConnector};
use crate::error::ClientError;
use crate::identities::Identities;
use crate::limits::{IDENTITIES_MAX, QUEUE_LEN_MAX};
use crate::options::{Options, Resume};
use crate::reply::{
    Answer, Children, Created, NodeData, Reply, decode, first_error, select, server_error, unexpected,
};
use crate::session::{self, Session, SessionState};
use crate::watches::{self, Watch, WatchRequest, Watches};
use bytes::BytesMut;
use keeper_types::{
    Acl, AuthRequest, CheckRequest, CreateMode, CreateRequest, DeleteRequest, ErrorCode, MultiOp,
    MultiResult, OpCode, ReadRequest, Request, Response, SetAclRequest, SetDataRequest, Stat,
};
use keeper_wire::xid;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot, watch};

/// As a version: matches every one.
pub const ANY_VERSION: i32 = -1;

/// One session, shared by all clones. It ends at the server by [`Client::close`], or else by its timeout some
/// time after the last clone was dropped.
#[derive(Clone)]
pub struct Client {
    calls: mpsc::Sender<Call>,
    stop: Arc<Notify>,
    state: watch::Receiver<SessionState>,
    resume: watch::Receiver<Resume>,
    operation_timeout: Duration,
    request_bytes_max: usize,
}

impl Client {
    /// Opens a session with any of `hosts` (`host:port`). Waits for it no longer than the operation timeout.
    pub async fn connect<H: AsRef<str>>(hosts: &[H], options: Options) -> Result<Client, ClientError> {
        Client::connect_with(TcpConnector, hosts, options).await
    }

    /// [`Client::connect`] over streams that `connector` makes.
    pub async fn connect_with<C: Connector, H: AsRef<str>>(
        connector: C,
        hosts: &[H],
        options: Options,
    ) -> Result<Client, ClientError> {
        let client = Client::start(connector, hosts, options)?;
        client.connected(client.operation_timeout).await?;
        Ok(client)
    }

    /// Begins to connect and returns at once; calls wait for the connection.
    pub fn start<C: Connector, H: AsRef<str>>(
        connector: C,
        hosts: &[H],
        options: Options,
    ) -> Result<Client, ClientError> {
        if hosts.is_empty() {
            return Err(ClientError::Invalid("no host to connect to".to_owned()));
        }
        let hosts = hosts.iter().map(|host| host.as_ref().to_owned()).collect();
        let first = options.resume.clone().unwrap_or_else(|| Resume {
            session_id: 0,
            password: vec![0; 16],
            last_zxid_seen: 0,
        });
        let (calls_sender, calls) = mpsc::channel(QUEUE_LEN_MAX);
        let (state_sender, state) = watch::channel(SessionState::Connecting { cause: None });
        let (resume_sender, resume) = watch::channel(first);
        let stop = Arc::new(Notify::new());
        let client = Client {
            calls: calls_sender,
            stop: Arc::clone(&stop),
            state,
            resume,
            operation_timeout: options.operation_timeout(),
            request_bytes_max: options.request_bytes_max,
        };
        let session = Session {
            identities: preset_identities(&options)?,
            timeout_ms: options.session_timeout_ms,
            options,
            calls,
            stop,
            state: state_sender,
            resume: resume_sender,
            again: VecDeque::new(),
            watches: Watches::default(),
            last_xid: 0,
            arrivals: 0,
        };
        keeper_rt::spawn("client-session", session::run(connector, hosts, session));
        Ok(client)
    }

    /// Waits until the session has a connection.
    pub async fn connected(&self, limit: Duration) -> Result<(), ClientError> {
        let mut state = self.state.clone();
        let reached = state.wait_for(|state| state.is_connected() || state.is_ended());
        let reached = keeper_rt::timeout(limit, reached).await.map(|reached| reached.map(|s| s.clone()));
        match reached {
            Ok(Ok(state)) if state.is_connected() => Ok(()),
            Ok(Ok(state)) => Err(state.end()),
            Ok(Err(_)) => Err(ClientError::Closed),
            Err(_) => {
                let cause = self.state.borrow().cause();
                Err(ClientError::Timeout { what: "opening a session".to_owned(), after: limit, cause })
            }
        }
    }

    pub fn state(&self) -> SessionState {
        self.state.borrow().clone()
    }

    /// Follows the session: connected, lost, expired.
    pub fn watch_state(&self) -> watch::Receiver<SessionState> {
        self.state.clone()
    }

    /// 0 until a server gave one.
    pub fn session_id(&self) -> i64 {
        self.resume.borrow().session_id
    }

    /// What another client needs to go on with this session.
    pub fn resume(&self) -> Resume {
        self.resume.borrow().clone()
    }

    /// Creates a node that everyone may do everything with.
    pub async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<Reply<Created>, ClientError> {
        self.create_with_acl(path, data, mode, vec![Acl::open()]).await
    }

    pub async fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acl: Vec<Acl>,
    ) -> Result<Reply<Created>, ClientError> {
        let create = CreateRequest { path, data: Some(data), acl, flags: mode as i32, ttl_ms: None };
        let reply = self.ask(&Request::Create(OpCode::Create2, create), path, None).await?;
        select(reply, |response| match response {
            Response::Create2 { path, stat } => Some(Created { path, stat }),
            _ => None,
        })
    }

    pub async fn delete(&self, path: &str, version: i32) -> Result<Reply<()>, ClientError> {
        let reply = self.ask(&Request::Delete(DeleteRequest { path, version }), path, None).await?;
        Ok(reply.map(|_| ()))
    }

    /// `None` when there is no such node.
    pub async fn exists(&self, path: &str) -> Result<Reply<Option<Stat>>, ClientError> {
        self.read_exists(path, None).await
    }

    /// The event comes when the node is created, changed or deleted.
    pub async fn exists_watch(&self, path: &str) -> Result<(Reply<Option<Stat>>, Watch), ClientError> {
        let (request, watch) = watches::request(self.state.clone());
        Ok((self.read_exists(path, Some(request)).await?, watch))
    }

    async fn read_exists(
        &self,
        path: &str,
        watch: Option<WatchRequest>,
    ) -> Result<Reply<Option<Stat>>, ClientError> {
        let request = Request::Exists(ReadRequest { path, watch: watch.is_some() });
        let answer = self.call_watching(&request, path, watch).await?;
        let (zxid, arrival) = (answer.zxid, answer.arrival);
        match answer.value {
            Ok(Response::Exists { stat }) => Ok(Reply { zxid, arrival, value: Some(stat) }),
            Err(ErrorCode::NoNode) => Ok(Reply { zxid, arrival, value: None }),
            Err(code) => Err(server_error(code)),
            Ok(_) => Err(unexpected()),
        }
    }

    pub async fn get(&self, path: &str) -> Result<Reply<NodeData>, ClientError> {
        self.read_data(path, None).await
    }

    /// The event comes when the data changes or the node is deleted.
    pub async fn get_watch(&self, path: &str) -> Result<(Reply<NodeData>, Watch), ClientError> {
        let (request, watch) = watches::request(self.state.clone());
        Ok((self.read_data(path, Some(request)).await?, watch))
    }

    async fn read_data(
        &self,
        path: &str,
        watch: Option<WatchRequest>,
    ) -> Result<Reply<NodeData>, ClientError> {
        let request = Request::GetData(ReadRequest { path, watch: watch.is_some() });
        select(self.ask(&request, path, watch).await?, |response| match response {
            Response::GetData { data, stat } => Some(NodeData { data, stat }),
            _ => None,
        })
    }

    pub async fn set(&self, path: &str, data: &[u8], version: i32) -> Result<Reply<Stat>, ClientError> {
        let set = SetDataRequest { path, data: Some(data), version };
        select(self.ask(&Request::SetData(set), path, None).await?, |response| match response {
            Response::SetData { stat } => Some(stat),
            _ => None,
        })
    }

    pub async fn children(&self, path: &str) -> Result<Reply<Vec<String>>, ClientError> {
        let request = Request::GetChildren(ReadRequest { path, watch: false });
        select(self.ask(&request, path, None).await?, |response| match response {
            Response::GetChildren { names } => Some(names),
            _ => None,
        })
    }

    /// The children's names with the parent's Stat.
    pub async fn children2(&self, path: &str) -> Result<Reply<Children>, ClientError> {
        self.read_children(path, None).await
    }

    /// The event comes when a child is created or deleted, or the node itself deleted.
    pub async fn children_watch(&self, path: &str) -> Result<(Reply<Children>, Watch), ClientError> {
        let (request, watch) = watches::request(self.state.clone());
        Ok((self.read_children(path, Some(request)).await?, watch))
    }

    async fn read_children(
        &self,
        path: &str,
        watch: Option<WatchRequest>,
    ) -> Result<Reply<Children>, ClientError> {
        let request = Request::GetChildren2(ReadRequest { path, watch: watch.is_some() });
        select(self.ask(&request, path, watch).await?, |response| match response {
            Response::GetChildren2 { names, stat } => Some(Children { names, stat }),
            _ => None,
        })
    }

    /// Reads that follow see every write that was answered to anyone before this call.
    pub async fn sync(&self, path: &str) -> Result<Reply<()>, ClientError> {
        Ok(self.ask(&Request::Sync(path), path, None).await?.map(|_| ()))
    }

    /// Fails with `BadVersion` or `NoNode` unless the node has that version. Only keeper and ClickHouse Keeper
    /// know it outside a multi: ZooKeeper is harmed by it.
    pub async fn check(&self, path: &str, version: i32) -> Result<Reply<()>, ClientError> {
        let request = Request::Check(CheckRequest { path, version });
        Ok(self.ask(&request, path, None).await?.map(|_| ()))
    }

    /// All of `ops` or none: [`ClientError::MultiFailed`] names the one that failed.
    pub async fn multi(&self, ops: Vec<MultiOp<'_>>) -> Result<Reply<Vec<MultiResult>>, ClientError> {
        let path = ops.first().map_or("", MultiOp::path).to_owned();
        let reply = self.ask(&Request::Multi(ops), &path, None).await?;
        let reply = select(reply, |response| match response {
            Response::Multi(results) => Some(results),
            _ => None,
        })?;
        match first_error(&reply.value) {
            Some((index, code)) => Err(ClientError::MultiFailed { index, code }),
            None => Ok(reply),
        }
    }

    pub async fn get_acl(&self, path: &str) -> Result<Reply<(Vec<Acl>, Stat)>, ClientError> {
        select(self.ask(&Request::GetAcl(path), path, None).await?, |response| match response {
            Response::GetAcl { acl, stat } => Some((acl, stat)),
            _ => None,
        })
    }

    /// `version` is compared with the Stat's `aversion`.
    pub async fn set_acl(&self, path: &str, acl: Vec<Acl>, version: i32) -> Result<Reply<Stat>, ClientError> {
        let request = Request::SetAcl(SetAclRequest { path, acl, version });
        select(self.ask(&request, path, None).await?, |response| match response {
            Response::SetAcl { stat } => Some(stat),
            _ => None,
        })
    }

    /// Adds an identity to the session, for instance `digest` with `user:password`. It is told again to every
    /// server the session moves to. A refused one ends the session.
    pub async fn add_auth(&self, scheme: &str, auth: &[u8]) -> Result<(), ClientError> {
        self.ask(&Request::Auth(AuthRequest { scheme, auth }), scheme, None).await.map(|_| ())
    }

    /// Ends the session: its ephemeral nodes go. Calls made before end first. When no server can be told, the
    /// client is closed all the same and the session ends by its timeout: `Err` says so.
    pub async fn close(&self) -> Result<(), ClientError> {
        let result = self.ask(&Request::CloseSession, "session", None).await;
        self.stop.notify_one();
        match result {
            Ok(_) | Err(ClientError::Closed) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Any request. Watches asked for in it reach nobody: use the methods for that.
    pub async fn call(&self, request: &Request<'_>) -> Result<Answer, ClientError> {
        self.call_watching(request, "", None).await
    }

    /// A request whose errors are errors.
    async fn ask(
        &self,
        request: &Request<'_>,
        path: &str,
        watch: Option<WatchRequest>,
    ) -> Result<Reply<Response>, ClientError> {
        let answer = self.call_watching(request, path, watch).await?;
        let (zxid, arrival) = (answer.zxid, answer.arrival);
        let value = answer.value.map_err(server_error)?;
        Ok(Reply { zxid, arrival, value })
    }

    async fn call_watching(
        &self,
        request: &Request<'_>,
        path: &str,
        watch: Option<WatchRequest>,
    ) -> Result<Answer, ClientError> {
        let op = request.op();
        let frame = encode(request, self.request_bytes_max)?;
        let (answer, answered) = oneshot::channel();
        let phase = Phase::default();
        let call = Call { op, path: path.to_owned(), frame, phase: phase.clone(), answer, watch };
        let exchange = async {
            self.calls.send(call).await.map_err(|_| self.ended())?;
            answered.await.map_err(|_| self.ended())?
        };
        match keeper_rt::timeout(self.operation_timeout, exchange).await {
            Ok(raw) => decode(op, raw?),
            Err(_) => Err(self.timed_out(op, path, &phase)),
        }
    }

    fn ended(&self) -> ClientError {
        self.state.borrow().end()
    }

    fn timed_out(&self, op: OpCode, path: &str, phase: &Phase) -> ClientError {
        let (after, path) = (self.operation_timeout, path.to_owned());
        let cause = self.state.borrow().cause();
        if phase.give_up() {
            return ClientError::NotSent { op, path, cause: format!("{cause} within {after:?}") };
        }
        if changes_something(op) {
            return ClientError::UnknownOutcome { op, path, cause: format!("{cause} within {after:?}") };
        }
        ClientError::Timeout { what: format!("{} {path}", op.name()), after, cause }
    }
}

fn preset_identities(options: &Options) -> Result<Identities, ClientError> {
    if options.identities.len() > IDENTITIES_MAX {
        return Err(ClientError::Invalid(format!("a session can have {IDENTITIES_MAX} identities")));
    }
    let mut identities = Identities::default();
    for (scheme, auth) in &options.identities {
        let request = Request::Auth(AuthRequest { scheme, auth });
        identities.preset(encode(&request, options.request_bytes_max)?.freeze());
    }
    Ok(identities)
}

/// A whole frame. The session's task writes the xid of all but auth, which has one of its own.
fn encode(request: &Request<'_>, bytes_max: usize) -> Result<BytesMut, ClientError> {
    let mut frame = BytesMut::new();
    let xid = if request.op() == OpCode::Auth { xid::AUTH } else { 0 };
    keeper_wire::encode_request(xid, request, &mut frame)
        .map_err(|error| ClientError::Invalid(error.to_string()))?;
    if frame.len() - 4 > bytes_max {
        let (name, length) = (request.op().name(), frame.len() - 4);
        return Err(ClientError::Invalid(format!(
            "{name} of {length} bytes, at most {bytes_max} may be sent"
        )));
    }
    Ok(frame)
}
