//! An observer that the cluster does not know.
//!
//! In ZooKeeper a server whose own file calls it an observer follows the leader although the configuration does not
//! name it, until a reconfig takes it in. Here nobody is a member by its own decision, so such a server is a guest: its
//! client port passes connections on to a participant of its file until it is taken in.

use super::founding::Founding;
use super::servers::{ServerLine, join};
use keeper_consensus::Role;
use keeper_rt::Instant;
use keeper_server::Node;
use std::time::Duration;

/// Between two looks at the cluster.
const LOOK: Duration = Duration::from_millis(500);
/// A founder that does name this server takes it in before.
const GUEST_AFTER: Duration = Duration::from_secs(3);

impl Founding {
    /// Runs until the server is a member.
    pub(super) async fn visit(&self, node: &Node) {
        let mut unknown_since: Option<Instant> = None;
        while node.consensus().status().role == Role::Uninitialized {
            let host = self.host().await;
            unknown_since = host.as_ref().map(|_| unknown_since.unwrap_or_else(keeper_rt::now));
            let due = unknown_since.is_some_and(|at| at.elapsed() >= GUEST_AFTER);
            let address = host.filter(|_| due);
            if node.shared().pass_clients_to(address.clone()) {
                tracing::warn!(
                    to = address.as_deref().unwrap_or("nobody"),
                    "zoo.cfg: the cluster does not know this observer: clients are passed on until reconfig takes it in"
                );
            }
            keeper_rt::sleep(LOOK).await;
        }
        node.shared().pass_clients_to(None);
        tracing::info!("zoo.cfg: the observer was taken in");
    }

    /// Where a participant serves clients whose cluster does not know this server.
    async fn host(&self) -> Option<String> {
        let token = self.token().ok()?;
        for line in self.others().filter(|line| !line.observer) {
            let Ok(status) = self.status(line, &token).await else { continue };
            let Some(membership) = status.membership.filter(|_| status.leader_id != 0) else { continue };
            let mut members = membership.voters.iter().chain(&membership.learners);
            if members.any(|member| member.server_id == self.id) {
                return None;
            }
            if let Some(address) = reachable(line) {
                return Some(address);
            }
        }
        None
    }
}

/// The client address of a line as others dial it: an address that stands for all of a host's is no place to go.
fn reachable(line: &ServerLine) -> Option<String> {
    let (address, port) = line.client.as_ref()?;
    let everywhere = |address: &str| matches!(address, "0.0.0.0" | "::" | "*");
    let host = address.as_deref().filter(|address| !everywhere(address)).unwrap_or(&line.host);
    Some(join(host, *port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo_cfg::properties::Setting;

    #[test]
    fn clients_are_passed_to_where_a_member_can_be_dialled() {
        let to = |value: &str| {
            let setting = Setting { value: value.into(), place: "test".into() };
            reachable(&ServerLine::parse("server.1", &setting).unwrap())
        };
        assert_eq!(to("a:1:2"), None);
        assert_eq!(to("a:1:2;2181"), Some("a:2181".into()));
        assert_eq!(to("a:1:2;0.0.0.0:2181"), Some("a:2181".into()));
        assert_eq!(to("a:1:2;b:2181"), Some("b:2181".into()));
        assert_eq!(to("[::1]:1:2;2181"), Some("[::1]:2181".into()));
    }
}
