//! The admin client against a gRPC server that answers as told: what it sends and what it makes of answers.
#![allow(clippy::unwrap_used)]

use keeper_admin_api::v1::admin_server::{Admin, AdminServer};
use keeper_client::admin::*;
use std::time::Duration;
use tonic::{Code, Request, Response, Status};

const TOKEN: &str = "letmein";

/// A member that leads or not, and refuses to promote.
struct Scripted {
    role: Role,
    term: u64,
}

type Answer<T> = Result<Response<T>, Status>;

fn allowed<T>(request: &Request<T>) -> Result<(), Status> {
    let sent = request.metadata().get("authorization").and_then(|value| value.to_str().ok());
    if sent == Some(&format!("Bearer {TOKEN}")) {
        Ok(())
    } else {
        Err(Status::unauthenticated("wrong token"))
    }
}

fn one_voter(member: Option<Member>) -> Answer<MembershipResponse> {
    let membership = Membership { voters: member.into_iter().collect(), ..Membership::default() };
    Ok(Response::new(MembershipResponse { membership: Some(membership), leader_id: 1 }))
}

#[tonic::async_trait]
impl Admin for Scripted {
    async fn status(&self, request: Request<StatusRequest>) -> Answer<StatusResponse> {
        allowed(&request)?;
        let mut status = StatusResponse { term: self.term, ..StatusResponse::default() };
        status.set_role(self.role);
        Ok(Response::new(status))
    }

    async fn bootstrap(&self, request: Request<BootstrapRequest>) -> Answer<MembershipResponse> {
        allowed(&request)?;
        one_voter(request.into_inner().member)
    }

    async fn add_learner(&self, request: Request<AddLearnerRequest>) -> Answer<MembershipResponse> {
        allowed(&request)?;
        assert_eq!(request.get_ref().precondition.unwrap().expected_leader, Some(7));
        one_voter(request.into_inner().member)
    }

    async fn promote(&self, request: Request<MemberRequest>) -> Answer<MembershipResponse> {
        allowed(&request)?;
        Err(Status::failed_precondition(format!("member {} lags", request.get_ref().server_id)))
    }

    async fn remove(&self, request: Request<MemberRequest>) -> Answer<MembershipResponse> {
        allowed(&request)?;
        keeper_rt::sleep(Duration::from_secs(60)).await;
        one_voter(None)
    }

    async fn transfer_leadership(&self, request: Request<MemberRequest>) -> Answer<MembershipResponse> {
        allowed(&request)?;
        one_voter(None)
    }

    async fn committed_membership(&self, request: Request<StatusRequest>) -> Answer<MembershipResponse> {
        allowed(&request)?;
        one_voter(None)
    }
}

/// A free port, and the server on it soon after: the client is told to wait for it.
async fn start(role: Role, term: u64) -> String {
    #[allow(clippy::disallowed_methods)]
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let service = AdminServer::new(Scripted { role, term });
    keeper_rt::spawn("admin-server", tonic::transport::Server::builder().add_service(service).serve(address));
    while AdminClient::connect(&address.to_string(), TOKEN).await.is_err() {
        keeper_rt::sleep(Duration::from_millis(10)).await;
    }
    address.to_string()
}

fn member() -> Member {
    Member {
        server_id: 3,
        peer_address: "c:9234".to_owned(),
        client_address: "c:2181".to_owned(),
        name: "main-2".to_owned(),
    }
}

#[tokio::test]
async fn every_call_carries_the_token_and_its_message() {
    let address = start(Role::Leader, 1).await;
    let client = AdminClient::connect(&address, &format!("{TOKEN}\n")).await.unwrap();
    assert_eq!(client.status().await.unwrap().role(), Role::Leader);
    let founded = client.bootstrap(&"0".repeat(32), member()).await.unwrap();
    assert_eq!(founded.membership.unwrap().voters, [member()]);
    let leads = Precondition { expected_leader: Some(7), expected_membership_index: None };
    client.add_learner(member(), Some(leads)).await.unwrap();
    client.transfer_leadership(3, None).await.unwrap();
    assert_eq!(client.committed_membership().await.unwrap().leader_id, 1);
}

#[tokio::test]
async fn errors_keep_the_code_and_the_message() {
    let address = start(Role::Leader, 1).await;
    let client = AdminClient::connect(&address, TOKEN).await.unwrap();
    let error = client.promote(3, None).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::FailedPrecondition));
    assert_eq!(error.to_string(), format!("promote at {address}: member 3 lags (FailedPrecondition)"));
    let stranger = AdminClient::connect(&address, "guess").await.unwrap();
    assert_eq!(stranger.status().await.unwrap_err().code(), Some(Code::Unauthenticated));
}

#[tokio::test]
async fn a_call_without_an_answer_ends_in_time() {
    let address = start(Role::Leader, 1).await;
    let limit = Duration::from_millis(200);
    let client = AdminClient::connect_within(&address, TOKEN, limit).await.unwrap();
    let error = client.remove(3, None).await.unwrap_err();
    assert!(matches!(error, AdminError::Timeout { call: "remove", .. }), "{error}");
}

#[tokio::test]
async fn the_leader_of_the_highest_term_is_found_among_followers_and_the_dead() {
    let (follower, old) = (start(Role::Follower, 5).await, start(Role::Leader, 4).await);
    let new = start(Role::Leader, 5).await;
    let addresses = [follower.as_str(), "127.0.0.1:1", old.as_str(), new.as_str()];
    let (leader, status) = find_leader(&addresses, TOKEN).await.unwrap();
    assert_eq!((leader.address(), status.term), (new.as_str(), 5));

    let error = find_leader(&addresses[..2], TOKEN).await.unwrap_err();
    let AdminError::NoLeader { answers } = &error else { panic!("{error}") };
    assert!(answers[0].contains("ROLE_FOLLOWER") && answers[1].contains("refused"), "{error}");
}
