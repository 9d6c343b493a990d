//! The fields that no second server can have equal. Everything else of a packet is compared as it is.
//!
//! | field | becomes | why |
//! |---|---|---|
//! | zxid above 0, of replies, events and Stats | its distance from the first reply of the story | servers have different pasts; what a story itself uses up is seen |
//! | ctime, mtime | 0 | the clock |
//! | session id, ephemeralOwner | the number of the session in the story | each server makes its own |
//! | password of a session, unless it is zeros | ones | it is secret, so random |
//! | order of names, paths and identities in a list | sorted | that of a Java hash set |

use crate::story::Step;
use crate::transcript::{Heard, hex};
use bytes::BytesMut;
use keeper_types::{ErrorCode, MultiResult, OpCode, Response, Stat};

/// Far above every zxid of a fresh server, so that a masked one is never taken for a real one.
const MASKED: i64 = 1 << 50;

#[derive(Default)]
pub struct Mask {
    began: Option<i64>,
    sessions: Vec<i64>,
}

impl Mask {
    /// One line a packet: the client, the masked bytes, and the same as a value for people.
    pub fn lines(&mut self, step: &Step, heard: &[Heard]) -> Vec<String> {
        let (acting, mut ops) = match step {
            Step::Open(opening) => (opening.client, [].iter()),
            Step::Send { client, ops, .. } => (*client, ops.iter()),
        };
        let mut lines = Vec::new();
        for Heard { client, packet } in heard {
            let told = match packet {
                None => "end".to_owned(),
                Some(bytes) if matches!(step, Step::Open(_)) && *client == acting => self.handshake(bytes),
                Some(bytes) => self.packet(bytes, &mut ops),
            };
            lines.push(format!("{client} {told}"));
        }
        lines
    }

    fn handshake(&mut self, bytes: &[u8]) -> String {
        let mut granted = keeper_wire::decode_connect_response(&bytes[4..]).expect("a connect response");
        let mut out = BytesMut::new();
        keeper_wire::encode_connect_response(&granted, &mut out);
        assert_eq!(out, bytes, "reads and is written back the same");
        if granted.session_id != 0 {
            assert_eq!(granted.password.len(), 16);
            if !self.sessions.contains(&granted.session_id) {
                self.sessions.push(granted.session_id);
            }
            granted.session_id = self.owner(granted.session_id);
        }
        if granted.password.iter().any(|byte| *byte != 0) {
            granted.password.fill(1);
        }
        out.clear();
        keeper_wire::encode_connect_response(&granted, &mut out);
        format!("{} {granted:?}", hex(&out))
    }

    fn packet<'a>(&mut self, bytes: &[u8], ops: &mut impl Iterator<Item = &'a i32>) -> String {
        let (header, body) = keeper_wire::decode_reply_header(&bytes[4..]).expect("a header");
        let mut out = BytesMut::new();
        if header.xid == -1 {
            let event = keeper_wire::decode_watch_event(body).expect("an event");
            keeper_wire::encode_watch_event(&event, header.zxid, &mut out);
            assert_eq!(out, bytes, "{event:?} reads and is written back the same");
            out.clear();
            let zxid = self.zxid(header.zxid);
            keeper_wire::encode_watch_event(&event, zxid, &mut out);
            return format!("{} zxid {zxid} {event:?}", hex(&out));
        }
        // Auth is answered with 0, an unknown operation with -1.
        if header.zxid > 0 {
            self.began.get_or_insert(header.zxid);
        }
        let op = *ops.next().expect("no more replies than requests");
        let zxid = self.zxid(header.zxid);
        let response = match ErrorCode::from_i32(header.error) {
            Some(code) => Err(code),
            None => {
                let op = OpCode::from_i32(op).expect("unknown operations do not succeed");
                Ok(keeper_wire::decode_response(op, body).expect("a body"))
            }
        };
        keeper_wire::encode_reply(header.xid, header.zxid, response.as_ref().map_err(|code| *code), &mut out);
        assert_eq!(out, bytes, "{response:?} reads and is written back the same");
        let response = response.map(|response| self.response(response));
        out.clear();
        keeper_wire::encode_reply(header.xid, zxid, response.as_ref().map_err(|code| *code), &mut out);
        format!("{} zxid {zxid} {response:?}", hex(&out))
    }

    fn zxid(&self, zxid: i64) -> i64 {
        match self.began {
            Some(began) if zxid > 0 => zxid - began + MASKED,
            _ => zxid,
        }
    }

    fn owner(&self, session: i64) -> i64 {
        match self.sessions.iter().position(|known| *known == session) {
            Some(at) => at as i64 + 1,
            None => session,
        }
    }

    fn stat(&self, stat: Stat) -> Stat {
        Stat {
            czxid: self.zxid(stat.czxid),
            mzxid: self.zxid(stat.mzxid),
            pzxid: self.zxid(stat.pzxid),
            ctime: 0,
            mtime: 0,
            ephemeral_owner: self.owner(stat.ephemeral_owner),
            ..stat
        }
    }

    fn response(&self, response: Response) -> Response {
        match response {
            Response::Create2 { path, stat } => Response::Create2 { path, stat: self.stat(stat) },
            Response::Exists { stat } => Response::Exists { stat: self.stat(stat) },
            Response::GetData { data, stat } => Response::GetData { data, stat: self.stat(stat) },
            Response::SetData { stat } => Response::SetData { stat: self.stat(stat) },
            Response::GetAcl { acl, stat } => Response::GetAcl { acl, stat: self.stat(stat) },
            Response::SetAcl { stat } => Response::SetAcl { stat: self.stat(stat) },
            Response::GetChildren { names } => Response::GetChildren { names: sorted(names) },
            Response::GetChildren2 { names, stat } => {
                Response::GetChildren2 { names: sorted(names), stat: self.stat(stat) }
            }
            Response::GetEphemerals { paths } => Response::GetEphemerals { paths: sorted(paths) },
            Response::WhoAmI { mut ids } => {
                ids.sort_by(|one, other| (&one.scheme, &one.id).cmp(&(&other.scheme, &other.id)));
                Response::WhoAmI { ids }
            }
            Response::Multi(results) => {
                Response::Multi(results.into_iter().map(|result| self.result(result)).collect())
            }
            Response::MultiRead(results) => {
                let one = |(op, response): (OpCode, Box<Response>)| (op, Box::new(self.response(*response)));
                Response::MultiRead(results.into_iter().map(|result| result.map(one)).collect())
            }
            other => other,
        }
    }

    fn result(&self, result: MultiResult) -> MultiResult {
        match result {
            MultiResult::Create2 { path, stat } => MultiResult::Create2 { path, stat: self.stat(stat) },
            MultiResult::SetData { stat } => MultiResult::SetData { stat: self.stat(stat) },
            other => other,
        }
    }
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort_unstable();
    list
}

/// The mask hides the bytes of its table and no others: each byte of a Stat and of its header is altered in turn.
#[test]
fn no_other_byte_is_hidden() {
    let stat = Stat {
        czxid: 101,
        mzxid: 102,
        ctime: 3,
        mtime: 4,
        version: 5,
        cversion: 6,
        aversion: 7,
        ephemeral_owner: 8,
        data_length: 9,
        num_children: 10,
        pzxid: 111,
    };
    let mut bytes = BytesMut::new();
    let response = Response::GetData { data: Some(b"abc".to_vec()), stat };
    keeper_wire::encode_reply(7, 200, Ok(&response), &mut bytes);
    let step = Step::Send { client: 'a', ops: vec![4], bytes: vec![] };
    let seen = |packet: &[u8]| {
        let mut mask = Mask { began: Some(100), sessions: vec![] };
        mask.lines(&step, &[Heard { client: 'a', packet: Some(packet.to_vec()) }])
    };
    let plain = seen(&bytes);
    // Length 4, xid 4, zxid 8, error 4, data 7, czxid and mzxid: then ctime and mtime.
    let times = 43..59;
    // A changed length, error or length of data is no such packet at all.
    let structure = [0..4, 16..24];
    for at in (0..bytes.len()).filter(|at| !structure.iter().any(|part| part.contains(at))) {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1;
        assert_eq!(seen(&changed) == plain, times.contains(&at), "byte {at}");
    }
}
