//! castellan-e2e
