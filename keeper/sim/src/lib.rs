//! keeper-sim
