//! How many connections one client address may have: ZooKeeper's `maxClientCnxns`. Counted from the accept on, so that
//! TLS handshakes count too.

use crate::limits::ADDRESS_REFUSAL_LOG_PERIOD;
use keeper_rt::Instant;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of each address. It holds no address without a connection, so it is never larger than they are many.
pub struct PerAddress {
    /// 0: no limit.
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: BTreeMap<IpAddr, usize>,
    said: Option<Instant>,
    unsaid: u64,
}

/// One connection's place; dropping it frees the place.
pub struct Place {
    of: Arc<PerAddress>,
    address: IpAddr,
}

impl PerAddress {
    pub fn new(max: usize) -> Arc<PerAddress> {
        Arc::new(PerAddress { max, state: Mutex::default() })
    }

    /// `None`: the address has all that it may have.
    pub fn admit(self: &Arc<PerAddress>, address: IpAddr) -> Option<Place> {
        // A client of IPv4 is the same one on a socket of both kinds.
        let address = address.to_canonical();
        let mut state = self.state();
        let open = state.open.entry(address).or_default();
        if self.max > 0 && *open >= self.max {
            state.say(address, self.max);
            return None;
        }
        *open += 1;
        drop(state);
        Some(Place { of: self.clone(), address })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// One line a period: a client that has too many tries again at once.
    fn say(&mut self, address: IpAddr, limit: usize) {
        if self.said.is_some_and(|said| said.elapsed() < ADDRESS_REFUSAL_LOG_PERIOD) {
            self.unsaid += 1;
            return;
        }
        let unsaid = std::mem::take(&mut self.unsaid);
        self.said = Some(keeper_rt::now());
        tracing::warn!(%address, limit, unsaid, "client refused: too many connections from its address");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.of.state();
        if let Some(open) = state.open.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                state.open.remove(&self.address);
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
        assert_eq!(limit.state().open.len(), 1, "addresses without connections are forgotten");
    }

    #[test]
    fn none_is_refused_without_a_limit() {
        let limit = PerAddress::new(0);
        let places: Vec<_> = (0..100).map(|_| limit.admit(ip("10.0.0.1"))).collect();
        assert!(places.iter().all(Option::is_some));
    }
}
