//! What files may hold: PEM, keystores of Java, Python and OpenSSL, certificates of version 1; and what is said of
//! files that cannot be used. `data/` was made once by OpenSSL 3.0, keytool 17 and pyjks 20; it protects nothing.
//! `member.p12` (of version 3, for localhost and both uses) and `member-trust.jks` are for `keeper/tests/zoo_cfg_tls.rs`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // outside the simulator: files and clocks of tests

mod support;

use keeper_tls::{ClientAuth, ClientFiles, ClientTls, Password, Port, Reason, Tls, TlsConfig};
use std::path::PathBuf;
use std::sync::Arc;
use support::{Authority, Folder};

fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn store(certificate: &str, key: Option<&str>, ca: &str, password: &str) -> TlsConfig {
    TlsConfig {
        certificate_file: Some(data(certificate)),
        key_file: key.map(data),
        ca_file: Some(data(ca)),
        certificate_password: Some(Password::new(password)),
        ca_password: Some(Password::new(password)),
        ..TlsConfig::default()
    }
}

fn open(config: &TlsConfig) -> Result<Arc<Tls>, String> {
    Tls::open(Port::Client, config).map_err(|error| error.to_string())
}

/// kazoo's suite gives its client a certificate of version 1, as `openssl x509 -req` makes it.
fn version_1(name: &str, server_ca: PathBuf) -> ClientTls {
    ClientTls::open(&ClientFiles {
        ca_file: server_ca,
        certificate_file: Some(data(&format!("{name}.pem"))),
        key_file: Some(data(&format!("{name}.key"))),
        server_name: None,
    })
    .unwrap()
}

#[tokio::test]
async fn keystores_of_all_makers_hold_the_same_key_and_authority() {
    for certificate in ["pyjks-key.jks", "keytool-key.jks", "keytool-key.p12", "openssl.p12"] {
        for ca in ["pyjks-trust.jks", "keytool-trust.p12", "ca.pem"] {
            let tls = open(&store(certificate, None, ca, "apassword")).unwrap();
            assert_eq!(tls.counts().not_after_s(), 4_733_510_400, "{certificate}");
        }
    }
    open(&store("v1-server.pem", Some("encrypted.key"), "ca.pem", "apassword")).unwrap();
}

#[test]
fn what_is_wrong_with_a_keystore_is_said() {
    for certificate in ["pyjks-key.jks", "keytool-key.jks", "keytool-key.p12", "openssl.p12"] {
        let error = open(&store(certificate, None, "ca.pem", "another")).err().unwrap();
        assert!(error.contains(certificate) && error.contains("wrong password"), "{error}");
    }
    let error = open(&store("legacy.p12", None, "ca.pem", "apassword")).err().unwrap();
    assert!(error.contains("write it anew"), "{error}");
    let error = open(&store("pyjks-trust.jks", None, "ca.pem", "apassword")).err().unwrap();
    assert!(error.contains("holds no private key"), "{error}");
    let error = open(&store("v1-server.pem", Some("encrypted.key"), "ca.pem", "another")).err().unwrap();
    assert!(error.contains("encrypted.key") && error.contains("wrong password"), "{error}");
    let mut config = store("v1-server.pem", Some("encrypted.key"), "ca.pem", "");
    config.certificate_password = None;
    assert!(open(&config).err().unwrap().contains("certificate_password_file"));
}

#[test]
fn a_damaged_keystore_is_an_error_and_never_a_panic() {
    let folder = Folder::new();
    for name in ["pyjks-key.jks", "keytool-key.p12", "openssl.p12", "pyjks-trust.jks"] {
        let whole = std::fs::read(data(name)).unwrap();
        // Cut short and bent everywhere; every 13th byte keeps the stretching of passwords affordable.
        for at in (0..whole.len()).step_by(13) {
            let mut bent = whole.clone();
            bent[at] ^= 0x55;
            for bytes in [&whole[..at], &bent[..]] {
                let file = folder.path().join("store");
                std::fs::write(&file, bytes).unwrap();
                let mut config = store("v1-server.pem", Some("v1-server.key"), "ca.pem", "apassword");
                config.certificate_file = Some(file);
                config.key_file = None;
                assert!(open(&config).is_err(), "{name} with byte {at} bent or missing");
            }
        }
    }
}

#[tokio::test]
async fn a_client_certificate_of_version_1_is_checked_like_any_other() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let config = TlsConfig {
        ca_file: Some(data("pyjks-trust.jks")),
        ca_password: Some(Password::new("apassword")),
        ..folder.port("server", &ours.issue("server"), &ours)
    };
    let tls = open(&config).unwrap();
    let server_ca = folder.path().join("server-ca.pem");
    let accept = async |name: &str| {
        let client = version_1(name, server_ca.clone());
        let (here, there) = tokio::io::duplex(1 << 16);
        let (accepted, _) =
            tokio::join!(tls.accept(there, "10.0.0.9:5"), client.connect(here, "localhost:1"));
        accepted.map(|accepted| accepted.subject)
    };
    // As `new X500Principal(…).getName()` of Java 17 prints it.
    let printed = r#"1.2.840.113549.1.9.1=#1603614062,CN=\ client \#1\ ,OU=a\+b,O=Castellan\, \"Test\",C=DE"#;
    assert_eq!(accept("v1-client").await, Some(Some(printed.to_owned())));
    assert_eq!(accept("v1-expired").await, None);
    assert_eq!(tls.counts().refused(Reason::Expired), 1);
    assert_eq!(accept("v1-forged").await, None);
    assert_eq!(tls.counts().refused(Reason::BadCertificate), 1);
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_to_do() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let good = folder.port("good", &ours.issue("good"), &ours);
    open(&good).unwrap();
    let said = |change: &dyn Fn(&mut TlsConfig)| {
        let mut config = good.clone();
        change(&mut config);
        open(&config).err().unwrap_or_else(|| panic!("{config:?} is taken"))
    };
    let missing = folder.path().join("nowhere.pem");
    let error = said(&|config| config.certificate_file = Some(missing.clone()));
    assert!(error.contains("nowhere.pem") && error.contains("cannot be read"), "{error}");
    let text = folder.write("text.pem", "hello");
    let error = said(&|config| config.certificate_file = Some(text.clone()));
    assert!(error.contains("text.pem: holds no certificate"), "{error}");
    let error = said(&|config| config.key_file = Some(text.clone()));
    assert!(error.contains("text.pem: holds no private key"), "{error}");
    let error = said(&|config| config.ca_file = Some(text.clone()));
    assert!(error.contains("text.pem: holds no certificate"), "{error}");
    let (_, other) = folder.put("other", &ours.issue("other"));
    let error = said(&|config| config.key_file = Some(other.clone()));
    assert!(error.contains("does not belong to the certificate of `CN=good,O=Castellan`"), "{error}");
    let error = said(&|config| {
        config.ca_file = None;
        config.client_auth = Some(ClientAuth::Optional);
    });
    assert!(error.contains("ca_file"), "{error}");
    let large = folder.write("large.pem", &"x".repeat(2 << 20));
    let error = said(&|config| config.certificate_file = Some(large.clone()));
    assert!(error.contains("larger than"), "{error}");
}

#[test]
fn one_file_may_hold_both_and_passwords_come_from_files() {
    let (folder, ours) = (Folder::new(), Authority::new("ours"));
    let issued = ours.issue("both");
    let both = folder.write("both.pem", &format!("{}{}", issued.key, issued.certificate));
    open(&TlsConfig { certificate_file: Some(both), ..TlsConfig::default() }).unwrap();
    let password = Some(folder.write("password", "apassword\n"));
    open(&TlsConfig {
        certificate_file: Some(data("keytool-key.p12")),
        certificate_password_file: password.clone(),
        ca_file: Some(data("pyjks-trust.jks")),
        ca_password_file: password,
        ..TlsConfig::default()
    })
    .unwrap();
}

#[test]
fn no_password_is_shown() {
    let config = store("openssl.p12", None, "ca.pem", "apassword");
    assert!(!format!("{config:?}").contains("apassword"));
}
