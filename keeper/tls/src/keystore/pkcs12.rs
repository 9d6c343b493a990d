//! PKCS #12 (RFC 7292), as far as keystores of Java and OpenSSL go: password integrity, password privacy.

use super::{PrivateKey, Store, pbes2, utf16};
use crate::certificate;
use crate::der;
use crate::limits::{CHAIN_LEN_MAX, KEYSTORE_ENTRIES_MAX};
use aws_lc_rs::{digest, hmac};
use rustls::pki_types::CertificateDer;
use std::num::NonZeroU32;

const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 6];
/// Prefix of keyBag (1), shroudedKeyBag (2), certBag (3).
const BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1];
const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 22, 1];
const LOCAL_KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 21];
const SHA1: &[u8] = &[0x2b, 0x0e, 3, 2, 26];
/// Prefix of SHA-256 (1), SHA-384 (2), SHA-512 (3).
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2];
/// Content encrypted in place: `[0] IMPLICIT OCTET STRING`.
const CONTEXT_0_PRIMITIVE: u8 = 0x80;

const MALFORMED: &str = "neither PEM nor a JKS or PKCS #12 store, or damaged";

#[derive(Default)]
struct Bags {
    keys: Vec<(Option<Vec<u8>>, Vec<u8>)>,
    certificates: Vec<(Option<Vec<u8>>, CertificateDer<'static>)>,
}

pub fn read(bytes: &[u8], password: &str) -> Result<Store, String> {
    let mut input = bytes;
    let mut outer = der::expect(&mut input, der::SEQUENCE).ok_or(MALFORMED)?;
    der::expect(&mut outer, der::INTEGER).ok_or(MALFORMED)?;
    let content = der::expect(&mut outer, der::SEQUENCE).ok_or(MALFORMED)?;
    let safe = data(content)?;
    match der::expect(&mut outer, der::SEQUENCE) {
        Some(mac) => check(mac, safe, password)?,
        None => return Err("a PKCS #12 store without a sum over its content is not taken".into()),
    }
    let mut bags = Bags::default();
    let mut input = safe;
    let mut parts = der::expect(&mut input, der::SEQUENCE).ok_or(MALFORMED)?;
    while !parts.is_empty() {
        let part = der::expect(&mut parts, der::SEQUENCE).ok_or(MALFORMED)?;
        let mut kind = part;
        if der::expect(&mut kind, der::OBJECT_ID) == Some(ENCRYPTED_DATA) {
            let plain = decrypt(kind, password)?;
            take_bags(&plain, password, &mut bags)?;
        } else {
            take_bags(data(part)?, password, &mut bags)?;
        }
    }
    Ok(store(bags))
}

/// The octets in a ContentInfo of kind `data`.
fn data(mut content: &[u8]) -> Result<&[u8], String> {
    if der::expect(&mut content, der::OBJECT_ID) != Some(DATA) {
        return Err("a PKCS #12 store that is signed or encrypted with keys is not taken".into());
    }
    let mut explicit = der::expect(&mut content, der::CONTEXT_0).ok_or(MALFORMED)?;
    Ok(der::expect(&mut explicit, der::OCTET_STRING).ok_or(MALFORMED)?)
}

fn decrypt(mut content: &[u8], password: &str) -> Result<Vec<u8>, String> {
    let mut explicit = der::expect(&mut content, der::CONTEXT_0).ok_or(MALFORMED)?;
    let mut encrypted = der::expect(&mut explicit, der::SEQUENCE).ok_or(MALFORMED)?;
    der::expect(&mut encrypted, der::INTEGER).ok_or(MALFORMED)?;
    let mut info = der::expect(&mut encrypted, der::SEQUENCE).ok_or(MALFORMED)?;
    der::expect(&mut info, der::OBJECT_ID).ok_or(MALFORMED)?;
    let algorithm = der::expect(&mut info, der::SEQUENCE).ok_or(MALFORMED)?;
    let bytes = der::expect(&mut info, CONTEXT_0_PRIMITIVE).ok_or(MALFORMED)?;
    pbes2::decrypt(algorithm, bytes, password)
}

fn take_bags(contents: &[u8], password: &str, bags: &mut Bags) -> Result<(), String> {
    let mut input = contents;
    let mut contents = der::expect(&mut input, der::SEQUENCE).ok_or(MALFORMED)?;
    while !contents.is_empty() {
        if bags.keys.len() + bags.certificates.len() == KEYSTORE_ENTRIES_MAX {
            return Err(format!("more than {KEYSTORE_ENTRIES_MAX} entries"));
        }
        let mut bag = der::expect(&mut contents, der::SEQUENCE).ok_or(MALFORMED)?;
        let kind = der::expect(&mut bag, der::OBJECT_ID).ok_or(MALFORMED)?;
        let value = der::expect(&mut bag, der::CONTEXT_0).ok_or(MALFORMED)?;
        let key_id = der::expect(&mut bag, der::SET).and_then(local_key_id);
        match kind.strip_prefix(BAG) {
            Some([1]) => bags.keys.push((key_id, value.to_vec())),
            Some([2]) => bags.keys.push((key_id, pbes2::decrypt_key(value, password)?)),
            Some([3]) => {
                let certificate = certificate_of(value).ok_or(MALFORMED)?;
                bags.certificates.push((key_id, certificate));
            }
            // Revocation lists, secrets and nested bags are nothing to us.
            _ => {}
        }
    }
    Ok(())
}

fn certificate_of(mut value: &[u8]) -> Option<CertificateDer<'static>> {
    let mut bag = der::expect(&mut value, der::SEQUENCE)?;
    if der::expect(&mut bag, der::OBJECT_ID)? != X509 {
        return None;
    }
    let mut explicit = der::expect(&mut bag, der::CONTEXT_0)?;
    Some(CertificateDer::from(der::expect(&mut explicit, der::OCTET_STRING)?.to_vec()))
}

fn local_key_id(mut attributes: &[u8]) -> Option<Vec<u8>> {
    while let Some(mut attribute) = der::expect(&mut attributes, der::SEQUENCE) {
        if der::expect(&mut attribute, der::OBJECT_ID)? == LOCAL_KEY_ID {
            let mut values = der::expect(&mut attribute, der::SET)?;
            return der::expect(&mut values, der::OCTET_STRING).map(<[u8]>::to_vec);
        }
    }
    None
}

/// Joins keys with their certificates by id, and the certificates above them by issuer.
fn store(bags: Bags) -> Store {
    let mut store = Store::default();
    let mut used = vec![false; bags.certificates.len()];
    for (key_id, key) in bags.keys {
        let own = bags.certificates.iter().position(|(id, _)| id.is_some() && *id == key_id);
        let mut chain = Vec::new();
        let mut next = own;
        while let Some(at) = next.filter(|_| chain.len() < CHAIN_LEN_MAX) {
            used[at] = true;
            chain.push(bags.certificates[at].1.clone());
            let issuer = certificate::parts(&bags.certificates[at].1).map(|parts| parts.issuer);
            next = (0..used.len()).find(|other| {
                !used[*other]
                    && issuer.is_some()
                    && certificate::parts(&bags.certificates[*other].1).map(|parts| parts.subject) == issuer
            });
        }
        store.keys.push(PrivateKey { key: key.into(), chain });
    }
    let rest = bags.certificates.into_iter().zip(used).filter(|(_, used)| !used);
    store.trusted = rest.map(|((_, certificate), _)| certificate).collect();
    store
}

/// MacData: an HMAC over the content, with a key from the password.
fn check(mut mac: &[u8], content: &[u8], password: &str) -> Result<(), String> {
    let mut digest_info = der::expect(&mut mac, der::SEQUENCE).ok_or(MALFORMED)?;
    let salt = der::expect(&mut mac, der::OCTET_STRING).ok_or(MALFORMED)?;
    let rounds = match der::expect(&mut mac, der::INTEGER) {
        Some(number) => pbes2::rounds(number)?,
        None => NonZeroU32::MIN,
    };
    let mut algorithm = der::expect(&mut digest_info, der::SEQUENCE).ok_or(MALFORMED)?;
    let expected = der::expect(&mut digest_info, der::OCTET_STRING).ok_or(MALFORMED)?;
    let name = der::expect(&mut algorithm, der::OBJECT_ID).ok_or(MALFORMED)?;
    let (hash, sum) = match name.strip_prefix(SHA2) {
        Some([1]) => (&digest::SHA256, hmac::HMAC_SHA256),
        Some([2]) => (&digest::SHA384, hmac::HMAC_SHA384),
        Some([3]) => (&digest::SHA512, hmac::HMAC_SHA512),
        _ if name == SHA1 => (&digest::SHA1_FOR_LEGACY_USE_ONLY, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        _ => return Err("its sum is of an unknown kind".into()),
    };
    let key = hmac::Key::new(sum, &mac_key(hash, password, salt, rounds));
    hmac::verify(&key, content, expected).map_err(|_| "wrong password, or the store is damaged".into())
}

/// Key material with id 3 (RFC 7292, appendix B.2). One block of it is as long as an HMAC key has to be, so the
/// steps that make further blocks are not needed.
fn mac_key(hash: &'static digest::Algorithm, password: &str, salt: &[u8], rounds: NonZeroU32) -> Vec<u8> {
    let block = hash.block_len();
    let filled = |text: &[u8]| -> Vec<u8> {
        let len = text.len().div_ceil(block) * block;
        text.iter().copied().cycle().take(len).collect()
    };
    // The password ends with a zero character here.
    let password = [utf16(password), vec![0, 0]].concat();
    let first = [vec![3; block], filled(salt), filled(&password)].concat();
    let mut sum = digest::digest(hash, &first);
    for _ in 1..rounds.get() {
        sum = digest::digest(hash, sum.as_ref());
    }
    sum.as_ref().to_vec()
}
