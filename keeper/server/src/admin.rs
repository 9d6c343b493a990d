//! The admin protocol's server (keeper/admin-api/proto/admin.proto). Every call needs the token.
#![allow(clippy::disallowed_methods)]

use crate::limits::ADMIN_CONNS_MAX;
use crate::listener;
use crate::node::{Node, Readiness};
use keeper_admin_api::v1;
use keeper_admin_api::v1::admin_server::{Admin, AdminServer};
use keeper_consensus::{AdminError, Member, Membership, Precondition, Role};
use keeper_tls::{Tls, accepted};
use keeper_types::{ClusterId, ServerId};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status};

/// What this version can write and read; raised only when all members agree (a later issue).
const FEATURE_LEVEL: u32 = 1;
/// Requests one admin connection may have under way.
const CONCURRENCY_MAX: usize = 64;

/// Serves until the task is dropped; inside TLS where `tls`, that of the admin port, is given. The token is needed
/// all the same.
pub async fn serve(
    node: Node,
    listener: TcpListener,
    token: String,
    tls: Option<Arc<Tls>>,
) -> Result<(), tonic::transport::Error> {
    let expected = format!("Bearer {token}");
    let check = move |request: Request<()>| {
        let given = request.metadata().get("authorization").map(|value| value.as_bytes());
        if given.is_some_and(|given| equal_in_constant_time(given, expected.as_bytes())) {
            Ok(request)
        } else {
            Err(Status::unauthenticated("the call needs the metadata `authorization: Bearer <admin token>`"))
        }
    };
    let router = tonic::transport::Server::builder()
        .concurrency_limit_per_connection(CONCURRENCY_MAX)
        .add_service(AdminServer::with_interceptor(Service { node }, check));
    match tls {
        None => router.serve_with_incoming(TcpListenerStream::new(listener)).await,
        Some(tls) => {
            let (done, incoming) = mpsc::channel(ADMIN_CONNS_MAX);
            keeper_rt::spawn("admin-accept", accept_tls(listener, tls, done));
            router.serve_with_incoming(ReceiverStream::new(incoming)).await
        }
    }
}

/// Hands on connections whose handshake is done, until nobody takes them.
async fn accept_tls(listener: TcpListener, tls: Arc<Tls>, done: mpsc::Sender<io::Result<AdminStream>>) {
    loop {
        let (stream, remote) = tokio::select! {
            biased;
            () = done.closed() => return,
            next = listener::accept(&listener, "admin call") => next,
        };
        let (tls, done) = (tls.clone(), done.clone());
        keeper_rt::spawn("admin-handshake", async move {
            if let Some(accepted) = tls.accept(stream, &remote.to_string()).await {
                // The server may be gone.
                let _ = done.send(Ok(AdminStream(accepted.stream))).await;
            }
        });
    }
}

/// A TLS stream as tonic wants it.
struct AdminStream(accepted::TlsStream<TcpStream>);

impl Connected for AdminStream {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for AdminStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for AdminStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Takes the same time wherever the first difference is.
fn equal_in_constant_time(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

struct Service {
    node: Node,
}

fn refuse(error: AdminError) -> Status {
    let text = error.to_string();
    match error {
        AdminError::Uninitialized
        | AdminError::NotLeader(_)
        | AdminError::PreconditionFailed { .. }
        | AdminError::NotCaughtUp { .. }
        | AdminError::RemovesLeader { .. }
        | AdminError::RemovesLastVoter { .. }
        | AdminError::OtherCluster { .. }
        | AdminError::OtherServer { .. }
        | AdminError::NotVoter { .. } => Status::failed_precondition(text),
        AdminError::IdReused { .. } | AdminError::MemberDiffers { .. } => Status::already_exists(text),
        AdminError::NotMember { .. } => Status::not_found(text),
        AdminError::Invalid { .. } => Status::invalid_argument(text),
        AdminError::InProgress => Status::aborted(text),
        AdminError::TimedOut { .. } => Status::deadline_exceeded(text),
        AdminError::Stopped(_) => Status::unavailable(text),
    }
}

fn member_of(member: Option<v1::Member>) -> Result<Member, Status> {
    let member = member.ok_or_else(|| Status::invalid_argument("`member` is missing"))?;
    if member.server_id == 0 {
        return Err(Status::invalid_argument("`member.server_id` is 0; ids begin at 1"));
    }
    Ok(Member {
        id: ServerId(member.server_id),
        peer_address: member.peer_address,
        client_address: member.client_address,
        name: member.name,
        election_port: 0,
    })
}

fn precondition_of(precondition: Option<v1::Precondition>) -> Precondition {
    let given = precondition.unwrap_or_default();
    Precondition {
        expected_leader: given.expected_leader.map(ServerId),
        expected_membership_index: given.expected_membership_index,
    }
}

fn member_message(member: &Member) -> v1::Member {
    v1::Member {
        server_id: member.id.0,
        peer_address: member.peer_address.clone(),
        client_address: member.client_address.clone(),
        name: member.name.clone(),
    }
}

fn membership_message(membership: &Membership) -> v1::Membership {
    v1::Membership {
        log_id: membership.log_id.map(|at| v1::LogId { term: at.term, index: at.index }),
        voters: membership.voters.iter().map(member_message).collect(),
        learners: membership.learners.iter().map(member_message).collect(),
        joint: membership.joint,
        server_id_max: membership.server_id_max.0,
    }
}

fn role_message(role: Role) -> v1::Role {
    match role {
        Role::Uninitialized => v1::Role::Uninitialized,
        Role::Learner => v1::Role::Learner,
        Role::Follower => v1::Role::Follower,
        Role::Candidate => v1::Role::Candidate,
        Role::Leader => v1::Role::Leader,
        Role::Failed => v1::Role::Unspecified,
    }
}

impl Service {
    fn answer(
        &self,
        result: Result<Membership, AdminError>,
    ) -> Result<Response<v1::MembershipResponse>, Status> {
        let membership = result.map_err(refuse)?;
        let leader_id = self.node.consensus().status().leader.map_or(0, |leader| leader.0);
        Ok(Response::new(v1::MembershipResponse {
            membership: Some(membership_message(&membership)),
            leader_id,
        }))
    }

    fn status_message(&self) -> v1::StatusResponse {
        let status = self.node.consensus().status();
        let shared = self.node.shared();
        let tree = shared.read_tree();
        let (zxid, tree_digest, counts) = (tree.zxid().0, tree.digest(), tree.counts());
        drop(tree);
        let (ready, not_ready_reason) = match self.node.readiness() {
            Readiness::Ready => (true, String::new()),
            Readiness::NotReady(why) => (false, why),
        };
        v1::StatusResponse {
            server_id: status.identity.map_or(0, |identity| identity.server_id.0),
            cluster_id: status.identity.map(|identity| identity.cluster_id.to_string()).unwrap_or_default(),
            role: role_message(status.role).into(),
            term: status.term,
            leader_id: status.leader.map_or(0, |leader| leader.0),
            last_log_index: status.last_log_index,
            committed_index: status.committed_index,
            applied_index: status.applied_index,
            snapshot_index: status.snapshot_index,
            membership: Some(membership_message(&status.membership)),
            progress: status
                .progress
                .iter()
                .map(|peer| v1::PeerProgress {
                    server_id: peer.id.0,
                    matched_index: peer.matched_index.unwrap_or(0),
                    lag: peer.lag,
                })
                .collect(),
            zxid,
            tree_digest,
            znodes: counts.znodes,
            sessions: counts.sessions,
            connections: shared.connections().len() as u64,
            version: env!("CARGO_PKG_VERSION").into(),
            feature_level: FEATURE_LEVEL,
            ready,
            not_ready_reason,
            uptime_ms: self.node.uptime().as_millis() as u64,
            name: self.node.name().into(),
        }
    }
}

#[tonic::async_trait]
impl Admin for Service {
    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        Ok(Response::new(self.status_message()))
    }

    async fn bootstrap(
        &self,
        request: Request<v1::BootstrapRequest>,
    ) -> Result<Response<v1::MembershipResponse>, Status> {
        let request = request.into_inner();
        let cluster: ClusterId = request
            .cluster_id
            .parse()
            .map_err(|why: String| Status::invalid_argument(format!("`cluster_id`: {why}")))?;
        let member = member_of(request.member)?;
        self.answer(self.node.consensus().bootstrap(cluster, member).await)
    }

    async fn add_learner(
        &self,
        request: Request<v1::AddLearnerRequest>,
    ) -> Result<Response<v1::MembershipResponse>, Status> {
        let request = request.into_inner();
        let member = member_of(request.member)?;
        self.answer(self.node.consensus().add_learner(member, precondition_of(request.precondition)).await)
    }

    async fn promote(
        &self,
        request: Request<v1::MemberRequest>,
    ) -> Result<Response<v1::MembershipResponse>, Status> {
        let request = request.into_inner();
        let pre = precondition_of(request.precondition);
        self.answer(self.node.consensus().promote(ServerId(request.server_id), pre).await)
    }

    async fn remove(
        &self,
        request: Request<v1::MemberRequest>,
    ) -> Result<Response<v1::MembershipResponse>, Status> {
        let request = request.into_inner();
        let pre = precondition_of(request.precondition);
        self.answer(self.node.consensus().remove(ServerId(request.server_id), pre).await)
    }

    async fn transfer_leadership(
        &self,
        request: Request<v1::MemberRequest>,
    ) -> Result<Response<v1::MembershipResponse>, Status> {
        let request = request.into_inner();
        let pre = precondition_of(request.precondition);
        self.answer(self.node.consensus().transfer_leadership(ServerId(request.server_id), pre).await)
    }

    async fn committed_membership(
        &self,
        _: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::MembershipResponse>, Status> {
        self.answer(self.node.consensus().committed_membership().await)
    }
}
