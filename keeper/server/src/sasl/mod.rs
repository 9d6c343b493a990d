//! The server's side of SASL DIGEST-MD5 (RFC 2831) in the form ZooKeeper's clients speak: realm and host are both
//! `zk-sasl-md5`, the service is `zookeeper`, the quality of protection is `auth`.
//!
//! A state machine: tokens in, tokens out. It draws no random bytes, opens nothing and never panics on a token.
//! DIGEST-MD5 is weak (RFC 6331): it is here for clients that know nothing else, and wants TLS around it.

/// Values that the two sides prove to each other.
mod digest;
/// `name=value, name="value"`.
mod directives;
/// Bounds.
pub mod limits;
/// Who may log in.
mod users;

#[cfg(test)]
mod tests;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use digest::Exchange;
use directives::Directives;
use limits::{NONCE_BYTES, TOKEN_BYTES_MAX};

pub use digest::equal;
pub use users::{Users, UsersError};

/// The realm of ZooKeeper's servers, and what their clients take for the host.
const REALM: &str = "zk-sasl-md5";
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";

/// What a token of the client brought about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To be sent back; the client has to answer it.
    Challenge(Vec<u8>),
    /// The client is `user`; `token` proves to it that we know the password too.
    Done { user: String, token: Vec<u8> },
}

/// Why a login failed. For the log: the client only learns that it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    #[error("a token of {length} bytes, but at most {TOKEN_BYTES_MAX} are allowed")]
    TooLong { length: usize },
    #[error("the login is over already")]
    Over,
    #[error("malformed token: {0}")]
    Malformed(&'static str),
    #[error("`{0}` is missing or not what was asked for")]
    Directive(&'static str),
    #[error("unknown user or wrong password")]
    Refused,
}

/// One connection's login.
#[derive(Default)]
pub struct Login {
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Fresh,
    Challenged {
        nonce: String,
    },
    /// Succeeded or failed: either way nothing more is taken.
    Over,
}

impl Login {
    /// The client's next token. `nonce` has to be unpredictable; it is asked for the challenge alone.
    pub fn step(
        &mut self,
        token: &[u8],
        nonce: impl FnOnce() -> [u8; NONCE_BYTES],
        users: &Users,
    ) -> Result<Step, SaslError> {
        if token.len() > TOKEN_BYTES_MAX {
            self.state = State::Over;
            return Err(SaslError::TooLong { length: token.len() });
        }
        match std::mem::replace(&mut self.state, State::Over) {
            // What a first token says is of no concern (measured on ZooKeeper 3.9.5).
            State::Fresh => {
                let nonce = STANDARD.encode(nonce());
                let challenge =
                    format!("realm=\"{REALM}\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess");
                self.state = State::Challenged { nonce };
                Ok(Step::Challenge(challenge.into_bytes()))
            }
            State::Challenged { nonce } => judge(token, &nonce, users),
            State::Over => Err(SaslError::Over),
        }
    }
}

/// Judges the answer to a challenge, in the order of Java's server.
fn judge(token: &[u8], nonce: &str, users: &Users) -> Result<Step, SaslError> {
    let response = Directives::parse(token)?;
    if response.get("charset").is_some_and(|charset| charset != b"utf-8") {
        return Err(SaslError::Directive("charset"));
    }
    let user = text(&response, "username")?;
    if response.get("realm") != Some(REALM.as_bytes()) {
        return Err(SaslError::Directive("realm"));
    }
    if !equal(response.get("nonce").unwrap_or_default(), nonce.as_bytes()) {
        return Err(SaslError::Directive("nonce"));
    }
    let cnonce = response.get("cnonce").ok_or(SaslError::Directive("cnonce"))?;
    // Each nonce is good for one login.
    if response.get("nc").is_some_and(|count| count != b"00000001") {
        return Err(SaslError::Directive("nc"));
    }
    if response.get("qop").is_some_and(|qop| qop != b"auth") {
        return Err(SaslError::Directive("qop"));
    }
    let uri = response.get("digest-uri").ok_or(SaslError::Directive("digest-uri"))?;
    if !uri.eq_ignore_ascii_case(DIGEST_URI.as_bytes()) {
        return Err(SaslError::Directive("digest-uri"));
    }
    let proof = response.get("response").ok_or(SaslError::Directive("response"))?;
    // An unknown user costs as much time as a wrong password.
    let known = users.password(user);
    let exchange = Exchange {
        user,
        realm: REALM,
        password: known.unwrap_or_default(),
        nonce: nonce.as_bytes(),
        cnonce,
        uri,
        // Proves nothing: whatever it says, the client is its user.
        authzid: response.get("authzid"),
    };
    let right = equal(proof, &exchange.of_client());
    if !right || known.is_none() {
        return Err(SaslError::Refused);
    }
    let mut answer = b"rspauth=".to_vec();
    answer.extend_from_slice(&exchange.of_server());
    Ok(Step::Done { user: user.to_owned(), token: answer })
}

fn text<'a>(response: &'a Directives, name: &'static str) -> Result<&'a str, SaslError> {
    let bytes = response.get(name).ok_or(SaslError::Directive(name))?;
    std::str::from_utf8(bytes).map_err(|_| SaslError::Directive(name))
}
