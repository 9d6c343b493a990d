//! What must hold for any token of SASL and any file of users. A fuzzer calls these with bytes of its own; the test
//! `keeper/server/tests/corpus.rs` calls them with those of `fuzz/corpus`.

use super::sasl::limits::NONCE_BYTES;
use super::sasl::{Login, SaslError, Step, Users};
use std::sync::LazyLock;

/// The client answers a challenge whose nonce is known, so that the corpus may hold an answer that is right. Nothing
/// but the right answer logs anybody in, and nothing is taken after the login is over.
pub fn token(data: &[u8]) {
    static USERS: LazyLock<Users> =
        LazyLock::new(|| Users::parse("bob:secret\nsuper:adminsecret").expect("users"));
    let users = &*USERS;
    let nonce = || [7; NONCE_BYTES];
    let mut login = Login::default();
    let early = Login::default().step(data, nonce, users);
    assert!(
        matches!(early, Ok(Step::Challenge(_)) | Err(SaslError::TooLong { .. })),
        "nobody is in before a challenge"
    );
    let challenged = login.step(&[], nonce, users);
    assert!(matches!(challenged, Ok(Step::Challenge(_))));
    match login.step(data, nonce, users) {
        Ok(Step::Done { user, token }) => {
            assert!(user == "bob" || user == "super");
            assert!(token.starts_with(b"rspauth=") && token.len() == 40);
        }
        Ok(Step::Challenge(_)) => panic!("a second challenge"),
        Err(_) => {}
    }
    assert_eq!(login.step(&[], nonce, users), Err(SaslError::Over));
}

/// As `user:password` lines or as a JAAS file.
pub fn users(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for parsed in [Users::parse(text), Users::parse_jaas(text, "Server")] {
        match parsed {
            Ok(users) => assert!(users.password("").is_none() && users.len() <= text.len()),
            Err(error) => assert!(error.to_string().len() < 400),
        }
    }
}
