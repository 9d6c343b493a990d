use super::*;

async fn pair() -> (Conn, Conn, SocketAddr) {
    let listener = bind(([127, 0, 0, 1], 0).into()).expect("bound");
    let address = listener.local_addr().expect("an address");
    let (sender, mut accepted) = mpsc::channel(1);
    keeper_rt::spawn("accept", accept(listener, sender, None));
    let dialed = dial(&address.to_string(), None).await.expect("dialed");
    let other = accepted.recv().await.expect("accepted");
    // Dropping `accepted` here closes the listener.
    (dialed, other, address)
}

#[tokio::test]
async fn frames_of_all_sizes_arrive_in_order() {
    let (dialed, mut accepted, _) = pair().await;
    let sizes = [
        1,
        HANDSHAKE_FRAME_BYTES_MAX,
        100,
        COPY_BYTES_MAX,
        COPY_BYTES_MAX + 1,
        SLICE_BYTES_MIN - 1,
        SLICE_BYTES_MIN,
        3,
        5 << 20,
        7,
    ];
    let sender = dialed.sender.clone();
    keeper_rt::spawn("send", async move {
        for (i, size) in sizes.into_iter().enumerate() {
            sender.send(vec![i as u8; size].into()).await.expect("sent");
        }
    });
    for (i, size) in sizes.into_iter().enumerate() {
        let frame = accepted.receiver.recv().await.expect("a frame");
        assert_eq!((frame.len(), frame[0], frame[size - 1]), (size, i as u8, i as u8));
    }
}

#[tokio::test]
async fn a_closed_connection_is_seen_by_the_other_end() {
    let (dialed, mut accepted, _) = pair().await;
    dialed.sender.send(Bytes::from_static(b"last")).await.expect("sent");
    drop(dialed);
    assert_eq!(accepted.receiver.recv().await, Some(Bytes::from_static(b"last")));
    assert_eq!(accepted.receiver.recv().await, None);
}

#[tokio::test]
async fn where_nobody_listens_a_dial_is_refused() {
    let (_, _, address) = pair().await;
    keeper_rt::sleep(Duration::from_millis(50)).await;
    assert_eq!(dial(&address.to_string(), None).await.err(), Some(DialError::Refused));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_unreachable() {
    let error = dial("no-such-host.invalid:9234", None).await.err();
    assert!(matches!(error, Some(DialError::Unreachable(_))), "{error:?}");
}

#[test]
fn a_frame_of_two_gigabytes_is_refused_before_anything_is_allocated() {
    let mut buffer = BytesMut::from(&(2u32 << 30).to_le_bytes()[..]);
    assert_eq!(
        split_frame(&mut buffer, PEER_FRAME_BYTES_MAX).err().map(|error| error.kind()),
        Some(io::ErrorKind::InvalidData)
    );
    assert!(buffer.capacity() < 1 << 20);
    let mut empty = BytesMut::from(&[0u8; 4][..]);
    assert!(split_frame(&mut empty, PEER_FRAME_BYTES_MAX).is_err());
}

#[test]
fn a_small_frame_does_not_keep_the_read_buffer_alive() {
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    buffer.put_u32_le(3);
    buffer.put_slice(b"abc");
    let frame = split_frame(&mut buffer, PEER_FRAME_BYTES_MAX).expect("a frame").expect("a whole one");
    assert_eq!(&frame[..], b"abc");
    drop(buffer);
    assert!(frame.is_unique());
}

#[tokio::test]
async fn a_large_frame_before_the_handshake_closes_the_connection() {
    let (dialed, mut accepted, _) = pair().await;
    dialed.sender.send(vec![1; HANDSHAKE_FRAME_BYTES_MAX + 1].into()).await.expect("sent");
    assert_eq!(accepted.receiver.recv().await, None);
}
