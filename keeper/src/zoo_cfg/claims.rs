//! Holds the table of our keys (`config/keys.rs`, from which docs/compatibility.md is made) to what this reader does:
//! each key of ZooKeeper that a row names must set just that row's key.

use super::ZooCfg;
use crate::config::Config;
use crate::config::keys::KEYS;

const BASE: &[&str] = &["dataDir=DATA", "clientPort=2181"];
const NONE: &[&str] = &[];
const TLS: &[&str] = &["secureClientPort=2281", "ssl.keyStore.location=/k", "ssl.trustStore.location=/t"];
const MEMBER: &[&str] = &[
    "server.1=127.0.0.1:2:3",
    "sslQuorum=true",
    "ssl.quorum.keyStore.location=/k",
    "ssl.quorum.trustStore.location=/t",
];
const SASL: &[&str] = &["java.security.auth.login.config=JAAS"];
const HTTP: &[&str] = &["admin.serverPort=8081"];
const METRICS: &[&str] = &["metricsProvider.httpPort=7001"];

/// What is said beside it, and the lines that must make the difference; the first one's key is the one in question.
const SAMPLES: &[(&[&str], &[&str])] = &[
    (NONE, &["dataDir=/elsewhere"]),
    (NONE, &["clientPort=2182"]),
    (NONE, &["clientPortAddress=127.0.0.1"]),
    (NONE, &["server.1=127.0.0.1:2:3"]),
    (NONE, &["admin.serverPort=8082"]),
    (HTTP, &["admin.serverAddress=127.0.0.1"]),
    (NONE, &["metricsProvider.httpPort=7070"]),
    (METRICS, &["metricsProvider.httpHost=127.0.0.1"]),
    (NONE, &["minSessionTimeout=100"]),
    (NONE, &["maxSessionTimeout=99999"]),
    (NONE, &["jute.maxbuffer=2000"]),
    (NONE, &["maxCnxns=7"]),
    (NONE, &["maxClientCnxns=7"]),
    (NONE, &["4lw.commands.whitelist=ruok"]),
    (NONE, &["snapSizeLimitInKb=77"]),
    (NONE, &["DigestAuthenticationProvider.superDigest=super:x="]),
    (NONE, &["enforceQuota=true"]),
    (NONE, &["reconfigEnabled=true"]),
    (NONE, &["readonlymode.enabled=true"]),
    (NONE, &["znode.container.checkIntervalMs=5"]),
    (NONE, SASL),
    (SASL, &["superUser=root"]),
    (SASL, &["sessionRequireClientSASLAuth=true"]),
    (SASL, &["enforce.auth.schemes=sasl", "enforce.auth.enabled=true"]),
    (NONE, &["allowSaslFailedClients=true"]),
    (NONE, &["skipACL=yes"]),
    (TLS, &["X509AuthenticationProvider.superUser=CN=a"]),
    (TLS, &["secureClientPort=2282"]),
    (TLS, &["secureClientPortAddress=127.0.0.1"]),
    (TLS, &["client.portUnification=true"]),
    (TLS, &["ssl.keyStore.location=/other"]),
    (TLS, &["ssl.trustStore.location=/other"]),
    (TLS, &["ssl.keyStore.password=x"]),
    (TLS, &["ssl.trustStore.password=x"]),
    (TLS, &["ssl.keyStore.passwordPath=/x"]),
    (TLS, &["ssl.trustStore.passwordPath=/x"]),
    (TLS, &["ssl.clientAuth=want"]),
    (TLS, &["ssl.crl=true", "castellan.ssl.crlFile=/c"]),
    (TLS, &["ssl.enabledProtocols=TLSv1.3"]),
    (TLS, &["ssl.protocol=TLSv1.2"]),
    (TLS, &["ssl.ciphersuites=TLS_AES_128_GCM_SHA256"]),
    (TLS, &["ssl.clientHostnameVerification=true"]),
    (MEMBER, &["ssl.quorum.keyStore.location=/other"]),
    (MEMBER, &["ssl.quorum.trustStore.location=/other"]),
    (MEMBER, &["ssl.quorum.keyStore.password=x"]),
    (MEMBER, &["ssl.quorum.trustStore.password=x"]),
    (MEMBER, &["ssl.quorum.keyStore.passwordPath=/x"]),
    (MEMBER, &["ssl.quorum.trustStore.passwordPath=/x"]),
    (MEMBER, &["ssl.quorum.crl=true", "castellan.ssl.quorum.crlFile=/c"]),
    (MEMBER, &["ssl.quorum.enabledProtocols=TLSv1.3"]),
    (MEMBER, &["ssl.quorum.protocol=TLSv1.2"]),
    (MEMBER, &["ssl.quorum.ciphersuites=TLS_AES_128_GCM_SHA256"]),
    (MEMBER, &["ssl.quorum.hostnameVerification=false"]),
    (MEMBER, &["ssl.quorum.clientHostnameVerification=true"]),
];

fn key_of(line: &str) -> &str {
    line.split_once('=').expect("key=value").0
}

/// Later lines replace earlier ones with the same key.
fn load(folder: &std::path::Path, parts: [&[&str]; 3]) -> (ZooCfg, Config) {
    let lines: Vec<&str> = parts.concat();
    let last = |at: usize| !lines[at + 1..].iter().any(|line| key_of(line) == key_of(lines[at]));
    let text: String = (0..lines.len()).filter(|at| last(*at)).map(|at| format!("{}\n", lines[at])).collect();
    let text = text.replace("DATA", &folder.display().to_string());
    let text = text.replace("JAAS", &folder.join("jaas.conf").display().to_string());
    let file = folder.join("zoo.cfg");
    std::fs::write(&file, text).unwrap();
    let cfg = ZooCfg::load(&file, |_| None).unwrap();
    let config = cfg.config().unwrap();
    (cfg, config)
}

/// Of `section.name`. Passwords are in no text, but in what the section shows of itself.
fn value(config: &Config, name: &str) -> String {
    let (section, key) = name.split_once('.').expect("section.key");
    if key.ends_with("_password_file") {
        return match section {
            "tls" => format!("{:?}", config.tls),
            "peer_tls" => format!("{:?}", config.peer_tls),
            _ => format!("{:?}", config.admin_tls),
        };
    }
    let table = toml::Table::try_from(config).expect("a table");
    format!("{:?}", table.get(section).and_then(|section| section.get(key)))
}

#[test]
fn each_key_that_the_table_claims_sets_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let jaas = "Server { a.DigestLoginModule required user_root=\"x\"; };";
    std::fs::write(folder.path().join("jaas.conf"), jaas).unwrap();
    let mut claimed = 0;
    for row in KEYS {
        for name in row.zookeeper.split(", ").filter(|name| !name.is_empty()) {
            let sampled = |lines: &[&str]| key_of(lines[0]) == name.replace(".N", ".1");
            let (beside, lines) = SAMPLES
                .iter()
                .find(|(_, lines)| sampled(lines))
                .unwrap_or_else(|| panic!("no sample for {name}, which {} claims", row.name));
            let (_, without) = load(folder.path(), [BASE, beside, NONE]);
            let (cfg, with) = load(folder.path(), [BASE, beside, lines]);
            let (before, after) = (value(&without, row.name), value(&with, row.name));
            assert_ne!(before, after, "{name} does not set {}", row.name);
            let told = format!("`{}`", key_of(lines[0]));
            let complaints = cfg.warnings.iter().chain(&cfg.remarks).find(|line| line.contains(&told));
            assert_eq!(complaints, None);
            claimed += 1;
        }
    }
    assert!(claimed >= SAMPLES.len(), "{claimed} claims, {} samples", SAMPLES.len());
}
