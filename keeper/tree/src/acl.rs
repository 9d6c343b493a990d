//! Who may do what: checking a request's ACL, and an ACL against identities, by the rules of ZooKeeper's providers
//! for `world`, `auth`, `digest`, `ip`, `x509` and `sasl`; the identity `super` may do everything.
//!
//! Every member decides alike: which schemes are valid does not depend on a member's configuration. A scheme that
//! nobody can prove on a member is an ACL that grants nothing there.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use keeper_types::{Acl, AclId, ErrorCode, Perms, Stat};
use sha1::{Digest as _, Sha1};

use crate::limits::ACL_ENTRIES_MAX;
use crate::tree::Tree;
use distinguished_name::is_distinguished_name;
use network::{Address, Network};

/// The form of names in `x509`.
mod distinguished_name;
/// Addresses and masks in `ip`.
mod network;

pub use network::ip_identity;

/// The identity that `addauth digest user:password` proves: `user:base64(sha1("user:password"))`.
/// As in ZooKeeper a text without a colon is all user; `None` is left for texts a later version refuses.
pub fn digest_identity(user_and_password: &str) -> Option<AclId> {
    let user = user_and_password.split(':').next()?;
    let hash = STANDARD.encode(Sha1::digest(user_and_password.as_bytes()));
    Some(AclId { scheme: "digest".into(), id: format!("{user}:{hash}") })
}

/// Turns the ACL of a request into the one to store: duplicates removed, `auth` replaced by the proven
/// identities of the client. Empty, too long, of an unknown scheme or malformed is `InvalidAcl`.
///
/// The bound is on distinct entries: a vector of a million equal ones is one entry, as in ZooKeeper.
pub(crate) fn resolve(requested: &[Acl], identities: &[AclId]) -> Result<Vec<Acl>, ErrorCode> {
    let mut resolved: Vec<Acl> = Vec::new();
    let mut seen = BTreeSet::new();
    for acl in requested {
        if !seen.insert((acl.perms.0, acl.id.scheme.as_str(), acl.id.id.as_str())) {
            continue;
        }
        if acl.id.scheme == "auth" {
            let before = resolved.len();
            let proven = identities.iter().filter(|identity| is_proof(&identity.scheme));
            resolved.extend(proven.map(|identity| Acl { perms: acl.perms, id: identity.clone() }));
            if resolved.len() == before {
                return Err(ErrorCode::InvalidAcl);
            }
        } else if is_valid(&acl.id) {
            resolved.push(acl.clone());
        } else {
            return Err(ErrorCode::InvalidAcl);
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

impl Tree {
    /// As [`Tree::get_acl`], with the hashes of digests for everyone who may see the ACL at all: ZooKeeper before 3.8.
    pub fn get_acl_unredacted(
        &self,
        path: &str,
        identities: &[AclId],
    ) -> Result<(Vec<Acl>, Stat), ErrorCode> {
        let (_, stat) = self.get_acl(path, identities)?;
        // Reached only by a path that names a node.
        let node = self.store.node(self.lookup(path)?);
        Ok((self.store.acls.list(node.acl).to_vec(), stat))
    }
}

/// Schemes whose identities a client has proved, and which `auth` therefore stands for. An address is not a
/// proof, and `super` is no scheme of its own.
fn is_proof(scheme: &str) -> bool {
    matches!(scheme, "digest" | "sasl" | "x509")
}

fn is_valid(named: &AclId) -> bool {
    let id = named.id.as_str();
    match named.scheme.as_str() {
        "world" => id == "anyone",
        "digest" => is_digest(id),
        "ip" => Network::parse(id).is_some(),
        "sasl" => is_principal(id),
        "x509" => is_distinguished_name(id),
        _ => false,
    }
}

/// ZooKeeper splits at colons, drops empty parts at the end and wants two parts.
fn is_digest(id: &str) -> bool {
    id.trim_end_matches(':').split(':').count() == 2
}

/// Any name without `@`, else Kerberos' `name@REALM` or `name/host@REALM`.
fn is_principal(id: &str) -> bool {
    match id.split_once('@') {
        None => true,
        Some((name, realm)) => !realm.contains(['/', '@']) && name.matches('/').count() <= 1,
    }
}

/// Whether an identity of the same scheme is the one an ACL names.
fn matches(identity: &AclId, named: &AclId) -> bool {
    match named.scheme.as_str() {
        "ip" => match (Network::parse(&named.id), Address::parse(&identity.id)) {
            (Some(network), Some(address)) => network.contains(address),
            _ => false,
        },
        // ZooKeeper's SASLAuthenticationProvider lets the user `super` pass for every other.
        "sasl" => identity.id == named.id || identity.id == "super",
        _ => identity.id == named.id,
    }
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

    /// As ZooKeeper 3.9.5 judged the same ACLs, with its providers of `sasl` and `x509` configured.
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
            vec![acl("ip", "10.0.0.0/")],
            vec![acl("ip", "10.0.0.0/8/8")],
            vec![acl("ip", "::1/129")],
            vec![acl("ip", "::ffff:1.2.3.4")],
            vec![acl("ip", ":::1")],
            vec![acl("ip", "fe80::1%eth0")],
            vec![acl("ip", "1.2.3.4.5")],
            vec![acl("ip", "")],
            vec![acl("sasl", "a@b@c")],
            vec![acl("sasl", "a/b/c@d")],
            vec![acl("sasl", "a@b/c")],
            vec![acl("x509", "client")],
            vec![acl("", "")],
            vec![Acl::open(), acl("auth", "")],
        ];
        for list in bad {
            assert_eq!(resolve(&list, &[identity("ip", "10.0.0.1")]), Err(ErrorCode::InvalidAcl), "{list:?}");
        }
        for good in
            ["10.0.0.0/8", "10.0.0.0/+8", "10.0.0.0/-0", "+10.0.0.1", "::1", "0:0:0:0:0:0:0:1", "fd00::/8"]
        {
            assert!(resolve(&[acl("ip", good)], &[]).is_ok(), "{good}");
        }
        for (scheme, id) in [
            ("digest", "a:b:"),
            ("digest", ":b"),
            ("sasl", "bob"),
            ("sasl", ""),
            ("sasl", "a/b"),
            ("sasl", "a/b@C"),
            ("x509", "CN=client,O=Castellan"),
        ] {
            assert!(resolve(&[acl(scheme, id)], &[]).is_ok(), "{scheme}:{id}");
        }
    }

    #[test]
    fn auth_stands_for_every_proven_identity() {
        let proven = [("digest", "a:x"), ("sasl", "bob"), ("x509", "CN=c")];
        let mut who = vec![identity("ip", "10.0.0.1"), identity("super", "")];
        who.extend(proven.map(|(scheme, id)| identity(scheme, id)));
        let resolved = resolve(&[acl("auth", "ignored"), acl("auth", "ignored")], &who);
        assert_eq!(resolved, Ok(proven.map(|(scheme, id)| acl(scheme, id)).to_vec()));
        assert_eq!(resolve(&[acl("auth", "")], &who[..2]), Err(ErrorCode::InvalidAcl));
    }

    #[test]
    fn an_acl_cannot_grow_beyond_its_bound() {
        let auth = |count: i32| -> Vec<Acl> {
            (0..count).map(|perms| Acl { perms: Perms(perms), ..acl("auth", "") }).collect()
        };
        let who = [identity("digest", "a:x"), identity("digest", "b:y")];
        assert_eq!(resolve(&auth(2048), &who).map(|list| list.len()), Ok(ACL_ENTRIES_MAX));
        assert_eq!(resolve(&auth(2049), &who), Err(ErrorCode::InvalidAcl));
        let distinct = |count: i32| (0..count).map(|perms| Acl { perms: Perms(perms), ..Acl::open() });
        let bound = ACL_ENTRIES_MAX as i32;
        assert_eq!(
            resolve(&distinct(bound).collect::<Vec<_>>(), &who).map(|list| list.len()),
            Ok(ACL_ENTRIES_MAX)
        );
        assert_eq!(resolve(&distinct(bound + 1).collect::<Vec<_>>(), &who), Err(ErrorCode::InvalidAcl));
        assert_eq!(resolve(&vec![Acl::open(); 1_000_000], &who), Ok(vec![Acl::open()]));
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
    fn identities_match_letter_by_letter_within_their_scheme() {
        let may = |scheme, named, id| allows(&[acl(scheme, named)], Perms::READ, &[identity(scheme, id)]);
        assert!(may("sasl", "bob", "bob") && !may("sasl", "bob", "Bob") && !may("sasl", "bob", ""));
        assert!(may("sasl", "bob", "super"), "as ZooKeeper's provider has it");
        assert!(may("x509", "CN=a", "CN=a") && !may("x509", "CN=a", "cn=a") && !may("x509", "CN=a", "super"));
        assert!(
            may("digest", "a:x", "a:x") && !may("digest", "a:x", "a:y") && !may("digest", "a:x", "super")
        );
        assert!(!allows(
            &[acl("sasl", "bob")],
            Perms::READ,
            &[identity("digest", "bob"), identity("x509", "bob")]
        ));
        assert!(!allows(&[acl("world", "bob")], Perms::READ, &[identity("sasl", "bob")]));
    }

    #[test]
    fn an_address_is_spelled_as_java_spells_it() {
        let spelled = |ip| ip_identity(ip).id;
        assert_eq!(spelled("10.1.2.3"), "10.1.2.3");
        assert_eq!(spelled("::ffff:10.1.2.3"), "10.1.2.3");
        assert_eq!(spelled("::1"), "0:0:0:0:0:0:0:1");
        assert!(allows(&[acl("ip", "::/64")], Perms::READ, &[ip_identity("::1")]));
        assert!(allows(&[acl("ip", "10.0.0.0/8")], Perms::READ, &[ip_identity("::ffff:10.1.2.3")]));
    }

    #[test]
    fn a_mask_of_zero_bits_matches_every_address_of_its_family() {
        let everyone = [acl("ip", "0.0.0.0/0")];
        assert!(allows(&everyone, Perms::READ, &[identity("ip", "255.1.2.3")]));
        assert!(!allows(&everyone, Perms::READ, &[identity("ip", "::1")]));
        assert!(allows(&[acl("ip", "::/0")], Perms::READ, &[identity("ip", "::1")]));
    }
}
