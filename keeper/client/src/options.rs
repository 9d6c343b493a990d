//! What a caller may choose about a session.

use keeper_wire::limits::{FRAME_BYTES_CEILING, FRAME_BYTES_MAX};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    /// Asked for; the server grants what lies within its own bounds.
    pub session_timeout_ms: i32,
    /// For one attempt at one host: dialing and the handshake.
    pub connect_timeout: Duration,
    /// For one call, with all waiting for a connection. `None`: as long as the session timeout asked for.
    pub operation_timeout: Option<Duration>,
    /// Longer requests are refused here; a server would close the connection on them.
    pub request_bytes_max: usize,
    /// A longer reply ends the connection.
    pub reply_bytes_max: usize,
    /// Identities to present before anything else: scheme and its data, such as `digest` and `user:password`.
    pub identities: Vec<(String, Vec<u8>)>,
    /// A session to go on with instead of a new one.
    pub resume: Option<Resume>,
}

/// What proves to a server that a session is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    pub session_id: i64,
    pub password: Vec<u8>,
    /// A server that has not seen this zxid yet refuses the connection.
    pub last_zxid_seen: i64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            session_timeout_ms: 10_000,
            connect_timeout: Duration::from_secs(3),
            operation_timeout: None,
            request_bytes_max: FRAME_BYTES_MAX,
            reply_bytes_max: FRAME_BYTES_CEILING,
            identities: Vec::new(),
            resume: None,
        }
    }
}

impl Options {
    pub(crate) fn operation_timeout(&self) -> Duration {
        let session = u64::try_from(self.session_timeout_ms).unwrap_or_default();
        self.operation_timeout.unwrap_or(Duration::from_millis(session))
    }
}
