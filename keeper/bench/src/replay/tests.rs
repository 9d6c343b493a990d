//! Logs as ClickHouse exports them, and what is refused.

use super::compare;
use super::log::{Expected, Log, LogError, Recorded};
use crate::record::Failure;
use crate::request::{Planned, Read, ReadKind, Write};
use keeper_types::ErrorCode;

const HEADER: &str = "hostname,request_event_time,thread_id,session_id,xid,has_watch,op_num,path,data,\
                      is_ephemeral,is_sequential,response_event_time,error,requests_size,version\n";

fn row(time: &str, session: i64, rest: &str) -> String {
    let [watch, op, path, data, flags, error, size, version] =
        rest.split('|').collect::<Vec<_>>().try_into().expect("eight fields");
    format!(
        "\"h\",\"{time}\",1,{session},7,{watch},{op},\"{path}\",\"{data}\",{flags},\"{time}\",{error},{size},{version}\n"
    )
}

fn read(text: &str) -> Result<Vec<Recorded>, LogError> {
    let mut log = Log::open(text.as_bytes())?;
    let mut all = Vec::new();
    while let Some(recorded) = log.next_recorded()? {
        all.push(recorded);
    }
    Ok(all)
}

#[test]
fn requests_are_read_with_names_or_numbers_for_operations_and_errors() {
    let time = "2026-12-01 10:00:00.250000";
    let text = [
        HEADER.to_owned(),
        row(time, 5, "0|\"Create\"|/a|va\"\"l,ue|1,1|ZOK|0|\\N"),
        row("2026-12-01 10:00:01.000000", 5, "1|4|/a||0,0|-101|0|\\N"),
        row(time, 6, "0|Set|/a|x|0,0|\"ZBADVERSION\"|0|3"),
        row(time, 6, "0|Remove|/a||0,0|\\N|0|3"),
        row(time, 6, "0|Multi|||0,0|ZOK|2|\\N"),
        row(time, 6, "0|Check|/a||0,0|\\N|0|1"),
        row(time, 6, "0|Create|/b|y|0,0|\\N|0|\\N"),
        row(time, 6, "0|MultiRead|||0,0|0|1|\\N"),
        row(time, 6, "0|SimpleList|/||0,0|\\N|0|\\N"),
    ]
    .concat();
    let all = read(&text).unwrap();
    assert_eq!(all.len(), 6);
    let create = Write::Create { path: "/a".into(), data: b"va\"l,ue".to_vec(), flags: 3 };
    assert_eq!((all[0].session, &all[0].request), (5, &Planned::Write(create)));
    assert_eq!(all[0].expected, Some(Expected::Done));
    let get = Read { kind: ReadKind::Get, path: "/a".into(), watch: true };
    assert_eq!((all[1].time_us - all[0].time_us, &all[1].request), (750_000, &Planned::Read(get)));
    assert_eq!(all[1].expected, Some(Expected::Error(ErrorCode::NoNode)));
    // A version that did not match there cannot match here; any other is left open.
    assert!(matches!(&all[2].request, Planned::Write(Write::Set { version: i32::MAX, .. })));
    assert!(matches!(&all[3].request, Planned::Write(Write::Remove { version: -1, .. })));
    assert_eq!(all[3].expected, None);
    let Planned::Multi(writes) = &all[4].request else { panic!("a multi") };
    assert_eq!(writes[0], Write::Check { path: "/a".into(), version: -1 });
    assert_eq!(writes.len(), 2);
    assert!(matches!(&all[5].request, Planned::MultiRead(reads) if reads[0].kind == ReadKind::List));
}

#[test]
fn other_formats_and_missing_columns_are_refused_in_words() {
    for text in ["\u{1}\u{2}native", "{\"path\": \"/a\"}\n", "", "hostname\tpath\n", "path,data\n/a,b\n"] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains("CSVWithNames"), "{text:?}: {error}");
    }
}

#[test]
fn rows_that_cannot_be_replayed_are_refused_with_their_line() {
    let time = "2026-12-01 10:00:00";
    for (rest, part) in [
        ("0|Reconfig|/a||0,0|ZOK|0|\\N", "Reconfig cannot be replayed"),
        ("0|Get|/a||0,0|ZWHAT|0|\\N", "`ZWHAT` is no error"),
        ("2|Get|/a||0,0|ZOK|0|\\N", "neither 0 nor 1"),
        ("0|Multi|||0,0|ZOK|0|\\N", "a multi of 0"),
    ] {
        let error = read(&format!("{HEADER}{}", row(time, 1, rest))).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains(part), "{error}");
    }
    let cut = format!("{HEADER}{}", row(time, 1, "0|Multi|||0,0|ZOK|2|\\N"));
    assert!(read(&cut).unwrap_err().to_string().contains("ends inside a multi"));
    let error = read(&format!("{HEADER}{}", row("now", 1, "0|Get|/a||0,0|ZOK|0|\\N"))).unwrap_err();
    assert!(error.to_string().contains("`now` is no time"));
}

#[test]
fn an_outcome_is_judged_by_the_log() {
    let failed = |code: Option<ErrorCode>| Some(Failure { code, label: "x", text: String::new() });
    let no_node = Some(ErrorCode::NoNode);
    assert_eq!(compare(None, Some(Expected::Done)), None);
    assert_eq!(compare(failed(no_node), Some(Expected::Error(ErrorCode::NoNode))), None);
    assert_eq!(compare(failed(no_node), None), None, "the log does not know");
    assert!(compare(failed(no_node), Some(Expected::Done)).is_some());
    assert!(compare(failed(None), None).is_some(), "no answer at all");
    assert_eq!(compare(None, Some(Expected::Error(ErrorCode::NoNode))).unwrap().label, "done, not refused");
}
