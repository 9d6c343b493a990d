//! The other side's certificates: which authorities they may come from, and which of them were revoked.

use crate::certificate;
use crate::config::{ClientAuth, TlsConfig};
use crate::material::TlsError;
use crate::suites::provider;
use crate::tls::Port;
use crate::verify::{AnyName, Clients};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use std::sync::Arc;

/// Whom a port believes.
#[derive(Clone)]
pub(crate) struct Trust {
    /// Never empty.
    pub roots: Arc<RootCertStore>,
    pub revoked: Option<Revoked>,
}

/// Revocation lists. Who has any is asked for a list of every certificate between an authority and the other side's
/// own: without a current one it is not known whether that certificate is good still, and it is refused, as Java does.
#[derive(Clone)]
pub(crate) struct Revoked {
    pub file: String,
    pub lists: Vec<CertificateRevocationListDer<'static>>,
}

impl Revoked {
    /// When the first of them is out of date, in seconds since 1970.
    pub fn due_s(&self) -> Option<i64> {
        self.lists.iter().filter_map(|list| certificate::next_update_s(list)).min()
    }
}

impl Trust {
    /// `port` and `config`: of the port that clients come to.
    pub fn clients(&self, port: Port, config: &TlsConfig) -> Result<Clients, TlsError> {
        let optional = port.client_auth(config) == ClientAuth::Optional;
        let algorithms = provider().signature_verification_algorithms;
        let inner = self.chains(optional).map_err(|error| self.wrong(&error))?;
        let verifies_addresses = config.verify_client_addresses;
        // Those of version 1 are checked by hand: no list is read there, and no address is in them.
        let takes_version_1 = port == Port::Client && self.revoked.is_none() && !verifies_addresses;
        Ok(Clients { inner, roots: self.roots.clone(), algorithms, takes_version_1, verifies_addresses })
    }

    pub fn servers(&self, verify_names: bool) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
        if !verify_names {
            let algorithms = provider().signature_verification_algorithms;
            let unrevoked =
                self.revoked.as_ref().map(|_| self.chains(false).map_err(|error| self.wrong(&error)));
            let unrevoked = unrevoked.transpose()?;
            return Ok(Arc::new(AnyName { roots: self.roots.clone(), algorithms, unrevoked }));
        }
        let builder = WebPkiServerVerifier::builder_with_provider(self.roots.clone(), provider());
        let builder = match &self.revoked {
            Some(revoked) => builder.with_crls(revoked.lists.clone()).enforce_revocation_expiration(),
            None => builder,
        };
        Ok(builder.build().map_err(|error| self.wrong(&error))?)
    }

    fn chains(&self, optional: bool) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
        let builder = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider());
        let builder = if optional { builder.allow_unauthenticated() } else { builder };
        match &self.revoked {
            Some(revoked) => builder.with_crls(revoked.lists.clone()).enforce_revocation_expiration().build(),
            None => builder.build(),
        }
    }

    fn wrong(&self, error: &VerifierBuilderError) -> TlsError {
        let file = match (error, &self.revoked) {
            (VerifierBuilderError::InvalidCrl(_), Some(revoked)) => revoked.file.clone(),
            _ => "ca_file".to_owned(),
        };
        TlsError { file, why: error.to_string() }
    }
}
