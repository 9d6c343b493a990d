//! openraft's configuration, with the reason for each departure from its defaults.

use crate::api::OpenError;
use crate::limits::{
    APPEND_ENTRIES_MAX, MACHINE_COMMANDS_WAITING_MAX, NOTICES_WAITING_MAX, PEER_BACKOFF,
    PROPOSALS_WAITING_MAX,
};
use openraft::{Config, SnapshotPolicy};
use std::sync::Arc;

pub fn raft_config(heartbeat_ms: u64, election_ms: (u64, u64)) -> Result<Arc<Config>, OpenError> {
    let config = Config {
        cluster_name: "keeper".into(),
        heartbeat_interval: heartbeat_ms,
        election_timeout_min: election_ms.0,
        election_timeout_max: election_ms.1,
        // openraft's default is on: a restarted leader would lead on in its old term without an election, and give
        // log ids that followers hold to other entries. Acknowledged writes would be lost. Never switch it on.
        enable_leader_restore: Some(keeper_rt::planted!("leader-restored")),
        enable_pre_vote: Some(true),
        max_payload_entries: APPEND_ENTRIES_MAX,
        // Snapshots and purges follow the log's bytes, not its number of entries: see `snapshots.rs`.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        // Progress is watched by the transport, which knows of each chunk.
        install_snapshot_timeout: 3_600_000,
        api_channel_size: Some(PROPOSALS_WAITING_MAX),
        notification_channel_size: Some(NOTICES_WAITING_MAX),
        state_machine_channel_size: Some(MACHINE_COMMANDS_WAITING_MAX),
        backoff: PEER_BACKOFF.into(),
        ..Config::default()
    };
    let config = config.validate().map_err(|error| OpenError::Option {
        option: "heartbeat or election timeout",
        why: error.to_string(),
    })?;
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::raft_config;
    use openraft::SnapshotPolicy;

    #[test]
    fn a_restarted_leader_never_leads_on_without_an_election() {
        let config = raft_config(300, (900, 1200)).expect("valid");
        assert_eq!(config.enable_leader_restore, Some(false));
    }

    #[test]
    fn elections_ask_first_and_snapshots_are_ours_to_trigger() {
        let config = raft_config(300, (900, 1200)).expect("valid");
        assert_eq!(config.enable_pre_vote, Some(true));
        assert_eq!(config.snapshot_policy, SnapshotPolicy::Never);
        assert_eq!(
            config.allow_log_reversion, None,
            "a follower that lost its log must not be taken for slow"
        );
    }

    #[test]
    fn an_election_timeout_below_the_heartbeat_is_refused() {
        assert!(raft_config(300, (200, 250)).is_err());
    }
}
