//! The admin protocol of one keeper member, over gRPC: status and membership. Every call carries the token and
//! has a time limit; errors keep the gRPC code, so that a caller can tell "not the leader" from "no answer".

use crate::connector::{Connector, TcpConnector};
use crate::limits::ADMIN_CALL_TIMEOUT;
use hyper_util::rt::TokioIo;
use keeper_admin_api::v1::admin_client::AdminClient as Stub;
pub use keeper_admin_api::v1::{
    AddLearnerRequest, BootstrapRequest, LogId, Member, MemberRequest, Membership, MembershipResponse,
    PeerProgress, Precondition, Role, StatusRequest, StatusResponse,
};
use keeper_tls::{ClientTls, dialled};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status};

#[derive(Clone, Debug, Error)]
pub enum AdminError {
    #[error("admin address `{address}`: {cause}")]
    Address { address: String, cause: String },
    #[error("admin token has a character that no header can carry")]
    Token,
    /// Nothing was asked.
    #[error("{address} cannot be reached: {cause}")]
    Unreachable { address: String, cause: String },
    /// The member's answer, or what the transport says instead.
    #[error("{call} at {address}: {message} ({code:?})")]
    Call { call: &'static str, address: String, code: Code, message: String },
    #[error("{call} at {address}: no answer after {after:?}; it may or may not have had an effect")]
    Timeout { call: &'static str, address: String, after: Duration },
    #[error("no member leads: {}", answers.join("; "))]
    NoLeader { answers: Vec<String> },
}

impl AdminError {
    /// The gRPC code, when there was an answer.
    pub fn code(&self) -> Option<Code> {
        match self {
            AdminError::Call { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// One member's admin service. Clones share the connection, which comes back by itself.
#[derive(Clone, Debug)]
pub struct AdminClient {
    address: String,
    stub: Stub<Channel>,
    authorization: MetadataValue<Ascii>,
    timeout: Duration,
}

impl AdminClient {
    /// Connects to `host:port` within [`ADMIN_CALL_TIMEOUT`].
    pub async fn connect(address: &str, token: &str) -> Result<AdminClient, AdminError> {
        AdminClient::connect_within(address, token, ADMIN_CALL_TIMEOUT).await
    }

    /// `timeout` holds for connecting and for each call after it.
    pub async fn connect_within(
        address: &str,
        token: &str,
        timeout: Duration,
    ) -> Result<AdminClient, AdminError> {
        AdminClient::connect_with(address, token, timeout, None).await
    }

    /// [`AdminClient::connect_within`], inside TLS where `tls` is given. It reconnects with what `tls` holds now.
    pub async fn connect_with(
        address: &str,
        token: &str,
        timeout: Duration,
        tls: Option<ClientTls>,
    ) -> Result<AdminClient, AdminError> {
        let unreachable = |cause: String| AdminError::Unreachable { address: address.to_owned(), cause };
        let authorization = format!("Bearer {}", token.trim()).parse().map_err(|_| AdminError::Token)?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| AdminError::Address { address: address.to_owned(), cause: causes(&error) })?;
        let endpoint = endpoint.tcp_nodelay(true);
        let connect = async {
            match tls {
                None => endpoint.connect().await,
                Some(tls) => {
                    let dial = DialTls { address: address.to_owned(), tls };
                    endpoint.connect_with_connector(dial).await
                }
            }
        };
        let connecting = keeper_rt::timeout(timeout, connect).await;
        let channel = connecting
            .map_err(|_| unreachable(format!("no answer after {timeout:?}")))?
            .map_err(|error| unreachable(causes(&error)))?;
        Ok(AdminClient { address: address.to_owned(), stub: Stub::new(channel), authorization, timeout })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// What the member knows of itself; needs no quorum.
    pub async fn status(&self) -> Result<StatusResponse, AdminError> {
        let mut stub = self.stub.clone();
        self.run("status", stub.status(self.with_token(StatusRequest {}))).await
    }

    /// Founds a cluster of this one member. `cluster_id` has 32 hexadecimal digits.
    pub async fn bootstrap(
        &self,
        cluster_id: &str,
        member: Member,
    ) -> Result<MembershipResponse, AdminError> {
        let message = BootstrapRequest { cluster_id: cluster_id.to_owned(), member: Some(member) };
        let mut stub = self.stub.clone();
        self.run("bootstrap", stub.bootstrap(self.with_token(message))).await
    }

    pub async fn add_learner(
        &self,
        member: Member,
        precondition: Option<Precondition>,
    ) -> Result<MembershipResponse, AdminError> {
        let message = AddLearnerRequest { member: Some(member), precondition };
        let mut stub = self.stub.clone();
        self.run("add learner", stub.add_learner(self.with_token(message))).await
    }

    /// Makes a learner that has caught up a voter.
    pub async fn promote(
        &self,
        server_id: u64,
        precondition: Option<Precondition>,
    ) -> Result<MembershipResponse, AdminError> {
        let message = MemberRequest { server_id, precondition };
        let mut stub = self.stub.clone();
        self.run("promote", stub.promote(self.with_token(message))).await
    }

    pub async fn remove(
        &self,
        server_id: u64,
        precondition: Option<Precondition>,
    ) -> Result<MembershipResponse, AdminError> {
        let message = MemberRequest { server_id, precondition };
        let mut stub = self.stub.clone();
        self.run("remove", stub.remove(self.with_token(message))).await
    }

    /// Returns when the named voter leads.
    pub async fn transfer_leadership(
        &self,
        server_id: u64,
        precondition: Option<Precondition>,
    ) -> Result<MembershipResponse, AdminError> {
        let message = MemberRequest { server_id, precondition };
        let mut stub = self.stub.clone();
        self.run("transfer leadership", stub.transfer_leadership(self.with_token(message))).await
    }

    /// The committed configuration, read with a quorum.
    pub async fn committed_membership(&self) -> Result<MembershipResponse, AdminError> {
        let mut stub = self.stub.clone();
        let call = stub.committed_membership(self.with_token(StatusRequest {}));
        self.run("committed membership", call).await
    }

    fn with_token<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert("authorization", self.authorization.clone());
        request
    }

    async fn run<T>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, AdminError> {
        let address = || self.address.clone();
        match keeper_rt::timeout(self.timeout, answer).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(AdminError::Call {
                call,
                address: address(),
                code: status.code(),
                message: status.message().to_owned(),
            }),
            Err(_) => Err(AdminError::Timeout { call, address: address(), after: self.timeout }),
        }
    }
}

/// Dials one address inside TLS, whatever address it is asked for.
struct DialTls {
    address: String,
    tls: ClientTls,
}

impl Service<Uri> for DialTls {
    type Response = TokioIo<dialled::TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (address, tls) = (self.address.clone(), self.tls.clone());
        Box::pin(async move {
            let stream = TcpConnector.connect(&address).await?;
            Ok(TokioIo::new(tls.connect_http2(stream, &address).await?))
        })
    }
}

/// Asks every address for its status and returns the one that leads, in the highest term.
pub async fn find_leader<A: AsRef<str>>(
    addresses: &[A],
    token: &str,
) -> Result<(AdminClient, StatusResponse), AdminError> {
    let asked: Vec<_> = addresses
        .iter()
        .map(|address| {
            let (address, token) = (address.as_ref().to_owned(), token.to_owned());
            keeper_rt::spawn("find-leader", async move {
                let client = AdminClient::connect(&address, &token).await?;
                let status = client.status().await?;
                Ok::<_, AdminError>((client, status))
            })
        })
        .collect();
    let (mut leader, mut answers): (Option<(AdminClient, StatusResponse)>, _) = (None, Vec::new());
    for answer in asked {
        match answer.await {
            Ok(Ok((client, status))) => {
                answers.push(format!("{} is {}", client.address, status.role().as_str_name()));
                let newer = leader.as_ref().is_none_or(|(_, known)| known.term < status.term);
                if status.role() == Role::Leader && newer {
                    leader = Some((client, status));
                }
            }
            Ok(Err(error)) => answers.push(error.to_string()),
            Err(error) => answers.push(error.to_string()),
        }
    }
    leader.ok_or(AdminError::NoLeader { answers })
}

/// An error with everything behind it: tonic's own text alone says "transport error".
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
