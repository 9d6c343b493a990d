//! Who a connection's client is: auth packets, SASL, and the password of ClickHouse's handshake. What it has proved
//! are the identities that travel with its requests.
//!
//! Everything here is about one connection. A session that moves on proves itself anew, as in ZooKeeper.

use crate::limits::{
    CLICKHOUSE_PASSWORD_BYTES_MAX, IDENTITIES_BYTES_MAX, IDENTITIES_MAX, IDENTITY_BYTES_MAX,
    SKIP_ACL_WARNING_PERIOD,
};
use crate::outbox::CloseReason;
use crate::sasl::{Login, Step, Users};
use bytes::{BufMut, BytesMut};
use keeper_types::{AclId, AuthRequest, ConnectRequest, ErrorCode, OpCode, Response};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Switches and secrets of authentication.
#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    /// `user:base64(sha1(user:password))` of the super user; none when unset.
    pub super_digest: Option<String>,
    /// Who may log in by SASL; `None` where SASL is not offered.
    pub sasl_users: Option<SharedUsers>,
    /// Users of SASL that are super users.
    pub super_users: BTreeSet<String>,
    /// When not empty, a client is served nothing before it has an identity of one of these schemes.
    pub required_schemes: BTreeSet<String>,
    /// Who fails to log in by SASL stays connected without that identity, unless `required_schemes` has `sasl`.
    pub allow_failed_sasl: bool,
    /// Handshakes that open a session have to hold it.
    pub clickhouse_password: Option<Secret>,
    /// Every client is a super user.
    pub skip_acl: bool,
    /// getACL shows hashes of digests to everyone who may read the ACL, as ZooKeeper before 3.8.
    pub unredacted_acl: bool,
}

impl AuthOptions {
    /// Whether a handshake may open a session. ClickHouse puts its password where a client that comes back has its
    /// session's: that one is judged with the session.
    pub fn admits_handshake(&self, request: &ConnectRequest) -> bool {
        let Some(Secret(password)) = &self.clickhouse_password else { return true };
        let end = request.password.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        request.session_id != 0 || crate::sasl::equal(&request.password[..end], password.as_bytes())
    }

    /// What a connection starts with.
    pub fn first_identities(&self, remote_ip: &str, proved: Vec<AclId>) -> Arc<[AclId]> {
        let ip = keeper_tree::ip_identity(remote_ip);
        let everyone = self.skip_acl.then(|| super_identity("skip_acl"));
        std::iter::once(ip).chain(proved).chain(everyone).collect()
    }
}

/// A password that no log shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The password of ClickHouse's handshake: 1 to 16 bytes, no NUL at its end. `None` for any other.
    pub fn for_clickhouse(password: &str) -> Option<Secret> {
        let sound =
            (1..=CLICKHOUSE_PASSWORD_BYTES_MAX).contains(&password.len()) && !password.ends_with('\0');
        sound.then(|| Secret(password.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Users that may change while the server runs; clones share them. A change touches later logins only.
#[derive(Clone, Debug, Default)]
pub struct SharedUsers(Arc<RwLock<Arc<Users>>>);

impl SharedUsers {
    pub fn new(users: Users) -> SharedUsers {
        SharedUsers(Arc::new(RwLock::new(Arc::new(users))))
    }

    pub fn get(&self) -> Arc<Users> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, users: Users) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(users);
    }
}

/// One connection's authentication.
pub struct Auth {
    options: Arc<AuthOptions>,
    login: Login,
}

/// The reply to an attempt; with a reason, the connection ends after it.
pub struct Answer {
    pub reply: BytesMut,
    pub close: Option<CloseReason>,
}

impl Auth {
    pub fn new(options: Arc<AuthOptions>) -> Auth {
        Auth { options, login: Login::default() }
    }

    /// `None` when a client with these identities may go on with this operation; else what it is told, as by
    /// ZooKeeper's `sessionRequireClientSASLAuth` and `enforce.auth.schemes`.
    pub fn refusal(&self, xid: i32, op: i32, identities: &[AclId]) -> Option<Answer> {
        let required = &self.options.required_schemes;
        let is_attempt = [OpCode::Auth, OpCode::Sasl].iter().any(|attempt| attempt.as_i32() == op);
        if required.is_empty() || is_attempt || identities.iter().any(|id| required.contains(&id.scheme)) {
            return None;
        }
        Some(failure(xid, ErrorCode::SessionClosedRequireSasl))
    }

    /// An auth packet. Success adds to `identities`.
    pub fn authenticate(&self, xid: i32, request: &AuthRequest<'_>, identities: &mut Arc<[AclId]>) -> Answer {
        let proven = match request.scheme {
            // The address is known from the connection already.
            "ip" => Some(Vec::new()),
            // So is a certificate, if there was one.
            "x509" if identities.iter().any(|identity| identity.scheme == "x509") => Some(Vec::new()),
            "digest" => self.digest_identities(request.auth),
            _ => None,
        };
        match proven.is_some_and(|proven| add(identities, proven)) {
            true => success(xid, &Response::Empty),
            false => failure(xid, ErrorCode::AuthFailed),
        }
    }

    fn digest_identities(&self, auth: &[u8]) -> Option<Vec<AclId>> {
        if auth.len() > IDENTITY_BYTES_MAX {
            return None;
        }
        // Java reads bytes that are no UTF-8 in the same way.
        let identity = keeper_tree::digest_identity(&String::from_utf8_lossy(auth))?;
        let is_super = self.options.super_digest.as_deref() == Some(identity.id.as_str());
        Some(is_super.then(|| super_identity("")).into_iter().chain([identity]).collect())
    }

    /// A token of SASL. The last one of a login that succeeds adds to `identities`.
    pub fn login(&mut self, xid: i32, token: &[u8], identities: &mut Arc<[AclId]>) -> Answer {
        let Some(users) = &self.options.sasl_users else {
            // ZooKeeper without a JAAS file answers with no token at all, and its clients go on without a login.
            return Answer { reply: reply_without_token(xid, 0), close: None };
        };
        match self.login.step(token, keeper_rt::random_bytes, &users.get()) {
            Ok(Step::Challenge(token)) => success(xid, &Response::Sasl { token }),
            Ok(Step::Done { user, token }) => {
                let is_super = self.options.super_users.contains(&user);
                let more = is_super.then(|| super_identity(&user));
                let proven = std::iter::once(AclId { scheme: "sasl".into(), id: user }).chain(more).collect();
                match add(identities, proven) {
                    true => success(xid, &Response::Sasl { token }),
                    false => self.login_failure(xid),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "SASL login failed");
                self.login_failure(xid)
            }
        }
    }

    fn login_failure(&self, xid: i32) -> Answer {
        let code = match self.options.required_schemes.contains("sasl") {
            true => ErrorCode::SessionClosedRequireSasl,
            // ZooKeeper says nothing of the failure then: success, and no token, as if SASL were not offered.
            false if self.options.allow_failed_sasl => {
                return Answer { reply: reply_without_token(xid, 0), close: None };
            }
            false => ErrorCode::AuthFailed,
        };
        // The only error reply of ZooKeeper that has a body.
        Answer { reply: reply_without_token(xid, code.as_i32()), close: Some(CloseReason::AuthFailed) }
    }
}

/// Adds what is new. `false` when there would be too many: nothing is added then.
pub fn add(identities: &mut Arc<[AclId]>, proven: Vec<AclId>) -> bool {
    let new: Vec<AclId> = proven.into_iter().filter(|id| !identities.contains(id)).collect();
    let bytes: usize = identities.iter().chain(&new).map(identity_bytes).sum();
    if identities.len() + new.len() > IDENTITIES_MAX || bytes > IDENTITIES_BYTES_MAX {
        return false;
    }
    if !new.is_empty() {
        *identities = identities.iter().cloned().chain(new).collect();
    }
    true
}

/// What it takes in each write that carries it, more or less.
pub fn identity_bytes(identity: &AclId) -> usize {
    identity.scheme.len() + identity.id.len()
}

fn super_identity(id: &str) -> AclId {
    AclId { scheme: "super".into(), id: id.into() }
}

// ZooKeeper's replies to auth and sasl carry zxid 0.

fn success(xid: i32, response: &Response) -> Answer {
    let mut reply = BytesMut::new();
    keeper_wire::encode_reply(xid, 0, Ok(response), &mut reply);
    Answer { reply, close: None }
}

fn failure(xid: i32, code: ErrorCode) -> Answer {
    let mut reply = BytesMut::new();
    keeper_wire::encode_reply(xid, 0, Err(code), &mut reply);
    Answer { reply, close: Some(CloseReason::AuthFailed) }
}

/// The token is null.
fn reply_without_token(xid: i32, error: i32) -> BytesMut {
    let mut reply = BytesMut::new();
    reply.put_i32(20);
    reply.put_i32(xid);
    reply.put_i64(0);
    reply.put_i32(error);
    reply.put_i32(-1);
    reply
}

/// Says again and again that ACLs are not checked, so that nobody can have forgotten it.
pub async fn warn_of_skipped_acls() {
    loop {
        tracing::warn!(
            "auth.skip_acl is on: EVERY client may read, change and delete EVERYTHING, whatever the ACLs say; \
             turn it off as soon as the repair is done"
        );
        keeper_rt::sleep(SKIP_ACL_WARNING_PERIOD).await;
    }
}
