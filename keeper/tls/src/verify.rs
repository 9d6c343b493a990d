//! Whom to believe: rustls' own verifiers of chains, and around them what a server of ZooKeeper's clients needs more:
//! who it was that was refused, client certificates of version 1, and members known by their authority alone.

use crate::certificate::{self, Parts};
use crate::der;
use crate::limits::SUBJECT_LOGGED_BYTES_MAX;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

tokio::task_local! {
    /// The running handshake: a verifier is not told on whose behalf it is asked.
    static HANDSHAKE: Handshake;
}

struct Handshake {
    /// Where the other side is, if it has an address.
    remote: Option<IpAddr>,
    /// The subject that it claims, whether it is believed or not: rustls drops a refused certificate.
    claimed: RefCell<Option<String>>,
}

/// Runs a handshake with `remote` (an address with a port); gives back with its result who that claimed to be.
pub async fn with_claim<T>(remote: &str, handshake: impl Future<Output = T>) -> (T, Option<String>) {
    let noted = async {
        let result = handshake.await;
        (result, HANDSHAKE.with(|handshake| handshake.claimed.take()))
    };
    // An IPv4 client of an IPv6 socket is the IPv4 client that its certificate names.
    let remote = remote.parse::<SocketAddr>().ok().map(|remote| remote.ip().to_canonical());
    HANDSHAKE.scope(Handshake { remote, claimed: RefCell::default() }, noted).await
}

fn note_claim(certificate: &CertificateDer<'_>) {
    let subject = certificate::facts(certificate).map(|facts| {
        let mut end = facts.subject.len().min(SUBJECT_LOGGED_BYTES_MAX);
        while !facts.subject.is_char_boundary(end) {
            end -= 1;
        }
        facts.subject[..end].to_owned()
    });
    let _ = HANDSHAKE.try_with(|handshake| handshake.claimed.replace(subject));
}

/// Clients' certificates.
#[derive(Debug)]
pub struct Clients {
    pub inner: Arc<dyn ClientCertVerifier>,
    pub roots: Arc<RootCertStore>,
    pub algorithms: WebPkiSupportedAlgorithms,
    /// Whether certificates of version 1 are taken, as Java takes them: only straight below an authority, and only
    /// as a client's own. They have no extensions, so nothing in them limits what they are for.
    pub takes_version_1: bool,
    /// Whether a certificate must carry the address that its holder comes from.
    pub verifies_addresses: bool,
}

impl Clients {
    /// As ZooKeeper does when told to verify clients' names: the address itself is looked for, no name of it.
    fn verify_address(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let remote = HANDSHAKE.try_with(|handshake| handshake.remote).ok().flatten();
        let remote = remote.ok_or(CertificateError::NotValidForName)?;
        let parsed = ParsedCertificate::try_from(certificate)?;
        verify_server_name(&parsed, &ServerName::IpAddress(remote.into()))
    }

    fn version_1<'a>(&self, certificate: &'a CertificateDer<'_>) -> Option<Parts<'a>> {
        certificate::parts(certificate).filter(|parts| self.takes_version_1 && parts.is_version_1)
    }

    fn verify_version_1(&self, parts: &Parts<'_>, whole: &[u8], now: UnixTime) -> Result<(), Error> {
        let facts = certificate::facts(whole).ok_or(CertificateError::BadEncoding)?;
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now_s < facts.not_before_s {
            return Err(CertificateError::NotValidYet.into());
        }
        if now_s > facts.not_after_s {
            return Err(CertificateError::Expired.into());
        }
        let mut issuers =
            self.roots.roots.iter().filter(|root| root.subject.as_ref() == parts.issuer).peekable();
        if issuers.peek().is_none() {
            return Err(CertificateError::UnknownIssuer.into());
        }
        let signed_by = |key: &[u8]| {
            let fitting = |algorithm: &&&dyn SignatureVerificationAlgorithm| {
                algorithm.signature_alg_id().as_ref() == parts.algorithm
            };
            let mut algorithms = self.algorithms.all.iter().filter(fitting);
            algorithms.any(|algorithm| verifies(*algorithm, key, parts.signed, parts.signature))
        };
        if issuers.any(|root| signed_by(&root.subject_public_key_info)) {
            Ok(())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }

    /// The handshake's signature with a key that rustls' own functions would not read.
    fn verify_with_key(
        &self,
        parts: &Parts<'_>,
        message: &[u8],
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let mut public_key = parts.public_key;
        let key = der::expect(&mut public_key, der::SEQUENCE).ok_or(CertificateError::BadEncoding)?;
        let fitting = self.algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
        let mut algorithms = fitting.flat_map(|(_, algorithms)| algorithms.iter());
        if algorithms.any(|algorithm| verifies(*algorithm, key, message, signed.signature())) {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }
}

/// `key` is the content of a SubjectPublicKeyInfo.
fn verifies(
    algorithm: &dyn SignatureVerificationAlgorithm,
    mut key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> bool {
    der::expect(&mut key, der::SEQUENCE).is_some_and(|kind| kind == algorithm.public_key_alg_id().as_ref())
        && der::expect(&mut key, der::BIT_STRING)
            .and_then(certificate::bits)
            .is_some_and(|key| algorithm.verify_signature(key, message, signature).is_ok())
}

impl ClientCertVerifier for Clients {
    fn offer_client_auth(&self) -> bool {
        self.inner.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        note_claim(end_entity);
        match self.version_1(end_entity) {
            Some(parts) => {
                self.verify_version_1(&parts, end_entity, now).map(|()| ClientCertVerified::assertion())
            }
            None => {
                let verified = self.inner.verify_client_cert(end_entity, intermediates, now)?;
                if self.verifies_addresses {
                    self.verify_address(end_entity)?;
                }
                Ok(verified)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.version_1(cert) {
            Some(parts) => self.verify_with_key(&parts, message, dss),
            None => self.inner.verify_tls12_signature(message, cert, dss),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.version_1(cert) {
            // TLS 1.3 knows no PKCS #1 v1.5 and no SHA-1 here (RFC 8446, 4.2.3); rustls' mapping is for both versions.
            Some(_) if !fits_tls13(dss.scheme) => Err(CertificateError::BadSignature.into()),
            Some(parts) => self.verify_with_key(&parts, message, dss),
            None => self.inner.verify_tls13_signature(message, cert, dss),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn fits_tls13(scheme: SignatureScheme) -> bool {
    !matches!(
        scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
            | SignatureScheme::ECDSA_SHA1_Legacy
    )
}

/// Members that are dialled by names which their certificates do not carry: their authority has to do.
#[derive(Debug)]
pub struct AnyName {
    pub roots: Arc<RootCertStore>,
    pub algorithms: WebPkiSupportedAlgorithms,
    /// Looks a certificate up in revocation lists, where there are any: as a client's, for a member's is for both uses.
    pub unrevoked: Option<Arc<dyn ClientCertVerifier>>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        if let Some(unrevoked) = &self.unrevoked {
            unrevoked.verify_client_cert(end_entity, intermediates, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
