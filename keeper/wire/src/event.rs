//! Watch notifications: an ordinary reply header with xid -1, then type, state and path.

use crate::frame::write_frame;
use crate::jute::{Decoded, Reader, put_string};
use crate::malformed::{Malformed, Problem};
use crate::reply::put_reply_header;
use crate::xid;
use bytes::{BufMut, BytesMut};
use keeper_types::{EventKind, EventState, WatchEvent};

/// `zxid` is that of the change (ZooKeeper 3.9); earlier versions send -1.
pub fn encode_watch_event(event: &WatchEvent, zxid: i64, out: &mut BytesMut) {
    let written = write_frame(out, |out| {
        put_reply_header(xid::EVENT, zxid, 0, out);
        out.put_i32(event.kind as i32);
        out.put_i32(event.state as i32);
        put_string(out, &event.path);
    });
    assert!(written.is_some(), "the path of a watch event has more than 2 GiB");
}

/// Reads what follows the reply header of xid -1.
pub fn decode_watch_event(body: &[u8]) -> Decoded<WatchEvent> {
    let mut reader = Reader::new(body);
    let kind = reader.i32("event type")?;
    let state = reader.i32("event state")?;
    let event = WatchEvent {
        kind: EventKind::from_i32(kind)
            .ok_or(Malformed::new("event type", Problem::UnknownValue { value: kind }))?,
        state: EventState::from_i32(state)
            .ok_or(Malformed::new("event state", Problem::UnknownValue { value: state }))?,
        path: reader.string("event path")?.to_owned(),
    };
    reader.end("watch event")?;
    Ok(event)
}
