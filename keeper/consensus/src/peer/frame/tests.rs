use super::*;
use crate::types::{Payload, log_id};
use proptest::prelude::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn append() -> AppendRequest {
    let payload = EntryPayload::Normal(Payload(Bytes::from_static(b"xy")));
    AppendRequest {
        vote: Vote::new_committed(3, 1),
        prev_log_id: Some(log_id(2, 4)),
        entries: vec![Entry { log_id: log_id(3, 5), payload }],
        leader_commit: None,
    }
}

#[test]
fn an_append_keeps_its_bytes() {
    let bytes = encode_append(7, &append());
    let expected = "10 0700000000000000 0300000000000000 0100000000000000 01 \
                    01 0200000000000000 0400000000000000 00 01000000 01 0300000000000000 02000000 7879";
    assert_eq!(hex(&bytes), expected.replace(' ', ""));
    let Ok(LogMessage::Append { session: 7, request }) = decode_log_message(bytes) else {
        panic!("not an append");
    };
    assert_eq!(format!("{request:?}"), format!("{:?}", append()));
    assert_eq!(request.entries, append().entries);
}

#[test]
fn answers_of_appends_come_back_as_they_were() {
    let results: [AppendResult; 4] = [
        Ok(None),
        Ok(Some(log_id(1, 2))),
        Err(StreamAppendError::Conflict(log_id(3, 4))),
        Err(StreamAppendError::HigherVote(Vote::new(5, 6))),
    ];
    for sent in results {
        match decode_log_message(encode_append_answer(9, &sent)) {
            Ok(LogMessage::AppendAnswer { session: 9, result }) => assert_eq!(result, sent),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn requests_and_their_answers_come_back_as_they_were() {
    let mut vote = VoteRequest::new(Vote::new(4, 2), Some(log_id(3, 9)));
    vote.leadership_transfer = true;
    let transfer = TransferRequest::new(Vote::new_committed(4, 1), 2, Some(log_id(4, 4)));
    for sent in [Request::Vote(vote.clone()), Request::PreVote(vote), Request::Transfer(transfer)] {
        match decode_log_message(encode_request(5, &sent)) {
            Ok(LogMessage::Request { number: 5, request }) => assert_eq!(request, sent),
            other => panic!("{other:?}"),
        }
    }
    let response = VoteResponse::new(Vote::new(4, 2), Some(log_id(3, 9)), true);
    let changed =
        TransferLeaderError::VoteChanged { expected: Vote::new_committed(4, 1), actual: Vote::new(5, 3) };
    let behind = TransferLeaderError::LogNotFlushed { expected: Some(log_id(4, 4)), actual: None };
    let answers = [
        Answer::Vote(response.clone()),
        Answer::PreVote(response),
        Answer::Transfer(Ok(())),
        Answer::Transfer(Err(changed)),
        Answer::Transfer(Err(behind)),
        Answer::Failed("stopped".into()),
    ];
    for sent in answers {
        match decode_log_message(encode_answer(5, &sent)) {
            Ok(LogMessage::Answer { number: 5, answer }) => assert_eq!(answer, sent),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn leftover_bytes_are_refused() {
    let mut bytes = BytesMut::from(&encode_append_answer(9, &Ok(None))[..]);
    bytes.put_u8(0);
    assert_eq!(decode_log_message(bytes.freeze()).err(), Some(Malformed("message length")));
}

#[test]
fn an_index_that_would_overflow_is_refused() {
    let mut request = append();
    request.prev_log_id = Some(log_id(2, u64::MAX));
    assert_eq!(decode_log_message(encode_append(1, &request)).err(), Some(Malformed("log index")));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(kind in prop::sample::select(vec![0x10u8, 0x11, 0x20, 0x21, 0x30, 0x31, 0x32, 0x33]),
        bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let frame: Bytes = std::iter::once(kind).chain(bytes).collect();
        let _ = decode_log_message(frame.clone());
        let _ = decode_snapshot_message(frame);
    }
}
