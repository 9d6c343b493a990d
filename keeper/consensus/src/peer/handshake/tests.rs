use super::*;
use tokio::sync::mpsc;

fn pipe() -> (Conn, Conn) {
    let (a, from_a) = mpsc::channel(8);
    let (b, from_b) = mpsc::channel(8);
    let conn = |sender, receiver| Conn { sender, receiver, remote: "test".into() };
    (conn(a, from_b), conn(b, from_a))
}

const MINE: ClusterId = ClusterId([7; 16]);

fn wanted(cluster: ClusterId, joining: bool) -> Wanted {
    Wanted { class: Class::Log, joining, cluster, from: ServerId(1), to: ServerId(2) }
}

/// Server 2 of cluster `MINE`.
fn judge(hello: &Hello) -> Result<Acceptor, Refusal> {
    if hello.cluster != MINE {
        return Err(Refusal::OtherCluster);
    }
    if hello.to != ServerId(2) {
        return Err(Refusal::WrongServer);
    }
    Ok(Acceptor { cluster: MINE, server: ServerId(2), uninitialized: false })
}

async fn meet(
    dialing_secret: &'static [u8],
    accepting_secret: &'static [u8],
    wanted: Wanted,
) -> (Result<(), HandshakeError>, Result<(Hello, Acceptor), HandshakeError>) {
    let (mut a, mut b) = pipe();
    let accepting = keeper_rt::spawn("accept", async move {
        let result = accept(&mut b, accepting_secret, judge).await;
        match &result {
            Ok(_) => welcome(&b).await.expect("the dialling side is there"),
            Err(HandshakeError::Refusing { reason, .. }) => {
                refuse(&b, *reason, Some((MINE, ServerId(2)))).await;
            }
            Err(_) => {}
        }
        result
    });
    let dialed = dial(&mut a, dialing_secret, wanted).await;
    drop(a);
    (dialed, accepting.await.expect("no panic"))
}

#[tokio::test]
async fn two_members_of_one_cluster_welcome_each_other() {
    let (dialed, accepted) = meet(b"secret", b"secret", wanted(MINE, false)).await;
    assert_eq!(dialed, Ok(()));
    let (hello, _) = accepted.expect("accepted");
    assert_eq!((hello.from, hello.class, hello.joining), (ServerId(1), Class::Log, false));
}

#[tokio::test]
async fn a_dialling_side_notices_that_the_other_does_not_know_the_secret() {
    let (dialed, accepted) = meet(b"secret", b"another", wanted(MINE, false)).await;
    assert!(
        matches!(dialed, Err(HandshakeError::Refusing { reason: Refusal::WrongSecret, .. })),
        "{dialed:?}"
    );
    let told = HandshakeError::RefusedBy { reason: Refusal::WrongSecret, cluster: MINE, server: ServerId(1) };
    assert_eq!(accepted.err(), Some(told), "the accepting side is told, so that it can count it");
}

#[tokio::test]
async fn an_accepting_side_does_not_take_a_proof_with_another_secret() {
    let (mut a, mut b) = pipe();
    let accepting = keeper_rt::spawn("accept", async move { accept(&mut b, b"secret", judge).await });
    let hello = Hello {
        class: Class::Log,
        joining: false,
        cluster: MINE,
        from: ServerId(1),
        to: ServerId(2),
        nonce: [1; 32],
    };
    let hello = encode_hello(&hello);
    send(&a, hello.clone()).await.expect("sent");
    let challenge = receive(&mut a).await.expect("a challenge");
    let proof = mac(b"another", DIAL_LABEL, [&hello, &challenge]).finalize().into_bytes();
    send(&a, [&[PROOF], &proof[..]].concat().into()).await.expect("sent");
    let refused = accepting.await.expect("no panic").err();
    let expected =
        HandshakeError::Refusing { reason: Refusal::WrongSecret, cluster: MINE, server: ServerId(1) };
    assert_eq!(refused, Some(expected));
}

#[tokio::test]
async fn the_accepting_sides_own_proof_cannot_be_sent_back_to_it() {
    let (mut a, mut b) = pipe();
    let accepting = keeper_rt::spawn("accept", async move { accept(&mut b, b"secret", judge).await });
    let hello = Hello {
        class: Class::Log,
        joining: false,
        cluster: MINE,
        from: ServerId(1),
        to: ServerId(2),
        nonce: [1; 32],
    };
    send(&a, encode_hello(&hello)).await.expect("sent");
    let challenge = receive(&mut a).await.expect("a challenge");
    let reflected = [&[PROOF], &challenge[challenge.len() - PROOF_BYTES..]].concat();
    send(&a, reflected.into()).await.expect("sent");
    let refused = accepting.await.expect("no panic").err();
    assert!(matches!(refused, Some(HandshakeError::Refusing { reason: Refusal::WrongSecret, .. })));
}

#[tokio::test]
async fn another_cluster_is_refused_with_both_ids() {
    let other = ClusterId([8; 16]);
    let (dialed, accepted) = meet(b"secret", b"secret", wanted(other, false)).await;
    let expected =
        HandshakeError::RefusedBy { reason: Refusal::OtherCluster, cluster: MINE, server: ServerId(2) };
    assert_eq!(dialed, Err(expected));
    let expected =
        HandshakeError::Refusing { reason: Refusal::OtherCluster, cluster: other, server: ServerId(1) };
    assert_eq!(accepted.err(), Some(expected));
}

#[tokio::test]
async fn random_bytes_instead_of_a_hello_are_refused() {
    let (a, mut b) = pipe();
    send(&a, Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n")).await.expect("sent");
    let refused = accept(&mut b, b"secret", judge).await.err();
    assert!(matches!(refused, Some(HandshakeError::Refusing { reason: Refusal::Malformed, .. })));
}
