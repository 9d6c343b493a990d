//! Randomness: the operating system's in production, the seed's in a simulation.

use crate::sim_hook;
use rand::SeedableRng;
use rand::rngs::SmallRng;

/// A small generator for jitter and election timeouts; never for secrets.
pub type Rng = SmallRng;

/// A freshly seeded generator.
pub fn rng() -> Rng {
    SmallRng::seed_from_u64(random_u64())
}

pub fn random_u64() -> u64 {
    sim_hook::with(|sim| sim.random_u64()).unwrap_or_else(|| {
        let mut bytes = [0; 8];
        fill(&mut bytes);
        u64::from_le_bytes(bytes)
    })
}

/// Unpredictable bytes, fit for passwords and nonces.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if sim_hook::in_simulation() {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&random_u64().to_le_bytes()[..chunk.len()]);
        }
    } else {
        fill(&mut bytes);
    }
    bytes
}

fn fill(bytes: &mut [u8]) {
    // A machine without randomness cannot hand out session passwords: nothing sensible can go on.
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}
