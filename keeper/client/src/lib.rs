//! An asynchronous client of keeper and of any ZooKeeper: sessions, watches, pipelined requests, and the admin
//! protocol.
//!
//! It never says that a write failed when it does not know: a write whose answer was lost ends as
//! [`ClientError::UnknownOutcome`]. Reads are asked again on the next connection.
//!
//! ```no_run
//! # async fn example() -> Result<(), keeper_client::ClientError> {
//! use keeper_client::{Client, CreateMode, Options};
//! let client = Client::connect(&["127.0.0.1:2181"], Options::default()).await?;
//! let created = client.create("/jobs", b"", CreateMode::Persistent).await?;
//! println!("{} at zxid {}", created.value.path, created.zxid);
//! client.close().await
//! # }
//! ```
#![forbid(unsafe_code)]

/// Every bound of the client.
pub mod limits;

/// How a stream of bytes to a server comes to be: TCP, or a simulation's pipe.
mod connector;
/// What can go wrong, told apart by whether a write may have been applied.
mod error;
/// What a caller may choose.
mod options;

/// A call on its way to the session's task.
mod call;
/// The calls.
mod client;
/// One connection: handshake, pipelined requests, pings.
mod connection;
/// Identities, told anew to every server.
mod identities;
/// Requests written and not yet answered.
mod in_flight;
/// What they return.
mod reply;
/// The task that owns the session: dials, hands over to a connection, dials again.
mod session;
/// Watches, set anew on every server.
mod watches;

/// The admin protocol.
pub mod admin;
/// Four-letter words.
mod four_letter;

pub use client::{ANY_VERSION, Client};
pub use connector::{Connector, TcpConnector, TlsConnector};
pub use error::ClientError;
pub use four_letter::{four_letter, four_letter_with};
pub use keeper_tls::{ClientFiles, ClientTls, TlsError};
pub use keeper_types::{
    Acl, AclId, CreateMode, CreateRequest, DeleteRequest, ErrorCode, EventKind, EventState, MultiOp,
    MultiResult, OpCode, Perms, Request, Response, SetDataRequest, Stat, WatchEvent,
};
pub use options::{Options, Resume};
pub use reply::{Answer, Children, Created, NodeData, Reply};
pub use session::SessionState;
pub use watches::Watch;
