//! Four-letter words: ZooKeeper's plain-text questions on the client port, and ClickHouse Keeper's. The shapes are those
//! that their tools parse (`docs/four-letter-words.md`).
//!
//! A word is answered when it is in the white list; a known word that is not gets ZooKeeper's line about it, an unknown
//! one closes the connection without a byte, as in both servers. Answers are bounded in bytes and time.

mod actions;
mod connections;
mod dump;
mod monitor;
mod rcfg;
mod server;
mod table;
mod text;
mod watches;

pub use connections::operation;
pub use server::{environment, mode};
pub use table::{Origin, Support, WORDS, Word};

use crate::limits::{ANSWER_BYTES_SMALL, ANSWERS_BYTES_MAX};
use crate::numbers::Reading;
use crate::shared::Shared;
use keeper_consensus::{Consensus, Role, Status};
use keeper_rt::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The version that clients of ZooKeeper read: what we are compatible with, then our own. The two Go clients read the
/// date only as MM/DD/YYYY.
pub const VERSION_LINE: &str =
    concat!("3.9.5-castellan-", env!("CARGO_PKG_VERSION"), ", built on ", env!("KEEPER_BUILT_ON"));

/// Stands for every word in a white list but those of [`BY_NAME_ONLY`].
pub const ALL_WORDS: &str = "*";

/// Whoever reaches the port changes the membership with it: nobody is to open that without having meant it.
const BY_NAME_ONLY: &str = "rcfg";

/// ZooKeeper's answer while a member serves nobody.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// The word of this name.
pub fn find(name: &str) -> Option<&'static Word> {
    WORDS.iter().find(|word| word.name == name)
}

/// The white list where the configuration has none.
pub fn default_words() -> impl Iterator<Item = &'static str> {
    WORDS.iter().filter(|word| word.open).map(|word| word.name)
}

/// Whom this member serves now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    None,
    ReadOnly,
    ReadWrite,
}

pub struct Words {
    allowed: BTreeSet<String>,
    consensus: Consensus,
    /// `key=value` lines of `conf`.
    configuration: Vec<(String, String)>,
    /// Clients may change the membership.
    reconfig: bool,
    started: Instant,
    /// Bytes of large answers on their way.
    answering: Arc<AtomicUsize>,
}

/// One word on its way to an answer.
pub struct Question<'a> {
    pub argument: &'a [u8],
    pub shared: &'a Arc<Shared>,
    pub consensus: &'a Consensus,
    pub configuration: &'a [(String, String)],
    pub status: Status,
    pub service: Service,
}

/// An answer and its share of [`ANSWERS_BYTES_MAX`], which it gives back when it is dropped.
pub struct Answer {
    pub text: String,
    _share: Option<Share>,
}

struct Share {
    answering: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.answering.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Words {
    pub fn new(
        allowed: BTreeSet<String>,
        consensus: Consensus,
        configuration: Vec<(String, String)>,
        reconfig: bool,
        started: Instant,
    ) -> Words {
        Words { allowed, consensus, configuration, reconfig, started, answering: Arc::default() }
    }

    /// Bytes that follow the word before it can be answered; `come` are there already.
    pub fn argument_bytes(&self, word: [u8; 4], come: &[u8]) -> usize {
        match &word {
            b"stmk" if self.is_allowed("stmk") => 8,
            b"rcfg" if self.is_allowed("rcfg") => rcfg::argument_bytes(come),
            _ => 0,
        }
    }

    pub fn is_allowed(&self, name: &str) -> bool {
        self.allowed.contains(name) || (name != BY_NAME_ONLY && self.allowed.contains(ALL_WORDS))
    }

    pub fn configuration(&self) -> &[(String, String)] {
        &self.configuration
    }

    pub async fn reading(&self, shared: &Arc<Shared>) -> Reading {
        Reading::take(&self.consensus, shared, self.started).await
    }

    /// The answer to one word; the connection is closed after it. `None`: closed without one.
    pub async fn answer(&self, word: [u8; 4], argument: &[u8], shared: &Arc<Shared>) -> Option<Answer> {
        let name = std::str::from_utf8(&word).ok()?;
        let Some(word) = find(name) else {
            tracing::debug!(word = name, "no such four-letter word");
            return None;
        };
        if !self.is_allowed(name) {
            tracing::info!(word = name, "four-letter word is not in the white list");
            return self.bounded(format!("{name} is not executed because it is not in the whitelist.\n"));
        }
        let question = self.question(argument, shared);
        if word.needs_service && question.service == Service::None {
            return self.bounded(NOT_SERVING.into());
        }
        self.bounded(self.text(word, &question).await)
    }

    pub fn question<'a>(&'a self, argument: &'a [u8], shared: &'a Arc<Shared>) -> Question<'a> {
        let status = self.consensus.status();
        Question {
            argument,
            shared,
            consensus: &self.consensus,
            configuration: &self.configuration,
            service: service(&status, shared),
            status,
        }
    }

    async fn text(&self, word: &Word, question: &Question<'_>) -> String {
        let shared = question.shared;
        match word.name {
            "ruok" => "imok".into(),
            "srvr" => server::srvr(question, &self.reading(shared).await).finish(),
            "stat" => server::stat(question, &self.reading(shared).await).finish(),
            "mntr" => monitor::mntr(question, &self.reading(shared).await).finish(),
            "conf" => server::conf(question).finish(),
            "cons" => connections::cons(shared).finish(),
            "envi" => server::envi().finish(),
            "isro" => server::isro(question.service).into(),
            "wchs" => watches::wchs(shared).finish(),
            "wchc" => watches::wchc(shared).finish(),
            "wchp" => watches::wchp(shared).finish(),
            "dirs" => server::dirs(question).await.finish(),
            "hash" => server::hash(question).finish(),
            "dump" => dump::dump(shared).finish(),
            "gtmk" => actions::gtmk(question),
            "stmk" => actions::stmk(question),
            "crst" => actions::crst(question).into(),
            "srst" => actions::srst(question).into(),
            "apiv" => question.shared.features.api_version().into(),
            "lgif" => monitor::lgif(question).await.finish(),
            "ftfl" => monitor::ftfl(question).finish(),
            "pfev" => monitor::pfev(&self.reading(shared).await).finish(),
            "csnp" => actions::csnp(question).await,
            "rqld" => actions::rqld(question).await.into(),
            "ydld" => actions::ydld(question).into(),
            "rclc" | "clrs" => "ok".into(),
            "lgrq" => actions::lgrq(question).into(),
            "stgs" => monitor::stgs(shared).finish(),
            "rcfg" if self.reconfig => rcfg::rcfg(question).await,
            "rcfg" => rcfg::switched_off(),
            "jmst" | "jmfp" | "jmep" | "jmdp" => "keeper was not built with jemalloc.\n".into(),
            // That whose support is `No`.
            name => format!("{name} is not supported: {}.\n", word.note),
        }
    }

    /// Large answers share a bound.
    fn bounded(&self, text: String) -> Option<Answer> {
        let bytes = text.len();
        if bytes <= ANSWER_BYTES_SMALL {
            return Some(Answer { text, _share: None });
        }
        let before = self.answering.fetch_add(bytes, Ordering::Relaxed);
        let share = Share { answering: self.answering.clone(), bytes };
        if before + bytes > ANSWERS_BYTES_MAX {
            tracing::warn!(
                bytes,
                limit = ANSWERS_BYTES_MAX,
                "too many answers to four-letter words are unread"
            );
            return None;
        }
        Some(Answer { text, _share: Some(share) })
    }
}

fn service(status: &Status, shared: &Shared) -> Service {
    match status.role {
        Role::Uninitialized | Role::Failed => Service::None,
        _ if shared.digests.differs() => Service::None,
        _ if shared.read_only.load(Ordering::Relaxed) => Service::ReadOnly,
        _ if status.leader.is_some() => Service::ReadWrite,
        Role::Learner | Role::Follower | Role::Candidate | Role::Leader => Service::None,
    }
}

#[cfg(test)]
mod tests;
