//! Every bound and every pause of the operator, in one place.

use std::time::Duration;

/// Members of one cluster that are asked in one pass; never more than the definition's largest size.
pub const MEMBERS_ASKED_MAX: usize = 9;

/// A learner may be promoted when it is at most this many entries behind; the server has the last word.
pub const PROMOTE_LAG_ENTRIES_MAX: u64 = 1_000;

/// How long a member has to answer a question about its state.
pub const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the leader has to commit one membership change; it waits itself for a learner that is nearly there.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(15);

/// Pause after a step was taken: its effect is looked at right away.
pub const REQUEUE_STEPPED: Duration = Duration::from_millis(50);

/// Pause while pods start or a step is awaited; watches usually come first.
pub const REQUEUE_BUSY: Duration = Duration::from_secs(1);

/// Pause while a person has to act.
pub const REQUEUE_BLOCKED: Duration = Duration::from_secs(10);

/// Pause of a cluster that is as wanted. Members' roles can change with no event from Kubernetes.
pub const REQUEUE_STEADY: Duration = Duration::from_secs(30);

/// First and longest pause after a failed pass.
pub const REQUEUE_FAILED_FIRST: Duration = Duration::from_secs(1);
pub const REQUEUE_FAILED_LAST: Duration = Duration::from_secs(30);

/// Failed passes in a row before people are told: one may always come between, such as a leader change.
pub const FAILURES_TOLD_MIN: u32 = 2;

/// Clusters that are reconciled at the same time.
pub const CONCURRENCY: u16 = 16;

/// A lease not renewed for so long may be taken over.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);

/// The holder stops acting when it could not renew for so long: well before another may take over.
pub const LEASE_RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// Pause between attempts to get or renew the lease.
pub const LEASE_RETRY: Duration = Duration::from_secs(2);

/// Bytes of randomness in each credential.
pub const CREDENTIAL_BYTES: usize = 32;

/// Longest note of an event; Kubernetes allows 1024 bytes.
pub const NOTE_CHARS_MAX: usize = 500;

/// Longest message in a condition; Kubernetes allows 32768.
pub const MESSAGE_CHARS_MAX: usize = 1_000;
