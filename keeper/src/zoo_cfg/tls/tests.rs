use crate::zoo_cfg::tests::{LONE, THREE, load};

const TLS: &str = "secureClientPort=2281\nssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem\n";

fn refused(text: &str) -> String {
    load(&format!("{LONE}{TLS}{text}")).map(|_| ()).expect_err(text)
}

#[test]
fn a_wish_for_revocation_is_granted_from_a_file_or_refused_with_what_to_do() {
    for (text, part) in [
        ("ssl.crl=true\n", "castellan.ssl.crlFile"),
        ("ssl.ocsp=true\n", "castellan.ssl.crlFile"),
        ("ssl.ocsp=true\ncastellan.ssl.crlFile=/crl.pem\n", "not asked online"),
    ] {
        let error = refused(text);
        assert!(error.contains("line 6") && error.contains(part), "{error}");
    }
    for text in ["ssl.crl=true\ncastellan.ssl.crlFile=/crl.pem\n", "castellan.ssl.crlFile=/crl.pem\n"] {
        let cfg = load(&format!("{LONE}{TLS}{text}")).unwrap();
        let tls = cfg.config().unwrap().tls.expect("a TLS port");
        assert_eq!(tls.crl_file, Some("/crl.pem".into()));
        assert!(cfg.warnings.is_empty(), "{:?}", cfg.warnings);
    }
    let cfg = load(&format!("{LONE}{TLS}ssl.crl=false\nssl.ocsp=false\n")).unwrap();
    assert!(cfg.warnings.is_empty(), "{:?}", cfg.warnings);
}

#[test]
fn versions_and_suites_are_those_that_the_file_names() {
    let names = |text: &str| {
        let tls = load(&format!("{LONE}{TLS}{text}")).unwrap().config().unwrap().tls.expect("a TLS port");
        let protocols: Vec<String> = tls.protocols.iter().map(ToString::to_string).collect();
        let suites: Vec<String> = tls.cipher_suites.iter().map(ToString::to_string).collect();
        (protocols.join(" "), suites.join(" "))
    };
    let nothing = (String::new(), String::new());
    assert_eq!(names(""), nothing);
    assert_eq!(names("ssl.protocol=TLSv1.3\n"), nothing);
    assert_eq!(names("ssl.protocol=TLSv1.2\n").0, "TLSv1.2");
    assert_eq!(names("ssl.protocol=TLSv1.2\nssl.enabledProtocols=TLSv1.3, TLSv1.2\n").0, "TLSv1.3 TLSv1.2");
    let suites = "TLS_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
    assert_eq!(names(&format!("ssl.ciphersuites={suites}\n")).1, suites.replace(',', " "));
    for (text, part) in [
        ("ssl.protocol=TLS\n", "`TLS` is none of TLSv1.2, TLSv1.3"),
        ("ssl.enabledProtocols=TLSv1.2,TLSv1.1\n", "`TLSv1.1` is none of TLSv1.2, TLSv1.3"),
        ("ssl.ciphersuites=TLS_RSA_WITH_AES_128_CBC_SHA\n", "is none of TLS_AES_256_GCM_SHA384, "),
    ] {
        let error = refused(text);
        assert!(error.contains("line 6") && error.contains(part), "{error}");
    }
}

#[test]
fn clients_addresses_are_verified_where_both_keys_say_so() {
    let verifies = |text: &str| {
        let tls = load(&format!("{LONE}{TLS}{text}")).unwrap().config().unwrap().tls.expect("a TLS port");
        tls.verify_client_addresses
    };
    let on = "ssl.clientHostnameVerification=true\n";
    assert!(!verifies("") && !verifies("ssl.hostnameVerification=true\n"));
    assert!(verifies(on) && verifies(&format!("{on}ssl.allowReverseDnsLookup=false\n")));
    assert!(!verifies(&format!("{on}ssl.hostnameVerification=false\n")));
    assert!(!verifies("ssl.allowReverseDnsLookup=true\n"));
    let error = refused(&format!("{on}ssl.allowReverseDnsLookup=true\n"));
    assert!(error.contains("line 7") && error.contains("SAN:IP"), "{error}");
    let error = load(&format!("{LONE}{TLS}{on}ssl.clientAuth=none\n")).unwrap().config().unwrap().check();
    assert!(error.unwrap_err().to_string().contains("verify_client_addresses"));
}

const MEMBERS: &str = "ssl.quorum.keyStore.location=/k\nssl.quorum.trustStore.location=/t\n";

#[test]
fn members_talk_inside_tls_on_both_their_ports_where_the_file_says_so() {
    let cfg =
        load(&format!("{THREE}{MEMBERS}sslQuorum=true\nssl.quorum.hostnameVerification=false\n")).unwrap();
    let config = cfg.config().unwrap();
    config.check().unwrap();
    let (peer, admin) =
        (config.peer_tls.expect("TLS of peers"), config.admin_tls.expect("TLS of admin calls"));
    assert_eq!(peer, admin);
    assert_eq!(peer.certificate_file, Some("/k".into()));
    assert_eq!((peer.verify_names, peer.verify_client_addresses), (false, false));
    assert!(config.tls.is_none() && cfg.warnings.is_empty(), "{:?}", cfg.warnings);
    // As in ZooKeeper it means nothing to a server that stands alone.
    let alone = load(&format!("{LONE}sslQuorum=true\n")).unwrap().config().unwrap();
    assert!(alone.peer_tls.is_none() && alone.admin_tls.is_none());
}

#[test]
fn members_never_fall_back_to_plain_text_in_silence() {
    for (text, part) in [
        ("sslQuorum=true\n".to_owned(), "needs `ssl.quorum.keyStore.location`"),
        (format!("{MEMBERS}sslQuorum=true\nportUnification=true\n"), "stop all members"),
        (format!("{MEMBERS}sslQuorum=true\nssl.quorum.ocsp=true\n"), "castellan.ssl.quorum.crlFile"),
        (format!("{MEMBERS}sslQuorum=true\nssl.quorum.protocol=TLSv1\n"), "none of TLSv1.2"),
    ] {
        let error = load(&format!("{THREE}{text}")).map(|_| ()).expect_err(&text);
        assert!(error.contains(part), "{error}");
    }
    for (text, part) in [
        (MEMBERS.to_owned(), "members talk in plain text"),
        ("portUnification=true\n".to_owned(), "`portUnification` is not served"),
        (
            format!("{MEMBERS}sslQuorum=true\nssl.quorum.clientAuth=none\n"),
            "members always prove a certificate",
        ),
    ] {
        let warnings = load(&format!("{THREE}{text}")).unwrap().warnings;
        assert!(warnings.len() == 1 && warnings[0].contains(part), "{warnings:?}");
    }
}

#[test]
fn one_port_takes_clients_with_and_without_tls_where_the_file_says_so() {
    let unified = "ssl.keyStore.location=/k\nssl.clientAuth=none\nclient.portUnification=true\n";
    let config = load(&format!("{LONE}{unified}")).unwrap().config().unwrap();
    config.check().unwrap();
    assert!(config.listen.client_takes_tls && config.listen.client_tls.is_none() && config.tls.is_some());
    // Nothing in it says with which certificate.
    let config = load(&format!("{LONE}client.portUnification=true\n")).unwrap().config().unwrap();
    assert!(config.check().unwrap_err().to_string().contains("certificate_file"));
    // It is about the plain port.
    let secure = format!("dataDir=DATA\n{TLS}{unified}");
    assert!(!load(&secure).unwrap().config().unwrap().listen.client_takes_tls);
}

#[test]
fn passwords_survive_flags_that_are_laid_over() {
    let passwords = "ssl.keyStore.password=x\nssl.trustStore.password=y\n";
    let config = load(&format!("{LONE}{TLS}{passwords}")).unwrap().config().unwrap();
    let set = ["limits.connections_max=7".to_owned()];
    let overlaid = config.overlaid("zoo.cfg", std::iter::empty(), &set).unwrap();
    assert_eq!(overlaid.limits.connections_max, 7);
    let (before, after) = (config.tls.expect("TLS"), overlaid.tls.expect("TLS"));
    assert!(before.certificate_password.is_some() && before.ca_password.is_some());
    assert_eq!(before, after);
}
