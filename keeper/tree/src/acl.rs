//! Who may do what: checking a request's ACL, and an ACL against identities. ZooKeeper's rules for the
//! schemes `world`, `auth`, `digest` and `ip`; the identity `super` may do everything.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keeper_types::{Acl, AclId, ErrorCode, Perms};
use sha1::{Digest as _, Sha1};

use crate::limits::ACL_ENTRIES_MAX;

/// The identity that `addauth digest user:password` proves: `user:base64(sha1("user:password"))`.
/// As in ZooKeeper a text without a colon is all user; `None` is left for texts a later version refuses.
pub fn digest_identity(user_and_password: &str) -> Option<AclId> {
    let user = user_and_password.split(':').next()?;
    let hash = STANDARD.encode(Sha1::digest(user_and_password.as_bytes()));
    Some(AclId { scheme: "digest".into(), id: format!("{user}:{hash}") })
}

/// Turns the ACL of a request into the one to store: duplicates removed, `auth` replaced by the proven
/// identities of the client. Empty, too long, of an unknown scheme or malformed is `InvalidAcl`.
pub(crate) fn resolve(requested: &[Acl], identities: &[AclId]) -> Result<Vec<Acl>, ErrorCode> {
    if requested.len() > ACL_ENTRIES_MAX {
        return Err(ErrorCode::InvalidAcl);
    }
    let mut resolved: Vec<Acl> = Vec::with_capacity(requested.len());
    let mut seen = BTreeSet::new();
    for acl in requested {
        if !seen.insert((acl.perms.0, acl.id.scheme.as_str(), acl.id.id.as_str())) {
            continue;
        }
        match acl.id.scheme.as_str() {
            "world" if acl.id.id == "anyone" => resolved.push(acl.clone()),
            "auth" => {
                let before = resolved.len();
                let proven = identities.iter().filter(|identity| is_proof(&identity.scheme));
                resolved.extend(proven.map(|identity| Acl { perms: acl.perms, id: identity.clone() }));
                if resolved.len() == before {
                    return Err(ErrorCode::InvalidAcl);
                }
            }
            "digest" if is_digest(&acl.id.id) => resolved.push(acl.clone()),
            "ip" if Network::parse(&acl.id.id).is_some() => resolved.push(acl.clone()),
            _ => return Err(ErrorCode::InvalidAcl),
        }
        if resolved.len() > ACL_ENTRIES_MAX {
            return Err(ErrorCode::InvalidAcl);
        }
    }
    if resolved.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(resolved) }
}

/// True when one of `identities` is granted any bit of `wanted` by `acls`.
pub(crate) fn allows(acls: &[Acl], wanted: Perms, identities: &[AclId]) -> bool {
    if acls.is_empty() || identities.iter().any(|identity| identity.scheme == "super") {
        return true;
    }
    acls.iter().filter(|acl| acl.perms.intersects(wanted)).any(|acl| {
        let named = &acl.id;
        (named.scheme == "world" && named.id == "anyone")
            || identities.iter().any(|identity| identity.scheme == named.scheme && matches(identity, named))
    })
}

/// The ACL as shown to a client without the Admin permission: hashes of passwords are replaced by `x`.
pub(crate) fn redact(acls: &[Acl]) -> Vec<Acl> {
    let hide = |acl: &Acl| {
        let mut acl = acl.clone();
        if acl.id.scheme == "digest"
            && let Some((user, _)) = acl.id.id.split_once(':')
        {
            acl.id.id = format!("{user}:x");
        }
        acl
    };
    acls.iter().map(hide).collect()
}

/// Schemes whose identities a client has proved, and which `auth` therefore stands for. An address is not a
/// proof, and `super` is no scheme of its own.
fn is_proof(scheme: &str) -> bool {
    matches!(scheme, "digest" | "sasl" | "x509")
}

/// ZooKeeper splits at colons, drops empty parts at the end and wants two parts.
fn is_digest(id: &str) -> bool {
    id.trim_end_matches(':').split(':').count() == 2
}

fn matches(identity: &AclId, named: &AclId) -> bool {
    if named.scheme != "ip" {
        return identity.id == named.id;
    }
    match (Network::parse(&named.id), address(&identity.id)) {
        (Some(network), Some(address)) => network.contains(address),
        _ => false,
    }
}

/// An address as a number with its width in bits.
#[derive(Clone, Copy)]
struct Address {
    value: u128,
    bits: u32,
}

/// `10.1.0.0/16` or a single address.
struct Network {
    address: Address,
    prefix_bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Network> {
        let (address_text, prefix) = match text.split_once('/') {
            Some((address_text, prefix)) => (address_text, Some(prefix)),
            None => (text, None),
        };
        let address = address(address_text)?;
        let prefix_bits = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|bits| *bits <= address.bits)?,
            None => address.bits,
        };
        Some(Network { address, prefix_bits })
    }

    fn contains(&self, other: Address) -> bool {
        let ignored_bits = self.address.bits - self.prefix_bits;
        let cut = |value: u128| value.checked_shr(ignored_bits).unwrap_or(0);
        self.address.bits == other.bits && cut(self.address.value) == cut(other.value)
    }
}

fn address(text: &str) -> Option<Address> {
    if text.contains(':') {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(scheme: &str, id: &str) -> Acl {
        Acl { perms: Perms::ALL, id: AclId { scheme: scheme.into(), id: id.into() } }
    }

    fn identity(scheme: &str, id: &str) -> AclId {
        AclId { scheme: scheme.into(), id: id.into() }
    }

    #[test]
    fn a_digest_identity_is_the_one_zookeeper_makes() {
        // The pair from ZooKeeper's documentation of its super user.
        let made = digest_identity("super:superpw").expect("has a user");
        assert_eq!(made, identity("digest", "super:g9oN2HttPfn8MMWJZ2r45Np/LIA="));
    }

    #[test]
    fn an_acl_of_an_unknown_scheme_or_form_is_invalid() {
        let bad = [
            vec![],
            vec![acl("world", "everyone")],
            vec![acl("nothing", "a")],
            vec![acl("super", "a")],
            vec![acl("digest", "user")],
            vec![acl("digest", "user:")],
            vec![acl("digest", "a:b:c")],
            vec![acl("ip", "10.0.0")],
            vec![acl("ip", "10.0.0.256")],
            vec![acl("ip", "10.0.0.0/33")],
            vec![acl("ip", "10.0.0.0/-1")],
            vec![Acl::open(), acl("auth", "")],
        ];
        for list in bad {
            assert_eq!(resolve(&list, &[identity("ip", "10.0.0.1")]), Err(ErrorCode::InvalidAcl), "{list:?}");
        }
        for good in ["10.0.0.0/8", "10.0.0.1", "::1", "fd00::/8"] {
            assert!(resolve(&[acl("ip", good)], &[]).is_ok(), "{good}");
        }
        assert!(resolve(&[acl("digest", "a:b:")], &[]).is_ok());
    }

    #[test]
    fn auth_stands_for_every_proven_identity() {
        let who = [identity("ip", "10.0.0.1"), identity("digest", "a:x"), identity("digest", "b:y")];
        let resolved = resolve(&[acl("auth", "ignored"), acl("auth", "ignored")], &who);
        assert_eq!(resolved, Ok(vec![acl("digest", "a:x"), acl("digest", "b:y")]));
    }

    #[test]
    fn an_acl_cannot_grow_beyond_its_bound() {
        let auth = |count: i32| -> Vec<Acl> {
            (0..count).map(|perms| Acl { perms: Perms(perms), ..acl("auth", "") }).collect()
        };
        let who = [identity("digest", "a:x"), identity("digest", "b:y")];
        assert_eq!(resolve(&auth(2048), &who).map(|list| list.len()), Ok(ACL_ENTRIES_MAX));
        assert_eq!(resolve(&auth(2049), &who), Err(ErrorCode::InvalidAcl));
        assert_eq!(resolve(&vec![acl("ip", "::1"); ACL_ENTRIES_MAX + 1], &who), Err(ErrorCode::InvalidAcl));
    }

    #[test]
    fn permission_comes_from_the_right_entry_only() {
        let list = [
            Acl { perms: Perms::READ, ..acl("world", "anyone") },
            Acl { perms: Perms::WRITE, ..acl("digest", "a:x") },
            Acl { perms: Perms::ADMIN, ..acl("ip", "10.1.0.0/16") },
            Acl { perms: Perms::DELETE, ..acl("ip", "fd00::/8") },
        ];
        assert!(allows(&list, Perms::READ, &[]));
        assert!(!allows(&list, Perms::WRITE, &[identity("digest", "b:y")]));
        assert!(allows(&list, Perms::WRITE, &[identity("digest", "a:x")]));
        assert!(allows(&list, Perms::ADMIN, &[identity("ip", "10.1.2.3")]));
        assert!(!allows(&list, Perms::ADMIN, &[identity("ip", "10.2.2.3")]));
        assert!(allows(&list, Perms::DELETE, &[identity("ip", "fd12::1")]));
        assert!(!allows(&list, Perms::DELETE, &[identity("ip", "10.1.2.3")]));
        assert!(allows(&list, Perms::CREATE, &[identity("super", "")]));
        assert!(!allows(&list, Perms::CREATE, &[]));
    }

    #[test]
    fn a_mask_of_zero_bits_matches_every_address_of_its_family() {
        let everyone = [acl("ip", "0.0.0.0/0")];
        assert!(allows(&everyone, Perms::READ, &[identity("ip", "255.1.2.3")]));
        assert!(!allows(&everyone, Perms::READ, &[identity("ip", "::1")]));
        assert!(allows(&[acl("ip", "::/0")], Perms::READ, &[identity("ip", "::1")]));
    }
}
