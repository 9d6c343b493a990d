//! Authentication over the wire. Bytes and order of the answers are those of ZooKeeper 3.9.5 with a JAAS file, asked
//! the same way; where ours differ on purpose, the test says so.
#![allow(clippy::disallowed_methods)]

mod support;

use bytes::Bytes;
use keeper_server::auth::{Secret, SharedUsers};
use keeper_server::sasl::Users;
use keeper_server::{AuthOptions, Node};
use keeper_types::{
    Acl, AclId, AuthRequest, CreateMode, CreateRequest, ErrorCode, OpCode, Perms, Request, Response,
};
use md5::{Digest as _, Md5};
use support::{Packet, RawClient, connect_request, create, get, one_member_with, set};
use tokio::io::AsyncWriteExt;

const AUTH_FAILED: i32 = -115;
const REQUIRE_SASL: i32 = -124;

async fn member(change: impl FnOnce(&mut AuthOptions)) -> Node {
    let users = Users::parse("bob:bobsecret\nsuper:adminsecret\nroot:rootsecret").expect("users");
    one_member_with(|options| {
        options.auth.sasl_users = Some(SharedUsers::new(users));
        change(&mut options.auth);
    })
    .await
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a client of RFC 2831 answers to `challenge`.
fn answer(challenge: &[u8], user: &str, password: &str) -> Vec<u8> {
    let challenge = std::str::from_utf8(challenge).expect("text");
    let (_, nonce) = challenge.split_once("nonce=\"").expect("a nonce");
    let (nonce, _) = nonce.split_once('"').expect("its end");
    let (realm, cnonce, uri) = ("zk-sasl-md5", "Y25vbmNl", "zookeeper/zk-sasl-md5");
    let mut secret = Md5::digest(format!("{user}:{realm}:{password}")).to_vec();
    secret.extend_from_slice(format!(":{nonce}:{cnonce}").as_bytes());
    let target = hex(&Md5::digest(format!("AUTHENTICATE:{uri}")));
    let proof = Md5::digest(format!("{}:{nonce}:00000001:{cnonce}:auth:{target}", hex(&Md5::digest(secret))));
    format!(
        "charset=utf-8,username=\"{user}\",realm=\"{realm}\",nonce=\"{nonce}\",nc=00000001,cnonce=\"{cnonce}\",\
         digest-uri=\"{uri}\",maxbuf=65536,response={},qop=auth",
        hex(&proof)
    )
    .into_bytes()
}

async fn challenge(client: &mut RawClient) -> Vec<u8> {
    match client.call(&Request::Sasl(b"")).await {
        Ok(Response::Sasl { token }) => token,
        other => panic!("no challenge: {other:?}"),
    }
}

async fn login(client: &mut RawClient, user: &str, password: &str) -> Result<Response, i32> {
    let challenge = challenge(client).await;
    client.call(&Request::Sasl(&answer(&challenge, user, password))).await
}

async fn add_auth(client: &mut RawClient, scheme: &str, auth: &[u8]) -> Packet {
    client.send_as(-4, &Request::Auth(AuthRequest { scheme, auth })).await;
    client.packet().await
}

fn reply(xid: i32, error: i32, body: &'static [u8]) -> Packet {
    Packet::Reply { xid, zxid: 0, error, body: Bytes::from_static(body) }
}

fn acl(perms: Perms, scheme: &str, id: &str) -> Acl {
    Acl { perms, id: AclId { scheme: scheme.into(), id: id.into() } }
}

fn create_with(path: &str, acl: Vec<Acl>) -> Request<'_> {
    Request::Create(OpCode::Create, CreateRequest { path, data: None, acl, flags: 0, ttl_ms: None })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_by_sasl_gives_the_identity_that_acls_name() {
    let node = member(|_| {}).await;
    let mut bob = RawClient::connect(&node).await;
    let Ok(Response::Sasl { token }) = login(&mut bob, "bob", "bobsecret").await else { panic!("refused") };
    assert!(token.starts_with(b"rspauth=") && token.len() == 40);
    bob.call(&create_with("/bobs", vec![acl(Perms::ALL, "auth", "")])).await.unwrap();
    match bob.call(&Request::GetAcl("/bobs")).await {
        Ok(Response::GetAcl { acl: found, .. }) => assert_eq!(found, [acl(Perms::ALL, "sasl", "bob")]),
        other => panic!("{other:?}"),
    }
    let mut stranger = RawClient::connect(&node).await;
    assert_eq!(stranger.call(&get("/bobs", false)).await, Err(ErrorCode::NoAuth.as_i32()));
    login(&mut stranger, "root", "rootsecret").await.unwrap();
    assert_eq!(stranger.call(&get("/bobs", false)).await, Err(ErrorCode::NoAuth.as_i32()));
    // ZooKeeper's SASL provider has a user that passes for every other.
    let mut super_user = RawClient::connect(&node).await;
    login(&mut super_user, "super", "adminsecret").await.unwrap();
    assert!(super_user.call(&get("/bobs", false)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_super_user_is_the_configured_one() {
    let node = member(|auth| {
        auth.super_users = ["root".to_owned()].into();
        auth.super_digest = Some("super:g9oN2HttPfn8MMWJZ2r45Np/LIA=".into());
    })
    .await;
    let mut bob = RawClient::connect(&node).await;
    add_auth(&mut bob, "digest", b"bob:x").await;
    bob.call(&create_with("/d", vec![acl(Perms::ALL, "auth", "")])).await.unwrap();
    let mut root = RawClient::connect(&node).await;
    assert!(root.call(&get("/d", false)).await.is_err());
    login(&mut root, "root", "rootsecret").await.unwrap();
    assert!(root.call(&get("/d", false)).await.is_ok());
    let mut by_digest = RawClient::connect(&node).await;
    assert_eq!(add_auth(&mut by_digest, "digest", b"super:wrong").await, reply(-4, 0, b""));
    assert!(by_digest.call(&get("/d", false)).await.is_err());
    assert_eq!(add_auth(&mut by_digest, "digest", b"super:superpw").await, reply(-4, 0, b""));
    assert!(by_digest.call(&get("/d", false)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_fails_is_answered_then_the_connection_ends() {
    let node = member(|_| {}).await;
    for (user, password) in [("bob", "wrong"), ("nobody", "bobsecret")] {
        let mut client = RawClient::connect(&node).await;
        let challenge = challenge(&mut client).await;
        client.send_as(2, &Request::Sasl(&answer(&challenge, user, password))).await;
        assert_eq!(client.packet().await, reply(2, AUTH_FAILED, b"\xff\xff\xff\xff"));
        assert_eq!(client.packet().await, Packet::End);
    }
    // Too long, nonsense, out of turn. What the first token says is of no concern.
    let mut early = RawClient::connect(&node).await;
    assert!(
        matches!(early.call(&Request::Sasl(b"x")).await, Ok(Response::Sasl { token }) if token.len() == 101)
    );
    for token in [vec![b'a'; 5_000], b"username=\"".to_vec(), Vec::new()] {
        let mut client = RawClient::connect(&node).await;
        challenge(&mut client).await;
        client.send_as(6, &Request::Sasl(&token)).await;
        assert_eq!(client.packet().await, reply(6, AUTH_FAILED, b"\xff\xff\xff\xff"));
        assert_eq!(client.packet().await, Packet::End);
    }
    let mut late = RawClient::connect(&node).await;
    login(&mut late, "bob", "bobsecret").await.unwrap();
    late.send_as(7, &Request::Sasl(b"")).await;
    assert_eq!(late.packet().await, reply(7, AUTH_FAILED, b"\xff\xff\xff\xff"));
    assert_eq!(late.packet().await, Packet::End);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_failure_is_said_although_a_write_is_under_way() {
    let node = member(|_| {}).await;
    for round in 0..20 {
        let mut client = RawClient::connect(&node).await;
        let path = format!("/w{round}");
        client.send(&create(&path, b"", CreateMode::Persistent)).await;
        client.send_as(9, &Request::Sasl(&[b'x'; 5_000])).await;
        let mut said = false;
        loop {
            match client.packet().await {
                Packet::Reply { xid: 9, error: AUTH_FAILED, .. } => said = true,
                Packet::Reply { error: 0, .. } => {}
                Packet::End => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(said, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_users_a_login_is_answered_with_no_token() {
    let node = one_member_with(|_| {}).await;
    let mut client = RawClient::connect(&node).await;
    client.send_as(1, &Request::Sasl(b"")).await;
    assert_eq!(client.packet().await, reply(1, 0, b"\xff\xff\xff\xff"));
    assert!(client.call(&Request::Ping).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_may_change_while_the_member_runs() {
    let users = SharedUsers::new(Users::parse("bob:one").unwrap());
    let shared = users.clone();
    let node = one_member_with(|options| options.auth.sasl_users = Some(shared)).await;
    let mut bob = RawClient::connect(&node).await;
    login(&mut bob, "bob", "one").await.unwrap();
    users.set(Users::parse("bob:two").unwrap());
    assert!(bob.call(&Request::Ping).await.is_ok(), "logged in is logged in");
    let mut again = RawClient::connect(&node).await;
    assert_eq!(login(&mut again, "bob", "one").await, Err(AUTH_FAILED));
    let mut again = RawClient::connect(&node).await;
    assert!(login(&mut again, "bob", "two").await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_fails_may_leave_the_client_as_it_was() {
    let lenient = member(|auth| auth.allow_failed_sasl = true).await;
    let mut bob = RawClient::connect(&lenient).await;
    login(&mut bob, "bob", "bobsecret").await.unwrap();
    bob.call(&create_with("/bobs", vec![acl(Perms::ALL, "auth", "")])).await.unwrap();
    let mut client = RawClient::connect(&lenient).await;
    let challenge = challenge(&mut client).await;
    client.send_as(2, &Request::Sasl(&answer(&challenge, "bob", "wrong"))).await;
    assert_eq!(client.packet().await, reply(2, 0, b"\xff\xff\xff\xff"));
    assert!(client.call(&get("/", false)).await.is_ok());
    assert_eq!(client.call(&get("/bobs", false)).await, Err(ErrorCode::NoAuth.as_i32()));
    // Where a login is required there is nothing to be lenient about.
    let strict = member(|auth| {
        auth.allow_failed_sasl = true;
        auth.required_schemes = ["sasl".to_owned()].into();
    })
    .await;
    let mut wrong = RawClient::connect(&strict).await;
    assert_eq!(login(&mut wrong, "bob", "wrong").await, Err(REQUIRE_SASL));
    assert_eq!(wrong.packet().await, Packet::End);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_sasl_is_required_nothing_else_is_served_before_it() {
    let node = member(|auth| auth.required_schemes = ["sasl".to_owned()].into()).await;
    let requests: [(i32, Request<'_>); 4] = [
        (7, get("/", false)),
        (-2, Request::Ping),
        (8, Request::CloseSession),
        (9, create("/x", b"", CreateMode::Ephemeral)),
    ];
    for (xid, request) in requests {
        let mut client = RawClient::connect(&node).await;
        client.send_as(xid, &request).await;
        assert_eq!(client.packet().await, reply(xid, REQUIRE_SASL, b""), "{:?}", request.op());
        assert_eq!(client.packet().await, Packet::End);
        // The session lives on, even after a refused end; it can be taken up and proved.
        let again = connect_request(client.granted.session_id, client.granted.password.clone(), 30_000);
        let mut client = RawClient::connect_as(&node, &again).await.unwrap();
        assert_eq!(client.granted.session_id, again.session_id);
        login(&mut client, "bob", "bobsecret").await.unwrap();
        assert!(client.call(&get("/", false)).await.is_ok());
    }
    let mut unknown = RawClient::connect(&node).await;
    unknown.stream.write_all(&[0, 0, 0, 8, 0, 0, 0, 77, 0, 0, 3, 231]).await.unwrap();
    assert_eq!(unknown.packet().await, reply(77, REQUIRE_SASL, b""));
    // Another identity is taken and does not help.
    let mut by_digest = RawClient::connect(&node).await;
    assert_eq!(add_auth(&mut by_digest, "digest", b"u:p").await, reply(-4, 0, b""));
    assert_eq!(by_digest.call(&get("/", false)).await, Err(REQUIRE_SASL));
    // A login that fails says so with the same code.
    let mut wrong = RawClient::connect(&node).await;
    assert_eq!(login(&mut wrong, "bob", "wrong").await, Err(REQUIRE_SASL));
    assert_eq!(wrong.packet().await, Packet::End);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_of_the_required_schemes_will_do() {
    let node = member(|auth| auth.required_schemes = ["sasl".to_owned(), "digest".to_owned()].into()).await;
    let mut client = RawClient::connect(&node).await;
    assert_eq!(add_auth(&mut client, "digest", b"u:p").await, reply(-4, 0, b""));
    assert!(client.call(&get("/", false)).await.is_ok());
    let mut client = RawClient::connect(&node).await;
    login(&mut client, "bob", "bobsecret").await.unwrap();
    assert!(client.call(&get("/", false)).await.is_ok());
    let mut client = RawClient::connect(&node).await;
    assert_eq!(client.call(&get("/", false)).await, Err(REQUIRE_SASL));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemes_that_no_auth_packet_can_prove_fail() {
    let node = member(|_| {}).await;
    for scheme in ["sasl", "x509", "world", "auth", "super", "nonsense", ""] {
        let mut client = RawClient::connect(&node).await;
        assert_eq!(add_auth(&mut client, scheme, b"x").await, reply(-4, AUTH_FAILED, b""), "{scheme}");
        assert_eq!(client.packet().await, Packet::End);
    }
    let mut client = RawClient::connect(&node).await;
    for (scheme, auth) in
        [("ip", &b""[..]), ("digest", b""), ("digest", b"no colon"), ("digest", b"b\xff:\xfe")]
    {
        assert_eq!(add_auth(&mut client, scheme, auth).await, reply(-4, 0, b""), "{scheme} {auth:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_auth_packets_are_bounded_and_touch_no_other_client() {
    let node = member(|_| {}).await;
    let mut bystander = RawClient::connect(&node).await;
    bystander.call(&create("/b", b"", CreateMode::Persistent)).await.unwrap();
    let mut same = RawClient::connect(&node).await;
    for _ in 0..10_000 {
        same.send_as(-4, &Request::Auth(AuthRequest { scheme: "digest", auth: b"u:p" })).await;
        assert_eq!(same.packet().await, reply(-4, 0, b""));
    }
    // ZooKeeper takes as many identities as come; ours ends with the one that no longer fits.
    let mut many = RawClient::connect(&node).await;
    let mut taken = 0;
    loop {
        let auth = format!("user{taken}:p");
        match add_auth(&mut many, "digest", auth.as_bytes()).await {
            Packet::Reply { error: 0, .. } => taken += 1,
            Packet::Reply { error, .. } => break assert_eq!(error, AUTH_FAILED),
            other => panic!("{other:?}"),
        }
        assert!(taken < 100);
    }
    assert_eq!((taken, many.packet().await), (63, Packet::End));
    // They travel with every write, so their bytes are bounded too.
    let mut wide = RawClient::connect(&node).await;
    for user in ["a", "b", "c", "d"] {
        let auth = format!("{}:p", user.repeat(900));
        assert_eq!(add_auth(&mut wide, "digest", auth.as_bytes()).await, reply(-4, 0, b""));
    }
    for _ in 0..300 {
        wide.send(&set("/b", b"x")).await;
    }
    for _ in 0..300 {
        assert!(matches!(wide.packet().await, Packet::Reply { error: 0, .. }));
    }
    let fifth = add_auth(&mut wide, "digest", &[b'e'; 900]).await;
    assert_eq!(fifth, reply(-4, AUTH_FAILED, b""));
    let mut long = RawClient::connect(&node).await;
    assert_eq!(add_auth(&mut long, "digest", &[b'a'; 100_000]).await, reply(-4, AUTH_FAILED, b""));
    assert!(bystander.call(&get("/b", false)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acl_vectors_as_long_as_a_frame_are_judged_by_what_is_distinct() {
    let node = member(|_| {}).await;
    let mut client = RawClient::connect(&node).await;
    let equal = vec![Acl::open(); 30_000];
    assert!(client.call(&create_with("/equal", equal)).await.is_ok());
    match client.call(&Request::GetAcl("/equal")).await {
        Ok(Response::GetAcl { acl, .. }) => assert_eq!(acl, [Acl::open()]),
        other => panic!("{other:?}"),
    }
    // ZooKeeper has no bound below that of the frame.
    let distinct = (0..5_000).map(|perms| Acl { perms: Perms(perms), ..Acl::open() }).collect();
    let refused = client.call(&create_with("/distinct", distinct)).await;
    assert_eq!(refused, Err(ErrorCode::InvalidAcl.as_i32()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clickhouses_password_opens_sessions_where_it_is_configured() {
    let node = member(|auth| auth.clickhouse_password = Secret::for_clickhouse("hunter2")).await;
    let mut padded = b"hunter2".to_vec();
    padded.resize(16, 0);
    let right = connect_request(0, padded, 30_000);
    let client = RawClient::connect_as(&node, &right).await.expect("served");
    for wrong in
        [vec![0; 16], b"hunter2x\0\0\0\0\0\0\0\0".to_vec(), b"hunter".to_vec(), Vec::new(), vec![b'h'; 500]]
    {
        let refused = RawClient::connect_as(&node, &connect_request(0, wrong.clone(), 30_000)).await;
        assert!(refused.is_none(), "{wrong:?}");
    }
    let again = connect_request(client.granted.session_id, client.granted.password.clone(), 30_000);
    let back = RawClient::connect_as(&node, &again).await.expect("served");
    assert_eq!(back.granted.session_id, client.granted.session_id);
    let stolen = connect_request(client.granted.session_id, right.password, 30_000);
    let refused = RawClient::connect_as(&node, &stolen).await.expect("an answer");
    assert_eq!(refused.granted.session_id, 0, "the password of ClickHouse is nobody's session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_skip_acl_every_client_may_do_everything() {
    let node = member(|auth| auth.skip_acl = true).await;
    let mut owner = RawClient::connect(&node).await;
    login(&mut owner, "bob", "bobsecret").await.unwrap();
    owner.call(&create_with("/bobs", vec![acl(Perms::ALL, "auth", "")])).await.unwrap();
    let mut stranger = RawClient::connect(&node).await;
    assert!(stranger.call(&get("/bobs", false)).await.is_ok());
    assert!(stranger.call(&create("/bobs/child", b"", CreateMode::Persistent)).await.is_ok());
    // It is no identity that an ACL could be given.
    let refused = stranger.call(&create_with("/x", vec![acl(Perms::ALL, "auth", "")])).await;
    assert_eq!(refused, Err(ErrorCode::InvalidAcl.as_i32()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashes_of_digests_are_shown_to_readers_only_where_that_is_configured() {
    for unredacted in [false, true] {
        let node = member(|auth| auth.unredacted_acl = unredacted).await;
        let mut owner = RawClient::connect(&node).await;
        add_auth(&mut owner, "digest", b"u:p").await;
        let list = vec![acl(Perms::ALL, "auth", ""), acl(Perms::READ, "world", "anyone")];
        owner.call(&create_with("/d", list)).await.unwrap();
        let hash = "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=";
        let mut reader = RawClient::connect(&node).await;
        for (client, id) in [(&mut owner, hash), (&mut reader, if unredacted { hash } else { "u:x" })] {
            match client.call(&Request::GetAcl("/d")).await {
                Ok(Response::GetAcl { acl, .. }) => assert_eq!(acl[0].id.id, id),
                other => panic!("{other:?}"),
            }
        }
    }
}
