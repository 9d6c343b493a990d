//! What must not wear a cluster down: idle sessions by the ten thousand, a storm of returning clients, and clients
//! that send nonsense, too much, or never read.
//!
//! Reading order: [`idle`], [`storm`], [`bad_input`]; the latter's parts are [`answers`] (what each wrong request is
//! answered), [`attack`] (what is sent in masses) and [`probe`] (the well-behaved clients beside them).

pub mod answers;
pub mod attack;
pub mod bad_input;
pub mod figures;
pub mod frame;
pub mod idle;
pub mod open_files;
pub mod probe;
pub mod raw;
pub mod storm;
