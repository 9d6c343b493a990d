//! Histories of the simulated ensemble: the correct ones pass every rule and the search, and whatever the
//! search refuses the rules refuse too.

use proptest::collection::vec;
use proptest::prelude::*;

use super::register::{Fault, run};
use crate::{History, Options, Rule, Verdict, calls_of, check_with, linearizable};

const EXACT: Options = Options { read_at_its_zxid: true };

fn searched(history: &History) -> Verdict {
    let verdicts = ["/a", "/b"].map(|node| linearizable(&calls_of(history, node)));
    verdicts.into_iter().find(|verdict| *verdict != Verdict::Linearizable).unwrap_or(Verdict::Linearizable)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_correct_history_passes(choices in vec(any::<u8>(), 0..400), processes in 1..6usize) {
        let history = run(processes, &choices, Fault::None);
        let report = check_with(&history, EXACT);
        prop_assert!(report.is_clean(), "{report}");
    }

    #[test]
    fn a_small_correct_history_passes_the_search_too(choices in vec(any::<u8>(), 0..160), processes in 1..4usize) {
        let history = run(processes, &choices, Fault::None);
        prop_assert_eq!(searched(&history), Verdict::Linearizable);
    }

    #[test]
    fn what_the_search_refuses_the_rules_refuse(choices in vec(any::<u8>(), 40..160), processes in 1..4usize, kind in 0..4usize) {
        let fault = [Fault::IdleSync, Fault::LostSet, Fault::TwiceSet, Fault::BlindSet][kind];
        let history = run(processes, &choices, fault);
        let report = check_with(&history, EXACT);
        // Where unknown writes stay unknown, only the search weighs every way they may have gone.
        let settled = report.counts.unknown == report.counts.unknown_done;
        if settled && matches!(searched(&history), Verdict::NotLinearizable { .. }) {
            prop_assert!(!report.is_clean(), "{fault:?}: {}", history.to_jsonl());
        }
    }

    #[test]
    fn a_history_is_read_back_from_its_lines(choices in vec(any::<u8>(), 0..200)) {
        let history = run(3, &choices, Fault::None);
        prop_assert_eq!(History::from_jsonl(&history.to_jsonl()).expect("read back"), history);
    }
}

#[test]
fn the_search_refuses_some_of_each_fault() {
    for fault in [Fault::IdleSync, Fault::LostSet, Fault::TwiceSet, Fault::BlindSet] {
        let refused = |seed: &u64| {
            matches!(searched(&run(3, &choices(*seed, 160), fault)), Verdict::NotLinearizable { .. })
        };
        let count = (1..200).filter(refused).count();
        assert!(count > 3, "{fault:?} was refused in {count} of 199 runs");
    }
}

/// Bytes from a fixed generator: long runs, the same on every machine.
fn choices(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[test]
fn each_fault_of_the_ensemble_is_found_by_its_rule() {
    let cases = [
        (Fault::IdleSync, vec![Rule::FreshAfterSync], 38),
        (
            Fault::LostSet,
            vec![Rule::ReadsWhatWasWritten, Rule::NothingLost, Rule::Versions, Rule::SessionOrder],
            38,
        ),
        (Fault::TwiceSet, vec![Rule::AppliedOnce, Rule::Versions], 12),
        (Fault::BlindSet, vec![Rule::Versions], 38),
    ];
    for (fault, rules, least) in cases {
        let found = (1..40).filter(|seed| {
            let report = check_with(&run(4, &choices(*seed, 6000), fault), EXACT);
            report.violations.iter().any(|violation| rules.contains(&violation.rule))
        });
        let found = found.count();
        assert!(found >= least, "{fault:?} was found in {found} of 39 runs");
    }
}

#[test]
fn the_simulated_histories_have_something_of_everything() {
    let history = run(5, &choices(7, 20_000), Fault::None);
    let counts = check_with(&history, EXACT).counts;
    let least = [
        counts.writes_ok,
        counts.reads_ok,
        counts.failed,
        counts.unknown,
        counts.unknown_done,
        counts.syncs,
        counts.reads_after_sync,
    ];
    assert!(least.iter().all(|count| *count > 20), "{counts:?}");
    assert_eq!((counts.nodes_written, counts.nodes_read_at_end), (2, 2));
}

#[test]
fn a_long_history_is_checked_quickly() {
    let history = run(8, &choices(3, 400_000), Fault::None);
    assert!(history.operations.len() > 60_000);
    assert!(check_with(&history, EXACT).is_clean());
}
