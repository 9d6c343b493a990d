//! Every bound of this crate, in one place.

/// Violations described in a report, per rule; the others are only counted.
pub const VIOLATIONS_MAX: usize = 20;

/// Calls that the search for a linearization takes at once: one bit each.
pub const SEARCH_OPERATIONS_MAX: usize = 128;

/// States that the search may visit before it gives up.
pub const SEARCH_STATES_MAX: usize = 2_000_000;
