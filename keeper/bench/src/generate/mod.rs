//! Requests drawn from a configuration: [`plan::Plan`] is what all lanes share, [`lane::Lane`] what each has of its own.

pub mod lane;
pub mod plan;
pub mod random;

#[cfg(test)]
mod tests;

pub use lane::Lane;
pub use plan::Plan;
