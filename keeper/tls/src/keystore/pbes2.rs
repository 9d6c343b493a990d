//! PBES2 with PBKDF2 and AES-CBC (RFC 8018): what Java since 8u301 and OpenSSL since 3.0 encrypt with.

use crate::der;
use crate::limits::PASSWORD_ROUNDS_MAX;
use aws_lc_rs::cipher::{AES_128, AES_256, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::pbkdf2;
use std::num::NonZeroU32;

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];
const AES_128_CBC: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 2];
const AES_256_CBC: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42];
/// Prefix of hmacWithSHA1 (7), SHA256 (9), SHA384 (10), SHA512 (11).
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2];

const MALFORMED: &str = "the encrypted part cannot be read";
const OLD: &str = "it is encrypted in an old or unknown way; write it anew, for instance with \
                   `openssl pkcs12 -export` of OpenSSL 3 or a keytool since Java 8u301";

/// The PKCS #8 key in an EncryptedPrivateKeyInfo.
pub(crate) fn decrypt_key(info: &[u8], password: &str) -> Result<Vec<u8>, String> {
    let mut input = info;
    let mut info = der::expect(&mut input, der::SEQUENCE).ok_or(MALFORMED)?;
    let algorithm = der::expect(&mut info, der::SEQUENCE).ok_or(MALFORMED)?;
    let encrypted = der::expect(&mut info, der::OCTET_STRING).ok_or(MALFORMED)?;
    decrypt(algorithm, encrypted, password)
}

/// `algorithm` is the content of an AlgorithmIdentifier.
pub fn decrypt(mut algorithm: &[u8], encrypted: &[u8], password: &str) -> Result<Vec<u8>, String> {
    if der::expect(&mut algorithm, der::OBJECT_ID).ok_or(MALFORMED)? != PBES2 {
        return Err(OLD.into());
    }
    let mut parameters = der::expect(&mut algorithm, der::SEQUENCE).ok_or(MALFORMED)?;
    let derivation = der::expect(&mut parameters, der::SEQUENCE).ok_or(MALFORMED)?;
    let mut cipher = der::expect(&mut parameters, der::SEQUENCE).ok_or(MALFORMED)?;
    let (cipher_kind, key_bytes) = match der::expect(&mut cipher, der::OBJECT_ID).ok_or(MALFORMED)? {
        AES_128_CBC => (&AES_128, 16),
        AES_256_CBC => (&AES_256, 32),
        _ => return Err(OLD.into()),
    };
    let start: [u8; 16] = der::expect(&mut cipher, der::OCTET_STRING)
        .and_then(|start| start.try_into().ok())
        .ok_or(MALFORMED)?;
    let mut key = vec![0; key_bytes];
    derive(derivation, password, &mut key)?;
    let key = UnboundCipherKey::new(cipher_kind, &key).and_then(PaddedBlockDecryptingKey::cbc_pkcs7);
    let mut bytes = encrypted.to_vec();
    let context = DecryptionContext::Iv128((&start).into());
    let plain = key.and_then(|key| key.decrypt(&mut bytes, context).map(|plain| plain.len()));
    // Padding that makes no sense is how a wrong password shows.
    let len = plain.map_err(|_| "wrong password, or the encrypted part is damaged")?;
    bytes.truncate(len);
    Ok(bytes)
}

fn derive(mut algorithm: &[u8], password: &str, key: &mut [u8]) -> Result<(), String> {
    if der::expect(&mut algorithm, der::OBJECT_ID).ok_or(MALFORMED)? != PBKDF2 {
        return Err(OLD.into());
    }
    let mut parameters = der::expect(&mut algorithm, der::SEQUENCE).ok_or(MALFORMED)?;
    let salt = der::expect(&mut parameters, der::OCTET_STRING).ok_or(MALFORMED)?;
    let rounds = rounds(der::expect(&mut parameters, der::INTEGER).ok_or(MALFORMED)?)?;
    let mut hash = pbkdf2::PBKDF2_HMAC_SHA1;
    while let Some(element) = der::next(&mut parameters) {
        // The key's length may stand before; the cipher says it already.
        if element.tag != der::SEQUENCE {
            continue;
        }
        let mut content = element.content;
        let name = der::expect(&mut content, der::OBJECT_ID).ok_or(MALFORMED)?;
        hash = match name.strip_prefix(HMAC) {
            Some([7]) => pbkdf2::PBKDF2_HMAC_SHA1,
            Some([9]) => pbkdf2::PBKDF2_HMAC_SHA256,
            Some([10]) => pbkdf2::PBKDF2_HMAC_SHA384,
            Some([11]) => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => return Err(OLD.into()),
        };
    }
    pbkdf2::derive(hash, rounds, salt, password.as_bytes(), key);
    Ok(())
}

/// A count of rounds within bounds: it decides how long this takes.
pub fn rounds(integer: &[u8]) -> Result<NonZeroU32, String> {
    let number = integer.iter().try_fold(0_u32, |number, byte| {
        number.checked_mul(256).and_then(|number| number.checked_add(u32::from(*byte)))
    });
    number
        .filter(|number| *number <= PASSWORD_ROUNDS_MAX)
        .and_then(NonZeroU32::new)
        .ok_or_else(|| format!("its password takes no or more than {PASSWORD_ROUNDS_MAX} rounds"))
}
