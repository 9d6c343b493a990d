//! The handshake of a peer connection: both sides prove the cluster secret, and that they mean each other. Nothing of
//! Raft or the dispatcher is read from a connection before it is done.

use crate::codec::{Malformed, Reader};
use crate::limits::HANDSHAKE_STEP;
use crate::net::Conn;
use bytes::{BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use keeper_types::{ClusterId, ServerId};
use sha2::Sha256;
use std::fmt;

pub const VERSION: u16 = 1;

const MAGIC: &[u8; 4] = b"KPPR";
const HELLO: u8 = 0x01;
const CHALLENGE: u8 = 0x02;
const PROOF: u8 = 0x03;
const WELCOME: u8 = 0x04;
const REFUSED: u8 = 0x05;

const ACCEPT_LABEL: &[u8] = b"castellan peer accept 1";
const DIAL_LABEL: &[u8] = b"castellan peer dial 1";
const PROOF_BYTES: usize = 32;
const FLAG_JOINING: u8 = 1;
const FLAG_UNINITIALIZED: u8 = 1;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Log = 1,
    Snapshot = 2,
    Dispatch = 3,
}

/// Why one side turned the other away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Malformed = 1,
    Version = 2,
    OtherCluster = 3,
    WrongServer = 4,
    WrongSecret = 5,
    EmptyDisk = 6,
    Busy = 7,
    NotServed = 8,
}

impl Refusal {
    const ALL: [Refusal; 8] = [
        Refusal::Malformed,
        Refusal::Version,
        Refusal::OtherCluster,
        Refusal::WrongServer,
        Refusal::WrongSecret,
        Refusal::EmptyDisk,
        Refusal::Busy,
        Refusal::NotServed,
    ];
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Malformed => "not our protocol",
            Refusal::Version => "unknown protocol version",
            Refusal::OtherCluster => "another cluster",
            Refusal::WrongServer => "another server than the wanted one",
            Refusal::WrongSecret => "wrong cluster secret",
            Refusal::EmptyDisk => "its disk is empty and it is not being added",
            Refusal::Busy => "busy",
            Refusal::NotServed => "not served now",
        })
    }
}

/// How the dialling side introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub class: Class,
    pub joining: bool,
    pub cluster: ClusterId,
    pub from: ServerId,
    pub to: ServerId,
    nonce: [u8; 32],
}

/// How a handshake failed.
#[derive(Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// The other side went away or took too long.
    Lost,
    /// The other side turned us away; its own ids.
    RefusedBy { reason: Refusal, cluster: ClusterId, server: ServerId },
    /// We turn the other side away; the ids it claims.
    Refusing { reason: Refusal, cluster: ClusterId, server: ServerId },
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Lost => f.write_str("no handshake"),
            HandshakeError::RefusedBy { reason, .. } => write!(f, "refused: {reason}"),
            HandshakeError::Refusing { reason, .. } => write!(f, "turned away: {reason}"),
        }
    }
}

fn encode_hello(hello: &Hello) -> Bytes {
    let mut out = BytesMut::with_capacity(73);
    out.put_u8(HELLO);
    out.put_slice(MAGIC);
    out.put_u16_le(VERSION);
    out.put_u8(hello.class as u8);
    out.put_u8(if hello.joining { FLAG_JOINING } else { 0 });
    out.put_slice(&hello.cluster.0);
    out.put_u64_le(hello.from.0);
    out.put_u64_le(hello.to.0);
    out.put_slice(&hello.nonce);
    out.freeze()
}

fn decode_hello(frame: Bytes) -> Result<Hello, Refusal> {
    let malformed = |_: Malformed| Refusal::Malformed;
    let mut reader = Reader::new(frame);
    if reader.u8("hello").map_err(malformed)? != HELLO
        || reader.array::<4>("hello").map_err(malformed)? != *MAGIC
    {
        return Err(Refusal::Malformed);
    }
    if reader.u16("version").map_err(malformed)? != VERSION {
        return Err(Refusal::Version);
    }
    let class = match reader.u8("class").map_err(malformed)? {
        1 => Class::Log,
        2 => Class::Snapshot,
        3 => Class::Dispatch,
        _ => return Err(Refusal::Malformed),
    };
    let joining = reader.flag("flags").map_err(malformed)?;
    let cluster = ClusterId(reader.array("cluster id").map_err(malformed)?);
    let from = ServerId(reader.u64("server id").map_err(malformed)?);
    let to = ServerId(reader.u64("server id").map_err(malformed)?);
    let nonce = reader.array("nonce").map_err(malformed)?;
    reader.end("hello").map_err(malformed)?;
    Ok(Hello { class, joining, cluster, from, to, nonce })
}

/// Who answers: an initialized member, or an empty one that would become the server that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acceptor {
    pub cluster: ClusterId,
    pub server: ServerId,
    pub uninitialized: bool,
}

fn encode_challenge_head(acceptor: &Acceptor, nonce: &[u8; 32]) -> BytesMut {
    let mut out = BytesMut::with_capacity(92);
    out.put_u8(CHALLENGE);
    out.put_u16_le(VERSION);
    out.put_u8(if acceptor.uninitialized { FLAG_UNINITIALIZED } else { 0 });
    out.put_slice(&acceptor.cluster.0);
    out.put_u64_le(acceptor.server.0);
    out.put_slice(nonce);
    out
}

struct Challenge {
    acceptor: Acceptor,
    proof: [u8; PROOF_BYTES],
}

fn decode_challenge(frame: Bytes) -> Result<Challenge, Refusal> {
    let malformed = |_: Malformed| Refusal::Malformed;
    let mut reader = Reader::new(frame);
    if reader.u8("challenge").map_err(malformed)? != CHALLENGE {
        return Err(Refusal::Malformed);
    }
    if reader.u16("version").map_err(malformed)? != VERSION {
        return Err(Refusal::Version);
    }
    let uninitialized = reader.flag("flags").map_err(malformed)?;
    let cluster = ClusterId(reader.array("cluster id").map_err(malformed)?);
    let server = ServerId(reader.u64("server id").map_err(malformed)?);
    reader.array::<32>("nonce").map_err(malformed)?;
    let proof = reader.array("proof").map_err(malformed)?;
    reader.end("challenge").map_err(malformed)?;
    Ok(Challenge { acceptor: Acceptor { cluster, server, uninitialized }, proof })
}

fn encode_refused(reason: Refusal, cluster: ClusterId, server: ServerId) -> Bytes {
    let mut out = BytesMut::with_capacity(26);
    out.put_u8(REFUSED);
    out.put_u8(reason as u8);
    out.put_slice(&cluster.0);
    out.put_u64_le(server.0);
    out.freeze()
}

/// The refusal in `frame`, if it is one.
fn decode_refused(frame: &Bytes) -> Option<HandshakeError> {
    let mut reader = Reader::new(frame.clone());
    if reader.u8("refused").ok()? != REFUSED {
        return None;
    }
    let number = reader.u8("reason").ok()?;
    let reason =
        Refusal::ALL.into_iter().find(|reason| *reason as u8 == number).unwrap_or(Refusal::Malformed);
    let cluster = ClusterId(reader.array("cluster id").ok()?);
    let server = ServerId(reader.u64("server id").ok()?);
    Some(HandshakeError::RefusedBy { reason, cluster, server })
}

fn mac(secret: &[u8], label: &[u8], parts: [&[u8]; 2]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(label);
    for part in parts {
        mac.update(part);
    }
    mac
}

async fn receive(conn: &mut Conn) -> Result<Bytes, HandshakeError> {
    match keeper_rt::timeout(HANDSHAKE_STEP, conn.receiver.recv()).await {
        Ok(Some(frame)) => Ok(frame),
        Ok(None) | Err(_) => Err(HandshakeError::Lost),
    }
}

async fn send(conn: &Conn, frame: Bytes) -> Result<(), HandshakeError> {
    match keeper_rt::timeout(HANDSHAKE_STEP, conn.sender.send(frame)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(HandshakeError::Lost),
    }
}

/// What the dialling side wants.
pub struct Wanted {
    pub class: Class,
    pub joining: bool,
    pub cluster: ClusterId,
    pub from: ServerId,
    pub to: ServerId,
}

/// Introduces this member on a fresh connection and waits until it is welcome.
pub async fn dial(conn: &mut Conn, secret: &[u8], wanted: Wanted) -> Result<(), HandshakeError> {
    let Wanted { class, joining, cluster, from, to } = wanted;
    let hello = encode_hello(&Hello { class, joining, cluster, from, to, nonce: keeper_rt::random_bytes() });
    send(conn, hello.clone()).await?;
    let challenge = receive(conn).await?;
    if let Some(refused) = decode_refused(&challenge) {
        return Err(refused);
    }
    let wanted = Acceptor { cluster, server: to, uninitialized: joining };
    if let Err((reason, found)) = judge_challenge(secret, &hello, &challenge, &wanted) {
        refuse(conn, reason, Some((cluster, from))).await;
        return Err(HandshakeError::Refusing { reason, cluster: found.cluster, server: found.server });
    }
    let proof = mac(secret, DIAL_LABEL, [&hello, &challenge]).finalize().into_bytes();
    let mut out = BytesMut::with_capacity(1 + PROOF_BYTES);
    out.put_u8(PROOF);
    out.put_slice(&proof);
    send(conn, out.freeze()).await?;
    let answer = receive(conn).await?;
    if let Some(refused) = decode_refused(&answer) {
        return Err(refused);
    }
    if answer[..] == [WELCOME] {
        Ok(())
    } else {
        Err(HandshakeError::Refusing { reason: Refusal::Malformed, cluster, server: to })
    }
}

/// Whether a challenge comes from the one that was wanted; else why not, and who it claims to be.
fn judge_challenge(
    secret: &[u8],
    hello: &Bytes,
    challenge: &Bytes,
    wanted: &Acceptor,
) -> Result<(), (Refusal, Acceptor)> {
    let decoded = decode_challenge(challenge.clone()).map_err(|reason| (reason, *wanted))?;
    let found = decoded.acceptor;
    let head = &challenge[..challenge.len() - PROOF_BYTES];
    if mac(secret, ACCEPT_LABEL, [hello, head]).verify_slice(&decoded.proof).is_err() {
        return Err((Refusal::WrongSecret, found));
    }
    if found.cluster != wanted.cluster {
        return Err((Refusal::OtherCluster, found));
    }
    if found.server != wanted.server {
        return Err((Refusal::WrongServer, found));
    }
    if found.uninitialized && !wanted.uninitialized {
        return Err((Refusal::EmptyDisk, found));
    }
    Ok(())
}

/// Reads the other side's introduction, lets `judge` decide who answers, and checks the other side's proof. The
/// caller still has to say [`welcome`] or [`refuse`].
pub async fn accept(
    conn: &mut Conn,
    secret: &[u8],
    judge: impl FnOnce(&Hello) -> Result<Acceptor, Refusal>,
) -> Result<(Hello, Acceptor), HandshakeError> {
    let frame = receive(conn).await?;
    let unknown =
        |reason| HandshakeError::Refusing { reason, cluster: ClusterId::default(), server: ServerId(0) };
    let hello = decode_hello(frame.clone()).map_err(unknown)?;
    let turn_away = |reason| HandshakeError::Refusing { reason, cluster: hello.cluster, server: hello.from };
    let acceptor = judge(&hello).map_err(turn_away)?;
    let mut challenge = encode_challenge_head(&acceptor, &keeper_rt::random_bytes());
    let proof = mac(secret, ACCEPT_LABEL, [&frame, &challenge]).finalize().into_bytes();
    challenge.put_slice(&proof);
    let challenge = challenge.freeze();
    send(conn, challenge.clone()).await?;
    let answer = receive(conn).await?;
    if let Some(refused) = decode_refused(&answer) {
        return Err(refused);
    }
    if answer.len() != 1 + PROOF_BYTES || answer[0] != PROOF {
        return Err(turn_away(Refusal::Malformed));
    }
    if mac(secret, DIAL_LABEL, [&frame, &challenge]).verify_slice(&answer[1..]).is_err() {
        return Err(turn_away(Refusal::WrongSecret));
    }
    Ok((hello, acceptor))
}

pub async fn welcome(conn: &Conn) -> Result<(), HandshakeError> {
    send(conn, Bytes::from_static(&[WELCOME])).await
}

/// Tells the other side why; it may be gone already.
pub async fn refuse(conn: &Conn, reason: Refusal, mine: Option<(ClusterId, ServerId)>) {
    let (cluster, server) = mine.unwrap_or_default();
    let _ = send(conn, encode_refused(reason, cluster, server)).await;
}

#[cfg(test)]
mod tests;
