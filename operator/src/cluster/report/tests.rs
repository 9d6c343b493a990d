//! What people see, at each turn of a cluster's life.

use super::*;
use crate::cluster::decide::world::{Crash, Disk, World};

/// One pass and the status after it, as the controller does it.
fn pass(world: &mut World, second: i64) -> KeeperClusterStatus {
    let status = now(world, second);
    world.pass(Crash::Never);
    // Facts of the record stay; the rest is replaced.
    world.cluster.status = Some(now(world, second));
    status
}

fn whole(replicas: i32) -> World {
    let mut world = World::new(replicas);
    for second in 0..12 {
        pass(&mut world, second);
        world.start_pods();
    }
    world
}

fn now(world: &mut World, second: i64) -> KeeperClusterStatus {
    let (observed, plan) = (world.observe(), world.plan());
    report(&world.cluster, &plan, &observed, None, Timestamp::from_second(second).unwrap())
}

fn condition<'a>(status: &'a KeeperClusterStatus, kind: &str) -> (&'a str, &'a str, &'a str) {
    let found =
        status.conditions.iter().find(|condition| condition.type_ == kind).expect("a condition of ours");
    (&found.status, &found.reason, &found.message)
}

#[test]
fn the_phase_tells_how_far_the_creation_is() {
    let mut world = World::new(3);
    let mut phases: Vec<String> = Vec::new();
    for second in 0..12 {
        let phase = pass(&mut world, second).phase.unwrap();
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
        world.start_pods();
    }
    assert_eq!(
        phases,
        ["Creating: 0 of 3 voters", "Creating: 1 of 3 voters", "Creating: 2 of 3 voters", "Ready"]
    );
}

#[test]
fn a_ready_cluster_shows_its_members_and_every_condition_names_the_generation() {
    let mut world = whole(3);
    let status = now(&mut world, 100);
    assert_eq!(condition(&status, "Ready"), ("True", "ClusterReady", "3 of 3 members serve clients"));
    assert_eq!(condition(&status, "Stalled").0, "False");
    assert_eq!(condition(&status, "Reconciling").0, "False");
    assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(1)));
    assert_eq!((status.voters, status.ready_replicas, status.replicas), (3, 3, 3));
    assert_eq!(status.leader.as_deref(), Some("main-0-0"));
    assert_eq!(status.version.as_deref(), Some("0.1.0"));
    let ids: Vec<_> = status.members.iter().map(|member| member.server_id).collect();
    assert_eq!(ids, [Some(1), Some(2), Some(3)]);
    assert_eq!(status.endpoints.unwrap().client, "main-client.prod.svc.cluster.local:2181");
}

#[test]
fn the_status_of_a_quiet_cluster_never_changes() {
    let mut world = whole(3);
    assert_eq!(Some(now(&mut world, 1_000)), world.cluster.status);
    // Nor under load, while members are a little behind.
    world.lag = 900;
    assert_eq!(Some(now(&mut world, 2_000)), world.cluster.status);
}

#[test]
fn a_transition_has_the_time_at_which_it_happened() {
    let mut world = whole(3);
    let since = |status: &KeeperClusterStatus, kind: &str| {
        let found = status.conditions.iter().find(|condition| condition.type_ == kind).unwrap();
        found.last_transition_time.0.as_second()
    };
    let before = since(world.cluster.status.as_ref().unwrap(), "Ready");
    world.unreachable.insert(2);
    let status = now(&mut world, 500);
    assert_eq!(since(&status, "Healthy"), 500);
    assert_eq!(since(&status, "Ready"), before);
}

#[test]
fn one_member_down_is_degraded_and_still_ready() {
    let mut world = whole(3);
    world.pods.remove(&2);
    let status = now(&mut world, 100);
    assert_eq!(status.phase.as_deref(), Some("Degraded: 2 of 3 members ready"));
    assert_eq!(condition(&status, "Ready"), ("True", "ClusterReady", "2 of 3 members serve clients"));
    assert_eq!(condition(&status, "Healthy").2, "not ready: main-2-0 (it has no pod)");
}

#[test]
fn no_quorum_is_not_ready_and_says_who_is_missing() {
    let mut world = whole(3);
    world.pods.remove(&1);
    world.pods.remove(&2);
    let status = now(&mut world, 100);
    assert_eq!(status.phase.as_deref(), Some("Unavailable: NoLeader"));
    assert_eq!(
        condition(&status, "QuorumAvailable"),
        ("False", "NoLeader", "no member leads, and main-1-0, main-2-0 cannot be asked")
    );
    // What was last known of the configuration stays.
    assert_eq!(status.voters, 3);
}

#[test]
fn members_that_nobody_can_ask_are_unknown_which_is_not_the_same_as_bad() {
    let mut world = whole(3);
    world.unreachable.extend([0, 1, 2]);
    let status = now(&mut world, 100);
    assert_eq!(condition(&status, "Ready").0, "Unknown");
    assert_eq!(condition(&status, "QuorumAvailable").1, "MembersUnreachable");
    assert!(status.members.iter().all(|member| member.role == MemberRole::Unknown));
}

#[test]
fn a_refused_change_stalls_without_hurting_readiness_and_says_what_to_undo() {
    let mut world = whole(3);
    world.cluster.metadata.generation = Some(2);
    world.cluster.spec.replicas = 5;
    let status = now(&mut world, 100);
    assert_eq!(status.phase.as_deref(), Some("Ready: change refused"));
    assert_eq!(condition(&status, "Ready").0, "True");
    assert_eq!(condition(&status, "Stalled").1, "ChangeRefused");
    assert_eq!(condition(&status, "ClusterSizeAligned").2, "spec.replicas was changed from 3 to 5");
    assert!(condition(&status, "ConfigurationInSync").2.contains("runs as it was created"));
    assert_eq!(status.observed_generation, Some(2));
}

#[test]
fn a_lost_disk_is_told_apart_from_a_member_that_starts() {
    let mut world = whole(3);
    world.disks.insert(2, Disk::default());
    let status = now(&mut world, 100);
    assert_eq!(status.phase.as_deref(), Some("Degraded: MemberDataLoss"));
    assert_eq!(condition(&status, "Stalled").1, "MemberDataLoss");
}

#[test]
fn a_pod_that_cannot_start_shows_why() {
    let mut world = World::new(3);
    pass(&mut world, 0);
    world.start_pods();
    for pod in world.pods.values_mut() {
        pod.running = false;
        pod.trouble = Some("ImagePullBackOff: no such image".into());
    }
    let status = now(&mut world, 1);
    assert_eq!(status.phase.as_deref(), Some("Creating: main-0-0: ImagePullBackOff: no such image"));
    assert_eq!(condition(&status, "ReplicaStartupSucceeded").1, "ReplicaError");
}

#[test]
fn a_failed_step_is_told() {
    let mut world = whole(3);
    let (observed, plan) = (world.observe(), world.plan());
    let error = "cannot apply Service main-client: quota exceeded";
    let status = report(&world.cluster, &plan, &observed, Some(error), Timestamp::from_second(9).unwrap());
    assert_eq!(condition(&status, "ReconcileSucceeded"), ("False", "ReconcileStepFailed", error));
    assert_eq!(condition(&status, "Ready").0, "True");
}

#[test]
fn lag_changes_only_by_its_first_digit() {
    assert_eq!([0, 999, 1_000, 1_999, 41_999].map(rounded), [0, 0, 1_000, 1_000, 40_000]);
}
