//! What one connection has asked and been answered, for the words `cons` and `stat`. Written by the connection's own
//! task, so each number is one uncontended atomic; no lock, and nothing kept for each request.

use crate::stats::{Spread, Stats, Summary};
use keeper_rt::Instant;
use keeper_types::{OpClass, OpCode};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU64, Ordering};

/// xid of watch events, which answer no request.
const EVENT_XID: i32 = -1;
/// Frame length, xid, zxid, error.
const REPLY_HEAD_BYTES: usize = 20;

/// Numbers of one connection, as others read them.
#[derive(Default)]
pub struct Info {
    pub remote: String,
    /// Wall clock when the client connected, milliseconds since the epoch.
    pub established_ms: i64,
    pub received: AtomicU64,
    pub sent: AtomicU64,
    /// Requests whose replies are not on their way yet.
    pub outstanding: AtomicU64,
    /// 0 before the handshake is done.
    pub session: AtomicI64,
    pub timeout_ms: AtomicI32,
    /// Code of the last request; 0 before the first.
    pub last_op: AtomicI32,
    /// xid and zxid of the last reply.
    pub last_cxid: AtomicI64,
    pub last_zxid: AtomicI64,
    /// Wall clock of the last reply, milliseconds since the epoch.
    pub last_response_ms: AtomicI64,
    /// Microseconds.
    pub latency: Spread,
}

impl Info {
    pub fn new(remote: String) -> Info {
        let unset = || AtomicI64::new(-1);
        Info {
            remote,
            established_ms: keeper_rt::wall_ms(),
            last_cxid: unset(),
            last_zxid: unset(),
            ..Info::default()
        }
    }

    /// The word `crst`.
    pub fn reset(&self) {
        self.received.store(0, Ordering::Relaxed);
        self.sent.store(0, Ordering::Relaxed);
        self.last_op.store(0, Ordering::Relaxed);
        self.last_cxid.store(-1, Ordering::Relaxed);
        self.last_zxid.store(-1, Ordering::Relaxed);
        self.last_response_ms.store(0, Ordering::Relaxed);
        self.latency.reset();
    }
}

/// Requests that arrived together and are answered one after the other.
struct Run {
    received: Instant,
    writes: bool,
    count: u64,
}

/// The writing side, held by the connection's task.
pub struct Tally {
    pub info: Arc<Info>,
    /// Unanswered requests in order; replies come in the same order.
    waiting: VecDeque<Run>,
    outstanding: u64,
    /// Requests of one kind that came one after the other and are not counted yet.
    uncounted: Option<(OpCode, u64)>,
}

impl Tally {
    pub fn new(info: Arc<Info>) -> Tally {
        Tally { info, waiting: VecDeque::new(), outstanding: 0, uncounted: None }
    }

    /// One request has been handed on.
    pub fn request(&mut self, op: OpCode, received: Instant, stats: &Stats) {
        match &mut self.uncounted {
            Some((same, count)) if *same == op => *count += 1,
            other => {
                if let Some((op, count)) = other.replace((op, 1)) {
                    stats.count_operations(op, count);
                }
            }
        }
        let writes = op.class() == OpClass::Write;
        self.outstanding += 1;
        match self.waiting.back_mut() {
            Some(run) if run.received == received && run.writes == writes => run.count += 1,
            _ => self.waiting.push_back(Run { received, writes, count: 1 }),
        }
    }

    /// All requests of one arrival have been handed on.
    pub fn arrived(&mut self, count: u64, stats: &Stats) {
        if let Some((op, count)) = self.uncounted.take() {
            stats.count_operations(op, count);
            self.info.last_op.store(op.as_i32(), Ordering::Relaxed);
        }
        if count > 0 {
            self.info.received.fetch_add(count, Ordering::Relaxed);
            self.info.outstanding.store(self.outstanding, Ordering::Relaxed);
            stats.packets_received.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// `bytes` are whole reply frames on their way to the socket. Returns how many.
    pub fn replies(&mut self, bytes: &[u8], stats: &Stats) -> u64 {
        let (mut frames, mut sizes) = (0, Summary::default());
        let (mut last_xid, mut last_zxid) = (0, 0);
        let mut rest = bytes;
        while let Some(head) = rest.first_chunk::<REPLY_HEAD_BYTES>() {
            let [l0, l1, l2, l3, x0, x1, x2, x3, z0, z1, z2, z3, z4, z5, z6, z7, ..] = *head;
            let len = 4 + u32::from_be_bytes([l0, l1, l2, l3]) as usize;
            let xid = i32::from_be_bytes([x0, x1, x2, x3]);
            frames += 1;
            if xid != EVENT_XID {
                last_xid = xid;
                last_zxid = i64::from_be_bytes([z0, z1, z2, z3, z4, z5, z6, z7]);
                sizes.note(len as u64);
            }
            rest = rest.get(len..).unwrap_or_default();
        }
        if frames == 0 {
            return 0;
        }
        self.info.sent.fetch_add(frames, Ordering::Relaxed);
        stats.packets_sent.fetch_add(frames, Ordering::Relaxed);
        if sizes.count > 0 {
            stats.reply_bytes.merge(sizes);
            self.info.last_cxid.store(i64::from(last_xid), Ordering::Relaxed);
            self.info.last_zxid.store(last_zxid, Ordering::Relaxed);
            self.info.last_response_ms.store(keeper_rt::wall_ms(), Ordering::Relaxed);
            self.answer(sizes.count, stats);
        }
        frames
    }

    fn answer(&mut self, mut answers: u64, stats: &Stats) {
        let now = keeper_rt::now();
        while answers > 0 {
            let Some(run) = self.waiting.front_mut() else { break };
            let count = answers.min(run.count);
            let took = now.saturating_duration_since(run.received);
            self.info.latency.add_duration(took, count);
            stats.answered(run.writes, took, count);
            answers -= count;
            self.outstanding -= count;
            run.count -= count;
            if run.count == 0 {
                self.waiting.pop_front();
            }
        }
        self.info.outstanding.store(self.outstanding, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use keeper_types::{EventKind, Response, Zxid};

    #[test]
    fn replies_are_matched_with_their_requests_and_events_with_none() {
        let stats = Stats::default();
        let mut tally = Tally::new(Arc::new(Info::new("1.2.3.4:5".into())));
        let now = keeper_rt::now();
        tally.request(OpCode::GetData, now, &stats);
        tally.request(OpCode::GetData, now, &stats);
        tally.request(OpCode::SetData, now, &stats);
        tally.arrived(3, &stats);
        assert_eq!(tally.info.outstanding.load(Ordering::Relaxed), 3);

        let mut out = BytesMut::new();
        crate::watch::encode_event(EventKind::DataChanged, "/a", Zxid(8), &mut out);
        keeper_wire::encode_reply(6, 7, Ok(&Response::Empty), &mut out);
        keeper_wire::encode_get_data_reply(7, 9, Some(b"data"), &keeper_types::Stat::default(), &mut out);
        assert_eq!(tally.replies(&out, &stats), 3);
        let info = tally.info.clone();
        let number = |value: &AtomicU64| value.load(Ordering::Relaxed);
        assert_eq!((number(&info.sent), number(&info.outstanding)), (3, 1));
        assert_eq!(info.last_cxid.load(Ordering::Relaxed), 7);
        assert_eq!(info.last_zxid.load(Ordering::Relaxed), 9);
        assert_eq!((stats.reads.read().count, stats.writes.read().count), (2, 0));

        out.clear();
        keeper_wire::encode_reply(8, 10, Ok(&Response::Empty), &mut out);
        tally.replies(&out, &stats);
        assert_eq!((stats.writes.read().count, number(&info.outstanding)), (1, 0));
        assert_eq!(info.latency.read().count, 3);
        assert_eq!(stats.packets_sent.load(Ordering::Relaxed), 4);
        assert_eq!(stats.operations(OpCode::GetData), 2);
    }

    #[test]
    fn bytes_that_are_no_frames_end_the_count() {
        let stats = Stats::default();
        let mut tally = Tally::new(Arc::default());
        assert_eq!(tally.replies(&[0xff; 64], &stats), 1);
        assert_eq!(tally.replies(&[0; 19], &stats), 0);
    }
}
