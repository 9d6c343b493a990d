//! Every bound of TLS, by name.

use std::time::Duration;

/// Largest file with certificates or keys.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Largest file with revocation lists, and lists in it. A large authority's list has some hundred thousand entries.
pub const CRL_FILE_BYTES_MAX: u64 = 16 << 20;
pub const CRLS_MAX: usize = 1_024;
/// Certificates of one chain, and authorities of one file.
pub const CHAIN_LEN_MAX: usize = 16;
pub const AUTHORITIES_MAX: usize = 1_024;
/// Entries of a keystore.
pub const KEYSTORE_ENTRIES_MAX: usize = 1_024;

/// How long a handshake of a client or of an admin call may take.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// The same between members, whose own handshake waits no longer than two seconds for its first frame.
pub const PEER_HANDSHAKE_TIME_MAX: Duration = Duration::from_millis(1_900);
/// Handshakes under way at one port; who comes beyond it is refused.
pub const HANDSHAKES_MAX: usize = 1_024;

/// How often the files are looked at for new content.
pub const RELOAD_PERIOD: Duration = Duration::from_secs(5);

/// Refusals that one port writes to the log in one period; the rest are counted.
pub const REFUSALS_LOGGED_MAX: u32 = 10;
pub const REFUSALS_LOGGED_PERIOD: Duration = Duration::from_secs(10);
/// Bytes of a refused certificate's subject in the log.
pub const SUBJECT_LOGGED_BYTES_MAX: usize = 256;
/// Rounds of a password's stretching that a keystore may ask for: some seconds. Java and OpenSSL use 10,000 and 2,048.
pub const PASSWORD_ROUNDS_MAX: u32 = 10_000_000;
