//! How many connections one client address may have: ZooKeeper's `maxClientCnxns`. Counted from the accept on, so that
//! TLS handshakes count too.

use crate::limits::ADDRESS_REFUSAL_LOG_PERIOD;
use keeper_rt::Quiet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of each address. It holds no address without a connection, so it is never larger than they are many.
pub struct PerAddress {
    /// 0: no limit.
    max: usize,
    open: Mutex<BTreeMap<IpAddr, usize>>,
    /// A client that has too many tries again at once.
    refusals: Quiet,
}

/// One connection's place; dropping it frees the place.
pub struct Place {
    of: Arc<PerAddress>,
    address: IpAddr,
}

impl PerAddress {
    pub fn new(max: usize) -> Arc<PerAddress> {
        let refusals = Quiet::new(1, ADDRESS_REFUSAL_LOG_PERIOD);
        Arc::new(PerAddress { max, open: Mutex::default(), refusals })
    }

    /// `None`: the address has all that it may have.
    pub fn admit(self: &Arc<PerAddress>, address: IpAddr) -> Option<Place> {
        // A client of IPv4 is the same one on a socket of both kinds.
        let address = address.to_canonical();
        let mut all = self.open();
        let open = all.entry(address).or_default();
        if self.max > 0 && *open >= self.max {
            if let Some(left_out) = self.refusals.admit() {
                let limit = self.max;
                tracing::warn!(%address, limit, left_out, "client refused: too many connections from its address");
            }
            return None;
        }
        *open += 1;
        drop(all);
        Some(Place { of: self.clone(), address })
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.of.open();
        if let Some(open) = all.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                all.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_has_its_places_and_gets_them_back() {
        let limit = PerAddress::new(2);
        let first = limit.admit(ip("10.0.0.1")).expect("a place");
        let _second = limit.admit(ip("::ffff:10.0.0.1")).expect("a place");
        assert!(limit.admit(ip("10.0.0.1")).is_none(), "both forms of one address are one");
        assert!(limit.admit(ip("10.0.0.2")).is_some(), "another address has places of its own");
        drop(first);
        assert!(limit.admit(ip("10.0.0.1")).is_some());
        assert_eq!(limit.open().len(), 1, "addresses without connections are forgotten");
    }

    #[test]
    fn none_is_refused_without_a_limit() {
        let limit = PerAddress::new(0);
        let places: Vec<_> = (0..100).map(|_| limit.admit(ip("10.0.0.1"))).collect();
        assert!(places.iter().all(Option::is_some));
    }
}
