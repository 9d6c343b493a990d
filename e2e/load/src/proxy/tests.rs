use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(300);

/// A proxy before a listener of ours.
async fn proxied(route: Route) -> (Proxy, TcpListener) {
    let target = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let proxy = Proxy::start(target.local_addr().unwrap(), route).await.unwrap();
    (proxy, target)
}

/// Both ends of a connection through a proxy with one link.
async fn pair() -> (Proxy, TcpListener, Arc<Link>, TcpStream, TcpStream) {
    let link = Arc::new(Link::default());
    let (proxy, listener) = proxied(Route::One(Arc::clone(&link))).await;
    let near = TcpStream::connect(proxy.address()).await.unwrap();
    let far = listener.accept().await.unwrap().0;
    (proxy, listener, link, near, far)
}

async fn receive(stream: &mut TcpStream, wanted: &[u8]) {
    let mut found = vec![0; wanted.len()];
    tokio::time::timeout(LONG, stream.read_exact(&mut found)).await.unwrap().unwrap();
    assert_eq!(found, wanted);
}

async fn receives_nothing(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = tokio::time::timeout(SHORT, stream.read(&mut byte)).await;
    assert!(read.is_err(), "{read:?}");
}

async fn is_reset(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = tokio::time::timeout(LONG, stream.read(&mut byte)).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn bytes_and_ends_pass_both_ways() {
    let (_proxy, _listener, _link, mut near, mut far) = pair().await;
    let long: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    let (sent, ()) = tokio::join!(near.write_all(&long), receive(&mut far, &long));
    sent.unwrap();
    near.shutdown().await.unwrap();
    assert_eq!(far.read(&mut [0]).await.unwrap(), 0);
    far.write_all(b"after the other side's end").await.unwrap();
    receive(&mut near, b"after the other side's end").await;
}

#[tokio::test]
async fn a_delay_is_that_of_its_direction_and_keeps_the_order() {
    let (_proxy, _listener, link, mut near, mut far) = pair().await;
    let (base, jitter) = (Duration::from_millis(100), Duration::from_millis(90));
    link.set(Direction::ToTarget, Behaviour::Delay { base, jitter: Duration::ZERO });
    let begin = Instant::now();
    near.write_all(b"slow").await.unwrap();
    receive(&mut far, b"slow").await;
    assert!(base <= begin.elapsed(), "{:?}", begin.elapsed());
    link.set(Direction::ToTarget, Behaviour::Delay { base, jitter });
    for number in 0..50u8 {
        near.write_all(&[number]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    receive(&mut far, &(0..50).collect::<Vec<u8>>()).await;
    link.set(Direction::ToTarget, Behaviour::Stall);
    far.write_all(b"quick").await.unwrap();
    receive(&mut near, b"quick").await;
}

#[tokio::test]
async fn a_stall_holds_one_direction_until_it_is_over() {
    let (_proxy, _listener, link, mut near, mut far) = pair().await;
    link.set(Direction::ToTarget, Behaviour::Stall);
    near.write_all(b"held").await.unwrap();
    far.write_all(b"free").await.unwrap();
    receive(&mut near, b"free").await;
    receives_nothing(&mut far).await;
    link.set(Direction::ToTarget, Behaviour::Pass);
    receive(&mut far, b"held").await;
}

#[tokio::test]
async fn a_stalled_way_dials_nobody() {
    let link = Arc::new(Link::default());
    let (proxy, listener) = proxied(Route::One(Arc::clone(&link))).await;
    link.set(Direction::ToTarget, Behaviour::Stall);
    let _near = TcpStream::connect(proxy.address()).await.unwrap();
    assert!(tokio::time::timeout(SHORT, listener.accept()).await.is_err());
    link.set(Direction::ToTarget, Behaviour::Pass);
    tokio::time::timeout(LONG, listener.accept()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stalled_sender_has_to_wait() {
    let (_proxy, _listener, link, mut near, _far) = pair().await;
    link.set(Direction::ToTarget, Behaviour::Stall);
    let all = vec![1; 64 << 20];
    assert!(tokio::time::timeout(SHORT, near.write_all(&all)).await.is_err());
}

#[tokio::test]
async fn a_receiver_that_does_not_read_bounds_what_is_buffered() {
    let (_proxy, _listener, _link, mut near, _far) = pair().await;
    let all = vec![1; 64 << 20];
    assert!(tokio::time::timeout(SHORT, near.write_all(&all)).await.is_err());
}

#[tokio::test]
async fn a_reset_ends_both_sides_and_who_comes_next() {
    let (proxy, listener, link, mut near, mut far) = pair().await;
    link.set(Direction::ToDialler, Behaviour::Reset);
    is_reset(&mut near).await;
    is_reset(&mut far).await;
    is_reset(&mut TcpStream::connect(proxy.address()).await.unwrap()).await;
    link.set(Direction::ToDialler, Behaviour::Pass);
    let mut again = TcpStream::connect(proxy.address()).await.unwrap();
    again.write_all(b"x").await.unwrap();
    // What was reset before its turn may have reached the listener as well.
    loop {
        let mut far = listener.accept().await.unwrap().0;
        if matches!(tokio::time::timeout(LONG, far.read(&mut [0])).await.unwrap(), Ok(1)) {
            break;
        }
    }
}

#[tokio::test]
async fn a_target_that_is_gone_resets() {
    let (proxy, listener) = proxied(Route::One(Arc::default())).await;
    drop(listener);
    is_reset(&mut TcpStream::connect(proxy.address()).await.unwrap()).await;
}

#[tokio::test]
async fn diallers_are_told_apart_by_what_they_send_first() {
    let links: Vec<Arc<Link>> = vec![Arc::default(), Arc::default()];
    links[1].set(Direction::ToTarget, Behaviour::Stall);
    let dialler = |first: &[u8]| match first {
        b"zero" => Some(0),
        b"one!" => Some(1),
        _ => None,
    };
    let (proxy, listener) = proxied(Route::ByFirstBytes { links, bytes: 4, dialler }).await;
    let mut stranger = TcpStream::connect(proxy.address()).await.unwrap();
    stranger.write_all(b"else").await.unwrap();
    let mut stalled = TcpStream::connect(proxy.address()).await.unwrap();
    stalled.write_all(b"one!").await.unwrap();
    let mut passed = TcpStream::connect(proxy.address()).await.unwrap();
    passed.write_all(b"ze").await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    passed.write_all(b"ro and more").await.unwrap();
    let mut far = listener.accept().await.unwrap().0;
    receive(&mut far, b"zero and more").await;
    assert!(stranger.read(&mut [0]).await.map_or(true, |read| read == 0), "the stranger was let in");
    receives_nothing(&mut stalled).await;
}
