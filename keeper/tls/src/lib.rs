//! TLS of every port, in one place, on rustls with aws-lc-rs: files into keys, keys into configurations, handshakes
//! counted and explained, new files taken over without a restart.
//!
//! To read in order: `config` and `suites` (what a configuration says), `material` and `keystore` (files into certificates and
//! keys), `trust` and `verify` (whom to believe), `tls` (a port's TLS, reloading), `refusal` (why a handshake failed), `client`
//! (the dialling side of commands), `stream`, and what certificates say of themselves: `certificate`, `subject`, `der`.
//!
//! Nothing here is simulated: members of a simulation are joined by pipes.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods)] // reads certificate files, which are not the member's disk

mod certificate;
mod client;
mod config;
mod counts;
mod der;
mod keystore;
pub mod limits;
mod material;
mod refusal;
mod stream;
mod subject;
mod suites;
mod tls;
mod trust;
mod verify;

pub use client::{ClientFiles, ClientTls};
pub use config::{ClientAuth, Password, TlsConfig};
pub use counts::Counts;
pub use material::TlsError;
pub use refusal::Reason;
pub use stream::TlsStream;
pub use suites::{CipherSuite, Protocol, UnknownName};
pub use tls::{Accepted, Port, Tls};
pub use tokio_rustls::{client as dialled, server as accepted};
