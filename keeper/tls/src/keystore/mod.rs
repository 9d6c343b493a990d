//! Keystores of Java and OpenSSL: JKS and PKCS #12, and encrypted PKCS #8 keys. Only read; what is inside is used as
//! if it had stood in PEM files. Written on what aws-lc-rs and sha1 offer: crates for PKCS #12 would bring thirty more.

mod jks;
mod pbes2;
mod pkcs12;

pub(crate) use pbes2::decrypt_key;

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// What a store holds.
#[derive(Default)]
pub(crate) struct Store {
    pub keys: Vec<PrivateKey>,
    /// Certificates without a key: authorities.
    pub trusted: Vec<CertificateDer<'static>>,
}

pub(crate) struct PrivateKey {
    pub key: PrivatePkcs8KeyDer<'static>,
    /// The key's own certificate first.
    pub chain: Vec<CertificateDer<'static>>,
}

/// How a store begins, as far as it can be told from PEM.
pub(crate) fn is_keystore(bytes: &[u8]) -> bool {
    jks::is_jks(bytes) || matches!(bytes, [crate::der::SEQUENCE, 0x80..=0xff, ..])
}

/// Reads a whole store. The error says what is wrong with the file or the password.
pub(crate) fn read(bytes: &[u8], password: &str) -> Result<Store, String> {
    if jks::is_jks(bytes) { jks::read(bytes, password) } else { pkcs12::read(bytes, password) }
}

/// Both kinds take the password as UTF-16, big-endian.
fn utf16(password: &str) -> Vec<u8> {
    password.encode_utf16().flat_map(u16::to_be_bytes).collect()
}
