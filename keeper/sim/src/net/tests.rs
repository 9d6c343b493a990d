//! The network's promises.

use super::*;
use crate::executor::{Options, run};
use std::future::Future;

fn story<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    seed: u64,
    tell: impl FnOnce(SimNet, Simulator) -> F,
) -> T {
    let finished = run(seed, Options::default(), |simulator| {
        let net = SimNet::new(&simulator, Delays::default());
        for node in 1..=3 {
            net.name(&format!("node-{node}:9234"), node);
        }
        tell(net, simulator)
    });
    assert!(finished.panics.is_empty(), "{:?}", finished.panics);
    finished.output.unwrap_or_else(|| panic!("the story ends: {:?}", finished.ended))
}

/// A connection from node 1 to node 2.
async fn connected(net: &SimNet) -> (Conn, Conn, mpsc::Receiver<Conn>) {
    let mut accept = net.interface(2).listen().await.unwrap();
    let near = net.interface(1).dial("node-2:9234").await.unwrap();
    let far = accept.recv().await.unwrap();
    (near, far, accept)
}

fn frame(number: u32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

#[test]
fn frames_arrive_in_order_delayed_and_many_at_a_time() {
    let took = story(1, |net, simulator| async move {
        let (near, mut far, _accept) = connected(&net).await;
        let start = simulator.now_ns();
        simulator.spawn_on(1, "sender", async move {
            for number in 0..1000 {
                near.sender.send(frame(number)).await.unwrap();
            }
        });
        for number in 0..1000 {
            assert_eq!(far.receiver.recv().await.unwrap(), frame(number));
        }
        assert!(far.receiver.recv().await.is_none(), "the sender is gone");
        Duration::from_nanos(simulator.now_ns() - start)
    });
    // One after the other they would take 260 ms.
    assert!((Duration::from_micros(60)..Duration::from_millis(60)).contains(&took), "{took:?}");
}

#[test]
fn a_dead_process_refuses_and_a_dead_machine_is_silent() {
    story(2, |net, simulator| async move {
        let from = net.interface(1);
        assert_eq!(from.dial("node-2:9234").await.err(), Some(DialError::Refused));
        let (near, far, _accept) = connected(&net).await;
        net.machine_died(2, Duration::from_secs(5));
        drop(far);
        assert!(matches!(from.dial("node-2:9234").await.err(), Some(DialError::Unreachable(_))));
        assert!(!near.sender.is_closed(), "nobody can know yet");
        simulator.sleep_ms(5_100).await;
        assert!(near.sender.is_closed());
        assert_eq!(from.dial("node-2:9234").await.err(), Some(DialError::Refused));
    });
}

#[test]
fn a_partition_stalls_one_direction_and_then_breaks_the_connection() {
    story(3, |net, simulator| async move {
        let (mut near, mut far, _accept) = connected(&net).await;
        net.block(1, 2);
        near.sender.send(frame(1)).await.unwrap();
        far.sender.send(frame(2)).await.unwrap();
        assert_eq!(near.receiver.recv().await, Some(frame(2)));
        assert!(far.receiver.try_recv().is_err());
        net.heal();
        assert_eq!(far.receiver.recv().await, Some(frame(1)));
        net.block(1, 2);
        near.sender.send(frame(3)).await.unwrap();
        simulator.sleep_ms(31_000).await;
        assert!(near.sender.is_closed());
        assert_eq!(far.receiver.recv().await, None);
        let error = net.interface(2).dial("node-1:9234").await.err();
        assert!(matches!(error, Some(DialError::Unreachable(_))), "an answer cannot pass: {error:?}");
    });
}

#[test]
fn a_killed_process_delivers_what_it_sent_and_a_lost_machine_does_not() {
    for (power, expected) in [(false, Some(frame(1))), (true, None)] {
        let got = story(4, move |net, simulator| async move {
            let (near, mut far, _accept) = connected(&net).await;
            simulator.spawn_on(1, "sender", async move {
                near.sender.send(frame(1)).await.unwrap();
                std::future::pending::<()>().await;
                drop(near);
            });
            simulator.sleep(Duration::from_micros(20)).await;
            if power {
                net.machine_died(1, Duration::from_millis(10));
            }
            simulator.crash(1);
            far.receiver.recv().await
        });
        assert_eq!(got, expected, "power loss: {power}");
    }
}

#[test]
fn a_reset_ends_both_directions() {
    story(5, |net, _| async move {
        let (mut near, mut far, _accept) = connected(&net).await;
        net.reset_some();
        assert_eq!(near.receiver.recv().await, None);
        assert_eq!(far.receiver.recv().await, None);
        assert!(near.sender.send(frame(1)).await.is_err());
    });
}
