//! HTTP for machines: `/livez` (the process answers), `/readyz` and `/ready` (send clients here), `/metrics`.
#![allow(clippy::disallowed_methods)]

use crate::collector::StatusCollector;
use crate::node::{Node, Readiness};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use keeper_consensus::Role;
use tokio::net::TcpListener;

/// Serves until the task is dropped.
pub async fn serve(node: Node, listener: TcpListener) -> std::io::Result<()> {
    node.shared().metrics.collect_from(Box::new(StatusCollector::new(node.clone())));
    let routes = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/ready", get(ready_details))
        .route("/metrics", get(metrics))
        .with_state(node);
    axum::serve(listener, routes).await
}

async fn ready(State(node): State<Node>) -> (StatusCode, String) {
    match node.readiness() {
        Readiness::Ready => (StatusCode::OK, "ok\n".into()),
        Readiness::NotReady(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}

/// The shape of ClickHouse Keeper's `/ready`.
async fn ready_details(State(node): State<Node>) -> impl IntoResponse {
    let status = node.consensus().status();
    let (code, text) = match node.readiness() {
        Readiness::Ready => (StatusCode::OK, "ok"),
        Readiness::NotReady(_) => (StatusCode::SERVICE_UNAVAILABLE, "fail"),
    };
    let role = match status.role {
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Learner => "observer",
        Role::Candidate | Role::Uninitialized | Role::Failed => "unknown",
    };
    let body = serde_json::json!({
        "status": text,
        "details": { "role": role, "hasLeader": status.leader.is_some() },
    });
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string())
}

async fn metrics(State(node): State<Node>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], node.shared().metrics.page())
}
