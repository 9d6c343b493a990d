//! Health and metrics of the operator itself, on a port of their own.

use std::net::SocketAddr;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{net::TcpListener, sync::watch};

use crate::metrics::Metrics;

#[derive(Clone)]
struct Served {
    metrics: Metrics,
    /// True once the API server answered; a replica that stands by is ready too.
    ready: watch::Receiver<bool>,
}

/// Serves until the process ends.
pub async fn serve(
    address: SocketAddr,
    metrics: Metrics,
    ready: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(page))
        .with_state(Served { metrics, ready });
    let listener = TcpListener::bind(address).await?;
    axum::serve(listener, routes).await
}

async fn readyz(State(served): State<Served>) -> Response {
    if *served.ready.borrow() {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the API server did not answer yet\n").into_response()
    }
}

async fn page(State(served): State<Served>) -> Response {
    match served.metrics.page() {
        Ok(page) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], page).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
