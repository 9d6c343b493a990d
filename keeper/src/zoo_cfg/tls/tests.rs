use crate::zoo_cfg::tests::{LONE, load};

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
