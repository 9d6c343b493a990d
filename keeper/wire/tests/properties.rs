//! What holds for all bytes and all values: round trips, no panic, frames that do not depend on how bytes arrive.
#![allow(clippy::unwrap_used)]

use bytes::{Bytes, BytesMut};
use keeper_types::*;
use keeper_wire::dialect::version;
use keeper_wire::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn stat() -> impl Strategy<Value = Stat> {
    (any::<[i64; 5]>(), any::<[i32; 5]>(), any::<i64>()).prop_map(|(long, int, owner)| Stat {
        czxid: long[0],
        mzxid: long[1],
        ctime: long[2],
        mtime: long[3],
        version: int[0],
        cversion: int[1],
        aversion: int[2],
        ephemeral_owner: owner,
        data_length: int[3],
        num_children: int[4],
        pzxid: long[4],
    })
}

fn path() -> impl Strategy<Value = String> {
    "(/[a-zé0-9]{0,6}){0,4}"
}

fn acls() -> impl Strategy<Value = Vec<Acl>> {
    vec((any::<i32>(), "[a-z]{0,6}", "[a-z:]{0,8}"), 0..4).prop_map(|acls| {
        acls.into_iter()
            .map(|(perms, scheme, id)| Acl { perms: Perms(perms), id: AclId { scheme, id } })
            .collect()
    })
}

/// Everything a request can borrow from.
#[derive(Clone, Debug)]
struct Parts {
    paths: Vec<String>,
    data: Option<Vec<u8>>,
    acl: Vec<Acl>,
    stat: Stat,
    int: i32,
    long: i64,
    flags: [bool; 3],
    byte: u8,
    /// Which operations a multi has.
    ops: Vec<usize>,
}

prop_compose! {
    fn parts()(
        paths in vec(path(), 5),
        data in option::of(vec(any::<u8>(), 0..40)),
        acl in acls(),
        stat in stat(),
        int in any::<i32>(),
        long in any::<i64>(),
        flags in any::<[bool; 3]>(),
        byte in any::<u8>(),
        ops in vec(0usize..1000, 0..6),
    ) -> Parts {
        Parts { paths, data, acl, stat, int, long, flags, byte, ops }
    }
}

impl Parts {
    fn path(&self) -> &str {
        &self.paths[0]
    }

    fn create(&self, ttl_ms: Option<i64>) -> CreateRequest<'_> {
        CreateRequest {
            path: self.path(),
            data: self.data.as_deref(),
            acl: self.acl.clone(),
            flags: self.int,
            ttl_ms,
        }
    }

    fn read(&self) -> ReadRequest<'_> {
        ReadRequest { path: self.path(), watch: self.flags[0] }
    }

    fn set_watches(&self, with_persistent: bool) -> SetWatchesRequest<'_> {
        let all: Vec<&str> = self.paths.iter().map(String::as_str).collect();
        let more = if with_persistent { all.clone() } else { vec![] };
        SetWatchesRequest {
            relative_zxid: self.long,
            data: all.clone(),
            exist: all[1..].to_vec(),
            child: vec![],
            persistent: more.clone(),
            persistent_recursive: more,
        }
    }

    fn list(&self, with_more: bool) -> ListRequest<'_> {
        ListRequest {
            path: self.path(),
            watch: self.flags[0],
            filter: self.byte,
            with_stat: with_more && self.flags[1],
            with_data: with_more && self.flags[2],
        }
    }

    fn multi(&self) -> Vec<MultiOp<'_>> {
        let path = self.path();
        let check = CheckRequest { path, version: self.int };
        let delete = DeleteRequest { path, version: self.int };
        let op = |choice: &usize| match choice % 12 {
            0 => MultiOp::Create(OpCode::Create, self.create(None)),
            1 => MultiOp::Create(OpCode::Create2, self.create(None)),
            2 => MultiOp::Create(OpCode::CreateContainer, self.create(None)),
            3 => MultiOp::Create(OpCode::CreateTtl, self.create(Some(self.long))),
            4 => MultiOp::Create(OpCode::CreateIfNotExists, self.create(None)),
            5 => MultiOp::Delete(delete.clone()),
            6 => MultiOp::TryRemove(delete.clone()),
            7 => MultiOp::SetData(SetDataRequest { path, data: self.data.as_deref(), version: self.int }),
            8 => MultiOp::Check(check.clone()),
            9 => MultiOp::CheckNotExists(check.clone()),
            10 => MultiOp::CheckStat(CheckStatRequest { path, version: self.int, stat: self.stat }),
            _ => MultiOp::RemoveRecursive(RecursiveRequest { path, nodes_max: self.int as u32 }),
        };
        self.ops.iter().map(op).collect()
    }

    /// `None` only for operations that no client sends.
    fn request(&self, op: OpCode) -> Option<Request<'_>> {
        let path = self.path();
        let check = CheckRequest { path, version: self.int };
        let delete = DeleteRequest { path, version: self.int };
        let watch = WatchTypeRequest { path, kind: self.int };
        Some(match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateIfNotExists => {
                Request::Create(op, self.create(None))
            }
            OpCode::CreateTtl => Request::Create(op, self.create(Some(self.long))),
            OpCode::Delete => Request::Delete(delete),
            OpCode::Exists => Request::Exists(self.read()),
            OpCode::GetData => Request::GetData(self.read()),
            OpCode::SetData => {
                Request::SetData(SetDataRequest { path, data: self.data.as_deref(), version: self.int })
            }
            OpCode::GetAcl => Request::GetAcl(path),
            OpCode::SetAcl => {
                Request::SetAcl(SetAclRequest { path, acl: self.acl.clone(), version: self.int })
            }
            OpCode::GetChildren => Request::GetChildren(self.read()),
            OpCode::GetChildren2 => Request::GetChildren2(self.read()),
            OpCode::Sync => Request::Sync(path),
            OpCode::Ping => Request::Ping,
            OpCode::Check => Request::Check(check),
            OpCode::Multi => Request::Multi(self.multi()),
            OpCode::Auth => {
                Request::Auth(AuthRequest { scheme: path, auth: self.data.as_deref().unwrap_or_default() })
            }
            OpCode::SetWatches => Request::SetWatches(self.set_watches(false)),
            OpCode::SetWatches2 => Request::SetWatches2(self.set_watches(true)),
            OpCode::CloseSession => Request::CloseSession,
            OpCode::Reconfig => Request::Reconfig(ReconfigRequest {
                joining: self.flags[0].then_some(path),
                leaving: self.flags[1].then_some(path),
                new_members: None,
                config_id: self.long,
            }),
            OpCode::CheckWatches => Request::CheckWatches(watch),
            OpCode::RemoveWatches => Request::RemoveWatches(watch),
            OpCode::AddWatch => Request::AddWatch(watch),
            OpCode::MultiRead => Request::MultiRead(vec![
                Request::GetData(self.read()),
                Request::GetChildren(self.read()),
                Request::Exists(self.read()),
                Request::FilteredList(self.list(false)),
                Request::FilteredListWithStatsAndData(self.list(true)),
            ]),
            OpCode::Sasl => Request::Sasl(self.data.as_deref().unwrap_or_default()),
            OpCode::GetEphemerals => Request::GetEphemerals(path),
            OpCode::GetAllChildrenNumber => Request::GetAllChildrenNumber(path),
            OpCode::WhoAmI => Request::WhoAmI,
            OpCode::FilteredList => Request::FilteredList(self.list(false)),
            OpCode::FilteredListWithStatsAndData => Request::FilteredListWithStatsAndData(self.list(true)),
            OpCode::CheckNotExists => Request::CheckNotExists(check),
            OpCode::RemoveRecursive => {
                Request::RemoveRecursive(RecursiveRequest { path, nodes_max: self.int as u32 })
            }
            OpCode::CheckStat => {
                Request::CheckStat(CheckStatRequest { path, version: self.int, stat: self.stat })
            }
            OpCode::TryRemove => Request::TryRemove(delete),
            OpCode::ListRecursive => {
                Request::ListRecursive(RecursiveRequest { path, nodes_max: self.int as u32 })
            }
            OpCode::CreateSession | OpCode::DeleteContainer => return None,
        })
    }

    fn response(&self, op: OpCode) -> Option<Response> {
        let path = self.path().to_owned();
        let (stat, data, names) = (self.stat, self.data.clone(), self.paths.clone());
        Some(match op {
            OpCode::Create | OpCode::CreateIfNotExists => Response::Create { path },
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => Response::Create2 { path, stat },
            OpCode::Exists => Response::Exists { stat },
            OpCode::GetData | OpCode::Reconfig => Response::GetData { data, stat },
            OpCode::SetData => Response::SetData { stat },
            OpCode::GetAcl => Response::GetAcl { acl: self.acl.clone(), stat },
            OpCode::SetAcl => Response::SetAcl { stat },
            OpCode::GetChildren => Response::GetChildren { names },
            OpCode::GetChildren2 | OpCode::FilteredList => Response::GetChildren2 { names, stat },
            OpCode::Sync => Response::Sync { path },
            OpCode::Multi => Response::Multi(vec![
                MultiResult::Create { path: path.clone() },
                MultiResult::Create2 { path, stat },
                MultiResult::CreateIfNotExists { path: self.path().to_owned() },
                MultiResult::Done(OpCode::Delete),
                MultiResult::SetData { stat },
                MultiResult::Done(OpCode::RemoveRecursive),
                MultiResult::Error(None),
                MultiResult::Error(Some(ErrorCode::ALL[self.byte as usize % ErrorCode::ALL.len()])),
            ]),
            OpCode::MultiRead => Response::MultiRead(vec![
                Ok((OpCode::GetData, Box::new(Response::GetData { data, stat }))),
                Err(ErrorCode::NoNode),
                Ok((OpCode::GetChildren, Box::new(Response::GetChildren { names }))),
            ]),
            OpCode::AddWatch => Response::AddWatch { error: self.int },
            OpCode::Sasl => Response::Sasl { token: data.unwrap_or_default() },
            OpCode::GetEphemerals => Response::GetEphemerals { paths: names },
            OpCode::ListRecursive => Response::ListRecursive { paths: names },
            OpCode::GetAllChildrenNumber => Response::GetAllChildrenNumber { count: self.int },
            OpCode::WhoAmI => Response::WhoAmI { ids: self.acl.iter().map(|acl| acl.id.clone()).collect() },
            OpCode::FilteredListWithStatsAndData => Response::FilteredListWithStatsAndData {
                names,
                stat,
                stats: vec![stat; 2],
                data: vec![None, data, Some(vec![])],
            },
            OpCode::CreateSession | OpCode::DeleteContainer => return None,
            OpCode::Delete
            | OpCode::Ping
            | OpCode::Check
            | OpCode::Auth
            | OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::CloseSession
            | OpCode::CheckWatches
            | OpCode::RemoveWatches
            | OpCode::CheckNotExists
            | OpCode::RemoveRecursive
            | OpCode::CheckStat
            | OpCode::TryRemove => Response::Empty,
        })
    }
}

/// Feeds `stream` in the pieces that `cuts` describe and returns the frames that came out.
fn cut(stream: &[u8], cuts: &[usize], bytes_max: usize) -> Result<Vec<Bytes>, FrameError> {
    let decoder = FrameDecoder::new(bytes_max);
    let (mut buffer, mut frames, mut rest) = (BytesMut::new(), vec![], stream);
    let mut cuts = cuts.iter().cycle();
    while !rest.is_empty() {
        let length = cuts.next().copied().unwrap_or(rest.len()).clamp(1, rest.len());
        let (piece, after) = rest.split_at(length);
        buffer.extend_from_slice(piece);
        rest = after;
        while let Some(frame) = decoder.next(&mut buffer)? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn every_request_reads_back_as_it_was_written(parts in parts(), xid in any::<i32>()) {
        for op in OpCode::ALL {
            let Some(request) = parts.request(*op) else { continue };
            let mut out = BytesMut::new();
            encode_request(xid, &request, &mut out).unwrap();
            let frames = cut(&out, &[], 1 << 20).unwrap();
            prop_assert_eq!(frames.len(), 1);
            let (header, body) = decode_header(&frames[0]).unwrap();
            prop_assert_eq!(header, RequestHeader { xid, op: op.as_i32() });
            prop_assert_eq!(&decode_request(*op, body).unwrap(), &request);
        }
    }

    #[test]
    fn a_request_cut_short_or_with_a_byte_more_is_malformed(parts in parts(), at in any::<prop::sample::Index>()) {
        for op in OpCode::ALL {
            let Some(request) = parts.request(*op) else { continue };
            let mut out = BytesMut::new();
            encode_request(1, &request, &mut out).unwrap();
            let body = &out[12..];
            if !body.is_empty() {
                prop_assert!(decode_request(*op, &body[..at.index(body.len())]).is_err(), "{:?}", op);
            }
            let longer = [body, &[0]].concat();
            prop_assert!(decode_request(*op, &longer).is_err(), "{:?}", op);
        }
    }

    #[test]
    fn every_response_reads_back_as_it_was_written(parts in parts(), xid in any::<i32>(), zxid in any::<i64>()) {
        for op in OpCode::ALL {
            let Some(response) = parts.response(*op) else { continue };
            let mut out = BytesMut::new();
            encode_reply(xid, zxid, Ok(&response), &mut out);
            let (header, body) = decode_reply_header(&out[4..]).unwrap();
            prop_assert_eq!(header, ReplyHeader { xid, zxid, error: 0 });
            prop_assert_eq!(&decode_response(*op, body).unwrap(), &response);
        }
    }

    #[test]
    fn replies_from_borrowed_data_equal_those_of_values(parts in parts()) {
        let (mut fast, mut plain) = (BytesMut::new(), BytesMut::new());
        let (data, names, stat) = (parts.data.clone(), parts.paths.clone(), parts.stat);
        encode_get_data_reply(1, 2, data.as_deref(), &stat, &mut fast);
        encode_children_reply(1, 2, names.iter().map(String::as_str), None, &mut fast);
        encode_children_reply(1, 2, names.iter().map(String::as_str), Some(&stat), &mut fast);
        encode_reply(1, 2, Ok(&Response::GetData { data, stat }), &mut plain);
        encode_reply(1, 2, Ok(&Response::GetChildren { names: names.clone() }), &mut plain);
        encode_reply(1, 2, Ok(&Response::GetChildren2 { names, stat }), &mut plain);
        prop_assert_eq!(fast, plain);
    }

    #[test]
    fn handshakes_and_events_read_back_as_they_were_written(
        parts in parts(),
        password in vec(any::<u8>(), 0..40),
        read_only in any::<Option<bool>>(),
        dialect in any::<Option<(bool, bool, bool)>>(),
    ) {
        let dialect = dialect.map(|(compressed, long_xids, tracing)| match (tracing, long_xids) {
            (true, _) => DialectOptions { compressed, long_xids, tracing },
            (false, true) => DialectOptions { compressed, long_xids, tracing: false },
            (false, false) => DialectOptions { compressed: true, long_xids: false, tracing: false },
        });
        let request = ConnectRequest {
            protocol_version: dialect.map_or(0, version::answer),
            dialect,
            last_zxid_seen: parts.long,
            timeout_ms: parts.int,
            session_id: parts.long,
            password: password.clone(),
            read_only,
        };
        let mut out = BytesMut::new();
        encode_connect_request(&request, &mut out);
        prop_assert_eq!(decode_connect(&out[4..]).unwrap(), request.clone());
        // A length that leaves out the dialect's bytes is made up for, and nothing of what follows is taken.
        out.extend_from_slice(b"next");
        let first = FrameDecoder::new(1 << 20).first(&mut out);
        let Ok(Some(First::Handshake(payload))) = first else { return Err(TestCaseError::fail("no handshake")) };
        prop_assert_eq!(decode_connect(&payload).unwrap(), request);
        prop_assert_eq!(&out[..], b"next");
        let response = ConnectResponse {
            protocol_version: parts.int,
            timeout_ms: parts.int,
            session_id: parts.long,
            password,
            read_only,
        };
        let mut out = BytesMut::new();
        encode_connect_response(&response, &mut out);
        prop_assert_eq!(decode_connect_response(&out[4..]).unwrap(), response);
        let event = WatchEvent {
            kind: EventKind::Deleted,
            state: EventState::Expired,
            path: parts.path().to_owned(),
        };
        let mut out = BytesMut::new();
        encode_watch_event(&event, parts.long, &mut out);
        let (header, body) = decode_reply_header(&out[4..]).unwrap();
        prop_assert_eq!(header.zxid, parts.long);
        prop_assert_eq!(decode_watch_event(body).unwrap(), event);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = (decode_connect(&bytes), decode_connect_response(&bytes), decode_header(&bytes));
        let _ = (decode_reply_header(&bytes), decode_watch_event(&bytes));
        for op in OpCode::ALL {
            let _ = (decode_request(*op, &bytes), decode_response(*op, &bytes));
        }
        let mut buffer = BytesMut::from(&bytes[..]);
        let _ = FrameDecoder::new(100).first(&mut buffer);
        let _ = cut(&bytes, &[3], 100);
    }

    /// Nearly right bytes reach further into the readers than random ones.
    #[test]
    fn a_damaged_request_is_read_without_a_panic(
        parts in parts(),
        at in any::<prop::sample::Index>(),
        damage in any::<[u8; 4]>(),
    ) {
        for op in OpCode::ALL {
            let Some(request) = parts.request(*op) else { continue };
            let mut out = BytesMut::new();
            encode_request(1, &request, &mut out).unwrap();
            let mut body = out[12..].to_vec();
            if body.is_empty() { continue }
            let start = at.index(body.len());
            body.iter_mut().skip(start).zip(damage).for_each(|(byte, damage)| *byte = damage);
            let _ = decode_request(*op, &body);
        }
    }

    #[test]
    fn any_split_of_the_stream_gives_the_same_frames(
        payloads in vec(vec(any::<u8>(), 0..50), 0..10),
        cuts in vec(1usize..30, 1..10),
    ) {
        let mut stream = vec![];
        for payload in &payloads {
            stream.extend_from_slice(&(payload.len() as i32).to_be_bytes());
            stream.extend_from_slice(payload);
        }
        let frames = cut(&stream, &cuts, 50).unwrap();
        prop_assert_eq!(frames.iter().map(|f| f.to_vec()).collect::<Vec<_>>(), payloads);
    }
}

#[test]
fn a_count_that_cannot_be_there_is_refused_before_anything_is_allocated() {
    // relative zxid, then two thousand million data watches.
    let body = [&[0; 8][..], &[0x7f, 0xff, 0xff, 0xff], &[0; 64]].concat();
    let refused = decode_request(OpCode::SetWatches, &body).unwrap_err();
    assert_eq!(
        refused,
        Malformed { field: "data watches", problem: Problem::TooMany { count: 0x7fff_ffff, remaining: 64 } }
    );
}

#[test]
fn null_and_empty_data_stay_apart() {
    for data in [None, Some(&b""[..])] {
        let request = Request::SetData(SetDataRequest { path: "/a", data, version: 0 });
        let mut out = BytesMut::new();
        encode_request(1, &request, &mut out).unwrap();
        assert_eq!(decode_request(OpCode::SetData, &out[12..]).unwrap(), request);
    }
}
