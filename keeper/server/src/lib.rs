//! keeper-server
