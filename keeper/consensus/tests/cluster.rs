//! Whole members against each other: real Raft, real log code, disks and network in memory.
// Tests stand outside the simulator's reach, and fail by panicking.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use keeper_consensus::{
    AdminError, Consensus, ConsensusOptions, Member, OpenError, Precondition, Role, TcpNetwork,
};
use keeper_log::faulty::Loss;
use keeper_types::{ClusterId, ServerId};
use std::time::{Duration, Instant};
use support::{CLUSTER, Cluster, SLOW, SLOW_APPLY, Setup, eventually, member, number};

fn none() -> Precondition {
    Precondition::default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_proposals_are_applied_in_the_order_of_their_calls_everywhere() {
    let cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.on(cluster.wait_leader().await);
    let mut proposed = Vec::new();
    for i in 0u64..1000 {
        proposed.push(leader.propose(Bytes::copy_from_slice(&i.to_le_bytes())).await.unwrap());
    }
    let mut last = 0;
    for done in proposed {
        let index = done.await.unwrap();
        assert!(index > last);
        last = index;
    }
    let same = cluster.wait_same(last).await;
    let numbers: Vec<u64> = same.iter().map(|(_, payload)| number(payload)).collect();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    let membership = leader.committed_membership().await.unwrap();
    assert_eq!(membership.voters, [member(1), member(2), member(3)]);
    assert_eq!(
        (membership.learners.len(), membership.joint, membership.server_id_max),
        (0, false, ServerId(3))
    );
}

/// Applied where Raft itself runs, or on another thread, or in several steps: the order is that of the calls.
#[tokio::test(flavor = "multi_thread")]
async fn small_and_large_payloads_are_applied_in_the_order_of_their_calls_everywhere() {
    let cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.on(cluster.wait_leader().await);
    let sizes = [8, 300 << 10, 20 << 10, 8, 900 << 10, 200 << 10, 16, 9 << 10, 600 << 10, 8];
    let payload = |i: u64| {
        let mut bytes = i.to_le_bytes().to_vec();
        bytes.resize(sizes[i as usize % sizes.len()], i as u8);
        Bytes::from(bytes)
    };
    let mut proposed = Vec::new();
    for i in 0..60 {
        proposed.push(leader.propose(payload(i)).await.unwrap());
    }
    let mut last = 0;
    for done in proposed {
        last = done.await.unwrap();
    }
    let same = cluster.wait_same(last).await;
    let applied: Vec<_> = same.into_iter().map(|(_, payload)| payload).collect();
    assert_eq!(applied, (0..60).map(payload).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn raft_goes_on_while_many_bytes_are_applied() {
    let cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    let before = cluster.on(leader).status();
    let mut slow = SLOW.to_vec();
    slow.resize(512 << 10, 0);
    let began = Instant::now();
    cluster.on(leader).propose(Bytes::from(slow)).await.unwrap().await.unwrap();
    assert!(began.elapsed() >= SLOW_APPLY);
    let after = cluster.on(leader).status();
    assert_eq!((after.term, after.leader), (before.term, before.leader));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_refuses_proposals_and_names_the_leader() {
    let cluster = Cluster::of(2, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    let follower = 3 - leader;
    let refused = cluster.on(follower).propose(Bytes::from_static(b"x")).await.err().unwrap();
    assert_eq!(refused.leader, Some(ServerId(leader)));
    let refused = cluster.on(follower).committed_membership().await.err().unwrap();
    assert_eq!(
        refused,
        AdminError::NotLeader(keeper_consensus::NotLeader { leader: Some(ServerId(leader)) })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_replaced_long_before_its_lease_ends() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    let mut took_ms = Vec::new();
    for round in 0u64..5 {
        let leader = cluster.wait_leader().await;
        cluster.write(round.to_le_bytes().to_vec()).await;
        // The lease and the election timeout start anew with each heartbeat: at least 1.8 s without the detector.
        tokio::time::sleep(Duration::from_millis(400)).await;
        let before = Instant::now();
        cluster.kill(leader, Loss::Unsynced);
        cluster.write((100 + round).to_le_bytes().to_vec()).await;
        took_ms.push(before.elapsed().as_millis());
        cluster.start(leader).await;
        let last = cluster.write((200 + round).to_le_bytes().to_vec()).await;
        cluster.wait_same(last).await;
    }
    eprintln!("next acknowledged write after a leader's death, ms: {took_ms:?}");
    took_ms.sort_unstable();
    assert!(took_ms[2] < 500, "{took_ms:?}");
}

/// Nothing refuses connections there, so only the timers can tell: lease, then election timeout.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_machine_is_gone_is_replaced_by_the_timers() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    cluster.network.set_silent(&member(leader).peer_address, true);
    let before = Instant::now();
    cluster.kill(leader, Loss::Unsynced);
    cluster.write(Bytes::from_static(b"with two")).await;
    let took = before.elapsed();
    assert!(Duration::from_millis(1000) < took && took < Duration::from_millis(6000), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_without_a_quorum_counts_as_none_until_it_has_one_again() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    let others: Vec<u64> = cluster.running().into_iter().filter(|id| *id != leader).collect();
    others.iter().for_each(|id| cluster.kill(*id, Loss::Unsynced));
    let lost = cluster.wait_status(leader, "the loss of its quorum", |status| status.leader.is_none()).await;
    assert_eq!(lost.role, Role::Candidate);
    assert!(lost.silence >= Duration::from_secs(1), "the silence before counts: {:?}", lost.silence);
    cluster.start(others[0]).await;
    let again = cluster.wait_leader().await;
    assert_eq!(cluster.on(again).status().silence, Duration::ZERO);
    cluster.write(7u64.to_le_bytes().to_vec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_alone_forgets_its_dead_leader() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    let followers: Vec<u64> = cluster.running().into_iter().filter(|id| *id != leader).collect();
    cluster.kill(followers[0], Loss::Unsynced);
    cluster.kill(leader, Loss::Unsynced);
    let lost =
        cluster.wait_status(followers[1], "the end of its leader", |status| status.leader.is_none()).await;
    assert_eq!(lost.role, Role::Candidate);
    cluster.start(leader).await;
    cluster.wait_leader().await;
    cluster.write(7u64.to_le_bytes().to_vec()).await;
}

/// The last batch of a log cannot be told from one that a crash has torn, and is cut off (docs/formats/log.md). What the
/// member had confirmed is gone from it: the leader has to begin with it anew, and must neither panic nor leave it behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_follower_whose_disk_lost_its_last_confirmed_batch_becomes_level_again() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    let follower = cluster.running().into_iter().find(|id| *id != leader).unwrap();
    let mut last = 0;
    for i in 0u64..20 {
        last = cluster.write((i | 0x0101_0101_0101_0100).to_le_bytes().to_vec()).await;
    }
    cluster.wait_same(last).await;
    cluster.kill(follower, Loss::Nothing);
    let disk = &cluster.nodes[&follower].disk;
    let segments = disk.files().into_iter().map(|(name, _)| name).filter(|name| name.starts_with("log-"));
    let written = |name: &String| disk.content(name).unwrap().iter().skip(4096).any(|byte| *byte != 0);
    let used = segments.filter(written).max().unwrap();
    disk.edit(&used, |bytes| {
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[end] ^= 0xff;
    });
    cluster.start(follower).await;
    let next = cluster.write(7u64.to_le_bytes().to_vec()).await;
    cluster.wait_same(next).await;
    assert_eq!(cluster.wait_leader().await, leader, "the leader went on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_cluster_comes_back_from_its_disks() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    for i in 0u64..200 {
        cluster.write(i.to_le_bytes().to_vec()).await;
    }
    let boot = cluster.on(2).identity().unwrap().boot;
    for id in 1..=3 {
        cluster.kill(id, Loss::Unsynced);
    }
    for id in 1..=3 {
        cluster.start(id).await;
    }
    let last = cluster.write(200u64.to_le_bytes().to_vec()).await;
    let same = cluster.wait_same(last).await;
    let numbers: Vec<u64> = same.iter().map(|(_, payload)| number(payload)).collect();
    assert_eq!(numbers, (0..=200).collect::<Vec<_>>());
    let identity = cluster.on(2).identity().unwrap();
    assert_eq!((identity.server_id, identity.cluster_id, identity.boot), (ServerId(2), CLUSTER, boot + 1));
}

/// The leader's disk stalls, its followers commit, it is killed and comes back within its term. If it took up its old
/// term without an election, it would give the log ids its followers hold to other entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_restarted_within_its_term_does_not_reuse_log_ids() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    let before = cluster.write(0u64.to_le_bytes().to_vec()).await;
    cluster.wait_same(before).await;
    let term = cluster.on(leader).status().term;

    cluster.nodes[&leader].disk.hold_syncs(true);
    let mut proposed = Vec::new();
    for i in 1u64..=100 {
        let payload = Bytes::copy_from_slice(&i.to_le_bytes());
        proposed.push(cluster.on(leader).propose(payload).await.unwrap());
    }
    let mut last = 0;
    for done in proposed {
        last = done.await.unwrap();
    }
    let durable = cluster.on(leader).log_stats().durable_index.unwrap_or(0);
    assert!(durable < last, "the leader's disk must be behind its followers'");

    // Not "refused": the others must not elect another leader at once.
    let address = member(leader).peer_address;
    cluster.network.set_silent(&address, true);
    cluster.kill(leader, Loss::Unsynced);
    cluster.nodes[&leader].disk.hold_syncs(false);
    cluster.start(leader).await;
    cluster.network.set_silent(&address, false);
    let back = cluster.wait_status(leader, "its term", |status| status.term > 0).await;
    assert_eq!(back.term, term);

    let last = cluster.write(101u64.to_le_bytes().to_vec()).await;
    let same = cluster.wait_same(last).await;
    let numbers: Vec<u64> = same.iter().map(|(_, payload)| number(payload)).collect();
    assert_eq!(numbers, (0..=101).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fresh_learner_gets_a_snapshot_and_a_restart_loads_it() {
    let setup = Setup { snapshot_log_bytes: 20_000, ..Setup::default() };
    let mut cluster = Cluster::of(1, setup).await;
    let mut payload = vec![7u8; 1000];
    let mut purged = 0;
    let mut i = 0u64;
    while purged == 0 {
        payload[..8].copy_from_slice(&i.to_le_bytes());
        cluster.write(payload.clone()).await;
        i += 1;
        if i.is_multiple_of(100) {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        purged = cluster.on(1).status().purged_index;
        assert!(i < 3_000, "the log is never purged");
    }
    cluster.start(2).await;
    cluster.add(2).await;
    payload[..8].copy_from_slice(&i.to_le_bytes());
    let last = cluster.write(payload.clone()).await;
    let same = cluster.wait_same(last).await;
    assert_eq!(same.len() as u64, i + 1);
    assert!(
        cluster.on(2).status().snapshot_index >= purged,
        "it came by snapshot: the log does not go back so far"
    );
    assert_eq!(cluster.on(2).status().membership.server_id_max, ServerId(2));

    cluster.kill(2, Loss::Unsynced);
    cluster.start(2).await;
    let last = cluster.write(payload).await;
    assert_eq!(cluster.wait_same(last).await.len() as u64, i + 2);

    // Without its snapshots the rest of the log means nothing.
    cluster.kill(2, Loss::Unsynced);
    let disk = cluster.nodes[&2].disk.clone();
    for (name, _) in disk.files().iter().filter(|(name, _)| name.starts_with("snapshot-")) {
        disk.delete(name);
    }
    let refused = cluster.try_start(2, cluster.setup.clone()).await.err();
    assert!(
        matches!(refused, Some(OpenError::Damaged { subject: "the newest snapshot", .. })),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_too_full_for_a_snapshot_does_not_stop_the_member() {
    let setup = Setup { snapshot_log_bytes: 20_000, ..Setup::default() };
    let cluster = Cluster::of(1, setup).await;
    cluster.write(vec![1u8; 10_000]).await;
    let disk = &cluster.nodes[&1].disk;
    disk.fail_next_write("snapshot-", std::io::ErrorKind::StorageFull);
    cluster.write(vec![2u8; 10_000]).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let status = cluster.on(1).status();
    assert_eq!((status.role, status.snapshot_index), (Role::Leader, 0));
    cluster.write(vec![3u8; 10]).await;
    cluster.wait_status(1, "a snapshot, once there is room", |status| status.snapshot_index > 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_restarts_on_a_full_disk() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    let last = cluster.write(Bytes::from_static(b"before")).await;
    cluster.wait_same(last).await;
    let disk = cluster.nodes[&2].disk.clone();
    disk.set_capacity(Some(disk.used_bytes()));
    cluster.kill(2, Loss::Unsynced);
    cluster.start(2).await;
    let last = cluster.write(Bytes::from_static(b"after")).await;
    cluster.wait_same(last).await;
    disk.set_capacity(None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_never_given_out_twice_not_even_after_restarts_and_snapshots() {
    let setup = Setup { snapshot_log_bytes: 1_000, ..Setup::default() };
    let mut cluster = Cluster::of(3, setup).await;
    let leader = cluster.wait_leader().await;
    if leader == 3 {
        cluster.on(leader).transfer_leadership(ServerId(1), none()).await.unwrap();
    }
    let (leader, gone) = (cluster.wait_leader().await, 3);
    let left = cluster.on(leader).remove(ServerId(gone), none()).await.unwrap();
    assert_eq!((left.member(ServerId(gone)), left.server_id_max), (None, ServerId(3)));
    cluster.on(leader).remove(ServerId(gone), none()).await.expect("removing what is gone is OK");
    let reused = cluster.on(leader).add_learner(member(gone), none()).await;
    assert_eq!(reused.err(), Some(AdminError::IdReused { id: ServerId(gone), max: ServerId(3) }));

    cluster.kill(gone, Loss::Unsynced);
    for i in 0u64..50 {
        cluster.write(vec![i as u8; 100]).await;
    }
    for id in cluster.running() {
        cluster.wait_status(id, "a snapshot", |status| status.snapshot_index > 0).await;
    }
    for id in cluster.running() {
        cluster.kill(id, Loss::Unsynced);
        cluster.start(id).await;
    }
    let leader = cluster.wait_leader().await;
    let reused = cluster.on(leader).add_learner(member(gone), none()).await;
    assert_eq!(reused.err(), Some(AdminError::IdReused { id: ServerId(gone), max: ServerId(3) }));
}

#[tokio::test(flavor = "multi_thread")]
async fn membership_calls_check_what_they_expect_and_are_safe_to_repeat() {
    let mut cluster = Cluster::of(2, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    let other = 3 - leader;
    let on = cluster.on(leader);
    let seen = on.committed_membership().await.unwrap();
    let index = seen.log_id.unwrap().index;

    let wrong_leader = Precondition { expected_leader: Some(ServerId(other)), ..none() };
    let refused = on.add_learner(member(3), wrong_leader).await.err();
    let expected = AdminError::PreconditionFailed { what: "the leader", expected: other, actual: leader };
    assert_eq!(refused, Some(expected));
    let stale = Precondition { expected_membership_index: Some(index - 1), ..none() };
    assert!(matches!(on.add_learner(member(3), stale).await, Err(AdminError::PreconditionFailed { .. })));

    cluster.start(3).await;
    let fits =
        Precondition { expected_leader: Some(ServerId(leader)), expected_membership_index: Some(index) };
    let added = on.add_learner(member(3), fits).await.unwrap();
    assert_eq!(added.learners, [member(3)]);
    // The same call again: what it asks for is there, though its precondition no longer holds.
    assert_eq!(on.add_learner(member(3), fits).await.unwrap(), added);
    let moved = Member { peer_address: "elsewhere:1".into(), ..member(3) };
    assert!(matches!(
        on.add_learner(moved, none()).await,
        Err(AdminError::MemberDiffers { field: "peer_address", .. })
    ));

    let promoted = on.promote(ServerId(3), none()).await.unwrap();
    assert_eq!(promoted.voters.len(), 3);
    assert_eq!(on.promote(ServerId(3), none()).await.unwrap(), promoted);
    assert_eq!(on.promote(ServerId(9), none()).await.err(), Some(AdminError::NotMember { id: ServerId(9) }));
    let leads = AdminError::RemovesLeader { id: ServerId(leader) };
    assert_eq!(on.remove(ServerId(leader), none()).await.err(), Some(leads));

    on.transfer_leadership(ServerId(3), none()).await.unwrap();
    assert_eq!(cluster.wait_leader().await, 3);
    cluster.on(3).transfer_leadership(ServerId(3), none()).await.expect("it leads already");
    let shrunk = cluster.on(3).remove(ServerId(leader), none()).await.unwrap();
    assert_eq!(shrunk.voters.len(), 2);
    // The removed one cannot disturb them, though it still believes to be a voter.
    let term = cluster.on(3).status().term;
    tokio::time::sleep(Duration::from_millis(3000)).await;
    assert_eq!((cluster.on(3).status().role, cluster.on(3).status().term), (Role::Leader, term));
    let last = cluster.write(Bytes::from_static(b"after the change")).await;
    eventually("the rest goes on", || cluster.applied(other).last().is_some_and(|(index, _)| *index >= last))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_learner_that_is_not_there_is_not_promoted() {
    let cluster = Cluster::of(1, Setup::default()).await;
    for i in 0u64..100 {
        cluster.write(i.to_le_bytes().to_vec()).await;
    }
    cluster.on(1).add_learner(member(2), none()).await.unwrap();
    let refused = cluster.on(1).promote(ServerId(2), none()).await.err();
    assert!(
        matches!(refused, Some(AdminError::NotCaughtUp { id: ServerId(2), lag }) if lag > 64),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_member_neither_votes_nor_founds_and_bootstrap_is_safe_to_repeat() {
    let mut cluster = Cluster::default();
    cluster.start(1).await;
    let on = cluster.on(1);
    assert_eq!((on.status().role, on.identity()), (Role::Uninitialized, None));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(on.status().role, Role::Uninitialized);
    assert!(on.propose(Bytes::from_static(b"x")).await.is_err());
    assert_eq!(on.add_learner(member(2), none()).await.err(), Some(AdminError::Uninitialized));

    let founded = on.bootstrap(CLUSTER, member(1)).await.unwrap();
    assert_eq!(founded.voters, [member(1)]);
    assert_eq!(on.bootstrap(CLUSTER, member(1)).await.unwrap(), founded);
    let other = ClusterId([9; 16]);
    let refused = on.bootstrap(other, member(1)).await.err();
    assert_eq!(refused, Some(AdminError::OtherCluster { mine: CLUSTER, asked: other }));
    let refused = on.bootstrap(CLUSTER, member(2)).await.err();
    assert_eq!(refused, Some(AdminError::OtherServer { mine: ServerId(1), asked: ServerId(2) }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_of_another_cluster_is_refused_with_both_ids() {
    let mut cluster = Cluster::of(1, Setup::default()).await;
    cluster.kill(1, Loss::Unsynced);
    let other = ClusterId([9; 16]);
    let setup = Setup { expected_cluster: Some(other), ..Setup::default() };
    let refused = cluster.try_start(1, setup).await.err().unwrap();
    assert!(matches!(refused, OpenError::OtherCluster { found: CLUSTER, expected, .. } if expected == other));
    let text = refused.to_string();
    assert!(text.contains(&CLUSTER.to_string()) && text.contains(&other.to_string()), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_its_identity_is_refused() {
    let mut cluster = Cluster::of(1, Setup::default()).await;
    cluster.kill(1, Loss::Unsynced);
    cluster.nodes[&1].disk.delete("identity");
    let refused = cluster.try_start(1, Setup::default()).await.err();
    assert!(matches!(refused, Some(OpenError::Damaged { subject: "the identity", .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_with_another_secret_is_refused_and_counted_on_both_sides() {
    let mut cluster = Cluster::of(1, Setup::default()).await;
    let stranger = Setup { secret: b"another secret".to_vec(), ..Setup::default() };
    cluster.try_start(2, stranger).await.unwrap();
    cluster.on(1).add_learner(member(2), none()).await.unwrap();
    cluster.wait_status(1, "a refusal", |status| status.refusals.wrong_secret > 0).await;
    cluster.wait_status(2, "a refusal", |status| status.refusals.wrong_secret > 0).await;
    assert_eq!(cluster.on(2).status().role, Role::Uninitialized);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_configured_for_another_cluster_does_not_join() {
    let mut cluster = Cluster::of(1, Setup::default()).await;
    let other = Setup { expected_cluster: Some(ClusterId([9; 16])), ..Setup::default() };
    cluster.try_start(2, other).await.unwrap();
    cluster.on(1).add_learner(member(2), none()).await.unwrap();
    cluster.wait_status(2, "a refusal", |status| status.refusals.other_cluster > 0).await;
    cluster.wait_status(1, "a refusal", |status| status.refusals.other_cluster > 0).await;
    assert_eq!(cluster.on(2).status().role, Role::Uninitialized);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voter_with_an_empty_disk_does_not_come_back_under_its_old_id() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    let lost = if leader == 3 { 2 } else { 3 };
    cluster.kill(lost, Loss::Unsynced);
    cluster.nodes.remove(&lost);
    cluster.start(lost).await;
    cluster.wait_status(lost, "a refusal", |status| status.refusals.wrong_server > 0).await;
    let last = cluster.write(Bytes::from_static(b"two are enough")).await;
    eventually("the others go on", || {
        cluster.applied(leader).last().is_some_and(|(index, _)| *index >= last)
    })
    .await;
    assert_eq!(cluster.on(lost).status().role, Role::Uninitialized);
}

#[tokio::test(flavor = "multi_thread")]
async fn dispatch_connections_are_authenticated_and_carry_frames_both_ways() {
    let mut cluster = Cluster::of(2, Setup::default()).await;
    let mut conn = cluster.on(1).dial_dispatch(ServerId(2)).await.unwrap();
    let life = cluster.nodes.get_mut(&2).unwrap().life.as_mut().unwrap();
    let mut accepted = life.dispatch.recv().await.unwrap();
    assert_eq!(accepted.from, ServerId(1));
    conn.sender.send(Bytes::from_static(b"ping")).await.unwrap();
    assert_eq!(accepted.conn.receiver.recv().await.unwrap(), "ping");
    accepted.conn.sender.send(Bytes::from_static(b"pong")).await.unwrap();
    assert_eq!(conn.receiver.recv().await.unwrap(), "pong");
    assert!(cluster.on(1).dial_dispatch(ServerId(7)).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_at_the_peer_port_disturb_nobody() {
    let cluster = Cluster::of(2, Setup::default()).await;
    for garbage in [&b"GET / HTTP/1.1\r\n"[..], &[0u8; 200], &[1u8; 73], &[0x10u8; 40]] {
        let mut conn = cluster.network.dial("stranger:1", &member(1).peer_address).await.unwrap();
        conn.sender.send(Bytes::copy_from_slice(garbage)).await.unwrap();
        while conn.receiver.recv().await.is_some() {}
    }
    cluster.wait_status(1, "a refusal", |status| status.refusals.malformed >= 3).await;
    cluster.write(Bytes::from_static(b"still here")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_shuts_down_cleanly_leaves_a_disk_it_can_start_from() {
    let mut cluster = Cluster::of(3, Setup::default()).await;
    let leader = cluster.wait_leader().await;
    let next = if leader == 1 { 2 } else { 1 };
    cluster.on(leader).transfer_leadership(ServerId(next), none()).await.unwrap();
    cluster.on(leader).shutdown().await;
    cluster.kill(leader, Loss::Unsynced);
    let last = cluster.write(Bytes::from_static(b"without it")).await;
    cluster.start(leader).await;
    cluster.wait_same(last).await;
}

/// A member over loopback TCP, with its files in a folder. Everything of production but the server above.
async fn open_real(id: u64, port: u16, folder: &std::path::Path) -> (tokio::runtime::Runtime, Consensus) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let disk = keeper_log::RealDisk::open(folder.join(id.to_string())).unwrap();
    let options = ConsensusOptions::new(
        disk,
        TcpNetwork::new(([127, 0, 0, 1], port).into()),
        keeper_rt::Pool::of(runtime.handle().clone()),
        Box::new(support::Recorder(support::Applied::default())),
        support::SECRET.to_vec(),
    );
    let (consensus, _) = Consensus::open(options).await.unwrap();
    (runtime, consensus)
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tcp_and_on_real_disks_a_leaders_end_is_noticed_at_once_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let free = |_| std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [1u64, 2, 3].map(free).map(|listener| listener.local_addr().unwrap().port());
    let at = |id: u64| Member {
        id: ServerId(id),
        peer_address: format!("localhost:{}", ports[id as usize - 1]),
        ..Member::default()
    };
    let mut lives = Vec::new();
    for id in 1..=3u64 {
        lives.push(open_real(id, ports[id as usize - 1], folder.path()).await);
    }
    let first = lives[0].1.clone();
    first.bootstrap(CLUSTER, at(1)).await.unwrap();
    for id in 2..=3 {
        first.add_learner(at(id), none()).await.unwrap();
        first.promote(ServerId(id), none()).await.unwrap();
    }
    let committed = first.propose(Bytes::from_static(b"before")).await.unwrap().await.unwrap();
    tokio::time::sleep(Duration::from_millis(700)).await;

    let before = Instant::now();
    let (runtime, _) = lives.remove(0);
    runtime.shutdown_background();
    let next = loop {
        let mut leads = lives.iter().filter(|(_, consensus)| consensus.status().role == Role::Leader);
        if let Some((_, leader)) = leads.next()
            && let Ok(proposed) = leader.propose(Bytes::from_static(b"after")).await
            && let Ok(index) = proposed.await
        {
            break index;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let took_ms = before.elapsed().as_millis();
    eprintln!("over TCP: next acknowledged write after a leader's death: {took_ms} ms");
    assert!(committed < next && took_ms < 1000, "{took_ms} ms");
    for (runtime, consensus) in lives {
        consensus.shutdown().await;
        runtime.shutdown_background();
    }
}
