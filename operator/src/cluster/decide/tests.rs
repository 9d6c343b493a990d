//! Stories as transcripts, each carried out by a small world; and what may never happen, under random misfortune.

use castellan_api::{BootstrapSpec, ImageSpec};
use proptest::prelude::*;

use super::{
    accept::resolve_image,
    world::{Crash, Disk, World},
    *,
};
use crate::kind::Kind;

/// Passes with pods started in between, as one text.
fn transcript(world: &mut World, passes: usize) -> String {
    let mut lines = Vec::new();
    for pass in 1..=passes {
        for said in world.pass(Crash::Never) {
            lines.push(format!("{pass} {said}"));
        }
        world.start_pods();
    }
    lines.join("\n")
}

#[test]
fn a_cluster_is_created_from_nothing_one_step_at_a_time() {
    let mut world = World::new(3);
    assert_eq!(
        transcript(&mut world, 8),
        "\
1 record: next server id 4, bootstrapped false
1 credentials: Create
1 apply: ConfigMap main-config
1 apply: Service main-headless
1 apply: Service main-client
1 apply: NetworkPolicy main
1 apply: PodDisruptionBudget main
1 apply: StatefulSet main-0
1 apply: StatefulSet main-1
1 apply: StatefulSet main-2
1 hold: WaitingForMembers
2 bootstrap: main-0-0 as 1
3 record: next server id 4, bootstrapped true
3 add learner: main-1-0 as 2
4 promote: main-1-0
5 add learner: main-2-0 as 3
6 promote: main-2-0"
    );
    assert_eq!(world.voters(), ["main-0-0", "main-1-0", "main-2-0"]);
}

#[test]
fn a_single_member_needs_no_others() {
    let mut world = World::new(1);
    world.settle();
    assert_eq!(world.voters(), ["main-0-0"]);
    assert!(!world.objects.contains_key(&(Kind::PodDisruptionBudget, "main".into())));
}

#[test]
fn the_seed_is_bootstrapped_before_the_others_run() {
    let mut world = World::new(3);
    world.pass(Crash::Never);
    world.start_pods();
    for ordinal in [1, 2] {
        world.pods.get_mut(&ordinal).unwrap().running = false;
    }
    assert_eq!(world.pass(Crash::Never), ["bootstrap: main-0-0 as 1"]);
}

#[test]
fn an_operator_killed_after_any_step_of_any_pass_leaves_a_cluster_that_the_next_one_completes() {
    for crash in
        [Crash::BeforeAll, Crash::AfterRecord, Crash::AfterCredentials, Crash::AfterObjects, Crash::AfterStep]
    {
        for crashed_pass in 0..8 {
            let mut world = World::new(3);
            for pass in 0..8 {
                world.pass(if pass == crashed_pass { crash } else { Crash::Never });
                world.start_pods();
            }
            world.settle();
            assert_eq!(world.foundings, 1, "{crash:?} in pass {crashed_pass}");
            assert_eq!(world.voters().len(), 3, "{crash:?} in pass {crashed_pass}");
        }
    }
}

#[test]
fn a_member_that_does_not_answer_is_waited_for_and_the_others_join() {
    let mut world = World::new(3);
    world.pass(Crash::Never);
    world.start_pods();
    world.unreachable.insert(1);
    for _ in 0..8 {
        world.pass(Crash::Never);
    }
    assert_eq!(world.voters(), ["main-0-0", "main-2-0"]);
    assert_eq!(
        world.plan().hold,
        Some(Hold::WaitingForMembers { members: vec!["main-1-0".into()], trouble: None })
    );
    world.unreachable.clear();
    world.settle();
    // Its reserved id 2 can no longer be used, since 3 was given out.
    assert_eq!(world.ids_used[&4], "main-1-0");
}

#[test]
fn an_unreachable_seed_never_makes_another_member_the_founder() {
    let mut world = World::new(3);
    world.pass(Crash::Never);
    world.start_pods();
    world.unreachable.insert(0);
    for _ in 0..5 {
        assert_eq!(world.pass(Crash::Never), ["hold: WaitingForMembers"]);
    }
    assert_eq!(world.foundings, 0);
}

#[test]
fn a_seed_that_lost_its_disk_is_not_bootstrapped_again() {
    let mut world = World::new(3);
    world.settle();
    world.disks.insert(0, Disk::default());
    let plan = world.plan();
    assert_eq!(plan.step, None);
    assert_eq!(plan.hold, Some(Hold::DataLoss { member: "main-0-0".into() }));
    // Nor when no other member can be asked.
    world.unreachable.extend([1, 2]);
    let plan = world.plan();
    assert_eq!(plan.step, None);
    assert!(matches!(plan.hold, Some(Hold::NoLeader { .. })), "{:?}", plan.hold);
}

#[test]
fn a_volume_of_another_cluster_stops_everything_and_names_both() {
    let mut world = World::new(3);
    world.pass(Crash::Never);
    world.start_pods();
    world.disks.insert(2, Disk { cluster_id: Some("f".repeat(32)), server_id: 7 });
    let plan = world.plan();
    assert_eq!(plan.step, None);
    let ours = world.cluster.status.as_ref().unwrap().cluster_id.clone().unwrap();
    let hold = Hold::OtherCluster { member: "main-2-0".into(), theirs: "f".repeat(32), ours };
    assert_eq!(plan.hold, Some(hold));
}

#[test]
fn volumes_left_behind_stop_the_creation_before_anything_is_written() {
    let mut old = World::new(3);
    old.settle();
    let mut world = World::new(3);
    world.claims = old.claims.clone();
    let plan = world.plan();
    assert_eq!((plan.record, plan.render, plan.step), (None, None, None));
    let claims = vec!["data-main-0-0".into(), "data-main-1-0".into(), "data-main-2-0".into()];
    assert_eq!(plan.hold, Some(Hold::ExistingData { claims, problem: None }));
}

#[test]
fn adopted_volumes_bring_their_cluster_back_without_a_founding() {
    let mut old = World::new(3);
    old.settle();
    let mut world = World::new(3);
    world.cluster.spec.bootstrap = Some(BootstrapSpec { adopt_existing: Some(true) });
    world.claims = old.claims.clone();
    world.disks = old.disks.clone();
    world.configurations = old.configurations.clone();
    world.ids_used = old.ids_used.clone();
    world.settle();
    let (new, before) = (world.cluster.status.unwrap(), old.cluster.status.unwrap());
    assert_eq!(new.cluster_id, before.cluster_id);
    assert_eq!((new.next_server_id, world.foundings), (Some(4), 0));
}

#[test]
fn volumes_of_a_larger_or_mixed_cluster_are_not_adopted() {
    let mut old = World::new(3);
    old.settle();
    let mut world = World::new(1);
    world.cluster.spec.bootstrap = Some(BootstrapSpec { adopt_existing: Some(true) });
    world.claims = old.claims.clone();
    let Some(Hold::ExistingData { problem: Some(problem), .. }) = world.plan().hold else {
        panic!("adopted")
    };
    assert_eq!(problem, "data-main-1-0 belongs to a larger cluster: write at least 2 replicas");
    world.cluster.spec.replicas = 3;
    world.claims.get_mut(&1).unwrap().cluster_id = Some("e".repeat(32));
    let Some(Hold::ExistingData { problem: Some(problem), .. }) = world.plan().hold else {
        panic!("adopted")
    };
    assert_eq!(problem, "the volumes hold the data of different clusters");
}

#[test]
fn a_lost_status_is_made_again_from_what_is_there() {
    let mut world = World::new(3);
    world.settle();
    let before = world.cluster.status.take().unwrap();
    world.settle();
    let after = world.cluster.status.clone().unwrap();
    assert_eq!((after.cluster_id, after.next_server_id), (before.cluster_id, before.next_server_id));
    assert_eq!(world.foundings, 1);
}

#[test]
fn names_of_others_stop_the_creation() {
    let mut world = World::new(3);
    world.foreign = vec![(Kind::Service, "main-client".into())];
    let plan = world.plan();
    assert_eq!((plan.record, plan.render), (None, None));
    assert_eq!(plan.hold, Some(Hold::NameTaken(vec!["Service main-client".into()])));
}

#[test]
fn deleted_objects_come_back_as_they_were_and_nothing_else_is_written() {
    let mut world = World::new(3);
    world.settle();
    assert_eq!(world.pass(Crash::Never), Vec::<String>::new());
    for key in [
        (Kind::ConfigMap, "main-config".to_owned()),
        (Kind::Service, "main-client".into()),
        (Kind::StatefulSet, "main-1".into()),
        (Kind::PodDisruptionBudget, "main".into()),
    ] {
        let before = world.objects.remove(&key).unwrap();
        assert_eq!(world.pass(Crash::Never), [format!("apply: {} {}", key.0.name(), key.1)]);
        assert_eq!(world.objects[&key], before);
    }
}

#[test]
fn a_deleted_pod_needs_no_step() {
    let mut world = World::new(3);
    world.settle();
    world.pods.remove(&0);
    assert_eq!(world.pass(Crash::Never), Vec::<String>::new());
    world.settle();
    assert_eq!((world.foundings, world.ids_used.len()), (1, 3));
}

#[test]
fn changes_that_touch_running_members_are_refused_and_render_nothing_new() {
    let mut world = World::new(3);
    world.settle();
    world.cluster.metadata.generation = Some(2);
    world.cluster.spec.replicas = 5;
    world.cluster.spec.image = Some(ImageSpec { tag: Some("9".into()), ..ImageSpec::default() });
    let plan = world.plan();
    let fields: Vec<_> = plan.refused.iter().map(|refusal| refusal.field).collect();
    assert_eq!(fields, ["replicas", "image"]);
    assert_eq!((plan.refused[0].running.as_str(), plan.refused[0].wanted.as_str()), ("3", "5"));
    assert_eq!(world.pass(Crash::Never), Vec::<String>::new());
    // A new default image of a newer operator is no change of the cluster either.
    let plan = decide(&world.cluster, &world.observe(), &Defaults { image: "keeper:2".into() }, "");
    assert_eq!(plan.render.unwrap().image, "keeper:1");
}

#[test]
fn what_touches_no_pod_may_change_at_any_time() {
    let mut world = World::new(3);
    world.settle();
    world.cluster.spec.network_policy = Some(castellan_api::NetworkPolicySpec { enabled: Some(false) });
    world.cluster.spec.service = Some(castellan_api::ServiceSpec {
        type_: Some(castellan_api::ServiceType::NodePort),
        ..Default::default()
    });
    let plan = world.plan();
    assert_eq!(plan.refused, []);
    assert_eq!(world.pass(Crash::Never), ["apply: Service main-client"]);
}

#[test]
fn a_paused_cluster_is_left_alone() {
    let mut world = World::new(3);
    world.cluster.spec.paused = Some(true);
    assert_eq!(world.plan(), Plan { hold: Some(Hold::Paused), ..Plan::default() });
}

#[test]
fn lost_credentials_are_made_anew_only_when_no_member_runs_with_the_old_ones() {
    let mut world = World::new(3);
    world.settle();
    world.has_secret = false;
    let plan = world.plan();
    assert_eq!((plan.credentials, plan.hold), (CredentialsAction::Keep, Some(Hold::CredentialsLost)));
    world.pods.values_mut().for_each(|pod| pod.running = false);
    assert_eq!(world.plan().credentials, CredentialsAction::Create);
}

#[test]
fn a_learner_that_is_far_behind_is_not_promoted() {
    let mut world = World::new(3);
    world.lag = PROMOTE_LAG_ENTRIES_MAX + 1;
    for _ in 0..8 {
        world.pass(Crash::Never);
        world.start_pods();
    }
    assert_eq!(world.voters(), ["main-0-0"]);
    assert_eq!(world.plan().hold, Some(Hold::CatchingUp { member: "main-1-0".into() }));
}

#[test]
fn images_are_resolved_from_what_is_given() {
    let resolve = |image: Option<ImageSpec>, default: &str| {
        let mut world = World::new(1);
        world.cluster.spec.image = image;
        resolve_image(&world.cluster.spec, default)
    };
    let tag = |tag: &str| Some(ImageSpec { tag: Some(tag.into()), ..ImageSpec::default() });
    let repository = |name: &str| Some(ImageSpec { repository: Some(name.into()), ..ImageSpec::default() });
    assert_eq!(resolve(None, "a.b:5000/keeper:1"), "a.b:5000/keeper:1");
    assert_eq!(resolve(tag("2"), "a.b:5000/keeper:1"), "a.b:5000/keeper:2");
    assert_eq!(resolve(tag("2"), "a.b:5000/keeper"), "a.b:5000/keeper:2");
    assert_eq!(resolve(repository("c/d"), "a.b:5000/keeper:1"), "c/d:1");
    let digest = format!("sha256:{}", "0".repeat(64));
    let image = Some(ImageSpec { digest: Some(digest.clone()), ..ImageSpec::default() });
    assert_eq!(resolve(image, "keeper:1"), format!("keeper@{digest}"));
    assert_eq!(resolve(tag("2"), &format!("keeper@{digest}")), "keeper:2");
}

/// One misfortune or one pass.
#[derive(Clone, Debug)]
enum Happening {
    Pass(u8),
    StartPods,
    PodGone(u32),
    Unreachable(u32),
    ReachableAgain,
    DiskLost(u32),
    /// Another operator makes a plan and is stopped before it acts.
    MakePlan,
    /// It goes on, on what it knew then.
    CarryOutPlan,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        8 => (0_u8..6).prop_map(Happening::Pass),
        6 => Just(Happening::StartPods),
        2 => (0_u32..5).prop_map(Happening::PodGone),
        2 => (0_u32..5).prop_map(Happening::Unreachable),
        2 => Just(Happening::ReachableAgain),
        1 => (0_u32..5).prop_map(Happening::DiskLost),
        2 => Just(Happening::MakePlan),
        2 => Just(Happening::CarryOutPlan),
    ];
    proptest::collection::vec(one, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// The world itself refuses a server id given out twice and a second founder beside other members.
    #[test]
    fn there_are_never_two_founders_and_every_history_without_a_lost_disk_ends_in_a_whole_cluster(
        replicas in prop_oneof![Just(1), Just(3), Just(5)],
        happenings in happenings(),
    ) {
        const CRASHES: [Crash; 6] = [Crash::BeforeAll, Crash::AfterRecord, Crash::AfterCredentials,
            Crash::AfterObjects, Crash::AfterStep, Crash::Never];
        let mut world = World::new(replicas);
        let mut held = Vec::new();
        let mut lost = false;
        for happening in happenings {
            match happening {
                Happening::Pass(crash) => {
                    world.pass(CRASHES[usize::from(crash)]);
                }
                Happening::StartPods => world.start_pods(),
                Happening::PodGone(ordinal) => {
                    world.pods.remove(&ordinal);
                }
                Happening::Unreachable(ordinal) => {
                    world.unreachable.insert(ordinal);
                }
                Happening::ReachableAgain => world.unreachable.clear(),
                Happening::DiskLost(ordinal) => {
                    if let Some(disk) = world.disks.get_mut(&ordinal) {
                        lost |= disk.cluster_id.is_some();
                        *disk = Disk::default();
                    }
                }
                Happening::MakePlan => held.push(world.hold()),
                Happening::CarryOutPlan => {
                    if let Some(plan) = held.pop() {
                        world.execute(&plan, Crash::Never);
                    }
                }
            }
            prop_assert!(world.foundings <= 1);
            prop_assert!(world.configurations.len() <= 1);
        }
        if !lost {
            world.unreachable.clear();
            world.settle();
            prop_assert_eq!(world.foundings, 1);
            prop_assert_eq!(world.voters().len(), usize::try_from(replicas).unwrap());
        }
    }
}
