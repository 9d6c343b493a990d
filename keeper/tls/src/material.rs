//! From files to certificates and keys. Every error names the file, what is wrong with it, and what to do.

use crate::certificate;
use crate::config::{Password, TlsConfig};
use crate::keystore::{self, Store};
use crate::limits::{AUTHORITIES_MAX, CHAIN_LEN_MAX, CRL_FILE_BYTES_MAX, CRLS_MAX, FILE_BYTES_MAX};
use crate::trust::{Revoked, Trust};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {why}")]
pub struct TlsError {
    pub file: String,
    pub why: String,
}

/// A file's bytes, and the password for them.
pub(crate) struct Blob {
    file: PathBuf,
    bytes: Vec<u8>,
    password: Option<Password>,
}

/// Everything that one port's TLS is made of, read but not understood yet.
pub(crate) struct Files {
    certificate: Blob,
    key: Option<Blob>,
    ca: Option<Blob>,
    crl: Option<Blob>,
}

/// Our certificate with its key, and how it introduces us.
pub(crate) struct Own {
    pub key: CertifiedKey,
    pub facts: certificate::Facts,
}

impl Files {
    pub fn read(config: &TlsConfig) -> Result<Files, TlsError> {
        let missing = |key: &str| TlsError {
            file: key.to_owned(),
            why: "is not set: name the file with this port's certificate".into(),
        };
        let file = config.certificate_file.as_deref().ok_or_else(|| missing("certificate_file"))?;
        let own_password =
            password(&config.certificate_password, config.certificate_password_file.as_deref())?;
        let ca_password = password(&config.ca_password, config.ca_password_file.as_deref())?;
        Ok(Files {
            certificate: Blob::read(file, own_password.clone())?,
            key: config.key_file.as_deref().map(|file| Blob::read(file, own_password)).transpose()?,
            ca: config.ca_file.as_deref().map(|file| Blob::read(file, ca_password)).transpose()?,
            crl: config.crl_file.as_deref().map(Blob::read_crls).transpose()?,
        })
    }

    /// Two readings with the same fingerprint hold the same.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut sum = Sha256::new();
        for blob in [Some(&self.certificate), self.key.as_ref(), self.ca.as_ref(), self.crl.as_ref()] {
            let bytes = blob.map_or(&[][..], |blob| &blob.bytes[..]);
            sum.update((bytes.len() as u64).to_le_bytes());
            sum.update(bytes);
            let password = blob.and_then(|blob| blob.password.as_ref()).map_or("", Password::text);
            sum.update((password.len() as u64).to_le_bytes());
            sum.update(password);
        }
        sum.finalize().into()
    }

    pub fn own(&self, provider: &CryptoProvider) -> Result<Own, TlsError> {
        own(&self.certificate, self.key.as_ref(), provider)
    }

    /// `None` where no authorities are named.
    pub fn trust(&self) -> Result<Option<Trust>, TlsError> {
        let Some(ca) = &self.ca else { return Ok(None) };
        let revoked = self.crl.as_ref().map(Blob::revoked).transpose()?;
        Ok(Some(Trust { roots: authorities(ca)?, revoked }))
    }
}

fn password(text: &Option<Password>, file: Option<&Path>) -> Result<Option<Password>, TlsError> {
    let Some(file) = file else { return Ok(text.clone()) };
    let blob = Blob::read(file, None)?;
    let text = String::from_utf8(blob.bytes.clone()).map_err(|_| blob.error("is not UTF-8 text"))?;
    Ok(Some(Password::new(text.trim_end_matches(['\n', '\r']))))
}

impl Blob {
    pub fn read(file: &Path, password: Option<Password>) -> Result<Blob, TlsError> {
        Blob::read_up_to(FILE_BYTES_MAX, file, password)
    }

    fn read_crls(file: &Path) -> Result<Blob, TlsError> {
        Blob::read_up_to(CRL_FILE_BYTES_MAX, file, None)
    }

    fn read_up_to(bytes_max: u64, file: &Path, password: Option<Password>) -> Result<Blob, TlsError> {
        let mut blob = Blob { file: file.to_owned(), bytes: Vec::new(), password };
        // One byte more than may be there, so that too much is refused and not cut.
        let read = std::fs::File::open(file)
            .and_then(|opened| opened.take(bytes_max + 1).read_to_end(&mut blob.bytes));
        match read {
            Ok(len) if len as u64 > bytes_max => {
                Err(blob.error(format!("is larger than {bytes_max} bytes; is it the right file?")))
            }
            Ok(_) => Ok(blob),
            Err(error) => Err(blob.error(format!("cannot be read: {error}"))),
        }
    }

    fn error(&self, why: impl Into<String>) -> TlsError {
        TlsError { file: self.file.display().to_string(), why: why.into() }
    }

    /// What the keystore holds, if this is one.
    fn store(&self) -> Result<Option<Store>, TlsError> {
        if !keystore::is_keystore(&self.bytes) {
            return Ok(None);
        }
        let password = self.password.as_ref().map_or("", Password::text);
        keystore::read(&self.bytes, password).map(Some).map_err(|why| self.error(why))
    }

    fn pem_certificates(&self, len_max: usize) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let mut certificates = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(&self.bytes) {
            certificates
                .push(certificate.map_err(|error| self.error(format!("cannot be read as PEM: {error}")))?);
            if certificates.len() > len_max {
                return Err(self.error(format!("holds more than {len_max} certificates")));
            }
        }
        if certificates.is_empty() {
            return Err(
                self.error("holds no certificate; PEM with `-----BEGIN CERTIFICATE-----` is expected")
            );
        }
        Ok(certificates)
    }

    fn revoked(&self) -> Result<Revoked, TlsError> {
        let mut lists = Vec::new();
        for list in CertificateRevocationListDer::pem_slice_iter(&self.bytes) {
            lists.push(list.map_err(|error| self.error(format!("cannot be read as PEM: {error}")))?);
            if lists.len() > CRLS_MAX {
                return Err(self.error(format!("holds more than {CRLS_MAX} revocation lists")));
            }
        }
        if lists.is_empty() {
            return Err(
                self.error("holds no revocation list; PEM with `-----BEGIN X509 CRL-----` is expected")
            );
        }
        Ok(Revoked { file: self.file.display().to_string(), lists })
    }

    fn pem_key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        if let Some(info) = encrypted_key(&self.bytes) {
            let why = "holds an encrypted key; name its password's file in certificate_password_file";
            let password = self.password.as_ref().ok_or_else(|| self.error(why))?;
            let key = keystore::decrypt_key(&info, password.text()).map_err(|why| self.error(why))?;
            return Ok(PrivatePkcs8KeyDer::from(key).into());
        }
        PrivateKeyDer::from_pem_slice(&self.bytes).map_err(|_| {
            self.error(
                "holds no private key; PEM with `-----BEGIN PRIVATE KEY-----` (or RSA, EC) is expected",
            )
        })
    }
}

/// The content of an `ENCRYPTED PRIVATE KEY` section, which rustls' reader of PEM passes over: the same section under
/// the name of a certificate is what it does read.
fn encrypted_key(pem: &[u8]) -> Option<Vec<u8>> {
    const NAME: &str = "ENCRYPTED PRIVATE KEY";
    let text = std::str::from_utf8(pem).ok()?;
    let begin = text.find(&format!("-----BEGIN {NAME}-----"))?;
    let section = text[begin..].replace(NAME, "CERTIFICATE");
    CertificateDer::from_pem_slice(section.as_bytes()).ok().map(|section| section.to_vec())
}

fn own(certificate: &Blob, key: Option<&Blob>, provider: &CryptoProvider) -> Result<Own, TlsError> {
    let holder = key.unwrap_or(certificate);
    let (mut chain, mut private) = (Vec::new(), None);
    if let Some(mut store) = certificate.store()? {
        if store.keys.len() > 1 {
            return Err(certificate.error("holds more than one private key; keep one in it"));
        }
        if let Some(entry) = store.keys.pop() {
            (chain, private) = (entry.chain, Some(PrivateKeyDer::from(entry.key)));
        }
    } else {
        chain = certificate.pem_certificates(CHAIN_LEN_MAX)?;
    }
    if let Some(key) = key {
        private = Some(match key.store()? {
            Some(store) => {
                let entry = store.keys.into_iter().next();
                entry.ok_or_else(|| key.error("holds no private key"))?.key.into()
            }
            None => key.pem_key()?,
        });
    } else if private.is_none() && !keystore::is_keystore(&certificate.bytes) {
        private = Some(certificate.pem_key()?);
    }
    let private = private.ok_or_else(|| holder.error("holds no private key"))?;
    let first = chain.first().ok_or_else(|| certificate.error("holds no certificate for its key"))?;
    let facts =
        certificate::facts(first).ok_or_else(|| certificate.error("its certificate cannot be read"))?;
    let public_key = certificate::parts(first).map(|parts| parts.public_key.to_vec());
    let signing = provider
        .key_provider
        .load_private_key(private)
        .map_err(|error| holder.error(format!("its private key cannot be used: {error}")))?;
    // Not through `CertifiedKey::from_der`: that one refuses certificates of version 1, which Java takes.
    if signing.public_key().map(|key| key.as_ref().to_vec()) != public_key {
        return Err(holder.error(format!(
            "its private key does not belong to the certificate of `{}` in {}; were both written anew?",
            facts.subject,
            certificate.file.display()
        )));
    }
    Ok(Own { key: CertifiedKey::new(chain, signing), facts })
}

pub(crate) fn authorities(blob: &Blob) -> Result<Arc<RootCertStore>, TlsError> {
    let certificates = match blob.store()? {
        // Java takes the chains of a store's own keys as trusted too.
        Some(store) => {
            let chains = store.keys.into_iter().flat_map(|entry| entry.chain);
            store.trusted.into_iter().chain(chains).collect()
        }
        None => blob.pem_certificates(AUTHORITIES_MAX)?,
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots
            .add(certificate)
            .map_err(|error| blob.error(format!("a certificate in it is no authority's: {error}")))?;
    }
    if roots.is_empty() {
        return Err(blob.error("holds no certificate of an authority"));
    }
    Ok(Arc::new(roots))
}

/// A command's own certificate, and the authorities it believes.
pub(crate) fn client_files(
    ca: &Path,
    certificate: Option<&Path>,
    key: Option<&Path>,
    provider: &CryptoProvider,
) -> Result<(Arc<RootCertStore>, Option<CertifiedKey>), TlsError> {
    let roots = authorities(&Blob::read(ca, None)?)?;
    let Some(certificate) = certificate else { return Ok((roots, None)) };
    let key = key.map(|file| Blob::read(file, None)).transpose()?;
    let own = own(&Blob::read(certificate, None)?, key.as_ref(), provider)?;
    Ok((roots, Some(own.key)))
}
