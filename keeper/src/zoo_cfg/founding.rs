//! The first membership from the server lines of a zoo.cfg, without an operator.
//!
//! The participant with the smallest id founds the cluster, once a majority of the participants answers and none of
//! them belongs to a cluster yet; then it takes the others in. They wait: a member never joins by its own decision.
//! Afterwards only the log says who is a member: later edits of the lines change nothing (design: an empty disk never
//! founds a second cluster beside a living one).

use super::servers::ServerLine;
use keeper_client::admin::{AdminClient, AdminError, Member};
use keeper_consensus::{Member as Peer, Role};
use keeper_server::Node;
use keeper_server::sasl::Users;
use keeper_tls::Tls;
use keeper_types::{ClusterId, ServerId};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at members that do not answer yet.
const RETRY: Duration = Duration::from_millis(100);
/// One admin call to another member.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// A promotion waits at the leader until the member has caught up.
const PROMOTE_TIMEOUT: Duration = Duration::from_secs(15);
/// Between two warnings about the same obstacle.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// Exists while a founding is unfinished, so that a restarted founder goes on with it.
const MARKER: &str = "founding";

pub struct Founding {
    /// The file whose text admin calls carry.
    secret_file: PathBuf,
    pub(super) id: u64,
    /// Empty for a server that stands alone.
    servers: Vec<ServerLine>,
    folder: PathBuf,
    /// That of the admin ports, our own and the others'.
    tls: Option<Arc<Tls>>,
}

/// What the founder may do next.
enum Outlook {
    Found,
    Wait(String),
}

impl Founding {
    pub fn new(id: u64, servers: Vec<ServerLine>, folder: PathBuf, secret_file: PathBuf) -> Founding {
        Founding { secret_file, id, servers, folder, tls: None }
    }

    /// Runs beside the member until its first membership stands. `tls`: of the member's admin port.
    pub async fn run(mut self, node: Node, tls: Option<Arc<Tls>>) {
        self.tls = tls;
        if self.servers.iter().any(|line| line.id == self.id && line.observer) {
            self.visit(&node).await;
        }
        if self.founder() != self.id {
            return;
        }
        let uninitialized = node.consensus().status().role == Role::Uninitialized;
        if uninitialized {
            self.wait_until_safe().await;
            if let Err(error) = self.found(&node).await {
                tracing::error!(%error, "zoo.cfg: the cluster cannot be founded");
                return;
            }
        }
        if self.marker().exists() {
            self.take_in_all(&node).await;
            if let Err(error) = std::fs::remove_file(self.marker()) {
                tracing::warn!(%error, "zoo.cfg: the sign of an unfinished founding cannot be removed");
            }
            tracing::info!(servers = self.servers.len(), "zoo.cfg: the first membership stands");
        }
    }

    /// The participant with the smallest id; lines are sorted.
    fn founder(&self) -> u64 {
        self.servers.iter().find(|line| !line.observer).map_or(self.id, |line| line.id)
    }

    fn marker(&self) -> PathBuf {
        self.folder.join(MARKER)
    }

    pub(super) fn others(&self) -> impl Iterator<Item = &ServerLine> {
        self.servers.iter().filter(|line| line.id != self.id)
    }

    async fn wait_until_safe(&self) {
        let mut warned: Option<std::time::Instant> = None;
        loop {
            match self.outlook().await {
                Outlook::Found => return,
                Outlook::Wait(why) => {
                    let due = warned.is_none_or(|at| at.elapsed() >= WARN_EVERY);
                    // The first look nearly always comes before the others have started.
                    if due && warned.is_some() {
                        tracing::warn!("zoo.cfg: not founding the cluster yet: {why}");
                    }
                    if due {
                        warned = Some(std::time::Instant::now());
                    }
                    keeper_rt::sleep(RETRY).await;
                }
            }
        }
    }

    /// Safe when a majority of the participants is there and nobody who answers has a cluster: a lost disk of the
    /// founder then cannot make a second cluster beside the first.
    async fn outlook(&self) -> Outlook {
        let token = match self.token() {
            Ok(token) => token,
            Err(error) => return Outlook::Wait(format!("the secret cannot be read: {error}")),
        };
        let participants = self.servers.iter().filter(|line| !line.observer).count();
        let mut there = 1;
        let mut silent = Vec::new();
        for line in self.others() {
            match self.status(line, &token).await {
                Ok(status) if !status.cluster_id.is_empty() => {
                    return Outlook::Wait(format!(
                        "server.{} belongs to cluster {} already, so this member's data is lost or its dataDir is a wrong \
                         one; remove server.{} from the membership and let it join under a new id",
                        line.id, status.cluster_id, self.id
                    ));
                }
                Ok(_) => there += usize::from(!line.observer),
                Err(error) => silent.push(format!("server.{}: {error}", line.id)),
            }
        }
        match there * 2 > participants {
            true => Outlook::Found,
            false => {
                Outlook::Wait(format!("{there} of {participants} servers are there; {}", silent.join("; ")))
            }
        }
    }

    pub(super) async fn status(
        &self,
        line: &ServerLine,
        token: &str,
    ) -> Result<keeper_client::admin::StatusResponse, AdminError> {
        self.admin(line, token, CALL_TIMEOUT).await?.status().await
    }

    async fn admin(
        &self,
        line: &ServerLine,
        token: &str,
        timeout: Duration,
    ) -> Result<AdminClient, AdminError> {
        let tls = self.tls.as_ref().and_then(|tls| tls.client());
        AdminClient::connect_with(&line.admin_address(), token, timeout, tls).await
    }

    async fn found(&self, node: &Node) -> Result<(), String> {
        let cluster = match self.servers.is_empty() {
            true => ClusterId(keeper_rt::random_bytes()),
            false => cluster_id(&self.servers),
        };
        std::fs::write(self.marker(), "").map_err(|error| format!("{}: {error}", self.marker().display()))?;
        let own = self.servers.iter().find(|line| line.id == self.id);
        let member = own.map_or_else(
            || Peer {
                id: ServerId(self.id),
                peer_address: "127.0.0.1:0".into(),
                client_address: String::new(),
                name: name(self.id),
                ..Peer::default()
            },
            |line| Peer {
                id: ServerId(line.id),
                peer_address: line.peer_address(),
                client_address: line.client_address(),
                name: name(line.id),
                election_port: line.election_port,
            },
        );
        node.consensus().bootstrap(cluster, member).await.map(drop).map_err(|error| error.to_string())
    }

    /// All others become learners in the order of their ids (an id below the highest one is never given out), then
    /// the participants among them voters, each as soon as it is there.
    async fn take_in_all(&self, node: &Node) {
        let mut learners: Vec<&ServerLine> = self.others().collect();
        let mut voters: Vec<&ServerLine> = self.others().filter(|line| !line.observer).collect();
        while !(learners.is_empty() && voters.is_empty()) {
            let step = self.take_in(node, &mut learners, &mut voters).await;
            if let Err(error) = step {
                tracing::debug!(%error, "zoo.cfg: the first membership is not complete yet");
                keeper_rt::sleep(RETRY).await;
            }
        }
    }

    async fn take_in(
        &self,
        node: &Node,
        learners: &mut Vec<&ServerLine>,
        voters: &mut Vec<&ServerLine>,
    ) -> Result<(), String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let token = self.token().map_err(|error| text(&error))?;
        let leader = node.consensus().status().leader.ok_or("no member leads")?;
        let line =
            self.servers.iter().find(|line| line.id == leader.0).ok_or("the leader has no server line")?;
        let admin = self.admin(line, &token, PROMOTE_TIMEOUT).await.map_err(|error| text(&error))?;
        while let Some(line) = learners.first() {
            admin.add_learner(message(line), None).await.map_err(|error| text(&error))?;
            learners.remove(0);
        }
        let mut failure = Ok(());
        let mut left = Vec::new();
        for line in voters.drain(..) {
            // A member that is not there would hold the call, and so the others behind it, until its time limit.
            let there = self.status(line, &token).await;
            let done = match there {
                Ok(_) => admin.promote(line.id, None).await.map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = done {
                left.push(line);
                failure = Err(text(&error));
            }
        }
        *voters = left;
        failure
    }

    /// What admin calls carry: the text of the members' secret.
    pub(super) fn token(&self) -> io::Result<String> {
        std::fs::read_to_string(&self.secret_file).map(|text| text.trim().to_owned())
    }
}

fn name(id: u64) -> String {
    format!("zoo-{id}")
}

fn message(line: &ServerLine) -> Member {
    Member {
        server_id: line.id,
        peer_address: line.peer_address(),
        client_address: line.client_address(),
        name: name(line.id),
    }
}

/// Writes what the members prove to each other. With server lines it is made from the founder's line, which all files
/// of one cluster share, so that the members find each other: **anyone who knows that line knows it**, and it keeps
/// out mistakes, not attackers; unless there are `users` of the quorum, whose passwords then go into it. A server that
/// stands alone gets a random one, once.
pub fn write_secret(file: &Path, servers: &[ServerLine], users: Option<&Users>) -> io::Result<()> {
    if servers.is_empty() && file.exists() {
        return Ok(());
    }
    let text = match servers.is_empty() {
        true => hexadecimal(&keeper_rt::random_bytes::<32>()),
        false => match users {
            None => hexadecimal(&hash("secret", servers)),
            Some(users) => hexadecimal(&hash(&secret_of(users), servers)),
        },
    };
    write_private(file, &text)
}

/// Names and passwords, each with its length before it, so that no two sets of them read alike.
fn secret_of(users: &Users) -> String {
    let text = |(user, password): (&str, &str)| format!("{}:{user}{}:{password}", user.len(), password.len());
    format!("secret of {}", users.iter().map(text).collect::<String>())
}

/// The only user of a server on which nobody can log in: with a password that nobody is told.
pub fn write_nobody(file: &Path) -> io::Result<()> {
    write_private(file, &format!("nobody:{}\n", hexadecimal(&keeper_rt::random_bytes::<32>())))
}

fn cluster_id(servers: &[ServerLine]) -> ClusterId {
    let hash = hash("cluster id", servers);
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    ClusterId(id)
}

/// Of the founder's line; the other lines change when a cluster grows or shrinks.
fn hash(what: &str, servers: &[ServerLine]) -> [u8; 32] {
    let founder = servers.iter().find(|line| !line.observer).map_or_else(String::new, ToString::to_string);
    Sha256::digest(format!("castellan zoo.cfg {what}\n{founder}\n")).into()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// For the owner's eyes only; the old content or the new one, never half of it.
fn write_private(file: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let fresh = file.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut out = options.open(&fresh)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    std::fs::rename(&fresh, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo_cfg::properties::Setting;

    fn lines(texts: &[(u64, &str)]) -> Vec<ServerLine> {
        let line = |(id, text): &(u64, &str)| {
            let setting = Setting { value: (*text).into(), place: "test".into() };
            ServerLine::parse(&format!("server.{id}"), &setting).unwrap()
        };
        texts.iter().map(line).collect()
    }

    #[test]
    fn files_that_share_the_founders_line_share_secret_and_cluster() {
        let one = lines(&[(1, "a:1:2"), (2, "b:1:2")]);
        let grown = lines(&[(1, "a:1:2;2181"), (2, "b:1:2"), (3, "c:1:2")]);
        let other = lines(&[(1, "x:1:2"), (2, "b:1:2")]);
        assert_eq!(hash("secret", &one), hash("secret", &grown));
        assert_eq!(cluster_id(&one), cluster_id(&grown));
        assert_ne!(hash("secret", &one), hash("secret", &other));
        assert_ne!(hash("secret", &one), hash("cluster id", &one));
    }

    #[test]
    fn members_that_share_the_quorums_passwords_share_a_secret_that_the_line_does_not_tell() {
        let folder = tempfile::tempdir().unwrap();
        let servers = lines(&[(1, "a:1:2"), (2, "b:1:2")]);
        let secret = |jaas: Option<&str>| {
            let users = jaas.map(|jaas| Users::parse_jaas(jaas, "QuorumServer").unwrap());
            let file = folder.path().join("secret");
            write_secret(&file, &servers, users.as_ref()).unwrap();
            std::fs::read_to_string(&file).unwrap()
        };
        let one = "QuorumServer { a.B required user_x=\"secret\" user_y=\"other\"; };";
        let same = "Server { a.B required user_z=\"z\"; };\nQuorumServer { a.B required user_y=\"other\" user_x=\"secret\"; };";
        let other = "QuorumServer { a.B required user_x=\"secre\" user_y=\"tother\"; };";
        assert_eq!(secret(Some(one)), secret(Some(same)));
        assert_ne!(secret(Some(one)), secret(Some(other)));
        assert_ne!(secret(Some(one)), secret(None));
        assert_eq!(secret(Some(one)).len(), 64);
    }

    #[test]
    fn the_participant_with_the_smallest_id_founds() {
        let servers = lines(&[(1, "a:1:2:observer"), (2, "b:1:2"), (3, "c:1:2")]);
        let founding = |id| Founding::new(id, servers.clone(), PathBuf::new(), PathBuf::new());
        assert_eq!([1, 2, 3].map(|id| founding(id).founder()), [2, 2, 2]);
        assert_eq!(Founding::new(9, Vec::new(), PathBuf::new(), PathBuf::new()).founder(), 9);
    }

    #[test]
    fn a_lone_servers_secret_is_random_private_and_kept() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        write_secret(&a, &[], None).unwrap();
        write_secret(&b, &[], None).unwrap();
        let first = std::fs::read_to_string(&a).unwrap();
        assert_eq!(first.len(), 64);
        assert_ne!(first, std::fs::read_to_string(&b).unwrap());
        write_secret(&a, &[], None).unwrap();
        assert_eq!(first, std::fs::read_to_string(&a).unwrap());
        assert_eq!(std::fs::metadata(&a).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
