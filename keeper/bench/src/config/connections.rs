//! `connections`: where the servers are, how many sessions each gets, and their timeouts.

use super::yaml::{Section, Value};
use super::{ConfigError, milliseconds, text_of};
use crate::limits::SESSIONS_MAX;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Connections {
    pub endpoints: Vec<Endpoint>,
    /// For hosts that are named elsewhere.
    pub defaults: Endpoint,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `host:port`; empty in the defaults.
    pub host: String,
    pub sessions: usize,
    pub secure: bool,
    pub operation_timeout: Option<Duration>,
    pub session_timeout_ms: Option<u32>,
    pub connect_timeout: Option<Duration>,
}

impl Default for Endpoint {
    fn default() -> Endpoint {
        Endpoint {
            host: String::new(),
            sessions: 1,
            secure: false,
            operation_timeout: None,
            session_timeout_ms: None,
            connect_timeout: None,
        }
    }
}

impl Connections {
    pub fn sessions(&self) -> usize {
        self.endpoints.iter().map(|endpoint| endpoint.sessions).sum()
    }
}

pub(super) fn parse(
    section: Option<Section<'_>>,
    notes: &mut Vec<String>,
) -> Result<Connections, ConfigError> {
    let Some(section) = section else { return Ok(Connections::default()) };
    let defaults = settings(&section, &Endpoint::default(), notes)?;
    let mut endpoints = Vec::new();
    for node in section.all("host") {
        let host = text_of(node, &section.name("host"))?;
        endpoints.push(Endpoint { host, ..defaults.clone() });
    }
    for node in section.all("connection") {
        let connection = Section::of(node, section.name("connection"))?;
        let mut endpoint = settings(&connection, &defaults, notes)?;
        let host = connection.one("host")?;
        let host = host.ok_or_else(|| connection.error(format!("{} has no host", connection.path)))?;
        endpoint.host = text_of(host, &connection.name("host"))?;
        connection.finish()?;
        endpoints.push(endpoint);
    }
    let connections = Connections { endpoints, defaults };
    if connections.sessions() > SESSIONS_MAX {
        return Err(section.error(format!("more than {SESSIONS_MAX} sessions")));
    }
    section.finish()?;
    Ok(connections)
}

fn settings(
    section: &Section<'_>,
    defaults: &Endpoint,
    notes: &mut Vec<String>,
) -> Result<Endpoint, ConfigError> {
    let duration = |ms: Option<u32>| ms.map(|ms| Duration::from_millis(ms.into()));
    let mut endpoint = defaults.clone();
    endpoint.secure = section.boolean("secure")?.unwrap_or(endpoint.secure);
    endpoint.operation_timeout =
        duration(milliseconds(section, "operation_timeout_ms")?).or(endpoint.operation_timeout);
    endpoint.session_timeout_ms =
        milliseconds(section, "session_timeout_ms")?.or(endpoint.session_timeout_ms);
    endpoint.connect_timeout =
        duration(milliseconds(section, "connection_timeout_ms")?).or(endpoint.connect_timeout);
    for key in ["use_compression", "use_xid_64"] {
        let note = format!("{key} is not obeyed: requests go in ZooKeeper's own form");
        if section.boolean(key)?.unwrap_or(false) && !notes.contains(&note) {
            notes.push(note);
        }
    }
    if let Some(node) = section.one("sessions")? {
        let name = section.name("sessions");
        endpoint.sessions = node.parsed(&name, "a whole number")?;
        let is_number = matches!(node.value, Value::Scalar(_));
        if !is_number || !(1..=SESSIONS_MAX).contains(&endpoint.sessions) {
            return Err(node.error(format!("{name} is to be from 1 to {SESSIONS_MAX}")));
        }
    }
    Ok(endpoint)
}
