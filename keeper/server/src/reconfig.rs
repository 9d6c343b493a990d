//! ZooKeeper's `reconfig` and the way it writes a configuration (Administrator's Guide, "Dynamic Reconfiguration"),
//! over this server's own membership: one voter more or less at a time, through the log.

use crate::batch::Kind;
use crate::dispatch::{Dispatch, Submission};
use crate::in_flight::Target;
use crate::limits::{RECONFIG_SERVERS_MAX, RECONFIG_TIME_MAX, RECONFIG_TRIES_MAX, RESEND_PAUSE};
use crate::node::heir;
use crate::outbox::Outbox;
use crate::shared::Shared;
use bytes::{BufMut, Bytes, BytesMut};
use keeper_consensus::{AdminError, Consensus, Member, Membership, Precondition};
use keeper_types::{
    AclId, CONFIG_PATH, ErrorCode, Generation, OpCode, ReconfigRequest, Request, ServerId, SessionId,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::sync::oneshot;

/// First byte of a reconfig on a dispatch connection; then 1 if the client may do it, then its request's body.
pub const RECONFIG: u8 = 6;
/// First byte of the answer; then the error, int32, 0 for success.
pub const RECONFIGURED: u8 = 7;

/// The configuration as ZooKeeper's clients read it, servers in order of their ids: `server.1=HOST:PEER:ELECTION:ROLE;
/// CLIENT` a line, then `version=` with the zxid of the change in hexadecimal digits: as in ZooKeeper the node's mzxid.
pub fn config_text(membership: &Membership, zxid: i64) -> String {
    let voters = membership.voters.iter().map(|member| (member, "participant"));
    let learners = membership.learners.iter().map(|member| (member, "observer"));
    let servers: BTreeMap<ServerId, String> =
        voters.chain(learners).map(|(member, role)| (member.id, server_line(member, role))).collect();
    let mut text = String::new();
    for line in servers.values() {
        let _ = writeln!(text, "{line}");
    }
    let _ = write!(text, "version={zxid:x}");
    text
}

fn server_line(member: &Member, role: &str) -> String {
    let (host, peer_port) = member.peer_address.rsplit_once(':').unwrap_or((&member.peer_address, "0"));
    let election_port = match member.election_port {
        0 => peer_port.to_owned(),
        port => port.to_string(),
    };
    let client = if member.client_address.is_empty() { "" } else { ";" };
    let id = member.id;
    format!("server.{id}={host}:{peer_port}:{election_port}:{role}{client}{}", member.client_address)
}

/// What a client names the present configuration by.
fn version(shared: &Shared) -> i64 {
    shared.read_tree().stat(CONFIG_PATH).map_or(0, |stat| stat.mzxid)
}

/// What a reconfig comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Plan {
    leaving: Vec<ServerId>,
    /// With true for a voter.
    joining: Vec<(Member, bool)>,
}

/// The steps from the present configuration, of that version, to the one asked for.
fn plan(now: &Membership, version: i64, request: &ReconfigRequest<'_>) -> Result<Plan, ErrorCode> {
    if request.config_id != -1 && request.config_id != version {
        return Err(ErrorCode::BadVersion);
    }
    let voter = |id: ServerId| now.voter(id).is_some();
    let mut next: BTreeMap<ServerId, (Member, bool)> = BTreeMap::new();
    if let Some(all) = request.new_members {
        for text in parts(all, &[',', '\n'])? {
            // A version line may come along from the text that was read before.
            if !text.starts_with("version=") {
                add(&mut next, server(text)?)?;
            }
        }
    } else {
        let present = now.voters.iter().chain(&now.learners);
        next.extend(present.map(|member| (member.id, (member.clone(), voter(member.id)))));
        for text in parts(request.leaving.unwrap_or_default(), &[','])? {
            let id = text.parse().map_err(|_| ErrorCode::BadArguments)?;
            next.remove(&ServerId(id));
        }
        for text in parts(request.joining.unwrap_or_default(), &[','])? {
            add(&mut next, server(text)?)?;
        }
    }
    if !next.values().any(|(_, voter)| *voter) {
        return Err(ErrorCode::BadArguments);
    }
    let mut plan = Plan::default();
    for member in now.voters.iter().chain(&now.learners) {
        match next.remove(&member.id) {
            None => plan.leaving.push(member.id),
            // An address never changes under an id, and a vote is never taken back without leaving.
            Some((_, false)) if voter(member.id) => return Err(ErrorCode::BadArguments),
            Some((asked, _)) if !is_same(member, &asked) => return Err(ErrorCode::BadArguments),
            Some((_, asked)) if asked != voter(member.id) => plan.joining.push((member.clone(), true)),
            Some(_) => {}
        }
    }
    plan.joining.extend(next.into_values());
    Ok(plan)
}

fn parts<'t>(text: &'t str, separators: &[char]) -> Result<Vec<&'t str>, ErrorCode> {
    let parts: Vec<&str> = text
        .split(separators)
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .take(RECONFIG_SERVERS_MAX + 1)
        .collect();
    if parts.len() > RECONFIG_SERVERS_MAX { Err(ErrorCode::BadArguments) } else { Ok(parts) }
}

/// No two servers may be at one place.
fn add(next: &mut BTreeMap<ServerId, (Member, bool)>, new: (Member, bool)) -> Result<(), ErrorCode> {
    let id = new.0.id;
    let taken = |(other, _): &(Member, bool)| {
        let same_client = !other.client_address.is_empty() && other.client_address == new.0.client_address;
        other.id != id && (other.peer_address == new.0.peer_address || same_client)
    };
    if next.values().any(taken) {
        return Err(ErrorCode::BadArguments);
    }
    next.insert(id, new);
    Ok(())
}

/// ClickHouse's form names no client address, so it asks for none.
fn is_same(known: &Member, asked: &Member) -> bool {
    let same_client = asked.client_address.is_empty() || known.client_address == asked.client_address;
    known.peer_address == asked.peer_address && same_client
}

/// ZooKeeper's `server.ID=HOST:PEER:ELECTION[:participant|:observer];[HOST:]CLIENT`, or ClickHouse's
/// `server.ID=HOST:PEER[;participant|;learner[;PRIORITY]]`.
fn server(text: &str) -> Result<(Member, bool), ErrorCode> {
    let wrong = ErrorCode::BadArguments;
    let (key, value) = text.split_once('=').ok_or(wrong)?;
    let id = key.trim().strip_prefix("server.").and_then(|id| id.parse::<u64>().ok()).ok_or(wrong)?;
    let value = value.trim();
    let place = value.split(';').next().unwrap_or_default();
    // A literal IPv6 host has colons of its own.
    if place.rsplit(']').next().unwrap_or_default().matches(':').count() == 1 {
        return clickhouse_server(id, value);
    }
    let (place, client) = value.split_once(';').ok_or(wrong)?;
    let (place, is_voter) = match (place.strip_suffix(":observer"), place.strip_suffix(":participant")) {
        (Some(place), _) => (place, false),
        (None, Some(place)) => (place, true),
        (None, None) => (place, true),
    };
    let (place, election) = place.rsplit_once(':').ok_or(wrong)?;
    let (host, peer) = place.rsplit_once(':').ok_or(wrong)?;
    if id == 0 || !is_host(host) {
        return Err(wrong);
    }
    let (client_host, client_port) = client.rsplit_once(':').unwrap_or(("0.0.0.0", client));
    if !is_host(client_host) {
        return Err(wrong);
    }
    let member = Member {
        id: ServerId(id),
        peer_address: format!("{host}:{}", port(peer)?),
        client_address: format!("{client_host}:{}", port(client_port)?),
        name: format!("server.{id}"),
        election_port: port(election)?,
    };
    Ok((member, is_voter))
}

/// The priority is read and has no effect: Raft elects whoever is furthest along.
fn clickhouse_server(id: u64, value: &str) -> Result<(Member, bool), ErrorCode> {
    let wrong = ErrorCode::BadArguments;
    let mut parts = value.split(';');
    let endpoint = parts.next().unwrap_or_default();
    let is_voter = match parts.next() {
        None | Some("participant") => true,
        Some("learner") => false,
        Some(_) => return Err(wrong),
    };
    let priority = parts.next().map_or(Ok(1), str::parse::<u32>);
    let (host, peer) = endpoint.rsplit_once(':').ok_or(wrong)?;
    if id == 0 || !is_host(host) || priority.is_err() || parts.next().is_some() {
        return Err(wrong);
    }
    let member = Member {
        id: ServerId(id),
        peer_address: format!("{host}:{}", port(peer)?),
        client_address: String::new(),
        name: format!("server.{id}"),
        election_port: 0,
    };
    Ok((member, is_voter))
}

fn port(text: &str) -> Result<u16, ErrorCode> {
    text.parse::<u16>().ok().filter(|port| *port > 0).ok_or(ErrorCode::BadArguments)
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && (host.starts_with('[') || !host.contains([':', '|', ' ', ',']))
}

/// Carries out a reconfig from any member. `may` says whether the client has the right to: as in ZooKeeper it hears
/// first what is wrong with its request.
pub async fn carry_out(
    shared: &Shared,
    consensus: &Consensus,
    request: &ReconfigRequest<'_>,
    may: bool,
) -> Result<(), ErrorCode> {
    let whole = async {
        for _ in 0..RECONFIG_TRIES_MAX {
            match attempt(shared, consensus, request, may).await {
                Err(ErrorCode::ConnectionLoss) => keeper_rt::sleep(RESEND_PAUSE * 10).await,
                answer => return answer,
            }
        }
        Err(ErrorCode::OperationTimeout)
    };
    keeper_rt::timeout(RECONFIG_TIME_MAX, whole).await.unwrap_or(Err(ErrorCode::OperationTimeout))
}

/// `ConnectionLoss`: no leader, or another one; to be tried again.
async fn attempt(
    shared: &Shared,
    consensus: &Consensus,
    request: &ReconfigRequest<'_>,
    may: bool,
) -> Result<(), ErrorCode> {
    let status = consensus.status();
    let leader = status.leader.ok_or(ErrorCode::ConnectionLoss)?;
    if status.identity.is_some_and(|me| me.server_id == leader) {
        return lead(shared, consensus, request, may).await;
    }
    let mut conn = consensus.dial_dispatch(leader).await.map_err(|_| ErrorCode::ConnectionLoss)?;
    conn.sender.send(frame(request, may)?).await.map_err(|_| ErrorCode::ConnectionLoss)?;
    let answer = conn.receiver.recv().await.ok_or(ErrorCode::ConnectionLoss)?;
    match answer.split_first() {
        Some((&RECONFIGURED, code)) => {
            let code = code.try_into().map(i32::from_be_bytes).unwrap_or(ErrorCode::SystemError.as_i32());
            if code == 0 { Ok(()) } else { Err(ErrorCode::from_i32(code).unwrap_or(ErrorCode::SystemError)) }
        }
        _ => Err(ErrorCode::ConnectionLoss),
    }
}

fn frame(request: &ReconfigRequest<'_>, may: bool) -> Result<Bytes, ErrorCode> {
    let mut body = BytesMut::new();
    keeper_wire::encode_request(0, &Request::Reconfig(request.clone()), &mut body)
        .map_err(|_| ErrorCode::BadArguments)?;
    let mut frame = BytesMut::with_capacity(body.len() + 2);
    frame.put_u8(RECONFIG);
    frame.put_u8(u8::from(may));
    // Without the frame's length, the xid and the operation.
    frame.put_slice(&body[12..]);
    Ok(frame.freeze())
}

/// The leader's answer to another member's frame, its first byte taken off.
pub async fn answer(shared: &Shared, consensus: &Consensus, rest: &[u8]) -> Bytes {
    let request = rest
        .split_first()
        .map(|(may, body)| (*may == 1, keeper_wire::decode_request(OpCode::Reconfig, body)));
    let outcome = match request {
        Some((may, Ok(Request::Reconfig(request)))) => lead(shared, consensus, &request, may).await,
        _ => Err(ErrorCode::MarshallingError),
    };
    let mut frame = BytesMut::new();
    frame.put_u8(RECONFIGURED);
    frame.put_i32(outcome.err().map_or(0, ErrorCode::as_i32));
    frame.freeze()
}

async fn lead(
    shared: &Shared,
    consensus: &Consensus,
    request: &ReconfigRequest<'_>,
    may: bool,
) -> Result<(), ErrorCode> {
    let now = consensus.committed_membership().await.map_err(code)?;
    let plan = plan(&now, version(shared), request)?;
    if !may {
        return Err(ErrorCode::NoAuth);
    }
    tracing::info!(?plan, "reconfig asked for by a client");
    let any = Precondition::default();
    for (member, votes) in plan.joining {
        let id = member.id;
        if now.member(id).is_none() {
            consensus.add_learner(member, any).await.map_err(code)?;
        }
        if votes && let Err(error) = consensus.promote(id, any).await {
            // A voter that does not keep up would block commits: it leaves again.
            if now.member(id).is_none() {
                let _ = consensus.remove(id, any).await;
            }
            return Err(code(error));
        }
    }
    for id in plan.leaving {
        match consensus.remove(id, any).await {
            Ok(_) => {}
            Err(AdminError::RemovesLeader { .. }) => {
                let heir = heir(&consensus.status()).ok_or(ErrorCode::NewConfigNoQuorum)?;
                consensus.transfer_leadership(heir, any).await.map_err(code)?;
                // The new leader does the rest.
                return Err(ErrorCode::ConnectionLoss);
            }
            Err(error) => return Err(code(error)),
        }
    }
    Ok(())
}

fn code(error: AdminError) -> ErrorCode {
    tracing::info!(%error, "reconfig refused");
    match error {
        AdminError::NotLeader(_) | AdminError::Uninitialized | AdminError::Stopped(_) => {
            ErrorCode::ConnectionLoss
        }
        AdminError::InProgress => ErrorCode::ReconfigInProgress,
        AdminError::NotCaughtUp { .. } => ErrorCode::NewConfigNoQuorum,
        AdminError::TimedOut { .. } => ErrorCode::OperationTimeout,
        _ => ErrorCode::BadArguments,
    }
}

/// One client's reconfig under way.
pub struct Reconfiguring {
    pub shared: Arc<Shared>,
    pub dispatch: Dispatch,
    pub outbox: Arc<Outbox>,
    pub identities: Arc<[AclId]>,
    pub enabled: bool,
    /// Session and generation that its place in the order is kept for.
    pub barrier: (SessionId, Generation),
    pub xid: i32,
}

impl Reconfiguring {
    /// Answers as ZooKeeper does: the new configuration and its Stat.
    pub async fn run(self, body: Bytes) {
        let outcome = self.outcome(&body).await;
        let tree = self.shared.read_tree();
        let zxid = tree.zxid().0;
        let mut reply = BytesMut::new();
        match outcome.and_then(|()| tree.get_data(CONFIG_PATH, &[])) {
            Ok((data, stat)) => keeper_wire::encode_get_data_reply(self.xid, zxid, data, &stat, &mut reply),
            Err(code) => keeper_wire::encode_reply(self.xid, zxid, Err(code), &mut reply),
        }
        drop(tree);
        self.outbox.release(&reply);
    }

    async fn outcome(&self, body: &[u8]) -> Result<(), ErrorCode> {
        // The session's earlier writes first.
        self.barrier().await?;
        if !self.enabled {
            return Err(ErrorCode::ReconfigDisabled);
        }
        let Ok(Request::Reconfig(request)) = keeper_wire::decode_request(OpCode::Reconfig, body) else {
            return Err(ErrorCode::MarshallingError);
        };
        let may = self.shared.read_tree().may_write(CONFIG_PATH, &self.identities);
        carry_out(&self.shared, self.dispatch.consensus(), &request, may).await?;
        // This member's tree shows it before the client hears of it.
        self.barrier().await
    }

    async fn barrier(&self) -> Result<(), ErrorCode> {
        let (done, outcome) = oneshot::channel();
        let body = Bytes::from_static(&SYNC_OF_ROOT);
        self.dispatch.submit(Submission::command(Kind::Sync, self.barrier, body, Target::Session(done)));
        outcome.await.map_err(|_| ErrorCode::OperationTimeout)?.result.map(drop)
    }
}

/// The body of a sync of `/`.
const SYNC_OF_ROOT: [u8; 5] = [0, 0, 0, 1, b'/'];

#[cfg(test)]
mod tests {
    use super::*;
    use keeper_consensus::LogPosition;

    const VERSION: i64 = 0x1f;

    fn member(id: u64) -> Member {
        Member {
            id: ServerId(id),
            peer_address: format!("k{id}:9234"),
            client_address: format!("k{id}:2181"),
            name: format!("k-{id}"),
            election_port: 0,
        }
    }

    fn three_and_an_observer() -> Membership {
        Membership {
            log_id: Some(LogPosition { term: 1, index: 0x1f }),
            voters: vec![member(1), member(2), member(3)],
            learners: vec![member(7)],
            joint: false,
            server_id_max: ServerId(7),
        }
    }

    fn request(joining: &'static str, leaving: &'static str) -> ReconfigRequest<'static> {
        let some = |text: &'static str| (!text.is_empty()).then_some(text);
        ReconfigRequest { joining: some(joining), leaving: some(leaving), new_members: None, config_id: -1 }
    }

    #[test]
    fn the_text_is_zookeepers() {
        let text = config_text(&three_and_an_observer(), 0x1f);
        let expected = "server.1=k1:9234:9234:participant;k1:2181\nserver.2=k2:9234:9234:participant;k2:2181\n\
                        server.3=k3:9234:9234:participant;k3:2181\nserver.7=k7:9234:9234:observer;k7:2181\nversion=1f";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_joining_server_reads_back_as_it_was_written() {
        let text = "server.100=0.0.0.0:4101:4102:observer;0.0.0.0:4103";
        let plan = plan(&three_and_an_observer(), 0, &request(text, "")).unwrap();
        assert_eq!((plan.leaving.len(), plan.joining.len()), (0, 1));
        assert!(!plan.joining[0].1);
        assert_eq!(server_line(&plan.joining[0].0, "observer"), text);
    }

    #[test]
    fn clickhouses_form_of_a_server_is_read_too() {
        let now = three_and_an_observer();
        let joining = |text| plan(&now, 0, &request(text, "")).unwrap().joining;
        let two = joining("server.8=[::1]:9234;learner;3,server.9=k9:9234");
        let found = two.iter().map(|(new, votes)| (new.id.0, new.peer_address.as_str(), *votes));
        assert_eq!(found.collect::<Vec<_>>(), [(8, "[::1]:9234", false), (9, "k9:9234", true)]);
        assert_eq!(server_line(&two[1].0, "participant"), "server.9=k9:9234:9234:participant");
        assert_eq!(joining("server.7=k7:9234;participant;1"), [(member(7), true)]);
        assert_eq!(joining("server.1=k1:9234;participant;5"), []);
    }

    #[test]
    fn servers_leave_join_and_get_their_vote() {
        let now = three_and_an_observer();
        let change = |joining, leaving| plan(&now, VERSION, &request(joining, leaving));
        assert_eq!(change("", "3,7").unwrap().leaving, [ServerId(3), ServerId(7)]);
        assert_eq!(change("", "99"), Ok(Plan::default()));
        let promoted = change("server.7=k7:9234:9234;k7:2181", "").unwrap();
        assert_eq!(promoted.joining, [(member(7), true)]);
        let whole = ReconfigRequest {
            new_members: Some("server.1=k1:9234:1:participant;k1:2181\nserver.9=k9:1:2;3\nversion=1f"),
            ..request("", "")
        };
        let plan = plan(&now, VERSION, &whole).unwrap();
        assert_eq!(plan.leaving, [ServerId(2), ServerId(3), ServerId(7)]);
        assert_eq!((plan.joining[0].0.id, plan.joining[0].1), (ServerId(9), true));
    }

    #[test]
    fn what_zookeeper_refuses_is_refused() {
        let now = three_and_an_observer();
        let refused = |joining, leaving| plan(&now, VERSION, &request(joining, leaving)).unwrap_err();
        for joining in [
            "some thing",
            "server.x=a:1:2;3",
            "server.0=a:1:2;3",
            "server.8=a:1:2",
            "server.8=a:1;3",
            "server.8=a:1;observer",
            "server.8=a:1;participant;x",
            "server.8=a:1;participant;1;1",
            "server.8=:1;participant",
            // ClickHouse's form: another server's place, another place for a server.
            "server.8=k1:9234",
            "server.1=k9:9234",
            "server.8=a:0:2;3",
            "server.8=a:1:65536;3",
            "server.8=:1:2;3",
            "server.8=a|b:1:2;3",
            // Another server's place.
            "server.8=k1:9234:9;8",
            // Another place for a server.
            "server.1=k9:9234:9234;k1:2181",
            // A vote taken back.
            "server.1=k1:9234:9234:observer;k1:2181",
        ] {
            assert_eq!(refused(joining, ""), ErrorCode::BadArguments, "{joining}");
        }
        assert_eq!(refused("", "x"), ErrorCode::BadArguments);
        assert_eq!(refused("", "1,2,3"), ErrorCode::BadArguments, "no voter is left");
        let stale = ReconfigRequest { config_id: 0x20, ..request("", "3") };
        assert_eq!(plan(&now, VERSION, &stale), Err(ErrorCode::BadVersion));
        let exact = ReconfigRequest { config_id: VERSION, ..request("", "3") };
        assert_eq!(plan(&now, VERSION, &exact).map(|plan| plan.leaving), Ok(vec![ServerId(3)]));
    }
}
