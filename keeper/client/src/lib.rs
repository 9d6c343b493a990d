//! keeper-client
