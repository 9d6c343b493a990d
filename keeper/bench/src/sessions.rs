//! The sessions of a run: which host each one has, opened and closed some at a time.

use crate::config::Endpoint;
use crate::limits::{
    CONNECT_TIMEOUT, CONNECTS_IN_FLIGHT, OPERATION_TIMEOUT, SESSION_TIMEOUT_MS, SESSIONS_MAX,
};
use crate::run::{Options as RunOptions, RunError};
use crate::session::Session;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use keeper_client::{Connector, Options};
use std::sync::Arc;

/// One entry for each session, so that every host has its number and the first few sessions have different hosts.
pub fn take_turns(endpoints: &[Endpoint]) -> Vec<Endpoint> {
    let mut left: Vec<usize> = endpoints.iter().map(|endpoint| endpoint.sessions).collect();
    let mut turns = Vec::new();
    while left.iter().any(|left| *left > 0) {
        for (endpoint, left) in endpoints.iter().zip(&mut left) {
            if *left > 0 {
                *left -= 1;
                turns.push(Endpoint { sessions: 1, ..endpoint.clone() });
            }
        }
    }
    turns
}

/// One for each session, hosts taking turns.
pub fn places(options: &RunOptions) -> Result<Vec<Endpoint>, RunError> {
    let connections = &options.config.connections;
    let configured = connections.sessions();
    let mut total =
        if configured == 0 { options.concurrency.unwrap_or(options.config.concurrency) } else { configured };
    if let Some(concurrency) = options.concurrency {
        // Sessions without work would only weigh on the server.
        total = total.min(concurrency);
    }
    let total = options.sessions.unwrap_or(total);
    if !(1..=SESSIONS_MAX).contains(&total) {
        return Err(RunError::Options(format!("there are to be from 1 to {SESSIONS_MAX} sessions")));
    }
    if options.hosts.is_empty() && total == configured {
        return Ok(take_turns(&connections.endpoints));
    }
    let hosts: Vec<Endpoint> = if options.hosts.is_empty() {
        connections.endpoints.clone()
    } else {
        let like = connections.endpoints.first().unwrap_or(&connections.defaults);
        options.hosts.iter().map(|host| Endpoint { host: host.clone(), ..like.clone() }).collect()
    };
    if hosts.is_empty() {
        return Err(RunError::Options("neither the configuration nor the caller names a host".to_owned()));
    }
    Ok((0..total).map(|index| Endpoint { sessions: 1, ..hosts[index % hosts.len()].clone() }).collect())
}

/// Hosts and how many sessions each has, in the order of their first one.
pub fn spread(endpoints: &[Endpoint]) -> Vec<(String, usize)> {
    let mut hosts: Vec<(String, usize)> = Vec::new();
    for endpoint in endpoints {
        match hosts.iter_mut().find(|(host, _)| *host == endpoint.host) {
            Some((_, sessions)) => *sessions += 1,
            None => hosts.push((endpoint.host.clone(), 1)),
        }
    }
    hosts
}

pub fn client_options(endpoint: &Endpoint, identities: &[(String, Vec<u8>)]) -> Options {
    let session_timeout = endpoint.session_timeout_ms.and_then(|ms| i32::try_from(ms).ok());
    Options {
        session_timeout_ms: session_timeout.unwrap_or(SESSION_TIMEOUT_MS),
        connect_timeout: endpoint.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
        operation_timeout: Some(endpoint.operation_timeout.unwrap_or(OPERATION_TIMEOUT)),
        identities: identities.to_vec(),
        ..Options::default()
    }
}

pub async fn open<C: Connector + Clone>(
    endpoints: &[Endpoint],
    connector: &C,
    identities: &[(String, Vec<u8>)],
) -> Result<Vec<Arc<Session<C>>>, RunError> {
    let opens = endpoints.iter().map(|endpoint| async move {
        let options = client_options(endpoint, identities);
        let session = Session::open(endpoint.host.clone(), connector.clone(), options).await;
        session.map(Arc::new).map_err(|error| RunError::Connect { host: endpoint.host.clone(), error })
    });
    stream::iter(opens).buffered(CONNECTS_IN_FLIGHT).try_collect().await
}

/// A session that cannot be closed ends by its timeout.
pub async fn close<C: Connector + Clone>(sessions: &[Arc<Session<C>>]) {
    let closes = sessions.iter().map(|session| async { drop(session.client().close().await) });
    stream::iter(closes).buffer_unordered(CONNECTS_IN_FLIGHT).collect::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_take_turns_until_each_has_its_sessions() {
        let endpoint = |host: &str, sessions| Endpoint { host: host.into(), sessions, ..Endpoint::default() };
        let turns = take_turns(&[endpoint("a", 3), endpoint("b", 1)]);
        let hosts: Vec<&str> = turns.iter().map(|endpoint| endpoint.host.as_str()).collect();
        assert_eq!(hosts, ["a", "b", "a", "a"]);
        assert_eq!(spread(&turns), [("a".to_owned(), 3), ("b".to_owned(), 1)]);
    }
}
