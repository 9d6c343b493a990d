//! A small world that carries plans out: Kubernetes, members with disks, and a configuration that only a leader changes.
//! Counts what may never happen twice. Used by the tests of `decide` and `report`.

use std::collections::{BTreeMap, BTreeSet};

use castellan_api::{KeeperCluster, KeeperClusterSpec, MemberRole};
use serde_json::{Value, json};

use crate::{
    cluster::{
        apply::{changed, may_found, with_record},
        build::{Surroundings, build},
        decide::{CredentialsAction, Defaults, Plan, Step, decide},
        names::{CLUSTER_ID_LABEL, Names},
        observe::{Claim, Credentials, Observed, PodView},
    },
    kind::Kind,
    member::{AdminError, Committed, MemberEntry, MemberView},
};

/// Where a pass is cut off, as if the operator's process had been killed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crash {
    BeforeAll,
    AfterRecord,
    AfterCredentials,
    AfterObjects,
    AfterStep,
    Never,
}

/// A member's disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disk {
    pub cluster_id: Option<String>,
    pub server_id: u64,
}

pub struct World {
    pub cluster: KeeperCluster,
    pub objects: BTreeMap<(Kind, String), Value>,
    pub foreign: Vec<(Kind, String)>,
    pub claims: BTreeMap<u32, Claim>,
    pub pods: BTreeMap<u32, PodView>,
    pub disks: BTreeMap<u32, Disk>,
    pub has_secret: bool,
    pub unreachable: BTreeSet<u32>,
    /// The committed configuration of each cluster that was founded: more than one is the worst that can happen.
    pub configurations: BTreeMap<String, Committed>,
    pub foundings: u32,
    /// Every server id that ever entered a configuration, with the member it belongs to.
    pub ids_used: BTreeMap<u64, String>,
    passes: u32,
    pub lag: u64,
    /// Counts the writes of the status, as the resource version does.
    version: u64,
}

/// A plan as an operator holds it, with what it was made from.
pub struct Held {
    plan: Plan,
    observed: Observed,
    version: u64,
}

impl World {
    pub fn new(replicas: i32) -> World {
        let spec: KeeperClusterSpec =
            serde_json::from_value(json!({"replicas": replicas, "storage": {"size": "1Gi"}})).unwrap();
        let mut cluster = KeeperCluster::new("main", spec);
        cluster.metadata.namespace = Some("prod".into());
        cluster.metadata.uid = Some("uid-1".into());
        cluster.metadata.generation = Some(1);
        World {
            cluster,
            objects: BTreeMap::new(),
            foreign: Vec::new(),
            claims: BTreeMap::new(),
            pods: BTreeMap::new(),
            disks: BTreeMap::new(),
            has_secret: false,
            unreachable: BTreeSet::new(),
            configurations: BTreeMap::new(),
            foundings: 0,
            ids_used: BTreeMap::new(),
            passes: 0,
            lag: 0,
            version: 0,
        }
    }

    pub fn names(&self) -> Names {
        Names::of(&self.cluster)
    }

    fn configuration(&self) -> Option<&Committed> {
        self.configurations.values().next()
    }

    fn ordinal(&self, name: &str) -> u32 {
        self.names().ordinal_of_pod(name).expect("a member of ours")
    }

    /// The voter with the lowest ordinal whose process runs, if a majority of the voters runs.
    fn leader(&self) -> Option<u32> {
        let configuration = self.configuration()?;
        let running: Vec<u32> = configuration
            .voters
            .iter()
            .map(|voter| self.ordinal(&voter.name))
            .filter(|ordinal| self.runs(*ordinal) && self.disks[ordinal].cluster_id.is_some())
            .collect();
        (running.len() * 2 > configuration.voters.len()).then(|| running.into_iter().min()).flatten()
    }

    fn runs(&self, ordinal: u32) -> bool {
        self.pods.get(&ordinal).is_some_and(|pod| pod.running)
    }

    pub fn observe(&self) -> Observed {
        let mut observed = Observed {
            objects: self.objects.clone(),
            foreign: self.foreign.clone(),
            claims: self.claims.clone(),
            pods: self.pods.clone(),
            ..Observed::default()
        };
        if !self.has_secret {
            return observed;
        }
        observed.credentials = Credentials::Present { admin_token: "token".into() };
        let leader = self.leader();
        for ordinal in self.pods.keys().copied().filter(|ordinal| self.runs(*ordinal)) {
            let answer = if self.unreachable.contains(&ordinal) {
                Err(AdminError::Call("no answer".into()))
            } else {
                Ok(self.view(ordinal, leader))
            };
            observed.members.insert(ordinal, answer);
        }
        if leader.is_some_and(|leader| !self.unreachable.contains(&leader)) {
            observed.committed = self.configuration().map(|configuration| Committed {
                leader_id: leader.map_or(0, |leader| self.disks[&leader].server_id),
                ..configuration.clone()
            });
        }
        observed
    }

    fn view(&self, ordinal: u32, leader: Option<u32>) -> MemberView {
        let disk = &self.disks[&ordinal];
        let name = self.names().pod(ordinal);
        let configuration = self.configuration();
        let role = match (&disk.cluster_id, leader == Some(ordinal)) {
            (None, _) => MemberRole::Uninitialized,
            (Some(_), true) => MemberRole::Leader,
            (Some(_), false) if configuration.is_some_and(|c| c.voter(&name).is_some()) => {
                MemberRole::Follower
            }
            (Some(_), false) => MemberRole::Learner,
        };
        let peers = configuration.into_iter().flat_map(|c| c.voters.iter().chain(&c.learners));
        MemberView {
            server_id: disk.server_id,
            cluster_id: disk.cluster_id.clone(),
            role,
            term: 1,
            leader_id: leader.map(|leader| self.disks[&leader].server_id),
            ready: disk.cluster_id.is_some() && leader.is_some(),
            version: "0.1.0".into(),
            lag: if leader == Some(ordinal) {
                peers.map(|peer| (peer.server_id, self.lag)).collect()
            } else {
                Vec::new()
            },
            ..MemberView::default()
        }
    }

    pub fn plan(&mut self) -> Plan {
        self.passes += 1;
        let fresh = format!("{:032x}", self.passes);
        decide(&self.cluster, &self.observe(), &Defaults { image: "keeper:1".into() }, &fresh)
    }

    /// One pass of the operator, cut off at `crash`. Returns what it did, in words.
    pub fn pass(&mut self, crash: Crash) -> Vec<String> {
        let held = self.hold();
        self.execute(&held, crash)
    }

    /// A plan to be carried out later, as by an operator that was stopped in between.
    pub fn hold(&mut self) -> Held {
        Held { observed: self.observe(), plan: self.plan(), version: self.version }
    }

    pub fn execute(&mut self, held: &Held, crash: Crash) -> Vec<String> {
        let Held { plan, observed, version } = held;
        let mut said = Vec::new();
        if crash == Crash::BeforeAll {
            return said;
        }
        if let Some(record) = &plan.record {
            if *version != self.version {
                return vec!["conflict".into()];
            }
            self.version += 1;
            let status = self.cluster.status.clone().unwrap_or_default();
            self.cluster.status = Some(with_record(status, &self.names(), record));
            said.push(format!(
                "record: next server id {}, bootstrapped {}",
                record.next_server_id, record.bootstrapped
            ));
        }
        if crash == Crash::AfterRecord {
            return said;
        }
        if plan.credentials != CredentialsAction::Keep {
            self.has_secret = true;
            said.push(format!("credentials: {:?}", plan.credentials));
        }
        if crash == Crash::AfterCredentials {
            return said;
        }
        if let Some(render) = &plan.render {
            let surroundings = Surroundings { operator_namespace: "castellan-system".into() };
            let wanted = build(&self.cluster, render, &surroundings);
            for object in changed(&wanted, observed) {
                said.push(format!("apply: {} {}", object.kind.name(), object.name));
                self.objects.insert((object.kind, object.name.clone()), object.value.clone());
            }
        }
        if crash == Crash::AfterObjects {
            return said;
        }
        if let Some(step) = &plan.step {
            said.push(self.take(step));
        }
        if let Some(hold) = &plan.hold {
            said.push(format!("hold: {}", crate::cluster::report::reason(hold)));
        }
        said
    }

    /// What a member and its cluster would do.
    fn take(&mut self, step: &Step) -> String {
        match step {
            Step::Bootstrap { ordinal, cluster_id, member } => self.bootstrap(*ordinal, cluster_id, member),
            Step::AddLearner { member, precondition, .. } => {
                let ordinal = self.ordinal(&member.name);
                let Some((cluster_id, configuration)) = self.configurations.iter_mut().next() else {
                    return "refused".into();
                };
                let is_used = member.server_id <= configuration.server_id_max;
                if precondition.membership_index != configuration.index || is_used {
                    return "refused".into();
                }
                configuration.index += 1;
                configuration.learners.push(member.clone());
                configuration.server_id_max = member.server_id;
                let disk = Disk { cluster_id: Some(cluster_id.clone()), server_id: member.server_id };
                self.disks.insert(ordinal, disk);
                self.use_id(member);
                format!("add learner: {} as {}", member.name, member.server_id)
            }
            Step::Promote { server_id, name, precondition, .. } => {
                let configuration = self.configurations.values_mut().next().expect("a founded cluster");
                let at = configuration.learners.iter().position(|learner| learner.server_id == *server_id);
                let Some(at) = at.filter(|_| precondition.membership_index == configuration.index) else {
                    return "refused".into();
                };
                let learner = configuration.learners.remove(at);
                assert_eq!(&learner.name, name);
                configuration.index += 1;
                configuration.voters.push(learner);
                format!("promote: {name}")
            }
        }
    }

    fn bootstrap(&mut self, ordinal: u32, cluster_id: &str, member: &MemberEntry) -> String {
        let status = self.cluster.status.clone().unwrap_or_default();
        let disk = self.disks.get_mut(&ordinal).expect("a member that ran once");
        if !may_found(&status, cluster_id) || disk.cluster_id.is_some() {
            return "refused".into();
        }
        *disk = Disk { cluster_id: Some(cluster_id.to_owned()), server_id: member.server_id };
        if let Some(before) = self.configurations.remove(cluster_id) {
            // The only member lost its disk before anybody joined it: there is nothing to be split from.
            assert_eq!(
                (before.voters.len(), before.learners.len()),
                (1, 0),
                "a second founder beside members"
            );
            self.ids_used.clear();
            self.foundings -= 1;
        }
        self.foundings += 1;
        self.use_id(member);
        let configuration = Committed {
            index: 1,
            voters: vec![member.clone()],
            server_id_max: member.server_id,
            ..Committed::default()
        };
        self.configurations.insert(cluster_id.to_owned(), configuration);
        format!("bootstrap: {} as {}", member.name, member.server_id)
    }

    fn use_id(&mut self, member: &MemberEntry) {
        let before = self.ids_used.insert(member.server_id, member.name.clone());
        assert_eq!(before, None, "server id {} was given out twice", member.server_id);
    }

    /// Kubernetes' controllers: a pod and a claim for each StatefulSet.
    pub fn start_pods(&mut self) {
        let names = self.names();
        for ordinal in 0..9 {
            let Some(set) = self.objects.get(&(Kind::StatefulSet, names.stateful_set(ordinal))) else {
                continue;
            };
            let label = set
                .pointer("/spec/volumeClaimTemplates/0/metadata/labels")
                .and_then(|l| l.get(CLUSTER_ID_LABEL));
            let cluster_id = label.and_then(Value::as_str).map(str::to_owned);
            self.claims.entry(ordinal).or_insert(Claim {
                name: names.claim(ordinal),
                cluster_id,
                ..Claim::default()
            });
            self.disks.entry(ordinal).or_default();
            let pod = PodView {
                uid: format!("pod-{ordinal}"),
                ip: Some(format!("10.0.0.{ordinal}")),
                running: self.has_secret,
                ..PodView::default()
            };
            self.pods.insert(ordinal, pod);
        }
    }

    pub fn voters(&self) -> Vec<&str> {
        self.configuration().map(|c| c.voters.iter().map(|v| v.name.as_str()).collect()).unwrap_or_default()
    }

    /// Passes until nothing is done any more, with all pods running.
    pub fn settle(&mut self) {
        for _ in 0..60 {
            self.start_pods();
            let said = self.pass(Crash::Never);
            if said.is_empty() {
                return;
            }
        }
        panic!("does not settle: {:?}", self.pass(Crash::Never));
    }
}
