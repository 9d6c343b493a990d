//! The ZooKeeper client protocol with ClickHouse's operations: bytes in, values out.
//!
//! Both directions of both sides are here, so that server and client cannot drift apart. Nothing in this crate
//! does I/O, reads a clock or panics on bytes from outside; a length is believed only after it was compared with
//! the bytes that are really there.
#![forbid(unsafe_code)]

/// Every bound of the protocol.
pub mod limits;

/// What ClickHouse's newer clients speak instead of plain frames.
pub mod dialect;
/// A stream of bytes to frames.
mod frame;
/// Records: integers, strings, buffers, vectors, Stat, ACLs.
mod jute;
/// What is wrong with bytes that are not a record.
mod malformed;

/// The handshake.
mod connect;
/// Watch notifications.
mod event;
/// Multi and multiRead, which nest records.
mod multi;
/// Reply headers and bodies.
mod reply;
/// Request headers and bodies.
mod request;

pub use connect::{decode_connect, decode_connect_response, encode_connect_request, encode_connect_response};
pub use event::{decode_watch_event, encode_watch_event};
pub use frame::{First, FrameDecoder, FrameError};
pub use malformed::{Malformed, Problem};
pub use reply::{
    ReplyHeader, decode_reply_header, decode_response, encode_children_reply, encode_get_data_reply,
    encode_reply, encode_reply_code,
};
pub use request::{RequestHeader, decode_header, decode_request, encode_request};

/// Transaction ids with a meaning of their own.
pub mod xid {
    /// A watch notification.
    pub const EVENT: i32 = -1;
    pub const PING: i32 = -2;
    pub const AUTH: i32 = -4;
    pub const SET_WATCHES: i32 = -8;
    /// ClickHouse closes with it; other clients close with any.
    pub const CLOSE: i32 = i32::MAX;
}
