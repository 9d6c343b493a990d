use super::*;
use crate::record::{Failure, Outcome, Recorder};
use crate::request::Kind;

fn report(errors: usize, errors_max: f64) -> Report {
    let recorder = Recorder::default();
    for lane in 0..100 {
        let failure = (lane < errors).then(|| Failure { code: None, label: "timeout", text: "late".into() });
        let outcome = Outcome { bytes: 1_000, failure };
        let kind = if lane % 2 == 0 { Kind::Get } else { Kind::Set };
        recorder.request(lane, kind, Duration::from_millis(lane as u64 + 1), &outcome);
    }
    Report {
        name: "test".to_owned(),
        hosts: vec![("a:1".to_owned(), 3)],
        sessions: 3,
        lanes: 3,
        seed: Some(1),
        offered: Offered::Open { rate: 50.0, arrivals: Arrivals::Poisson, calibrated: None },
        elapsed: Duration::from_secs(2),
        totals: recorder.totals(),
        has_watches: true,
        errors_max,
        notes: vec![],
    }
}

#[test]
fn the_json_has_figures_by_kind_and_clickhouses_fields() {
    let json = report(0, 0.0).json();
    assert_eq!(json["kinds"]["get"]["requests"], 50);
    assert_eq!(json["total"]["done_per_second"], 50.0);
    assert_eq!(json["total"]["bytes_per_second"], 50_000.0);
    let p50 = json["total"]["latency_ms"]["p50"].as_f64().unwrap();
    assert!((49.9..=50.2).contains(&p50), "{p50}");
    assert_eq!(json["read_results"]["total_requests"], 50);
    assert_eq!(json["write_results"]["percentiles"][13].as_object().unwrap().keys().next().unwrap(), "99.99");
    assert_eq!((json["watches_fired"].as_u64(), json["loop"].as_str()), (Some(0), Some("open")));
    assert!(json["failed"].is_null() && json["latency_is"].as_str().unwrap().contains("was due"));
}

#[test]
fn the_table_says_how_requests_were_offered_and_what_went_wrong() {
    let table = report(2, 0.0).table();
    for part in
        ["open loop, 50/s poisson; latency from when a request was due", "p99.9", "3 sessions", "total"]
    {
        assert!(table.contains(part), "{part} is missing in\n{table}");
    }
    assert!(table.contains("1 × get timeout: late"), "{table}");
}

#[test]
fn a_run_fails_by_its_share_of_errors() {
    assert_eq!(report(0, 0.0).verdict(), Ok(()));
    assert!(report(1, 0.0).verdict().unwrap_err().contains("1 of 100 requests failed"));
    assert_eq!(report(5, 0.05).verdict(), Ok(()));
    assert!(report(6, 0.05).verdict().is_err());
    let mut empty = report(0, 1.0);
    empty.totals = Recorder::default().totals();
    assert!(empty.verdict().is_err(), "nothing measured is no success");
}
