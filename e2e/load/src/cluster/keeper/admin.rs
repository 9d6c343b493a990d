//! The admin side of a running cluster: founding it, replacing a member, and whether all members hold the same.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use keeper_client::admin::{AdminClient, AdminError, Member, StatusResponse, find_leader};

use super::{ADMIN_TOKEN, CLUSTER_ID, Place};
use crate::cluster::{Cluster, READY_TIMEOUT};

const RETRY: Duration = Duration::from_millis(20);
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Members may have quite some log to apply when a load ends.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(60);

/// A running cluster of keepers. Which member has which server id is known here alone.
pub struct Keepers {
    pub cluster: Cluster,
    pub places: Vec<Place>,
    /// In the order of the places; a replaced member has a new one.
    ids: Vec<u64>,
}

/// What all members agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    pub applied: u64,
    pub digest: u64,
}

impl Keepers {
    pub(super) fn new(cluster: Cluster, places: Vec<Place>) -> Keepers {
        let ids = (1..=places.len() as u64).collect();
        Keepers { cluster, places, ids }
    }

    pub fn id(&self, member: usize) -> u64 {
        self.ids[member]
    }

    fn described(&self, member: usize) -> Member {
        let place = &self.places[member];
        Member {
            server_id: self.ids[member],
            peer_address: place.advertised.to_string(),
            client_address: place.client.to_string(),
            name: format!("local-{}", member + 1),
        }
    }

    /// Bootstraps the first member; the others become learners and then voters, one at a time.
    pub(super) async fn found(&mut self) -> Result<()> {
        let first = self.described(0);
        let admin = self.places[0].admin;
        retry(&mut self.cluster, "founding", async || {
            connect(admin).await?.bootstrap(CLUSTER_ID, first.clone()).await.map(drop)
        })
        .await?;
        for member in 1..self.places.len() {
            self.join(member).await?;
        }
        Ok(())
    }

    /// Takes a member with an empty disk in under its id, first without a vote.
    async fn join(&mut self, member: usize) -> Result<()> {
        let (described, admins) = (self.described(member), self.admins());
        let id = described.server_id;
        retry(&mut self.cluster, "adding a learner", async || {
            leader(&admins).await?.add_learner(described.clone(), None).await.map(drop)
        })
        .await?;
        retry(&mut self.cluster, "promoting a learner", async || {
            leader(&admins).await?.promote(id, None).await.map(drop)
        })
        .await
    }

    /// Puts a new server in the place of one that lost its disk: the old id is removed, the running member with its empty
    /// disk taken in under one that was never used.
    pub async fn replace(&mut self, member: usize) -> Result<()> {
        let (old, admins) = (self.ids[member], self.admins());
        retry(&mut self.cluster, "removing a member", async || {
            leader(&admins).await?.remove(old, None).await.map(drop)
        })
        .await?;
        let (_, status) = find_leader(&admins, ADMIN_TOKEN).await?;
        let highest = status.membership.map_or(0, |membership| membership.server_id_max);
        ensure!(old <= highest, "server id {old} was given out, and the leader knows of {highest} at most");
        self.ids[member] = highest + 1;
        self.join(member).await
    }

    fn admins(&self) -> Vec<String> {
        self.places.iter().map(|place| place.admin.to_string()).collect()
    }

    pub async fn status(&self, member: usize) -> Result<StatusResponse, AdminError> {
        connect(self.places[member].admin).await?.status().await
    }

    /// Waits until all members have applied the same. An error when their trees differ then.
    pub async fn level(&mut self) -> Result<Level> {
        let end = Instant::now() + LEVEL_TIMEOUT;
        loop {
            let mut found = Vec::new();
            for member in 0..self.places.len() {
                found.extend(self.status(member).await.ok());
            }
            let levels: Vec<Level> = found
                .iter()
                .map(|status| Level { applied: status.applied_index, digest: status.tree_digest })
                .collect();
            let [first, rest @ ..] = &levels[..] else { bail!("no member says what it has applied") };
            if levels.len() == self.places.len() && rest.iter().all(|level| level.applied == first.applied) {
                ensure!(rest.iter().all(|level| level == first), "the members' trees differ: {levels:x?}");
                return Ok(*first);
            }
            self.cluster.check_alive()?;
            if Instant::now() >= end {
                bail!("the members do not become level within {} s: {levels:?}", LEVEL_TIMEOUT.as_secs());
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

async fn connect(admin: SocketAddr) -> Result<AdminClient, AdminError> {
    AdminClient::connect_within(&admin.to_string(), ADMIN_TOKEN, CALL_TIMEOUT).await
}

async fn leader(admins: &[String]) -> Result<AdminClient, AdminError> {
    Ok(find_leader(admins, ADMIN_TOKEN).await?.0)
}

/// The calls are safe to repeat, and a member that starts or a learner that lags refuses for a while.
async fn retry(
    cluster: &mut Cluster,
    what: &str,
    call: impl AsyncFn() -> Result<(), AdminError>,
) -> Result<()> {
    let end = Instant::now() + READY_TIMEOUT;
    loop {
        let Err(error) = call().await else { return Ok(()) };
        cluster.check_alive()?;
        if Instant::now() >= end {
            bail!("{what} does not succeed within {} s: {error:#}", READY_TIMEOUT.as_secs());
        }
        tokio::time::sleep(RETRY).await;
    }
}
