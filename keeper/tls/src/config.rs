//! What a configuration says about the TLS of one port. A plain value: the TOML file and `zoo.cfg` both fill it.

use crate::suites::{CipherSuite, Protocol};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// The certificate, and behind it those between it and its authority: PEM, or a keystore (JKS, PKCS #12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// Its private key, PEM. Unset: `certificate_file` holds it too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The authorities that the other side's certificate has to come from: PEM or a keystore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Revocation lists of those authorities, PEM. Set, a certificate has to be on no list, and a current one of each
    /// authority above it has to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crl_file: Option<PathBuf>,
    /// Whether clients must prove a certificate. Unset: `required` where there is a `ca_file`, else `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_auth: Option<ClientAuth>,
    /// The versions of TLS that may be spoken, and the suites; empty: all that are safe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<Protocol>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cipher_suites: Vec<CipherSuite>,
    /// Whether a dialled member's certificate must carry the name or address that was dialled.
    pub verify_names: bool,
    /// Whether the certificate of who comes to this port must carry the address that it comes from.
    pub verify_client_addresses: bool,
    /// Files with the passwords of keystores or of an encrypted key; their last line feed does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_password_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_password_file: Option<PathBuf>,
    /// The passwords themselves, as `zoo.cfg` may hold them. Never read from the TOML file, never printed.
    #[serde(skip)]
    pub certificate_password: Option<Password>,
    #[serde(skip)]
    pub ca_password: Option<Password>,
}

impl Default for TlsConfig {
    fn default() -> TlsConfig {
        TlsConfig {
            certificate_file: None,
            key_file: None,
            ca_file: None,
            crl_file: None,
            client_auth: None,
            protocols: Vec::new(),
            cipher_suites: Vec::new(),
            verify_names: true,
            verify_client_addresses: false,
            certificate_password_file: None,
            ca_password_file: None,
            certificate_password: None,
            ca_password: None,
        }
    }
}

impl TlsConfig {
    pub fn client_auth(&self) -> ClientAuth {
        let unset = if self.ca_file.is_some() { ClientAuth::Required } else { ClientAuth::None };
        self.client_auth.unwrap_or(unset)
    }
}

/// What is asked of clients; ZooKeeper's `none`, `want` and `need`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// No certificate is asked for.
    None,
    /// One is asked for; who has none is served without that identity, who shows a wrong one is refused.
    Optional,
    Required,
}

/// A text that no log and no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    pub fn new(text: impl Into<String>) -> Password {
        Password(text.into())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
