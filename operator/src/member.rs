//! What the operator asks of a member, over the admin protocol.
//!
//! A small trait, so that the rest of the operator depends on neither gRPC nor the network. Calls are safe to repeat.

use std::{future::Future, pin::Pin};

use castellan_api::MemberRole;
use keeper_client::admin::{self, AdminClient};

use crate::limits::{STATUS_TIMEOUT, STEP_TIMEOUT};

pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, AdminError>> + Send + 'a>>;

/// The admin calls that the operator makes. `address` is `ip:port`.
pub trait Admin: Send + Sync {
    fn status<'a>(&'a self, address: &'a str, token: &'a str) -> Answer<'a, MemberView>;
    fn committed<'a>(&'a self, address: &'a str, token: &'a str) -> Answer<'a, Committed>;
    fn bootstrap<'a>(
        &'a self,
        address: &'a str,
        token: &'a str,
        cluster_id: &'a str,
        member: MemberEntry,
    ) -> Answer<'a, Committed>;
    fn add_learner<'a>(
        &'a self,
        address: &'a str,
        token: &'a str,
        member: MemberEntry,
        precondition: Precondition,
    ) -> Answer<'a, Committed>;
    fn promote<'a>(
        &'a self,
        address: &'a str,
        token: &'a str,
        server_id: u64,
        precondition: Precondition,
    ) -> Answer<'a, Committed>;
}

/// What a member says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberView {
    pub server_id: u64,
    /// None: its disk is empty.
    pub cluster_id: Option<String>,
    pub role: MemberRole,
    pub term: u64,
    pub leader_id: Option<u64>,
    pub ready: bool,
    pub not_ready_reason: String,
    pub version: String,
    /// On the leader: how far each other member is behind, by server id.
    pub lag: Vec<(u64, u64)>,
}

/// One member of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberEntry {
    pub server_id: u64,
    pub name: String,
    pub peer_address: String,
    pub client_address: String,
}

/// The committed configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Committed {
    pub leader_id: u64,
    pub index: u64,
    pub voters: Vec<MemberEntry>,
    pub learners: Vec<MemberEntry>,
    pub joint: bool,
    pub server_id_max: u64,
}

impl Committed {
    pub fn voter(&self, name: &str) -> Option<&MemberEntry> {
        self.voters.iter().find(|member| member.name == name)
    }

    pub fn learner(&self, name: &str) -> Option<&MemberEntry> {
        self.learners.iter().find(|member| member.name == name)
    }

    pub fn member(&self, name: &str) -> Option<&MemberEntry> {
        self.voter(name).or_else(|| self.learner(name))
    }
}

/// What must still hold at the leader when a call reaches it: makes two operators racing harmless.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precondition {
    pub leader_id: u64,
    pub membership_index: u64,
}

/// Why a member did not do what it was asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AdminError {
    /// It could not be asked, did not answer or refused.
    #[error("{0}")]
    Call(String),
    #[error("{address} answered what cannot be understood: {cause}")]
    Malformed { address: String, cause: &'static str },
}

impl From<admin::AdminError> for AdminError {
    fn from(error: admin::AdminError) -> AdminError {
        AdminError::Call(error.to_string())
    }
}

/// The real thing: one short-lived connection a call, since members are asked seldom and their addresses change.
pub struct GrpcAdmin;

impl Admin for GrpcAdmin {
    fn status<'a>(&'a self, address: &'a str, token: &'a str) -> Answer<'a, MemberView> {
        Box::pin(async move {
            let client = AdminClient::connect_within(address, token, STATUS_TIMEOUT).await?;
            Ok(view(&client.status().await?))
        })
    }

    fn committed<'a>(&'a self, address: &'a str, token: &'a str) -> Answer<'a, Committed> {
        Box::pin(async move {
            let client = AdminClient::connect_within(address, token, STATUS_TIMEOUT).await?;
            committed(address, client.committed_membership().await?)
        })
    }

    fn bootstrap<'a>(
        &'a self,
        address: &'a str,
        token: &'a str,
        cluster_id: &'a str,
        member: MemberEntry,
    ) -> Answer<'a, Committed> {
        Box::pin(async move {
            let client = AdminClient::connect_within(address, token, STEP_TIMEOUT).await?;
            committed(address, client.bootstrap(cluster_id, entry(member)).await?)
        })
    }

    fn add_learner<'a>(
        &'a self,
        address: &'a str,
        token: &'a str,
        member: MemberEntry,
        precondition: Precondition,
    ) -> Answer<'a, Committed> {
        Box::pin(async move {
            let client = AdminClient::connect_within(address, token, STEP_TIMEOUT).await?;
            committed(address, client.add_learner(entry(member), Some(conditions(precondition))).await?)
        })
    }

    fn promote<'a>(
        &'a self,
        address: &'a str,
        token: &'a str,
        server_id: u64,
        precondition: Precondition,
    ) -> Answer<'a, Committed> {
        Box::pin(async move {
            let client = AdminClient::connect_within(address, token, STEP_TIMEOUT).await?;
            committed(address, client.promote(server_id, Some(conditions(precondition))).await?)
        })
    }
}

fn entry(member: MemberEntry) -> admin::Member {
    admin::Member {
        server_id: member.server_id,
        peer_address: member.peer_address,
        client_address: member.client_address,
        name: member.name,
    }
}

fn conditions(precondition: Precondition) -> admin::Precondition {
    admin::Precondition {
        expected_leader: Some(precondition.leader_id),
        expected_membership_index: Some(precondition.membership_index),
    }
}

fn view(answer: &admin::StatusResponse) -> MemberView {
    let role = match answer.role() {
        admin::Role::Uninitialized => MemberRole::Uninitialized,
        admin::Role::Learner => MemberRole::Learner,
        admin::Role::Follower => MemberRole::Follower,
        admin::Role::Candidate => MemberRole::Candidate,
        admin::Role::Leader => MemberRole::Leader,
        // A member that stopped itself after trouble has no role in its cluster.
        admin::Role::Unspecified => MemberRole::Unknown,
    };
    MemberView {
        server_id: answer.server_id,
        cluster_id: Some(answer.cluster_id.clone()).filter(|id| !id.is_empty()),
        role,
        term: answer.term,
        leader_id: Some(answer.leader_id).filter(|id| *id != 0),
        ready: answer.ready,
        not_ready_reason: answer.not_ready_reason.clone(),
        version: answer.version.clone(),
        lag: answer.progress.iter().map(|peer| (peer.server_id, peer.lag)).collect(),
    }
}

fn committed(address: &str, answer: admin::MembershipResponse) -> Result<Committed, AdminError> {
    let Some(membership) = answer.membership else {
        return Err(AdminError::Malformed { address: address.into(), cause: "it names no membership" });
    };
    let entries = |members: Vec<admin::Member>| {
        let entry = |member: admin::Member| MemberEntry {
            server_id: member.server_id,
            name: member.name,
            peer_address: member.peer_address,
            client_address: member.client_address,
        };
        members.into_iter().map(entry).collect()
    };
    Ok(Committed {
        leader_id: answer.leader_id,
        index: membership.log_id.unwrap_or_default().index,
        voters: entries(membership.voters),
        learners: entries(membership.learners),
        joint: membership.joint,
        server_id_max: membership.server_id_max,
    })
}
