//! Authorities and certificates made on the spot. Tests of other crates include this file too.
#![allow(dead_code, clippy::disallowed_methods)]

use keeper_tls::{ClientAuth, ClientFiles, ClientTls, TlsConfig};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Serial numbers that were given out.
static SERIAL: AtomicU64 = AtomicU64::new(1);

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

/// A certificate and its key, PEM.
pub struct Issued {
    pub certificate: String,
    pub key: String,
    serial: u64,
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Castellan");
    name.push(DnType::CommonName, common_name);
    name
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for both uses, on `localhost` and 127.0.0.1, of `CN=name,O=Castellan`.
    pub fn issue(&self, name: &str) -> Issued {
        self.issue_with(name, |_| {})
    }

    pub fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let mut params =
            CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("names");
        params.distinguished_name = named(name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(SerialNumber::from(serial));
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Issued { certificate, key: key.serialize_pem(), serial }
    }

    /// A revocation list, PEM, that is good until this year.
    pub fn revoke(&self, revoked: &[&Issued], until_year: i32) -> String {
        let entry = |issued: &&Issued| RevokedCertParams {
            serial_number: SerialNumber::from(issued.serial),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(until_year, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).expect("a list").pem().expect("PEM")
    }

    pub fn issue_expired(&self, name: &str) -> Issued {
        self.issue_with(name, |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        })
    }
}

/// Where a test's files are.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Written beside it and renamed, as whoever replaces certificates in use does.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let (file, beside) = (self.path().join(name), self.path().join(format!("{name}.new")));
        std::fs::write(&beside, text).expect("written");
        std::fs::rename(&beside, &file).expect("renamed");
        file
    }

    /// Writes `issued` as `name.pem` and `name.key`.
    pub fn put(&self, name: &str, issued: &Issued) -> (PathBuf, PathBuf) {
        let key = self.write(&format!("{name}.key"), &issued.key);
        (self.write(&format!("{name}.pem"), &issued.certificate), key)
    }

    /// What a port is told that has `issued` and believes `authority`.
    pub fn port(&self, name: &str, issued: &Issued, authority: &Authority) -> TlsConfig {
        let (certificate, key) = self.put(name, issued);
        TlsConfig {
            certificate_file: Some(certificate),
            key_file: Some(key),
            ca_file: Some(self.write(&format!("{name}-ca.pem"), &authority.pem)),
            ..TlsConfig::default()
        }
    }

    pub fn port_asking(
        &self,
        name: &str,
        issued: &Issued,
        authority: &Authority,
        asked: ClientAuth,
    ) -> TlsConfig {
        TlsConfig { client_auth: Some(asked), ..self.port(name, issued, authority) }
    }

    /// What a command is told that believes `authority` and has `own`, if any.
    pub fn client(&self, name: &str, authority: &Authority, own: Option<&Issued>) -> ClientTls {
        let own = own.map(|issued| self.put(name, issued));
        ClientTls::open(&ClientFiles {
            ca_file: self.write(&format!("{name}-ca.pem"), &authority.pem),
            certificate_file: own.as_ref().map(|(certificate, _)| certificate.clone()),
            key_file: own.map(|(_, key)| key),
            server_name: None,
        })
        .expect("usable files")
    }
}
