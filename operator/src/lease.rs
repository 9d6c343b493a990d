//! Of several operator replicas one acts: the holder of a Lease.
//!
//! The holder stops acting well before another one may take over. Two that act at once for a moment would still do no
//! harm, since every step that matters is guarded by a precondition; this keeps them from getting in each other's way.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use tokio::time::Instant;

use crate::limits::{LEASE_DURATION, LEASE_RENEW_DEADLINE, LEASE_RETRY};

/// Name of the Lease in the operator's namespace.
pub const LEASE_NAME: &str = "castellan-operator";

/// A claim on the Lease.
pub struct Election {
    api: Api<Lease>,
    identity: String,
    /// The Lease as last read, and when: another holder's clock is never compared with ours.
    seen: Option<(Option<String>, Instant)>,
}

/// What an attempt led to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Attempt {
    Held,
    HeldByAnother,
}

impl Election {
    pub fn new(client: Client, namespace: &str, identity: &str) -> Election {
        Election { api: Api::namespaced(client, namespace), identity: identity.into(), seen: None }
    }

    /// Returns when the Lease is ours.
    pub async fn acquire(&mut self) {
        loop {
            match self.attempt().await {
                Ok(Attempt::Held) => return,
                Ok(Attempt::HeldByAnother) => {}
                Err(error) => tracing::warn!(%error, "cannot get the lease"),
            }
            tokio::time::sleep(LEASE_RETRY).await;
        }
    }

    /// Returns when the Lease could not be renewed in time or is somebody else's.
    pub async fn hold(&mut self) {
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(LEASE_RETRY).await;
            let left = LEASE_RENEW_DEADLINE.saturating_sub(renewed.elapsed());
            match tokio::time::timeout(left, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => renewed = Instant::now(),
                Ok(Ok(Attempt::HeldByAnother)) => {
                    tracing::warn!("the lease was taken by another replica");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew the lease"),
                Err(_) => {}
            }
            if renewed.elapsed() >= LEASE_RENEW_DEADLINE {
                tracing::warn!("the lease could not be renewed in time");
                return;
            }
        }
    }

    /// Gives the Lease away at once, so that another replica need not wait for it to run out.
    pub async fn release(&self) {
        let Ok(Some(mut lease)) = self.api.get_opt(LEASE_NAME).await else { return };
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() != Some(self.identity.as_str()) {
            return;
        }
        spec.holder_identity = None;
        spec.lease_duration_seconds = Some(1);
        if let Err(error) = self.api.replace(LEASE_NAME, &PostParams::default(), &lease).await {
            tracing::warn!(%error, "cannot release the lease");
        }
    }

    /// Takes or renews the Lease if it is free, ours or run out.
    pub async fn attempt(&mut self) -> Result<Attempt, kube::Error> {
        let Some(lease) = self.api.get_opt(LEASE_NAME).await? else {
            return self.write(None, Timestamp::now()).await;
        };
        let fingerprint = lease.metadata.resource_version.clone();
        let unchanged_since = match &self.seen {
            Some((seen, since)) if *seen == fingerprint => *since,
            _ => {
                let now = Instant::now();
                self.seen = Some((fingerprint, now));
                now
            }
        };
        if may_take(lease.spec.as_ref(), &self.identity, unchanged_since.elapsed()) {
            return self.write(Some(lease), Timestamp::now()).await;
        }
        Ok(Attempt::HeldByAnother)
    }

    async fn write(&self, present: Option<Lease>, now: Timestamp) -> Result<Attempt, kube::Error> {
        let parameters = PostParams::default();
        let result = match present {
            None => {
                let lease = Lease {
                    metadata: ObjectMeta { name: Some(LEASE_NAME.into()), ..ObjectMeta::default() },
                    spec: Some(claimed(None, &self.identity, now)),
                };
                self.api.create(&parameters, &lease).await
            }
            Some(mut lease) => {
                lease.spec = Some(claimed(lease.spec.as_ref(), &self.identity, now));
                self.api.replace(LEASE_NAME, &parameters, &lease).await
            }
        };
        match result {
            Ok(_) => Ok(Attempt::Held),
            // Somebody else was faster.
            Err(kube::Error::Api(response)) if response.code == 409 => Ok(Attempt::HeldByAnother),
            Err(error) => Err(error),
        }
    }
}

/// Free, ours, or not renewed for as long as its holder promised.
fn may_take(spec: Option<&LeaseSpec>, identity: &str, unchanged_for: Duration) -> bool {
    let holder = spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    if holder.is_empty() || holder == identity {
        return true;
    }
    let promised =
        spec.and_then(|spec| spec.lease_duration_seconds).and_then(|seconds| u64::try_from(seconds).ok());
    unchanged_for >= promised.map_or(LEASE_DURATION, Duration::from_secs)
}

fn claimed(before: Option<&LeaseSpec>, identity: &str, now: Timestamp) -> LeaseSpec {
    let mut spec = before.cloned().unwrap_or_default();
    if spec.holder_identity.as_deref() != Some(identity) {
        spec.holder_identity = Some(identity.into());
        spec.acquire_time = Some(MicroTime(now));
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
    }
    spec.lease_duration_seconds = i32::try_from(LEASE_DURATION.as_secs()).ok();
    spec.renew_time = Some(MicroTime(now));
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_by(holder: &str) -> LeaseSpec {
        claimed(None, holder, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_free_lease_and_our_own_may_be_taken_at_once() {
        assert!(may_take(None, "a", Duration::ZERO));
        assert!(may_take(Some(&held_by("a")), "a", Duration::ZERO));
        assert!(may_take(Some(&LeaseSpec::default()), "a", Duration::ZERO));
    }

    #[test]
    fn anothers_lease_may_be_taken_only_after_it_was_not_renewed_for_as_long_as_promised() {
        let lease = held_by("b");
        assert!(!may_take(Some(&lease), "a", LEASE_DURATION - Duration::from_millis(1)));
        assert!(may_take(Some(&lease), "a", LEASE_DURATION));
    }

    #[test]
    fn the_holder_gives_up_before_another_may_take_over() {
        assert!(LEASE_RENEW_DEADLINE + LEASE_RETRY < LEASE_DURATION);
    }

    #[test]
    fn a_renewal_keeps_the_acquisition_and_a_takeover_counts() {
        let first = held_by("a");
        let later = Timestamp::from_second(10).unwrap();
        let renewed = claimed(Some(&first), "a", later);
        assert_eq!((renewed.acquire_time, renewed.lease_transitions), (first.acquire_time.clone(), Some(1)));
        let taken = claimed(Some(&first), "b", later);
        assert_eq!((taken.acquire_time, taken.lease_transitions), (Some(MicroTime(later)), Some(2)));
    }
}
