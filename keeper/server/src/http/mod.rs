//! HTTP for machines: `/livez` (the process answers), `/readyz` and `/ready` (send clients here), `/metrics`, and
//! `/commands` as ZooKeeper's AdminServer has it. Nothing here changes anything.
#![allow(clippy::disallowed_methods)]

mod commands;

use crate::collector::StatusCollector;
use crate::node::{Node, Readiness};
use crate::numbers;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use keeper_consensus::Role;
use tokio::net::TcpListener;

const JSON: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// Serves until the task is dropped.
pub async fn serve(node: Node, listener: TcpListener) -> std::io::Result<()> {
    node.shared().metrics.collect_from(Box::new(StatusCollector::new(node.clone())));
    let routes = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/ready", get(ready_details))
        .route("/metrics", get(metrics))
        .route("/commands", get(list_commands))
        .route("/commands/", get(list_commands))
        .route("/commands/{name}", get(command))
        .with_state(node);
    axum::serve(listener, routes).await
}

/// `/metrics` alone, as ZooKeeper's provider for Prometheus has it at a port of its own. Until the task is dropped.
pub async fn serve_metrics(node: Node, listener: TcpListener) -> std::io::Result<()> {
    let routes = Router::new().route("/metrics", get(metrics)).with_state(node);
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
    (code, JSON, body.to_string())
}

async fn metrics(State(node): State<Node>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let reading = node.words().reading(node.shared()).await;
    ([(header::CONTENT_TYPE, kind)], node.shared().metrics.page(&numbers::page(&reading)))
}

async fn list_commands() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/html;charset=utf-8")], commands::list())
}

async fn command(State(node): State<Node>, Path(name): Path<String>) -> impl IntoResponse {
    let (code, body) = commands::answer(node.words(), node.shared(), &name).await;
    (code, JSON, body.to_string())
}
