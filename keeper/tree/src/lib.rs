//! keeper-tree
