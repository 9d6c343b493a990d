//! What holds and refusals are called in conditions, events and phases, and what people can do about them.

use crate::cluster::decide::{Hold, Refusal};

/// One refused change.
pub fn refusal_text(refusal: &Refusal) -> String {
    format!("spec.{} was changed from {} to {}", refusal.field, refusal.running, refusal.wanted)
}

/// The name of a hold, as in conditions and events.
pub fn reason(hold: &Hold) -> &'static str {
    match hold {
        Hold::Deleting => "Deleting",
        Hold::Paused => "Paused",
        Hold::NameTaken(_) => "NameTaken",
        Hold::ExistingData { .. } => "ExistingDataFound",
        Hold::CredentialsLost => "CredentialsLost",
        Hold::CredentialsUnusable => "CredentialsUnusable",
        Hold::OtherCluster { .. } => "OtherCluster",
        Hold::DataLoss { .. } => "MemberDataLoss",
        Hold::NotInConfiguration { .. } => "NotInConfiguration",
        Hold::WaitingForMembers { .. } => "WaitingForMembers",
        Hold::NoLeader { .. } => "NoLeader",
        Hold::CatchingUp { .. } => "CatchingUp",
        Hold::MembershipChanging => "MembershipChanging",
    }
}

/// What is the matter, and what to do about it.
pub fn message(hold: &Hold) -> String {
    match hold {
        Hold::Deleting => "the cluster is being deleted".into(),
        Hold::Paused => "spec.paused is true: the operator changes nothing until it is removed".into(),
        Hold::NameTaken(objects) => format!(
            "{} exist and belong to somebody else; rename the KeeperCluster, or remove them",
            objects.join(", ")
        ),
        Hold::ExistingData { claims, problem } => {
            let problem = problem.as_ref().map(|problem| format!(" They cannot be adopted: {problem}.")).unwrap_or_default();
            format!(
                "volumes of a former cluster of this name exist: {}.{problem} Set spec.bootstrap.adoptExisting: true to continue with their data, or delete them to begin empty",
                claims.join(", ")
            )
        }
        Hold::CredentialsLost => {
            "the Secret with the cluster's credentials is gone while members run with them; restore it, or delete all pods of the cluster at once: they then start with new ones, and no data is lost".into()
        }
        Hold::CredentialsUnusable => {
            "the Secret with the cluster's credentials lacks cluster-secret or admin-token; restore it, or delete it".into()
        }
        Hold::OtherCluster { member, theirs, ours } => format!(
            "the volume of {member} holds data of cluster {theirs}, and this is cluster {ours}; remove that volume claim, or give it back to its cluster"
        ),
        Hold::DataLoss { member } => format!(
            "{member} is a voter and its disk is empty; it must not vote again with its old identity. This version of the operator does not replace members; remove it through the admin protocol"
        ),
        Hold::NotInConfiguration { member } => format!(
            "{member} has data of this cluster and is no member of it any more; this version of the operator does not replace members"
        ),
        Hold::WaitingForMembers { members, trouble } => match trouble {
            Some(trouble) => format!("waiting for {}; {trouble}", members.join(", ")),
            None => format!("waiting for {}", members.join(", ")),
        },
        Hold::NoLeader { detail } => detail.clone(),
        Hold::CatchingUp { member } => format!("{member} is a learner and catches up"),
        Hold::MembershipChanging => "a change of the configuration is under way".into(),
    }
}
