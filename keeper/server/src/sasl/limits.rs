//! Bounds of SASL. The folder stands on its own, so that a fuzzer builds it without the server.

/// Longest token of a client, as in Java's DIGEST-MD5 (RFC 2831, 2.1.2: "less than 4096 bytes").
pub const TOKEN_BYTES_MAX: usize = 4096;

/// Directives of one token; RFC 2831 knows thirteen.
pub const DIRECTIVES_MAX: usize = 64;

/// Longest name of a user: identities travel with every write.
pub const USER_BYTES_MAX: usize = 256;

/// Longest password.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// Users of one server.
pub const USERS_MAX: usize = 10_000;

/// Largest file of users.
pub const USERS_FILE_BYTES_MAX: usize = 1 << 20;

/// Random bytes of a nonce; 40 characters in base64.
pub const NONCE_BYTES: usize = 30;

const _: () = assert!(NONCE_BYTES.is_multiple_of(3), "so that base64 needs no padding");
