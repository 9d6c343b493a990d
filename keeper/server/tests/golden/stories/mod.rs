//! In the order they are recorded and replayed. A story uses nodes of its own under `/NAME`.

use crate::story::Story;

/// Who may do what.
mod acl;
/// Watches set again by a client that comes back.
mod again;
/// Many operations in one request.
mod multi;
/// Paths, modes, versions, sequence numbers, Stats.
mod nodes;
/// Quotas, and requests that no client should send.
mod odd;
/// Persistent watches, and taking watches away.
mod persistent;
/// Handshakes and the life of sessions.
mod sessions;
/// Watches that fire once.
mod watches;

pub fn all() -> Vec<Story> {
    vec![
        nodes::operations(),
        nodes::paths(),
        nodes::modes(),
        nodes::sequences(),
        nodes::stats(),
        multi::whole(),
        multi::failed(),
        multi::reads(),
        watches::once(),
        watches::order(),
        watches::of_multi(),
        persistent::modes(),
        persistent::kept_apart(),
        persistent::taken_away(),
        again::once(),
        again::persistent(),
        acl::permissions(),
        acl::identities(),
        acl::digests(),
        acl::watches(),
        sessions::handshakes(),
        sessions::moved(),
        sessions::ephemerals(),
        odd::quotas(),
        odd::unknown(),
    ]
}
