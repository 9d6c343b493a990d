//! A small random number generator: fast, good enough to choose keys, victims and ports, and repeatable from a seed.

/// xorshift64. Never 0.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn from_seed(seed: u64) -> Random {
        // Spreads near seeds apart (the multiplier of splitmix64).
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Seeded by the operating system.
    pub fn new() -> std::io::Result<Random> {
        let seed = getrandom::u64().map_err(std::io::Error::other)?;
        Ok(Random::from_seed(seed))
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// 0 to `end - 1`; 0 when `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next_u64() >> 16).checked_rem(end as u64).unwrap_or(0) as usize
    }
}
