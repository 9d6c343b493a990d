//! Tests of the rules: correct histories pass, and each wrong one is found by its rule.

mod broken;
mod register;
mod searched;
mod simulated;
