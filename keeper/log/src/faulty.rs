//! A disk in memory that loses, tears and fails, for tests.
