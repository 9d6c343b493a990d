//! `server.N=host:peerPort:electionPort[:participant|observer][;[address:]clientPort]`.

use super::ZooCfgError;
use super::properties::Setting;
use std::fmt;

/// Most servers that one file may name: ids have to fit ZooKeeper's one byte.
pub const SERVERS_MAX: usize = 255;

/// One member of the first membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLine {
    pub id: u64,
    pub host: String,
    pub peer_port: u16,
    /// ZooKeeper elects over it; here the members' admin calls go there.
    pub election_port: u16,
    pub observer: bool,
    /// Behind the `;`: address, when one is given, and port.
    pub client: Option<(Option<String>, u16)>,
    pub place: String,
}

impl ServerLine {
    /// `key` is `server.N`.
    pub fn parse(key: &str, setting: &Setting) -> Result<ServerLine, ZooCfgError> {
        let wrong = |why: String| {
            let form = "host:peerPort:electionPort[:participant|observer][;[address:]clientPort]";
            ZooCfgError::new(&setting.place, format!("`{key}={}`: {why}; the form is {form}", setting.value))
        };
        let id = key.strip_prefix("server.").unwrap_or_default();
        let id = match id.parse::<u64>() {
            Ok(id) if (1..=255).contains(&id) => id,
            _ => return Err(wrong(format!("the id `{id}` is no number from 1 to 255"))),
        };
        let (quorum, client) = match setting.value.split_once(';') {
            Some((quorum, client)) => (quorum, Some(client)),
            None => (setting.value.as_str(), None),
        };
        if quorum.contains('|') {
            return Err(wrong("several addresses of one server are not served; name one".into()));
        }
        let (host, rest) = split_host(quorum).ok_or_else(|| wrong("there is no host".into()))?;
        let parts: Vec<&str> = rest.split(':').collect();
        let (peer, election, role) = match parts[..] {
            [peer, election] => (peer, election, "participant"),
            [peer, election, role] => (peer, election, role),
            _ => return Err(wrong("a host, two ports and at most a role are wanted".into())),
        };
        let port = |text: &str| match text.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(wrong(format!("`{text}` is no port (1 to 65535)"))),
        };
        let (peer_port, election_port) = (port(peer)?, port(election)?);
        if peer_port == election_port {
            return Err(wrong(format!("both ports are {peer_port}")));
        }
        let observer = match role.trim().to_ascii_lowercase().as_str() {
            "participant" => false,
            "observer" => true,
            other => return Err(wrong(format!("`{other}` is neither participant nor observer"))),
        };
        let client = match client.map(str::trim) {
            None | Some("") => None,
            Some(client) => Some(match split_host(client) {
                Some((address, number)) => (Some(address), port(number)?),
                None => (None, port(client)?),
            }),
        };
        let place = setting.place.clone();
        Ok(ServerLine { id, host, peer_port, election_port, observer, client, place })
    }

    /// `host:peerPort`, as the other members dial it.
    pub fn peer_address(&self) -> String {
        join(&self.host, self.peer_port)
    }

    /// `host:electionPort`.
    pub fn admin_address(&self) -> String {
        join(&self.host, self.election_port)
    }

    /// Where clients reach it as far as the line says; empty when only that member's own clientPort tells.
    pub fn client_address(&self) -> String {
        match &self.client {
            Some((address, port)) => join(address.as_deref().unwrap_or("0.0.0.0"), *port),
            None => String::new(),
        }
    }
}

/// The line without its role and client part: what stays the same when a server is promoted.
impl fmt::Display for ServerLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server.{}={}:{}:{}", self.id, self.host, self.peer_port, self.election_port)
    }
}

pub fn join(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Splits at the colon behind the host; an IPv6 address stands in brackets.
fn split_host(text: &str) -> Option<(String, &str)> {
    let text = text.trim();
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']')?;
            (host, rest.strip_prefix(':')?)
        }
        None => text.split_once(':')?,
    };
    (!host.is_empty()).then(|| (host.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(key: &str, value: &str) -> Result<ServerLine, String> {
        let setting = Setting { value: value.into(), place: "zoo.cfg line 3".into() };
        ServerLine::parse(key, &setting).map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_of_a_server_line_is_read() {
        let line = parse("server.1", "a.b:2888:3888").unwrap();
        assert_eq!(
            (line.id, line.peer_address(), line.admin_address()),
            (1, "a.b:2888".into(), "a.b:3888".into())
        );
        assert_eq!((line.observer, line.client), (false, None));
        let line = parse("server.7", "[::1]:1:2:observer;2181").unwrap();
        assert_eq!((line.peer_address(), line.observer), ("[::1]:1".into(), true));
        assert_eq!(line.client_address(), "0.0.0.0:2181");
        let line = parse("server.7", "h:1:2:PARTICIPANT;[::]:2181").unwrap();
        assert_eq!((line.observer, line.client), (false, Some((Some("::".into()), 2181))));
        assert_eq!(parse("server.7", "h:1:2;0.0.0.0:9").unwrap().client_address(), "0.0.0.0:9");
    }

    #[test]
    fn a_wrong_line_says_where_and_what_is_allowed() {
        let cases = [
            ("server.0", "h:1:2", "1 to 255"),
            ("server.x", "h:1:2", "1 to 255"),
            ("server.1", "", "no host"),
            ("server.1", ":1:2", "no host"),
            ("server.1", "h:1", "two ports"),
            ("server.1", "h:1:2:3:4", "two ports"),
            ("server.1", "h:0:2", "no port"),
            ("server.1", "h:1:70000", "no port"),
            ("server.1", "h:5:5", "both ports"),
            ("server.1", "h:1:2:voter", "neither participant nor observer"),
            ("server.1", "h:1:2;x:y", "no port"),
            ("server.1", "h:1:2|g:1:2", "several addresses"),
            ("server.1", "[::1:1:2", "no host"),
        ];
        for (key, value, part) in cases {
            let error = parse(key, value).unwrap_err();
            assert!(error.contains("zoo.cfg line 3") && error.contains(part), "{value}: {error}");
        }
    }
}
