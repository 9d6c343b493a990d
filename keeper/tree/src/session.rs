//! One session as the state machine knows it. Which server it is connected to and when it was last heard of
//! is not replicated, so it is not in here.

use keeper_types::{Generation, SessionId};

use crate::command::SessionView;

/// Set in every session id, so that they look like ZooKeeper's: positive, with a non-zero high byte.
const SESSION_ID_HIGH: i64 = 1 << 56;

#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub timeout_ms: i32,
    /// Counts the connections it has lived on, from 1.
    pub generation: Generation,
    pub password: [u8; 16],
}

impl Session {
    pub fn view(&self, id: SessionId) -> SessionView {
        SessionView { id, timeout_ms: self.timeout_ms, generation: self.generation, password: self.password }
    }
}

/// The id of the `number`th session of the cluster's life.
pub(crate) fn id_of(number: u64) -> SessionId {
    SessionId(SESSION_ID_HIGH | number as i64)
}

/// The inverse of [`id_of`]; `None` for a number that was never an id.
pub(crate) fn number_of(id: SessionId) -> Option<u64> {
    (id.0 & !(SESSION_ID_HIGH - 1) == SESSION_ID_HIGH).then_some((id.0 & (SESSION_ID_HIGH - 1)) as u64)
}
