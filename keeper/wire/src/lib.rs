//! keeper-wire
