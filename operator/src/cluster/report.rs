//! Says what holds: the status of the cluster, computed anew at each pass. Pure.
//!
//! Messages hold nothing that changes by itself, so that the status of a quiet cluster is never written.

mod words;

use castellan_api::{
    EndpointsStatus, KeeperCluster, KeeperClusterStatus, MemberEndpoint, MemberRole, MemberStatus,
};
use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};

pub use words::reason;
use words::{message, refusal_text};

use super::{
    apply::with_record,
    decide::{Hold, Plan},
    names::{Names, ORDINALS_MAX},
    observe::Observed,
};
use crate::{kind::Kind, limits::MESSAGE_CHARS_MAX};

/// The status after a pass. `error` is what could not be done in it.
pub fn report(
    cluster: &KeeperCluster,
    plan: &Plan,
    observed: &Observed,
    error: Option<&str>,
    now: Timestamp,
) -> KeeperClusterStatus {
    let names = Names::of(cluster);
    let before = cluster.status.clone().unwrap_or_default();
    let mut status = match &plan.record {
        Some(record) => with_record(before.clone(), &names, record),
        None => before.clone(),
    };
    let accepted = status.accepted.as_ref();
    let replicas = accepted.map_or(cluster.spec.replicas, |accepted| accepted.spec.replicas);
    let replicas = u32::try_from(replicas).unwrap_or(0).min(ORDINALS_MAX);
    status.observed_generation = cluster.metadata.generation;
    status.selector = Some(names.selector_text());
    status.members = members(&names, replicas, &status, observed);
    status.replicas = count(observed.objects.keys().filter(|(kind, _)| *kind == Kind::StatefulSet).count());
    status.ready_replicas = count(status.members.iter().filter(|member| member.ready).count());
    status.leader = observed.leader().map(|ordinal| names.pod(ordinal));
    if let Some(committed) = &observed.committed {
        status.voters = count(committed.voters.len());
        status.learners = count(committed.learners.len());
    }
    if let Some(version) = lowest_version(&status.members) {
        status.version = Some(version);
    }
    status.endpoints = accepted.is_some().then(|| endpoints(&names, replicas));
    let facts = Facts { plan, observed, status: &status, replicas: count(replicas as usize), error };
    let conditions = facts.conditions();
    let phase = facts.phase();
    status.phase = Some(phase);
    status.conditions = stamped(conditions, &before.conditions, cluster.metadata.generation, now);
    status
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn members(
    names: &Names,
    replicas: u32,
    before: &KeeperClusterStatus,
    observed: &Observed,
) -> Vec<MemberStatus> {
    (0..replicas)
        .map(|ordinal| {
            let name = names.pod(ordinal);
            let known = before.members.iter().find(|member| member.name == name);
            let pod = observed.pods.get(&ordinal);
            let view = observed.answer(ordinal);
            let is_staying = pod.is_some_and(|pod| !pod.terminating);
            let ready = is_staying && view.is_some_and(|view| view.ready);
            let message = if ready { None } else { Some(why_not_ready(ordinal, observed)) };
            MemberStatus {
                server_id: known.and_then(|member| member.server_id),
                role: view.map_or(MemberRole::Unknown, |view| view.role),
                ready,
                lag: view.map_or(0, |view| lag(view.server_id, observed)),
                version: view
                    .map(|view| view.version.clone())
                    .filter(|version| !version.is_empty())
                    .or_else(|| known.and_then(|member| member.version.clone())),
                node_name: pod.and_then(|pod| pod.node.clone()),
                message: message.filter(|message| !message.is_empty()).map(shortened),
                name,
            }
        })
        .collect()
}

fn why_not_ready(ordinal: u32, observed: &Observed) -> String {
    let Some(pod) = observed.pods.get(&ordinal) else { return "it has no pod".into() };
    if pod.terminating {
        return "its pod is being deleted".into();
    }
    if let Some(trouble) = &pod.trouble {
        return trouble.clone();
    }
    match observed.members.get(&ordinal) {
        None if !pod.running => "its pod is starting".into(),
        None => "it was not asked yet".into(),
        Some(Err(error)) => error.to_string(),
        Some(Ok(view)) if view.cluster_id.is_none() => "its disk is empty; it waits to join".into(),
        Some(Ok(view)) => view.not_ready_reason.clone(),
    }
}

/// Entries behind the leader, rounded so that it does not change at every look.
fn lag(server_id: u64, observed: &Observed) -> i64 {
    let leader = observed.leader().and_then(|leader| observed.answer(leader));
    let progress = leader.map(|view| view.lag.as_slice()).unwrap_or_default();
    let lag = progress.iter().find(|(id, _)| *id == server_id).map_or(0, |(_, lag)| *lag);
    rounded(lag)
}

fn rounded(lag: u64) -> i64 {
    if lag < 1_000 {
        return 0;
    }
    let unit = 10_u64.pow(lag.ilog10());
    i64::try_from(lag / unit * unit).unwrap_or(i64::MAX)
}

fn lowest_version(members: &[MemberStatus]) -> Option<String> {
    let key = |version: &str| -> Vec<u64> {
        let numbers = version.split(['-', '+']).next().unwrap_or_default();
        numbers.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    members.iter().filter_map(|member| member.version.clone()).min_by_key(|version| key(version))
}

fn endpoints(names: &Names, replicas: u32) -> EndpointsStatus {
    EndpointsStatus {
        client: names.client_endpoint(),
        per_member: (0..replicas)
            .map(|ordinal| MemberEndpoint { name: names.pod(ordinal), client: names.client_address(ordinal) })
            .collect(),
    }
}

/// A condition without its times.
struct Claim {
    kind: &'static str,
    /// None: unknown.
    holds: Option<bool>,
    reason: String,
    message: String,
}

fn claim(kind: &'static str, holds: bool, reason: &str, message: impl Into<String>) -> Claim {
    Claim { kind, holds: Some(holds), reason: reason.into(), message: message.into() }
}

fn unknown(kind: &'static str, reason: &str, message: impl Into<String>) -> Claim {
    Claim { kind, holds: None, reason: reason.into(), message: message.into() }
}

/// What the conditions are derived from.
struct Facts<'a> {
    plan: &'a Plan,
    observed: &'a Observed,
    status: &'a KeeperClusterStatus,
    replicas: i32,
    error: Option<&'a str>,
}

impl Facts<'_> {
    fn conditions(&self) -> Vec<Claim> {
        vec![
            self.ready(),
            self.quorum_available(),
            self.healthy(),
            self.bootstrapped(),
            self.cluster_size_aligned(),
            self.configuration_in_sync(),
            self.replica_startup_succeeded(),
            self.spec_valid(),
            self.reconcile_succeeded(),
            self.reconciling(),
            self.stalled(),
            self.paused(),
        ]
    }

    fn is_complete(&self) -> bool {
        self.status.voters >= self.replicas && self.status.bootstrapped == Some(true)
    }

    /// Clients are served with a quorum, and every member that was asked for has a vote.
    fn ready(&self) -> Claim {
        let kind = "Ready";
        let size = format!("{} of {} members are voters", self.status.voters, self.replicas);
        if self.status.accepted.is_none() {
            return match &self.plan.hold {
                Some(hold) => claim(kind, false, reason(hold), message(hold)),
                None => claim(kind, false, "Creating", "the cluster is being created"),
            };
        }
        if self.observed.committed.is_none() {
            let quorum = self.quorum_available();
            return Claim { kind, ..quorum };
        }
        if !self.is_complete() {
            return claim(kind, false, "Creating", size);
        }
        let serving = format!("{} of {} members serve clients", self.status.ready_replicas, self.replicas);
        if self.status.ready_replicas * 2 <= self.replicas {
            return claim(kind, false, "NotEnoughFollowers", serving);
        }
        let reason = if self.replicas == 1 { "StandaloneReady" } else { "ClusterReady" };
        claim(kind, true, reason, serving)
    }

    fn quorum_available(&self) -> Claim {
        let kind = "QuorumAvailable";
        if self.observed.committed.is_some() {
            return claim(kind, true, "QuorumPresent", "the leader commits with a quorum");
        }
        if self.status.bootstrapped != Some(true) {
            return claim(kind, false, "NotBootstrapped", "the cluster is not founded yet");
        }
        if self.observed.answers().next().is_none() && self.observed.pods.values().any(|pod| pod.running) {
            return unknown(kind, "MembersUnreachable", "no member answers the operator");
        }
        let detail = match &self.plan.hold {
            Some(hold) => message(hold),
            None => "no member leads".into(),
        };
        claim(kind, false, "NoLeader", detail)
    }

    fn healthy(&self) -> Claim {
        let waiting: Vec<String> = self
            .status
            .members
            .iter()
            .filter(|member| !member.ready)
            .map(|member| match &member.message {
                Some(message) => format!("{} ({message})", member.name),
                None => member.name.clone(),
            })
            .collect();
        if waiting.is_empty() {
            claim("Healthy", true, "ReplicasReady", "all members serve clients")
        } else {
            claim("Healthy", false, "ReplicasNotReady", format!("not ready: {}", waiting.join("; ")))
        }
    }

    fn bootstrapped(&self) -> Claim {
        if self.status.bootstrapped == Some(true) {
            claim(
                "Bootstrapped",
                true,
                "Founded",
                "the cluster was founded; no member is ever bootstrapped again",
            )
        } else {
            claim("Bootstrapped", false, "NotBootstrapped", "the cluster is not founded yet")
        }
    }

    fn cluster_size_aligned(&self) -> Claim {
        let kind = "ClusterSizeAligned";
        if let Some(refusal) = self.plan.refused.iter().find(|refusal| refusal.field == "replicas") {
            return claim(kind, false, "ChangeRefused", refusal_text(refusal));
        }
        let size = format!("{} of {} members are voters", self.status.voters, self.replicas);
        if self.status.voters == self.replicas {
            claim(kind, true, "UpToDate", size)
        } else {
            claim(kind, false, "ScalingUp", size)
        }
    }

    fn configuration_in_sync(&self) -> Claim {
        let kind = "ConfigurationInSync";
        if self.plan.refused.is_empty() {
            return claim(kind, true, "UpToDate", "the members run what the spec says");
        }
        claim(kind, false, "ChangeRefused", self.refused_text())
    }

    fn refused_text(&self) -> String {
        let changes: Vec<String> = self.plan.refused.iter().map(refusal_text).collect();
        format!(
            "{}. This version of the operator does not change the members of a running cluster; it runs as it was created",
            changes.join("; ")
        )
    }

    fn replica_startup_succeeded(&self) -> Claim {
        let kind = "ReplicaStartupSucceeded";
        let names =
            |ordinal: u32| self.status.members.get(ordinal as usize).map(|member| member.name.as_str());
        let trouble: Vec<String> = self
            .observed
            .pods
            .iter()
            .filter_map(|(ordinal, pod)| Some(format!("{}: {}", names(*ordinal)?, pod.trouble.as_ref()?)))
            .collect();
        if trouble.is_empty() {
            claim(kind, true, "ReplicasRunning", "no member's pod reports trouble")
        } else {
            claim(kind, false, "ReplicaError", trouble.join("; "))
        }
    }

    fn spec_valid(&self) -> Claim {
        match &self.plan.hold {
            Some(hold @ (Hold::NameTaken(_) | Hold::ExistingData { .. })) => {
                claim("SpecValid", false, reason(hold), message(hold))
            }
            _ => claim("SpecValid", true, "SpecValid", "the spec can be carried out"),
        }
    }

    fn reconcile_succeeded(&self) -> Claim {
        match self.error {
            Some(error) => claim("ReconcileSucceeded", false, "ReconcileStepFailed", error),
            None => {
                claim("ReconcileSucceeded", true, "ReconcileFinished", "the last pass did all it had to do")
            }
        }
    }

    fn reconciling(&self) -> Claim {
        let kind = "Reconciling";
        if let Some(error) = self.error {
            return claim(kind, true, "Retrying", error);
        }
        match &self.plan.hold {
            Some(hold) if hold.needs_person() || *hold == Hold::Paused => {
                claim(kind, false, reason(hold), message(hold))
            }
            Some(hold) => claim(kind, true, reason(hold), message(hold)),
            None if self.plan.step.is_some() || self.plan.record.is_some() => {
                claim(kind, true, "Progressing", "a step is being taken")
            }
            None => claim(kind, false, "UpToDate", "nothing is left to do"),
        }
    }

    fn stalled(&self) -> Claim {
        match &self.plan.hold {
            Some(hold) if hold.needs_person() => claim("Stalled", true, reason(hold), message(hold)),
            _ if !self.plan.refused.is_empty() => {
                claim("Stalled", true, "ChangeRefused", self.refused_text())
            }
            _ => claim("Stalled", false, "NotStalled", "nothing waits for a person"),
        }
    }

    fn paused(&self) -> Claim {
        if self.plan.hold == Some(Hold::Paused) {
            claim("Paused", true, "SpecPaused", message(&Hold::Paused))
        } else {
            claim("Paused", false, "NotPaused", "the operator acts on this cluster")
        }
    }

    /// One line for people.
    fn phase(&self) -> String {
        let ready = self.ready().holds == Some(true);
        let all_ready = self.status.ready_replicas >= self.replicas;
        let members = format!("{} of {} members ready", self.status.ready_replicas, self.replicas);
        match &self.plan.hold {
            Some(Hold::Deleting) => return "Deleting".into(),
            Some(Hold::Paused) => return "Paused".into(),
            Some(hold) if hold.needs_person() => {
                let prefix = if ready { "Degraded" } else { "Blocked" };
                return format!("{prefix}: {}", reason(hold));
            }
            _ => {}
        }
        if !self.is_complete() {
            return match &self.plan.hold {
                Some(Hold::WaitingForMembers { trouble: Some(trouble), .. }) => {
                    let short: String = trouble.chars().take(60).collect();
                    format!("Creating: {short}")
                }
                _ => format!("Creating: {} of {} voters", self.status.voters, self.replicas),
            };
        }
        match (ready, all_ready, self.plan.refused.is_empty()) {
            (true, true, true) => "Ready".into(),
            (true, true, false) => "Ready: change refused".into(),
            (true, false, _) => format!("Degraded: {members}"),
            (false, ..) => format!("Unavailable: {}", self.ready().reason),
        }
    }
}

fn shortened(text: String) -> String {
    if text.chars().count() <= MESSAGE_CHARS_MAX {
        return text;
    }
    let mut short: String = text.chars().take(MESSAGE_CHARS_MAX).collect();
    short.push('…');
    short
}

/// Conditions with their times: that of the last transition moves only when the status does.
fn stamped(
    claims: Vec<Claim>,
    before: &[Condition],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    claims
        .into_iter()
        .map(|claim| {
            let status = match claim.holds {
                Some(true) => "True",
                Some(false) => "False",
                None => "Unknown",
            };
            let since = before
                .iter()
                .find(|known| known.type_ == claim.kind && known.status == status)
                .map(|known| known.last_transition_time.clone());
            Condition {
                type_: claim.kind.into(),
                status: status.into(),
                reason: claim.reason,
                message: shortened(claim.message),
                observed_generation: generation,
                last_transition_time: since.unwrap_or(Time(now)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
