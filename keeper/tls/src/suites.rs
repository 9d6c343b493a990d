//! Versions of TLS and cipher suites that a port may be limited to. What is not here is not to be had: everything older
//! or weaker is not even compiled in.

use crate::config::TlsConfig;
use rustls::SupportedProtocolVersion;
use rustls::crypto::CryptoProvider;
use rustls::version::{TLS12, TLS13};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The one source of cryptography. Given by hand everywhere: no default of the process decides.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

impl TlsConfig {
    /// With this port's suites, in the order in which they are named.
    pub(crate) fn provider(&self) -> Arc<CryptoProvider> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        if !self.cipher_suites.is_empty() {
            let all = std::mem::take(&mut provider.cipher_suites);
            let named = self.cipher_suites.iter();
            let find = |named: &CipherSuite| all.iter().find(|suite| suite.suite() == named.0).copied();
            provider.cipher_suites = named.filter_map(find).collect();
        }
        Arc::new(provider)
    }

    pub(crate) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let allowed = |protocol: &Protocol| self.protocols.is_empty() || self.protocols.contains(protocol);
        Protocol::ALL.into_iter().filter(allowed).map(Protocol::version).collect()
    }
}

/// A version of TLS, by Java's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Protocol {
    Tls12,
    Tls13,
}

impl Protocol {
    pub const ALL: [Protocol; 2] = [Protocol::Tls12, Protocol::Tls13];

    pub fn name(self) -> &'static str {
        match self {
            Protocol::Tls12 => "TLSv1.2",
            Protocol::Tls13 => "TLSv1.3",
        }
    }

    fn version(self) -> &'static SupportedProtocolVersion {
        match self {
            Protocol::Tls12 => &TLS12,
            Protocol::Tls13 => &TLS13,
        }
    }
}

/// A cipher suite, by its IANA name. Only what the provider has can be made one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct CipherSuite(rustls::CipherSuite);

impl CipherSuite {
    pub fn all() -> Vec<CipherSuite> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites.iter().map(|suite| CipherSuite(suite.suite())).collect()
    }

    pub fn name(self) -> String {
        // rustls marks the suites of TLS 1.3 in their names.
        self.0.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`{name}` is none of {known}")]
pub struct UnknownName {
    name: String,
    known: String,
}

fn find<T: Copy>(name: &str, known: &[(String, T)]) -> Result<T, UnknownName> {
    let found = known.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        UnknownName { name: name.to_owned(), known: known.join(", ") }
    })
}

impl FromStr for Protocol {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Protocol, UnknownName> {
        find(name, &Protocol::ALL.map(|protocol| (protocol.name().to_owned(), protocol)))
    }
}

impl FromStr for CipherSuite {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<CipherSuite, UnknownName> {
        let known: Vec<_> = CipherSuite::all().into_iter().map(|suite| (suite.name(), suite)).collect();
        find(name, &known)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for CipherSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl TryFrom<String> for Protocol {
    type Error = UnknownName;

    fn try_from(name: String) -> Result<Protocol, UnknownName> {
        name.parse()
    }
}

impl TryFrom<String> for CipherSuite {
    type Error = UnknownName;

    fn try_from(name: String) -> Result<CipherSuite, UnknownName> {
        name.parse()
    }
}

impl From<Protocol> for String {
    fn from(protocol: Protocol) -> String {
        protocol.to_string()
    }
}

impl From<CipherSuite> for String {
    fn from(suite: CipherSuite) -> String {
        suite.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_has_its_iana_name_and_is_found_by_it() {
        let names: Vec<String> = CipherSuite::all().iter().map(|suite| suite.name()).collect();
        for name in [
            "TLS_AES_128_GCM_SHA256",
            "TLS_AES_256_GCM_SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        ] {
            assert!(names.iter().any(|known| known == name), "{name} is not in {names:?}");
        }
        for suite in CipherSuite::all() {
            assert_eq!(suite.name().parse::<CipherSuite>().expect("known"), suite);
        }
    }

    #[test]
    fn what_is_weak_is_unknown_and_the_error_names_the_rest() {
        let error = "TLSv1.1".parse::<Protocol>().expect_err("too old").to_string();
        assert_eq!(error, "`TLSv1.1` is none of TLSv1.2, TLSv1.3");
        let error = "TLS_RSA_WITH_AES_128_CBC_SHA".parse::<CipherSuite>().expect_err("weak").to_string();
        assert!(error.contains("is none of TLS_") && error.contains("TLS_AES_256_GCM_SHA384"), "{error}");
    }
}
