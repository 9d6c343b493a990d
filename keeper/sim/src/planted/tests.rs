//! Every planted fault is found, and every fault that is asked for is in the list.

use super::*;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_planted_fault_is_found() {
    let (next, missed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(fault) = ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if fault.search(SEEDS_MAX).is_none() {
                        missed.lock().unwrap().push(fault.name);
                    }
                }
            });
        }
    });
    assert_eq!(*missed.lock().unwrap(), Vec::<&str>::new(), "not found within {SEEDS_MAX} seeds");
}

#[test]
fn names_are_given_once() {
    let names: BTreeSet<&str> = ALL.iter().map(|fault| fault.name).collect();
    assert_eq!(names.len(), ALL.len());
}

#[test]
fn the_mark_is_the_one_that_binaries_are_searched_for() {
    assert!(!keeper_rt::planted!("names-are-given-once"), "no simulation plants it");
    assert_eq!(keeper_rt::PLANTED_MARK, concat!("planted-fault: ", ""));
}
