//! Why a log, a snapshot or a small file could not be opened: what, where, and what to do.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("cannot {verb} {subject}: {source}")]
    Io { verb: &'static str, subject: String, source: io::Error },
    /// Bytes that had been durable are not what was written. Never repaired by guessing.
    #[error("{file} is damaged at byte {offset}: {what}. {}", ADVICE)]
    Damaged { file: String, offset: u64, what: String },
    #[error("{file} is missing: {what}. {}", ADVICE)]
    Missing { file: String, what: String },
    #[error(
        "{file} has format version {found}, this program knows up to {known}: start a newer program on this folder; if \
         none has ever written to it, the file is damaged"
    )]
    Version { file: String, found: u32, known: u32 },
    #[error("{0}")]
    Options(String),
}

const ADVICE: &str = "Nothing was changed. This member's acknowledged writes can no longer be trusted: remove it from \
the cluster and let it come back with an empty folder under a new server id; keep this folder if the other members \
are lost too";

impl LogError {
    pub(crate) fn io(verb: &'static str, subject: impl Into<String>, source: io::Error) -> LogError {
        LogError::Io { verb, subject: subject.into(), source }
    }

    /// The error's kind, for callers that speak `io::Error`.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            LogError::Io { source, .. } => source.kind(),
            LogError::Damaged { .. } => io::ErrorKind::InvalidData,
            LogError::Missing { .. } => io::ErrorKind::NotFound,
            LogError::Version { .. } => io::ErrorKind::Unsupported,
            LogError::Options(_) => io::ErrorKind::InvalidInput,
        }
    }
}

impl From<LogError> for io::Error {
    fn from(error: LogError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}
