//! A client of RFC 2831 against the login, and every way it can go wrong.

use super::digest::Exchange;
use super::limits::{NONCE_BYTES, TOKEN_BYTES_MAX};
use super::*;

const CNONCE: &str = "b2EgY2xpZW50J3Mgbm9uY2U=";

fn users() -> Users {
    Users::parse("bob:secret\nj\u{f6}rg:p\u{e4}ss\n\u{4e2d}:\u{6587}").unwrap()
}

fn nonce() -> [u8; NONCE_BYTES] {
    [1; NONCE_BYTES]
}

fn challenged() -> Login {
    let mut login = Login::default();
    let challenge = login.step(b"", nonce, &users()).unwrap();
    let nonce = STANDARD.encode(nonce());
    let expected = format!("realm=\"zk-sasl-md5\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess");
    assert_eq!(challenge, Step::Challenge(expected.into_bytes()));
    login
}

fn exchange<'a>(user: &'a str, password: &'a str, nonce: &'a str) -> Exchange<'a> {
    Exchange {
        user,
        realm: REALM,
        password,
        nonce: nonce.as_bytes(),
        cnonce: CNONCE.as_bytes(),
        uri: DIGEST_URI.as_bytes(),
        authzid: None,
    }
}

fn proof(user: &str, password: &str) -> String {
    let nonce = STANDARD.encode(nonce());
    String::from_utf8(exchange(user, password, &nonce).of_client().to_vec()).unwrap()
}

/// As Java's client puts it together.
fn answer(user: &str, password: &str) -> String {
    let nonce = STANDARD.encode(nonce());
    format!(
        "charset=utf-8,username=\"{user}\",realm=\"{REALM}\",nonce=\"{nonce}\",nc=00000001,cnonce=\"{CNONCE}\",\
         digest-uri=\"{DIGEST_URI}\",maxbuf=65536,response={},qop=auth",
        proof(user, password)
    )
}

#[test]
fn the_right_password_logs_in_and_is_answered_with_a_proof() {
    for (user, password) in [("bob", "secret"), ("j\u{f6}rg", "p\u{e4}ss"), ("\u{4e2d}", "\u{6587}")] {
        let done = challenged().step(answer(user, password).as_bytes(), nonce, &users()).unwrap();
        let nonce = STANDARD.encode(nonce());
        let mut token = b"rspauth=".to_vec();
        token.extend_from_slice(&exchange(user, password, &nonce).of_server());
        assert_eq!(done, Step::Done { user: user.into(), token });
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_refused_alike() {
    for (user, password) in
        [("bob", "Secret"), ("bob", ""), ("ann", "secret"), ("ann", ""), ("Bob", "secret")]
    {
        let outcome = challenged().step(answer(user, password).as_bytes(), nonce, &users());
        assert_eq!(outcome, Err(SaslError::Refused), "{user}");
    }
}

#[test]
fn each_directive_has_to_be_what_was_asked_for() {
    let right = answer("bob", "secret");
    let nonce_text = STANDARD.encode(nonce());
    for (from, to, name) in [
        ("username=\"bob\",", "", "username"),
        ("realm=\"zk-sasl-md5\",", "", "realm"),
        ("realm=\"zk-sasl-md5\"", "realm=\"elsewhere\"", "realm"),
        (nonce_text.as_str(), "anothernonce", "nonce"),
        ("nc=00000001", "nc=00000002", "nc"),
        ("qop=auth", "qop=auth-conf", "qop"),
        ("digest-uri=\"zookeeper/zk-sasl-md5\"", "digest-uri=\"ldap/zk-sasl-md5\"", "digest-uri"),
        ("digest-uri=\"zookeeper/zk-sasl-md5\",", "", "digest-uri"),
        ("charset=utf-8", "charset=latin-1", "charset"),
        (",response=", ",reply=", "response"),
    ] {
        assert!(right.contains(from), "{from}");
        let outcome = challenged().step(right.replacen(from, to, 1).as_bytes(), nonce, &users());
        assert_eq!(outcome, Err(SaslError::Directive(name)), "{from} -> {to}");
    }
    let without_cnonce = right.replace(&format!("cnonce=\"{CNONCE}\","), "");
    let outcome = challenged().step(without_cnonce.as_bytes(), nonce, &users());
    assert_eq!(outcome, Err(SaslError::Directive("cnonce")));
}

#[test]
fn what_has_a_default_may_be_left_out() {
    let right = answer("bob", "secret");
    for part in ["charset=utf-8,", "nc=00000001,", ",qop=auth", "maxbuf=65536,"] {
        assert!(right.contains(part), "{part}");
        let outcome = challenged().step(right.replacen(part, "", 1).as_bytes(), nonce, &users());
        assert!(matches!(outcome, Ok(Step::Done { .. })), "without {part}: {outcome:?}");
    }
}

#[test]
fn an_authorization_id_is_hashed_and_gives_no_other_identity() {
    let nonce_text = STANDARD.encode(nonce());
    let with_authzid = Exchange { authzid: Some(b"super"), ..exchange("bob", "secret", &nonce_text) };
    let proof_with = String::from_utf8(with_authzid.of_client().to_vec()).unwrap();
    let right = answer("bob", "secret").replace(&proof("bob", "secret"), &proof_with);
    let outcome = challenged().step(format!("{right},authzid=\"super\"").as_bytes(), nonce, &users());
    assert!(matches!(outcome, Ok(Step::Done { user, .. }) if user == "bob"));
}

#[test]
fn a_login_takes_each_step_once() {
    let right = answer("bob", "secret");
    let mut fresh = Login::default();
    assert!(matches!(fresh.step(right.as_bytes(), nonce, &users()), Ok(Step::Challenge(_))));

    let mut done = challenged();
    assert!(done.step(right.as_bytes(), nonce, &users()).is_ok());
    assert_eq!(done.step(b"", nonce, &users()), Err(SaslError::Over));
    assert_eq!(done.step(right.as_bytes(), nonce, &users()), Err(SaslError::Over));

    let mut failed = challenged();
    assert!(failed.step(b"", nonce, &users()).is_err());
    assert_eq!(failed.step(right.as_bytes(), nonce, &users()), Err(SaslError::Over));
}

#[test]
fn a_token_beyond_the_bound_is_refused_unread() {
    let mut login = challenged();
    let long = vec![b'a'; TOKEN_BYTES_MAX + 1];
    assert_eq!(login.step(&long, nonce, &users()), Err(SaslError::TooLong { length: TOKEN_BYTES_MAX + 1 }));
    assert_eq!(login.step(answer("bob", "secret").as_bytes(), nonce, &users()), Err(SaslError::Over));
}

/// A login at ZooKeeper 3.9.5, whose nonce ours is given.
#[test]
fn a_recorded_login_goes_byte_by_byte_as_at_zookeeper() {
    const NONCE: &str = "KXNSRGO5qplv5EN4ohIW04xwgcZYkkQBpR8xdrto";
    let nonce = || STANDARD.decode(NONCE).unwrap().try_into().unwrap();
    let users = Users::parse("bob:bobsecret").unwrap();
    let mut login = Login::default();
    let challenge = "realm=\"zk-sasl-md5\",nonce=\"KXNSRGO5qplv5EN4ohIW04xwgcZYkkQBpR8xdrto\",charset=utf-8,\
                     algorithm=md5-sess";
    assert_eq!(login.step(b"", nonce, &users), Ok(Step::Challenge(challenge.into())));
    let answer = "charset=utf-8,username=\"bob\",realm=\"zk-sasl-md5\",nonce=\"KXNSRGO5qplv5EN4ohIW04xwgcZYkkQBpR8xdrto\",\
                  nc=00000001,cnonce=\"Y25vbmNl\",digest-uri=\"zookeeper/zk-sasl-md5\",\
                  response=6be1f4d096c41c90cfc06fffcea15d27,qop=auth";
    let token = b"rspauth=309396d737d0c229cb05e614b826597c".to_vec();
    assert_eq!(login.step(answer.as_bytes(), nonce, &users), Ok(Step::Done { user: "bob".into(), token }));
}
