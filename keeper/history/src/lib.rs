//! keeper-history
