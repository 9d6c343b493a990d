//! The words that change something. None of them is answered unless the configuration lists it.

use super::Question;
use crate::leader;
use crate::limits::WISH_TIME_MAX;
use crate::node::heir;
use keeper_consensus::{Precondition, Role};
use std::sync::atomic::Ordering;

pub fn crst(question: &Question<'_>) -> &'static str {
    for info in super::connections::all(question.shared) {
        info.reset();
    }
    "Connection stats reset.\n"
}

pub fn srst(question: &Question<'_>) -> &'static str {
    question.shared.stats.reset();
    "Server stats reset.\n"
}

pub fn gtmk(question: &Question<'_>) -> String {
    question.shared.stats.trace_mask.load(Ordering::Relaxed).to_string()
}

/// Takes the mask, eight bytes big-endian, and answers it.
pub fn stmk(question: &Question<'_>) -> String {
    let Ok(mask) = <[u8; 8]>::try_from(question.argument) else {
        return "stmk needs the mask in eight bytes, big-endian, after the word\n".into();
    };
    let mask = i64::from_be_bytes(mask);
    question.shared.stats.trace_mask.store(mask, Ordering::Relaxed);
    mask.to_string()
}

pub fn lgrq(question: &Question<'_>) -> &'static str {
    let was_on = question.shared.stats.log_requests.fetch_xor(true, Ordering::Relaxed);
    if was_on { "disabled" } else { "enabled" }
}

/// The index that the snapshot covers at least.
pub async fn csnp(question: &Question<'_>) -> String {
    match question.consensus.snapshot_now().await {
        Ok(index) => index.to_string(),
        Err(error) => {
            tracing::warn!(%error, "no snapshot");
            "Failed to schedule snapshot creation task.".into()
        }
    }
}

/// Only the leader can hand leadership over, so the wish travels to it.
pub async fn rqld(question: &Question<'_>) -> &'static str {
    const SENT: &str = "Sent leadership request to leader.";
    const FAILED: &str = "Failed to send leadership request to leader.";
    let leader = match (question.status.role, question.status.leader) {
        (Role::Leader, _) => return SENT,
        (_, Some(leader)) => leader,
        (_, None) => return FAILED,
    };
    let asking = leader::ask_for_leadership(question.consensus, leader);
    match keeper_rt::timeout(WISH_TIME_MAX, asking).await {
        Ok(true) => SENT,
        Ok(false) | Err(_) => FAILED,
    }
}

/// ClickHouse answers the same on every member and acts on the leader alone.
pub fn ydld(question: &Question<'_>) -> &'static str {
    if let Some(heir) = heir(&question.status) {
        let consensus = question.consensus.clone();
        keeper_rt::spawn("yield-leadership", async move {
            match consensus.transfer_leadership(heir, Precondition::default()).await {
                Ok(_) => tracing::info!(to = %heir, "leadership yielded"),
                Err(error) => tracing::warn!(to = %heir, %error, "leadership not yielded"),
            }
        });
    }
    "Sent yield leadership request to leader."
}
