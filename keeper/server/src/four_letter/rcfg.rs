//! ClickHouse's `rcfg`: a change of the membership as JSON, from whoever reaches the port. So it is answered only where
//! the white list names it and `reconfig.enabled` is set; nothing else proves that its sender may.

use super::Question;
use crate::limits::{RECONFIG_SERVERS_MAX, RECONFIG_TEXT_BYTES_MAX};
use crate::reconfig;
use keeper_consensus::{Precondition, Role};
use keeper_types::{ReconfigRequest, ServerId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The argument's length, then so many bytes. A length that no argument has is answered without waiting for bytes.
pub fn argument_bytes(come: &[u8]) -> usize {
    match come.first_chunk() {
        None => 4,
        Some(length) => match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) if length <= RECONFIG_TEXT_BYTES_MAX => 4 + length,
            _ => 4,
        },
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(default)]
    preconditions: Preconditions,
    actions: Vec<Action>,
}

/// All of them hold, or nothing is done.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Preconditions {
    /// One of these leads.
    leaders: Option<BTreeSet<u64>>,
    /// These are the members.
    members: Option<BTreeSet<u64>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    AddMembers(Vec<NewMember>),
    RemoveMembers(Vec<u64>),
    TransferLeadership(Vec<u64>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewMember {
    id: u64,
    endpoint: String,
    #[serde(default)]
    learner: bool,
    /// Without effect: Raft elects whoever is furthest along.
    #[serde(default, rename = "priority")]
    _priority: u32,
}

#[derive(Serialize)]
struct Answer {
    status: &'static str,
    message: String,
}

impl Answer {
    fn text(outcome: Result<(), String>) -> String {
        let answer = match outcome {
            Ok(()) => Answer { status: "ok", message: "Ok.".into() },
            Err(message) => Answer { status: "error", message },
        };
        let mut text = Vec::new();
        let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        let written = answer.serialize(&mut serde_json::Serializer::with_formatter(&mut text, format));
        match written.map(|()| String::from_utf8(text)) {
            Ok(Ok(text)) => text,
            // Two strings are always JSON.
            _ => String::new(),
        }
    }
}

pub fn switched_off() -> String {
    Answer::text(Err("Reconfiguration is not enabled: set reconfig.enabled".into()))
}

pub async fn rcfg(question: &Question<'_>) -> String {
    Answer::text(carry_out(question).await)
}

async fn carry_out(question: &Question<'_>) -> Result<(), String> {
    let Some((_, json)) = question.argument.split_first_chunk::<4>().filter(|(_, json)| !json.is_empty())
    else {
        return Err(format!(
            "Reconfiguration command require single JSON argument (length, int32 big-endian, at most \
             {RECONFIG_TEXT_BYTES_MAX}, then the text)"
        ));
    };
    let asked: Asked = serde_json::from_slice(json).map_err(|error| format!("The argument: {error}"))?;
    if asked.actions.len() > RECONFIG_SERVERS_MAX {
        return Err(format!("More than {RECONFIG_SERVERS_MAX} actions"));
    }
    check(question, &asked.preconditions)?;
    tracing::warn!(
        actions = asked.actions.len(),
        "the word rcfg changes the membership, whoever its sender may be"
    );
    for (number, action) in asked.actions.into_iter().enumerate() {
        let done = perform(question, action).await;
        done.map_err(|error| format!("Action {}: {error}; those before it are done", number + 1))?;
    }
    Ok(())
}

fn check(question: &Question<'_>, preconditions: &Preconditions) -> Result<(), String> {
    let leader = question.status.leader.map(|leader| leader.0);
    if let Some(leaders) = &preconditions.leaders
        && !leader.is_some_and(|leader| leaders.contains(&leader))
    {
        return Err(format!("Precondition leaders: the leader is {}", leader.unwrap_or(0)));
    }
    let membership = &question.status.membership;
    let members: BTreeSet<u64> =
        membership.voters.iter().chain(&membership.learners).map(|member| member.id.0).collect();
    match &preconditions.members {
        Some(expected) if *expected != members => {
            Err(format!("Precondition members: the members are {members:?}"))
        }
        _ => Ok(()),
    }
}

async fn perform(question: &Question<'_>, action: Action) -> Result<(), String> {
    match action {
        Action::AddMembers(new) => {
            let server = |new: &NewMember| {
                let role = if new.learner { "learner" } else { "participant" };
                format!("server.{}={};{role}", new.id, new.endpoint)
            };
            let joining: Vec<String> = new.iter().map(server).collect();
            change(question, Some(&joining.join(",")), None).await
        }
        Action::RemoveMembers(ids) => {
            let leaving: Vec<String> = ids.iter().map(u64::to_string).collect();
            change(question, None, Some(&leaving.join(","))).await
        }
        Action::TransferLeadership(ids) => transfer(question, &ids).await,
    }
}

async fn change(question: &Question<'_>, joining: Option<&str>, leaving: Option<&str>) -> Result<(), String> {
    let request = ReconfigRequest { joining, leaving, new_members: None, config_id: -1 };
    let done = reconfig::carry_out(question.shared, question.consensus, &request, true).await;
    done.map_err(|code| format!("{} ({})", code.name(), code.as_i32()))
}

async fn transfer(question: &Question<'_>, ids: &[u64]) -> Result<(), String> {
    let status = question.consensus.status();
    if status.role != Role::Leader {
        return Err(format!("only the leader hands over: ask member {}", status.leader.unwrap_or_default()));
    }
    let heir = ids.iter().map(|id| ServerId(*id)).find(|id| status.membership.voter(*id).is_some());
    let heir = heir.ok_or("none of these members votes")?;
    let done = question.consensus.transfer_leadership(heir, Precondition::default()).await;
    done.map(drop).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_bytes_are_waited_for_as_the_argument_says() {
        assert_eq!(argument_bytes(&[]), 4);
        assert_eq!(argument_bytes(&[0, 0, 0]), 4);
        assert_eq!(argument_bytes(&[0, 0, 1, 0, b'{']), 260);
        for nonsense in [-1, i32::MAX, RECONFIG_TEXT_BYTES_MAX as i32 + 1] {
            assert_eq!(argument_bytes(&nonsense.to_be_bytes()), 4);
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_name() {
        let error = |json: &str| serde_json::from_str::<Asked>(json).err().expect("refused").to_string();
        assert!(error(r#"{"actions": [{"set_priority": []}]}"#).contains("set_priority"));
        assert!(error(r#"{"actions": [], "precondition": {}}"#).contains("precondition"));
        assert!(error(r#"{"actions": [{"add_members": [{"id": 1}]}]}"#).contains("endpoint"));
    }
}
