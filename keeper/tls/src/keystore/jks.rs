//! JKS, Java's own store until version 8. No standard describes it; the layout is that of the public class
//! `sun.security.provider.JavaKeyStore`, whose keys are hidden by a stream of SHA-1 sums.

use super::{PrivateKey, Store, utf16};
use crate::der;
use crate::limits::{CHAIN_LEN_MAX, KEYSTORE_ENTRIES_MAX};
use rustls::pki_types::CertificateDer;
use sha1::{Digest, Sha1};

const MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];
const SUM_BYTES: usize = 20;
/// What Java puts between password and content before it sums them.
const WHITENER: &[u8] = b"Mighty Aphrodite";
const KEY_ENTRY: u32 = 1;
const TRUSTED_ENTRY: u32 = 2;
const CUT_SHORT: &str = "the JKS store is cut short";

pub fn is_jks(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

pub fn read(bytes: &[u8], password: &str) -> Result<Store, String> {
    let password = utf16(password);
    let (body, sum) = bytes
        .len()
        .checked_sub(SUM_BYTES)
        .filter(|len| *len >= MAGIC.len())
        .map(|len| bytes.split_at(len))
        .ok_or(CUT_SHORT)?;
    let expected = Sha1::new().chain_update(&password).chain_update(WHITENER).chain_update(body).finalize();
    if expected[..] != *sum {
        return Err("wrong password, or the JKS store is damaged".into());
    }
    let mut input = Input(&body[MAGIC.len()..]);
    let version = input.number()?;
    if !(1..=2).contains(&version) {
        return Err(format!("JKS version {version} is not known"));
    }
    let count = input.number()?;
    if count as usize > KEYSTORE_ENTRIES_MAX {
        return Err(format!("{count} entries, more than {KEYSTORE_ENTRIES_MAX}"));
    }
    let mut store = Store::default();
    for _ in 0..count {
        let kind = input.number()?;
        let _alias = input.text()?;
        let _created = input.take(8)?;
        match kind {
            KEY_ENTRY => {
                let key = unhide(input.sized()?, &password)?;
                let len = input.number()?;
                if len as usize > CHAIN_LEN_MAX {
                    return Err(format!("a chain of {len} certificates, more than {CHAIN_LEN_MAX}"));
                }
                let chain = (0..len).map(|_| input.certificate(version)).collect::<Result<_, String>>()?;
                store.keys.push(PrivateKey { key: key.into(), chain });
            }
            TRUSTED_ENTRY => store.trusted.push(input.certificate(version)?),
            other => return Err(format!("an entry of kind {other} is not known")),
        }
    }
    Ok(store)
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(CUT_SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    fn sized(&mut self) -> Result<&'a [u8], String> {
        let len = self.number()?;
        self.take(len as usize)
    }

    fn text(&mut self) -> Result<&'a [u8], String> {
        let len = self.take(2)?;
        self.take(usize::from(len[0]) << 8 | usize::from(len[1]))
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, String> {
        if version == 2 && self.text()? != b"X.509" {
            return Err("a certificate that is not X.509".into());
        }
        Ok(CertificateDer::from(self.sized()?.to_vec()))
    }
}

/// EncryptedPrivateKeyInfo around salt, hidden key, and the sum of password and key.
fn unhide(entry: &[u8], password: &[u8]) -> Result<Vec<u8>, String> {
    let mut input = entry;
    let wrong = "a key entry that is not of JKS";
    let mut info = der::expect(&mut input, der::SEQUENCE).ok_or(wrong)?;
    der::expect(&mut info, der::SEQUENCE).ok_or(wrong)?;
    let hidden = der::expect(&mut info, der::OCTET_STRING).ok_or(wrong)?;
    let (salt, rest) = hidden.split_at_checked(SUM_BYTES).ok_or(wrong)?;
    let (hidden, check) = rest.len().checked_sub(SUM_BYTES).map(|len| rest.split_at(len)).ok_or(wrong)?;
    let mut key = Vec::with_capacity(hidden.len());
    let mut sum: [u8; SUM_BYTES] = salt.try_into().map_err(|_| wrong)?;
    for block in hidden.chunks(SUM_BYTES) {
        sum = Sha1::new().chain_update(password).chain_update(sum).finalize().into();
        key.extend(block.iter().zip(sum).map(|(byte, mask)| byte ^ mask));
    }
    if Sha1::new().chain_update(password).chain_update(&key).finalize()[..] != *check {
        return Err("the key has another password than the store; give both the same".into());
    }
    Ok(key)
}
