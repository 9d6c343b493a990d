//! The executor's promises.

use super::*;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};

/// Many tasks on three nodes that draw, sleep, lock, send and wake each other.
async fn busy(simulator: Simulator) -> u64 {
    let (sender, mut receiver) = mpsc::channel::<u64>(4);
    let (stop, stopped) = watch::channel(false);
    let shared = Arc::new(AsyncMutex::new(0u64));
    for node in 1..=3 {
        simulator.restart_clock(node);
        for _ in 0..5 {
            let (sender, shared, mut stopped) = (sender.clone(), shared.clone(), stopped.clone());
            simulator.spawn_on(node, "worker", async move {
                for _ in 0..20 {
                    keeper_rt::sleep(Duration::from_nanos(keeper_rt::random_u64() % 1_000_000)).await;
                    *shared.lock().await += 1;
                    if sender.send(keeper_rt::random_u64() % 100).await.is_err() {
                        return;
                    }
                }
                let _ = stopped.changed().await;
            });
        }
    }
    let mut sum = 0;
    for _ in 0..100 {
        sum = sum * 31 % 1_000_000_007 + receiver.recv().await.unwrap();
    }
    simulator.crash(2);
    stop.send_replace(true);
    for _ in 0..50 {
        sum = sum * 31 % 1_000_000_007 + receiver.recv().await.unwrap();
    }
    sum
}

#[test]
fn one_seed_gives_one_trace_across_twenty_runs() {
    let first = run(11, Options::default(), busy);
    assert_eq!(first.ended, Ended::Completed);
    for _ in 0..20 {
        let again = run(11, Options::default(), busy);
        assert_eq!((again.trace, again.polls, again.output), (first.trace, first.polls, first.output));
    }
}

#[test]
fn different_seeds_give_different_schedules() {
    let traces: std::collections::BTreeSet<u64> =
        (0..20).map(|seed| run(seed, Options::default(), busy).trace).collect();
    assert_eq!(traces.len(), 20);
}

#[test]
fn a_crash_ends_every_task_of_the_node_and_of_no_other() {
    let finished = run(1, Options::default(), |simulator| async move {
        let beats: Arc<[AtomicU64; 3]> = Arc::default();
        for node in [1, 2] {
            for _ in 0..3 {
                let beats = beats.clone();
                simulator.spawn_on(node, "beat", async move {
                    loop {
                        keeper_rt::sleep(Duration::from_millis(1)).await;
                        beats[node as usize].fetch_add(1, SeqCst);
                    }
                });
            }
        }
        simulator.sleep_ms(50).await;
        simulator.crash(1);
        let (dead, alive) = (beats[1].load(SeqCst), beats[2].load(SeqCst));
        simulator.sleep_ms(50).await;
        (dead, beats[1].load(SeqCst), alive, beats[2].load(SeqCst))
    });
    let (dead, later, alive, alive_later) = finished.output.unwrap();
    assert!(dead > 100);
    assert_eq!(dead, later);
    assert!(alive_later > alive + 100);
}

#[test]
fn what_a_destructor_spawns_dies_with_its_node() {
    struct SpawnOnDrop(Arc<AtomicU64>);
    impl Drop for SpawnOnDrop {
        fn drop(&mut self) {
            let ran = self.0.clone();
            keeper_rt::spawn("late", async move { ran.store(1, SeqCst) });
        }
    }
    let ran = Arc::new(AtomicU64::new(0));
    let seen = ran.clone();
    run(1, Options::default(), |simulator| async move {
        let guard = SpawnOnDrop(seen);
        simulator.spawn_on(1, "holder", async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        simulator.sleep_ms(1).await;
        simulator.crash(1);
        simulator.sleep_ms(10).await;
    });
    assert_eq!(ran.load(SeqCst), 0);
}

#[test]
fn a_panic_is_reported_with_its_node_and_task() {
    let finished = run(1, Options::default(), |simulator| async move {
        simulator.spawn_on(2, "the-bad-one", async { panic!("broken {}", 7) });
        std::future::pending::<()>().await;
    });
    assert_eq!(finished.ended, Ended::Panicked);
    let [panic] = finished.panics.as_slice() else { panic!("{:?}", finished.panics) };
    assert_eq!((panic.node, panic.task), (2, "the-bad-one"));
    assert!(panic.message.starts_with("broken 7 (") && panic.message.contains("tests.rs"), "{panic:?}");
}

#[test]
fn a_deadlock_is_seen() {
    let finished = run(1, Options::default(), |_| std::future::pending::<()>());
    assert_eq!(finished.ended, Ended::Deadlock);
}

#[test]
fn a_livelock_is_seen() {
    let options = Options { polls_max: 10_000, ..Options::default() };
    let finished = run(1, options, |_| async {
        loop {
            let mut yielded = false;
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                if std::mem::replace(&mut yielded, true) {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
        }
    });
    assert_eq!(finished.ended, Ended::Livelock);
}

#[test]
fn a_node_sleeps_by_its_own_clock() {
    let finished = run(3, Options::default(), |simulator| async move {
        simulator.restart_clock(1);
        let slept_ns = Arc::new(AtomicU64::new(0));
        let (slept, inner) = (slept_ns.clone(), simulator.clone());
        simulator.spawn_on(1, "sleeper", async move {
            let (start, local) = (inner.now_ns(), keeper_rt::now());
            keeper_rt::sleep(Duration::from_secs(100)).await;
            assert!(local.elapsed() >= Duration::from_secs(100));
            slept.store(inner.now_ns() - start, SeqCst);
        });
        simulator.sleep_ms(110_000).await;
        slept_ns.load(SeqCst)
    });
    assert!(finished.panics.is_empty(), "{:?}", finished.panics);
    let true_ms = finished.output.unwrap() / 1_000_000;
    assert!((98_000..=102_100).contains(&true_ms) && true_ms != 100_000, "slept {true_ms} ms of true time");
}

#[test]
fn a_crash_point_cuts_the_power_before_anything_else_runs() {
    let finished = run(5, Options::default(), |simulator| async move {
        let cuts = Arc::new(AtomicU64::new(0));
        let (counted, inner) = (cuts.clone(), simulator.clone());
        simulator.cut_power_at_points(10, move |node, name| {
            assert_eq!((node, name), (1, "saved"));
            inner.crash(node);
            counted.fetch_add(1, SeqCst);
        });
        let passed = Arc::new(AtomicU64::new(0));
        for _ in 0..200 {
            let passed = passed.clone();
            simulator.spawn_on(1, "saver", async move {
                keeper_rt::point("saved");
                keeper_rt::sleep(Duration::from_micros(1)).await;
                passed.fetch_add(1, SeqCst);
            });
            simulator.sleep_ms(1).await;
        }
        simulator.spare_points();
        (cuts.load(SeqCst), passed.load(SeqCst))
    });
    let (cuts, passed) = finished.output.unwrap();
    assert_eq!(cuts + passed, 200);
    assert!((3..=20).contains(&cuts), "{cuts} cuts of 200 points");
}
