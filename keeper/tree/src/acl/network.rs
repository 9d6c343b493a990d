//! Addresses and networks of the scheme `ip`, as ZooKeeper's IPAuthenticationProvider reads them.

use keeper_types::AclId;
use std::net::Ipv6Addr;

/// An address as a number with its width in bits.
#[derive(Clone, Copy)]
pub(super) struct Address {
    value: u128,
    bits: u32,
}

impl Address {
    /// Four decimal numbers, or IPv6 in any spelling but the one with an IPv4 address inside, as ZooKeeper 3.9.5.
    pub fn parse(text: &str) -> Option<Address> {
        if text.contains(':') {
            if text.contains('.') {
                return None;
            }
            let value = text.parse::<Ipv6Addr>().ok()?.to_bits();
            return Some(Address { value, bits: 128 });
        }
        let mut value = 0;
        let mut parts = 0;
        for part in text.split('.') {
            let byte = part.parse::<i32>().ok().and_then(|number| u8::try_from(number).ok())?;
            value = value << 8 | u128::from(byte);
            parts += 1;
            if parts > 4 {
                return None;
            }
        }
        (parts == 4).then_some(Address { value, bits: 32 })
    }
}

/// `10.1.0.0/16` or a single address.
pub(super) struct Network {
    address: Address,
    prefix_bits: u32,
}

impl Network {
    pub fn parse(text: &str) -> Option<Network> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address = Address::parse(address)?;
        let prefix_bits = match prefix {
            // A signed number, so that `+8` and `-0` count as in ZooKeeper.
            Some(prefix) => {
                let bits = prefix.parse::<i32>().ok().and_then(|bits| u32::try_from(bits).ok());
                bits.filter(|bits| *bits <= address.bits)?
            }
            None => address.bits,
        };
        Some(Network { address, prefix_bits })
    }

    pub fn contains(&self, other: Address) -> bool {
        let ignored_bits = self.address.bits - self.prefix_bits;
        let cut = |value: u128| value.checked_shr(ignored_bits).unwrap_or(0);
        self.address.bits == other.bits && cut(self.address.value) == cut(other.value)
    }
}

/// The identity of a client's address. An IPv4 address that reached us through an IPv6 socket is the IPv4 one,
/// and IPv6 is spelled in full, both as Java does it.
pub fn ip_identity(remote_ip: &str) -> AclId {
    let id = match remote_ip.parse::<Ipv6Addr>() {
        Ok(address) => match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => address.segments().map(|segment| format!("{segment:x}")).join(":"),
        },
        Err(_) => remote_ip.to_owned(),
    };
    AclId { scheme: "ip".into(), id }
}
