//! The values of RFC 2831, 2.1.2.1, by which each side shows the other that it knows the password.

use md5::{Digest as _, Md5};

/// What both sides know when the client has answered.
pub struct Exchange<'a> {
    pub user: &'a str,
    pub realm: &'a str,
    pub password: &'a str,
    pub nonce: &'a [u8],
    pub cnonce: &'a [u8],
    /// As the client spelled it.
    pub uri: &'a [u8],
    pub authzid: Option<&'a [u8]>,
}

impl Exchange<'_> {
    /// The directive `response`.
    pub fn of_client(&self) -> [u8; 32] {
        self.value(b"AUTHENTICATE:")
    }

    /// The directive `rspauth`.
    pub fn of_server(&self) -> [u8; 32] {
        self.value(b":")
    }

    fn value(&self, method: &[u8]) -> [u8; 32] {
        let user = joined(&[&narrowed(self.user), &narrowed(self.realm), &narrowed(self.password)]);
        let mut secret = Md5::new();
        secret.update(Md5::digest(user));
        for part in [self.nonce, self.cnonce].into_iter().chain(self.authzid) {
            secret.update(b":");
            secret.update(part);
        }
        let target = Md5::new().chain_update(method).chain_update(self.uri);
        let parts = [
            &hex(secret.finalize().into())[..],
            self.nonce,
            b"00000001",
            self.cnonce,
            b"auth",
            &hex(target.finalize().into()),
        ];
        hex(Md5::digest(joined(&parts)).into())
    }
}

/// A text that fits ISO 8859-1 is hashed in it, any other in UTF-8 (RFC 2831, 2.1.2.1).
fn narrowed(text: &str) -> Vec<u8> {
    let latin: Option<Vec<u8>> = text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect();
    latin.unwrap_or_else(|| text.as_bytes().to_vec())
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.join(&b':')
}

fn hex(bytes: [u8; 16]) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// Equality whose time tells nothing about where the two differ; their lengths are no secret.
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let difference =
        one.iter().zip(other).fold(0, |difference, (a, b)| std::hint::black_box(difference | (a ^ b)));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_2831_section_4() {
        let exchange = Exchange {
            user: "chris",
            realm: "elwood.innosoft.com",
            password: "secret",
            nonce: b"OA6MG9tEQGm2hh",
            cnonce: b"OA6MHXh6VqTrRk",
            uri: b"imap/elwood.innosoft.com",
            authzid: None,
        };
        assert_eq!(&exchange.of_client(), b"d388dad90d4bbd760a152321f2143af7");
        assert_eq!(&exchange.of_server(), b"ea40f60335c427b5527b84dbabcdfffd");
    }

    #[test]
    fn texts_within_latin_1_are_hashed_in_it() {
        assert_eq!(narrowed("a\u{e9}"), [b'a', 0xe9]);
        assert_eq!(narrowed("\u{e9}\u{20ac}"), "\u{e9}\u{20ac}".as_bytes());
    }

    #[test]
    fn equality_is_of_all_bytes() {
        assert!(equal(b"", b"") && equal(b"abc", b"abc"));
        assert!(!equal(b"abc", b"abd") && !equal(b"abc", b"xbc") && !equal(b"abc", b"ab"));
    }
}
